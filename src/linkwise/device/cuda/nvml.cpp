// GPU positions as NVML and the kernel report them. NVML is loaded when it is needed, and never linked.
#include <dlfcn.h>
#include <nvml.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>

#include "linkwise/device/cuda/cuda.hpp"

namespace linkwise {
namespace {

class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    load(init, "nvmlInit_v2");
    load(shutdown, "nvmlShutdown");
    load(handle_of, "nvmlDeviceGetHandleByPciBusId_v2");
    load(pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration");
    load(pcie_width, "nvmlDeviceGetMaxPcieLinkWidth");
    load(link_state, "nvmlDeviceGetNvLinkState");
    load(link_version, "nvmlDeviceGetNvLinkVersion");
    load(link_target, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    load(link_target_kind, "nvmlDeviceGetNvLinkRemoteDeviceType");
    is_usable_ = is_complete_ && init() == NVML_SUCCESS;
  }
  ~Nvml() {
    if (is_usable_) shutdown();
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] bool is_usable() const { return is_usable_; }

  decltype(nvmlInit_v2)* init = nullptr;
  decltype(nvmlShutdown)* shutdown = nullptr;
  decltype(nvmlDeviceGetHandleByPciBusId_v2)* handle_of = nullptr;
  decltype(nvmlDeviceGetMaxPcieLinkGeneration)* pcie_generation = nullptr;
  decltype(nvmlDeviceGetMaxPcieLinkWidth)* pcie_width = nullptr;
  decltype(nvmlDeviceGetNvLinkState)* link_state = nullptr;
  decltype(nvmlDeviceGetNvLinkVersion)* link_version = nullptr;
  decltype(nvmlDeviceGetNvLinkRemotePciInfo_v2)* link_target = nullptr;
  decltype(nvmlDeviceGetNvLinkRemoteDeviceType)* link_target_kind = nullptr;

 private:
  template <typename Function>
  void load(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
    is_complete_ = is_complete_ && function != nullptr;
  }

  void* library_;
  bool is_complete_ = true;
  bool is_usable_ = false;
};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// "0000:1b:00.0", as the kernel's folders are named: CUDA, NVML and the kernel write the domain with 4 or 8 digits.
std::string short_bus_id(const std::string& bus_id) {
  const std::string text = lower(bus_id);
  const std::size_t colon = text.find(':');
  return colon > 4 && colon != std::string::npos ? text.substr(colon - 4) : text;
}

// NVML counts versions: 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0 are 1, 2, ….
int generation_of(unsigned version) {
  constexpr int generations[] = {0, 1, 2, 2, 3, 3, 4, 5};
  return version < std::size(generations) ? generations[version] : 0;
}

int numa_node_of(const std::string& bus_id) {
  std::ifstream file("/sys/bus/pci/devices/" + short_bus_id(bus_id) + "/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

}  // namespace

std::vector<GpuSeat> gpu_seats() {
  std::vector<GpuSeat> seats;
  const Nvml nvml;
  for (const CudaGpu& gpu : cuda_gpus()) {
    GpuSeat& seat = seats.emplace_back();
    seat.bus_id = short_bus_id(gpu.pci_bus_id);
    seat.numa_node = numa_node_of(gpu.pci_bus_id);
    nvmlDevice_t device = nullptr;
    if (!nvml.is_usable() || nvml.handle_of(gpu.pci_bus_id.c_str(), &device) != NVML_SUCCESS) continue;
    unsigned value = 0;
    if (nvml.pcie_generation(device, &value) == NVML_SUCCESS) seat.pcie_generation = static_cast<int>(value);
    if (nvml.pcie_width(device, &value) == NVML_SUCCESS) seat.pcie_width = static_cast<int>(value);
    for (unsigned link = 0; link < NVML_NVLINK_MAX_LINKS; ++link) {
      nvmlEnableState_t state = NVML_FEATURE_DISABLED;
      if (nvml.link_state(device, link, &state) != NVML_SUCCESS || state != NVML_FEATURE_ENABLED) continue;
      GpuSeat::NvLink& found = seat.nvlinks.emplace_back();
      if (nvml.link_version(device, link, &value) == NVML_SUCCESS) found.version = generation_of(value);
      nvmlIntNvLinkDeviceType_t kind = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
      found.to_switch =
          nvml.link_target_kind(device, link, &kind) == NVML_SUCCESS && kind == NVML_NVLINK_DEVICE_TYPE_SWITCH;
      nvmlPciInfo_t target{};
      if (nvml.link_target(device, link, &target) == NVML_SUCCESS) found.target_bus_id = short_bus_id(target.busId);
    }
  }
  return seats;
}

}  // namespace linkwise
