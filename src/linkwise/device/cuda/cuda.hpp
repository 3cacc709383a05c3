// Public header of the CUDA backend, free of CUDA's own headers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "linkwise/device/runtime.hpp"

namespace linkwise {

/// The number of GPUs that CUDA can use; 0 without a driver, with a driver that is too old, or without a GPU. `why`
/// says which.
int count_cuda_gpus(std::string* why = nullptr);

/// The CUDA version that the driver supports, as 13000 for 13.0; 0 without a driver.
int cuda_driver_version();

/// What CUDA says about a GPU: the nominal machine is made from it.
struct CudaGpu {
  std::string name;
  double memory_gib = 0;
  int multiprocessors = 0;
  int compute_capability = 0;  ///< 90 for 9.0
  std::string pci_bus_id;
  std::vector<int> peers;  ///< see peers_of
};
std::vector<CudaGpu> cuda_gpus();
/// The GPUs whose memory a GPU's kernels can load from and store to.
std::vector<int> peers_of(int gpu);

/// The GPU that memory lies on; -1 if on none.
int gpu_of_pointer(const void* data);
/// Blocks until the `cudaEvent_t` that `event` points to has happened.
void wait_for_event(const void* event);

/// The position of a GPU in the machine, as NVML and the kernel report it; under virtualisation it may be wrong or
/// missing.
struct GpuSeat {
  struct NvLink {
    int version = 0;            ///< 3 for NVLink 3.0; 0 if not said
    bool to_switch = false;     ///< to an NVSwitch
    std::string target_bus_id;  ///< if not to a switch: of the GPU at the other end
  };
  std::string bus_id;
  int numa_node = -1;
  int pcie_generation = 0;  ///< 0 if not said
  int pcie_width = 0;
  std::vector<NvLink> nvlinks;  ///< those that are up
};
/// One per GPU, in CUDA's order; without NVML only with bus ids and NUMA nodes.
std::vector<GpuSeat> gpu_seats();

/// `machine` describes the GPUs that CUDA shows, in CUDA's order; `load_kernels` is called once the devices are
/// initialised.
/// @throws UsageError if it has another number of GPUs, DeviceError if CUDA cannot be used.
std::unique_ptr<Runtime> make_cuda_runtime(Machine machine, std::shared_ptr<const Kernels> kernels,
                                           const std::function<void()>& load_kernels);

}  // namespace linkwise
