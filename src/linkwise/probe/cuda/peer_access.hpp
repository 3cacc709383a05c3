// Turns peer access between two GPUs on or off for the duration of a measurement.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "linkwise/device/cuda/check.hpp"
#include "linkwise/device/cuda/current_device.hpp"

namespace linkwise::cuda {

inline bool can_access(int from, int to) {
  int can = 0;
  check(cudaDeviceCanAccessPeer(&can, from, to), "ask for peer access");
  return can != 0;
}

// Peer access on or off within a scope; the destructor restores the previous state.
class PeerAccess {
 public:
  PeerAccess(int from, int to, bool wanted) : from_(from), to_(to) {
    const CurrentDevice current(from);
    const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
    was_ = status == cudaErrorPeerAccessAlreadyEnabled;
    (void)cudaGetLastError();
    if (!was_) check(status, "enable peer access");
    if (!wanted) check(cudaDeviceDisablePeerAccess(to), "disable peer access");
    is_ = wanted;
  }
  ~PeerAccess() {
    if (is_ == was_) return;
    int current = 0;
    (void)cudaGetDevice(&current);
    (void)cudaSetDevice(from_);
    (void)(was_ ? cudaDeviceEnablePeerAccess(to_, 0) : cudaDeviceDisablePeerAccess(to_));
    (void)cudaSetDevice(current);
    (void)cudaGetLastError();
  }
  PeerAccess(const PeerAccess&) = delete;
  PeerAccess& operator=(const PeerAccess&) = delete;

 private:
  int from_, to_;
  bool was_ = false, is_ = false;
};

/// Turns peer access off for a scope; null if CUDA does not allow it between these GPUs anyway.
inline std::unique_ptr<PeerAccess> without_access(int from, int to) {
  return can_access(from, to) ? std::make_unique<PeerAccess>(from, to, false) : nullptr;
}

}  // namespace linkwise::cuda
