// Every CUDA call is checked, in every build type.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "linkwise/error.hpp"

namespace linkwise {

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const std::string message =
      std::string(what) + ": " + cudaGetErrorName(status) + " (" + cudaGetErrorString(status) + ")";
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // not sticky: the device goes on
    throw OutOfMemoryError(message + "; free GPU memory, lower memory_limit, or use more GPUs");
  }
  throw DeviceError(message + "; if later calls fail as well, the CUDA context is lost: restart the process");
}

}  // namespace linkwise
