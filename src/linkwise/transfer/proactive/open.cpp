#include "linkwise/transfer/proactive/open.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "linkwise/device/cuda/cuda.hpp"
#include "linkwise/device/virtual/virtual_runtime.hpp"
#include "linkwise/error.hpp"
#include "linkwise/primitives/kernels.hpp"

namespace linkwise::proactive {
namespace {

// An H200's rates, and a link between every two GPUs: enough for regions, which ask for nothing else.
Machine plain_machine(int gpus) {
  Machine machine;
  machine.name = std::to_string(gpus) + " plain GPUs";
  machine.nodes = {{"cpu", NodeKind::socket}, {"memory", NodeKind::memory}};
  machine.links.push_back({"dram", "dram", 1, 0, {{1, 200}}, {{1, 200}}});
  for (int g = 0; g < gpus; ++g) {
    machine.nodes.push_back({"gpu" + std::to_string(g), NodeKind::gpu});
    machine.links.push_back({"pcie" + std::to_string(g), "pcie5", 0, 2 + g, {{1, 55}}, {{1, 55}}});
    for (int other = 0; other < g; ++other)
      machine.links.push_back({"nvlink" + std::to_string(other) + "-" + std::to_string(g),
                               "nvlink4",
                               2 + other,
                               2 + g,
                               {{1, 390}},
                               {{1, 390}}});
  }
  machine.gpu.name = "plain GPU";
  machine.gpu.memory_gib = 64;
  machine.gpu.local_copy_gb_per_s = 2100;
  machine.host.name = "host";
  machine.host.memory_gib = 64;
  machine.host.local_copy_gb_per_s = 100;
  machine.pageable_gb_per_s = 10;
  machine.copy_startup = {8, 8, 8, 4};
  return machine;
}

}  // namespace

std::unique_ptr<Runtime> open_gpus() {
  std::string why;
  const int gpus = count_cuda_gpus(&why);
  if (gpus == 0) throw DeviceError("there is no GPU to use: " + why);
  Machine machine = plain_machine(gpus);
  for (const CudaGpu& gpu : cuda_gpus()) machine.gpu.memory_gib = std::min(machine.gpu.memory_gib, gpu.memory_gib);
  return open_gpus(std::move(machine));
}

std::unique_ptr<Runtime> open_virtual_gpus(int gpus, std::uint64_t seed) {
  if (gpus < 1 || gpus > 64) throw UsageError("there are from 1 to 64 virtual GPUs, not " + std::to_string(gpus));
  return std::make_unique<VirtualRuntime>(plain_machine(gpus), VirtualMode::execute, seed, make_virtual_kernels());
}

double seconds_of_work(Runtime& runtime) {
  const std::vector<TimelineEntry> entries = runtime.timeline();
  if (entries.empty()) return 0;
  const auto start = std::ranges::min(entries, {}, &TimelineEntry::start_ps).start_ps;
  const auto end = std::ranges::max(entries, {}, &TimelineEntry::end_ps).end_ps;
  return static_cast<double>(end - start) * 1e-12;
}

}  // namespace linkwise::proactive
