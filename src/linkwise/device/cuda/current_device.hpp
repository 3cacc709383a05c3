// CUDA's current device is the caller's: what changes it, changes it back.
#pragma once

#include <cuda_runtime_api.h>

#include "linkwise/device/cuda/check.hpp"

namespace linkwise {

/// Makes the device that is current now current again at the end.
class CurrentDevice {
 public:
  CurrentDevice() { check(cudaGetDevice(&previous_), "ask for the current device"); }
  /// And another one in between.
  explicit CurrentDevice(int device) : CurrentDevice() { check(cudaSetDevice(device), "use device"); }
  ~CurrentDevice() { (void)cudaSetDevice(previous_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int previous_ = 0;
};

}  // namespace linkwise
