#include "linkwise/sort/merge/pairwise_merge.hpp"

#include <algorithm>

#include "linkwise/primitives/host/multiway_merge.hpp"

namespace linkwise {
namespace {

constexpr std::size_t slots_of_gpu = 3;           // one arrives, one is merged, one leaves
constexpr std::uint64_t block_bytes = 256 << 20;  // the most that a GPU merges at once
constexpr std::uint64_t least_blocks_of_gpu = 4;  // so that there is something to overlap

class PairwiseMerge {
 public:
  PairwiseMerge(Runtime& runtime, Router& router, const SortPlan& plan, RecordType type, std::uint64_t count)
      : runtime_(runtime),
        router_(router),
        type_(type),
        block_(std::clamp<std::uint64_t>(count / (plan.gpus.size() * least_blocks_of_gpu), 1,
                                         block_bytes / type.bytes())) {
    const std::uint64_t scratch = runtime.kernels().merge_scratch_bytes(type, block_, block_);
    for (const int gpu : plan.gpus) {
      const Place place = Place::gpu(gpu);
      Worker& worker = workers_.emplace_back();
      worker.in = runtime.stream(place, "in");
      worker.compute = runtime.stream(place, "compute");
      worker.out = runtime.stream(place, "out");
      worker.scratch = runtime.allocate(place, scratch, "scratch");
      for (Slot& slot : worker.slots) {
        slot.parts = runtime.allocate(place, record_bytes(type, block_), "block");
        slot.merged = runtime.allocate(place, record_bytes(type, block_), "merged block");
      }
    }
  }

  void merge(const Records& left, const Records& right, const Records& to) {
    const std::uint64_t count = left.count + right.count, blocks = (count + block_ - 1) / block_;
    std::uint64_t before = 0;  // records of the left run in earlier blocks
    for (std::uint64_t b = 0; b < blocks; ++b) {
      const std::uint64_t begin = b * block_, end = std::min(count, begin + block_);
      const std::uint64_t until = end == count ? left.count : cut(left, right, end);
      merge_block(left.slice(before, until - before), right.slice(begin - before, (end - until) - (begin - before)),
                  to.slice(begin, end - begin));
      before = until;
    }
  }

  void wait() {
    for (const Worker& worker : workers_) runtime_.wait(runtime_.record(worker.out));
  }

 private:
  struct Slot {
    Buffer parts, merged;
    Event free;
  };
  struct Worker {
    Stream in, compute, out;
    Slot slots[slots_of_gpu];
    Buffer scratch;
  };

  // How many of the first `position` merged records come from the left run. An estimate has no data and assumes a
  // proportional share.
  std::uint64_t cut(const Records& left, const Records& right, std::uint64_t position) const {
    if (runtime_.estimating()) {
      const double share = static_cast<double>(left.count) / static_cast<double>(left.count + right.count);
      return std::min(left.count, static_cast<std::uint64_t>(share * static_cast<double>(position)));
    }
    for (const Records* run : {&left, &right}) runtime_.host_reads(run->keys, "cuts runs into blocks");
    const HostRun runs[] = {{left.keys.data, left.values.data, left.count},
                            {right.keys.data, right.values.data, right.count}};
    return multisequence_select(type_.key, runs, position).front();
  }

  void merge_block(const Records& left, const Records& right, const Records& to) {
    Worker& worker = workers_[next_ % workers_.size()];
    Slot& slot = worker.slots[next_++ / workers_.size() % slots_of_gpu];
    const Records parts = records_in(slot.parts.view(), type_, block_).slice(0, to.count);
    const Records merged = records_in(slot.merged.view(), type_, block_).slice(0, to.count);
    runtime_.wait(worker.in, slot.free);
    router_.copy(worker.in, parts.slice(0, left.count), left);
    router_.copy(worker.in, parts.slice(left.count, right.count), right);
    runtime_.wait(worker.compute, runtime_.record(worker.in));
    linkwise::merge(runtime_, worker.compute, parts.slice(0, left.count), parts.slice(left.count, right.count), merged,
                    worker.scratch.view());
    runtime_.wait(worker.out, runtime_.record(worker.compute));
    router_.copy(worker.out, to, merged);
    slot.free = runtime_.record(worker.out);
  }

  Runtime& runtime_;
  Router& router_;
  RecordType type_;
  std::uint64_t block_;
  std::vector<Worker> workers_;
  std::size_t next_ = 0;
};

}  // namespace

Records merge_pairwise(Runtime& runtime, Router& router, const SortPlan& plan, std::vector<Records> runs,
                       const MemoryView& memory, const MemoryView& spare) {
  if (runs.empty()) return {};
  const RecordType type = runs.front().type;
  std::uint64_t count = 0;
  for (const Records& run : runs) count += run.count;
  if (runs.size() == 1) return runs.front();
  PairwiseMerge merger(runtime, router, plan, type, count);
  for (bool into_spare = true; runs.size() > 1; into_spare = !into_spare) {
    const Records all = records_in(into_spare ? spare : memory, type, count);
    std::vector<Records> merged;
    std::uint64_t first = 0;
    for (std::size_t r = 0; r < runs.size(); r += 2) {
      const Records none = runs[r].slice(0, 0), &right = r + 1 < runs.size() ? runs[r + 1] : none;
      merged.push_back(all.slice(first, runs[r].count + right.count));
      merger.merge(runs[r], right, merged.back());
      first += merged.back().count;
    }
    merger.wait();
    runs = std::move(merged);
  }
  return runs.front();
}

}  // namespace linkwise
