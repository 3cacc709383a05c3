#include "linkwise/device/cuda/driver.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <string>

namespace linkwise::driver {
namespace {

// Driver functions are looked up at run time: nothing links libcuda, so the package loads without a driver.
template <typename Function>
Function function(const char* name) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check(cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &result), name);
  if (result != cudaDriverEntryPointSuccess) throw DeviceError(std::string("the driver has no ") + name);
  return reinterpret_cast<Function>(entry);
}

void check_driver(CUresult status, const char* what) {
  if (status != CUDA_SUCCESS) throw DeviceError(std::string(what) + ": driver error " + std::to_string(status));
}

CUdeviceptr address(const std::uint32_t* flag) { return reinterpret_cast<CUdeviceptr>(flag); }

}  // namespace

bool is_loaded() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

bool is_from_cuda_malloc(const void* data) {
  static const auto ask = function<decltype(&cuPointerGetAttribute)>("cuPointerGetAttribute");
  int is_legacy = 0;  // only such memory can be shared with other processes by cudaIpcGetMemHandle
  return ask(&is_legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, reinterpret_cast<CUdeviceptr>(data)) ==
             CUDA_SUCCESS &&
         is_legacy != 0;
}

void set_flag(cudaStream_t stream, std::uint32_t* flag, std::uint32_t value) {
  static const auto write = function<decltype(&cuStreamWriteValue32)>("cuStreamWriteValue32");
  check_driver(write(stream, address(flag), value, CU_STREAM_WRITE_VALUE_DEFAULT), "set flag");
}

void wait_for_flag(cudaStream_t stream, const std::uint32_t* flag, std::uint32_t value) {
  static const auto wait = function<decltype(&cuStreamWaitValue32)>("cuStreamWaitValue32");
  check_driver(wait(stream, address(flag), value, CU_STREAM_WAIT_VALUE_GEQ), "wait for flag");
}

}  // namespace linkwise::driver
