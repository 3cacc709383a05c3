// Double buffering: two regions, for the arrays of this iteration and of the next, which swap roles.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app.hpp"
#include "linkwise/transfer/proactive/producer.hpp"

namespace linkwise::apps {

using proactive::AgentPlan;
using proactive::Block;
using proactive::ByteRange;
using proactive::KernelPrice;
using proactive::load_once;
using proactive::Mapping;
using proactive::Producer;
using proactive::Region;
using proactive::Sends;

/// Load imbalance: the work of the most loaded GPU over the average, where rows are divided among GPUs. With
/// unlimited links, proact21's applications speed up by 3.6 on 4 GPUs (§V-B), and by 14.3 on 16 (fig. 10).
inline constexpr double uneven = 1.11;

/// To be the last member of an app: waits until no work is running, before the other members are destroyed.
class QuietEnd {
 public:
  explicit QuietEnd(Runtime& runtime) : runtime_(runtime) {}
  QuietEnd(const QuietEnd&) = delete;
  QuietEnd& operator=(const QuietEnd&) = delete;
  ~QuietEnd() {
    try {
      runtime_.synchronize();
    } catch (const std::exception&) {  // already reported to whoever waited
      runtime_.abandon();
    }
  }

 private:
  Runtime& runtime_;
};

/// The producer of the rows [first, last) of a region, which a GPU writes with `rows_of_block` rows per block.
template <typename T>
Producer<T> producer_of_rows(Region<T>& region, int gpu, std::uint64_t first, std::uint64_t last,
                             std::uint64_t rows_of_block, const AgentPlan& plan) {
  const auto blocks = static_cast<std::uint32_t>((last - first + rows_of_block - 1) / rows_of_block);
  return {region, gpu,
          Mapping::contiguous(blocks, region.bytes(), rows_of_block * sizeof(T), {first * sizeof(T), last * sizeof(T)}),
          plan};
}

/// Each GPU's copy of the part of an array that its rows need; without data, only the memory is allocated.
class Parts {
 public:
  Parts(const Team& team, const std::string& label) : team_(team), label_(label) {}
  void add(int gpu, const void* data, std::uint64_t bytes) {
    const std::uint64_t some = std::max<std::uint64_t>(bytes, 1);
    if (data == nullptr || bytes == 0) buffers_.push_back(team_.runtime.allocate(Place::gpu(gpu), some, label_));
    else buffers_.push_back(proactive::put_on_gpu(team_.runtime, gpu, data, bytes, label_));
  }
  void add(int gpu, std::span<const std::span<const std::byte>> contents) {
    buffers_.push_back(proactive::put_on_gpu(team_.runtime, gpu, contents, label_));
  }
  template <typename T>
  [[nodiscard]] const T* data(std::size_t g) const {
    return reinterpret_cast<const T*>(buffers_[g].view().data);
  }
  [[nodiscard]] const MemoryView& view(std::size_t g) const { return buffers_[g].view(); }

 private:
  const Team& team_;
  std::string label_;
  std::vector<Buffer> buffers_;
};

template <typename T>
class Alternating {
 public:
  Alternating(const Team& team, std::uint64_t rows, std::uint64_t rows_of_block, const std::string& label)
      : team_(team),
        regions_{{team.runtime, team.gpus, rows, label, team.plan.agent},
                 {team.runtime, team.gpus, rows, label + "'", team.plan.agent}},
        rows_of_block_(rows_of_block) {}

  /// Declares what a GPU reads, unless it reads everything. To be called before the first step.
  void need(int gpu, ByteRange bytes) {
    for (auto& region : regions_) region.need(gpu, bytes);
  }

  /// kernel(g, from): the kernel that GPU number g of the team runs, reading `from`; reads(g): the other memory that
  /// it reads; price(g): its cost.
  template <typename MakeKernel, typename Reads, typename Price>
  void step(const std::string& name, MakeKernel&& kernel, Reads&& reads, Price&& price) {
    auto& producers = producers_[1 - current_];
    Region<T>& from = regions_[current_];
    Region<T>& to = regions_[1 - current_];
    for (std::size_t g = producers.size(); g < team_.gpus.size(); ++g) {
      producers.push_back(
          producer_of_rows(to, team_.gpus[g], team_.cuts[g], team_.cuts[g + 1], rows_of_block_, team_.plan));
      producers.back().set_sends(sends_);
      producers.back().set_timed(false);  // iterations run back to back, and are timed together
    }
    for (std::size_t g = 0; g < team_.gpus.size(); ++g) {
      std::vector<MemoryView> all = reads(g);
      all.push_back(from.mirror(team_.gpus[g]));
      KernelPrice cost = price(g);
      if (team_.gpus.size() > 1) cost.memory_bytes *= uneven;
      producers[g].launch(kernel(g, from.data(team_.gpus[g])), std::move(all), cost, name);
    }
    to.flush();
    current_ = 1 - current_;
  }

  [[nodiscard]] Region<T>& current() { return regions_[current_]; }
  /// @throws UsageError for a plan that the regions do not support.
  void check(const AgentPlan& plan) const {
    for (const auto& region : regions_) region.check_goes_with(plan);
  }
  /// To be called after the team's plan has changed: discards the producers, so that the next steps create new ones.
  void follow_plan() {
    team_.runtime.synchronize();
    for (auto& producers : producers_) producers.clear();
  }
  void set_sends(Sends sends) {
    sends_ = sends;
    for (auto& producers : producers_)
      for (auto& producer : producers) producer.set_sends(sends);
  }
  void wait() {
    team_.runtime.synchronize();
    for (Region<T>& region : regions_) region.check_when_done();
  }

 private:
  const Team& team_;
  Region<T> regions_[2];
  std::vector<Producer<T>> producers_[2];
  std::uint64_t rows_of_block_;
  int current_ = 0;
  Sends sends_ = Sends::chunks;
};

}  // namespace linkwise::apps
