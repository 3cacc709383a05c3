// What CUDA says about this machine, without making a context.
#include "linkwise/device/cuda/check.hpp"
#include "linkwise/device/cuda/cuda.hpp"

namespace linkwise {

int count_cuda_gpus(std::string* why) {
  const auto none = [&](const std::string& reason) {
    if (why != nullptr) *why = reason;
    return 0;
  };
  // cudaGetDeviceCount fails in the same way without a driver and with one that is too old: check the driver first.
  int driver = 0, runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return none("there is no NVIDIA driver");
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess || driver / 1000 < runtime / 1000)
    return none("the NVIDIA driver is for CUDA " + std::to_string(driver / 1000) +
                "; CUDA 13 needs driver 580 or newer");
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();
  if (status != cudaSuccess) return none(cudaGetErrorString(status));
  return count == 0 ? none("CUDA shows no GPU") : count;
}

int cuda_driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

std::vector<int> peers_of(int gpu) {
  std::vector<int> peers;
  for (int peer = 0; peer < count_cuda_gpus(); ++peer) {
    int possible = 0;
    if (peer != gpu && cudaDeviceCanAccessPeer(&possible, gpu, peer) == cudaSuccess && possible != 0)
      peers.push_back(peer);
  }
  return peers;
}

std::vector<CudaGpu> cuda_gpus() {
  std::vector<CudaGpu> gpus;
  for (int g = 0; g < count_cuda_gpus(); ++g) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, g), "ask for device properties");
    char bus_id[32] = {};
    check(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, g), "ask for the PCI bus id");
    gpus.push_back({properties.name, static_cast<double>(properties.totalGlobalMem) / (1ULL << 30),
                    properties.multiProcessorCount, 10 * properties.major + properties.minor, bus_id, peers_of(g)});
  }
  return gpus;
}

int gpu_of_pointer(const void* data) {
  cudaPointerAttributes attributes{};
  const bool known = count_cuda_gpus() > 0 && cudaPointerGetAttributes(&attributes, data) == cudaSuccess;
  (void)cudaGetLastError();
  const bool on_gpu = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  return known && on_gpu ? attributes.device : -1;
}

void wait_for_event(const void* event) {
  check(cudaEventSynchronize(*static_cast<const cudaEvent_t*>(event)), "wait for an array to be ready");
}

}  // namespace linkwise
