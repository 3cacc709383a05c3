// CUDA's current device belongs to the caller: code that changes it has to restore it.
#pragma once

#include <cuda_runtime_api.h>

#include "linkwise/device/cuda/check.hpp"

namespace linkwise {

/// Restores the current device at the end of its scope.
class CurrentDevice {
 public:
  CurrentDevice() { check(cudaGetDevice(&previous_), "ask for the current device"); }
  /// Also makes another device current until then.
  explicit CurrentDevice(int device) : CurrentDevice() { check(cudaSetDevice(device), "use device"); }
  ~CurrentDevice() { (void)cudaSetDevice(previous_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int previous_ = 0;
};

}  // namespace linkwise
