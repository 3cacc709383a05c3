#include "linkwise/sort/merge/gpu_merge.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "linkwise/device/arena.hpp"
#include "linkwise/primitives/host/multiway_merge.hpp"
#include "linkwise/sort/largest_that_fits.hpp"
#include "linkwise/sort/verify.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr int slots = 3;          // one arrives, one is merged, one leaves
constexpr int blocks_a_slot = 2;  // at least, so that there is something to overlap

std::uint64_t slot_bytes(RecordType type, std::uint64_t block) {
  return align_up(record_bytes(type, block), device_alignment);
}

class GpuMerge {
 public:
  GpuMerge(Runtime& runtime, const SortPlan& plan, const HostIo& io, std::span<const Records> runs,
           const HostOutputs& output, std::uint64_t bytes_per_gpu, bool verify)
      : runtime_(runtime), io_(io), runs_(runs), output_(output), verify_(verify), type_(io.record_type()) {
    for (const Records& run : runs) total_ += run.count;
    const std::uint64_t gpus = plan.gpus.size();
    block_ = std::min(largest_block(bytes_per_gpu), total_ / (gpus * slots * blocks_a_slot) + 1);
    room_ = block_ + runs.size();
    num_blocks_ = (total_ + block_ - 1) / block_;
    const std::uint64_t notes = sizeof(PartNumbers) * ((num_blocks_ + gpus - 1) / gpus);
    for (const int gpu : plan.gpus) {
      const Place place = Place::gpu(gpu);
      const std::uint64_t scratch = runtime.kernels().sort_scratch_bytes(type_, room_);
      runtime.reserve(place, 2 * slots * slot_bytes(type_, room_) + align_up(scratch, device_alignment) +
                                 align_up(notes, device_alignment));
      Worker& worker = workers_.emplace_back();
      worker.in = runtime.stream(place, "in");
      worker.compute = runtime.stream(place, "compute");
      worker.out = runtime.stream(place, "out");
      for (int s = 0; s < slots; ++s) {
        worker.primary[s] = runtime.allocate(place, record_bytes(type_, room_), "block");
        worker.secondary[s] = runtime.allocate(place, record_bytes(type_, room_), "merged block");
      }
      worker.scratch = runtime.allocate(place, scratch, "scratch");
      worker.notes = runtime.allocate(place, notes, "verification");
    }
  }

  void run(std::uint64_t checksum) {
    select_cuts();
    for (std::uint64_t b = 0; b < num_blocks_; ++b) merge_block(b);
    for (const Worker& worker : workers_) runtime_.wait(runtime_.record(worker.out));
    if (verify_) verify(checksum);
  }

 private:
  struct Worker {
    Stream in, compute, out;
    Buffer primary[slots], secondary[slots], scratch, notes;
    Event left[slots];  // the slot's last block has been copied out
  };

  [[nodiscard]] std::uint64_t largest_block(std::uint64_t bytes) const {
    const std::uint64_t too_large = bytes / (2 * slots * type_.bytes()) + 1;
    return std::max<std::uint64_t>(
        1, largest_that_fits(too_large, [&](std::uint64_t block) {
          const std::uint64_t room = block + runs_.size();
          return 2 * slots * slot_bytes(type_, room) + runtime_.kernels().sort_scratch_bytes(type_, room) <= bytes;
        }));
  }

  // cuts_[b][r]: where block b begins in run r. The host reads the runs, which are complete; an estimate, which has
  // no data, uses equal slices.
  void select_cuts() {
    cuts_.assign(num_blocks_ + 1, std::vector<std::uint64_t>(runs_.size()));
    for (std::uint64_t b = 0; b <= num_blocks_; ++b)
      for (std::size_t r = 0; r < runs_.size(); ++r)
        cuts_[b][r] = b == num_blocks_ ? runs_[r].count : runs_[r].count * b / num_blocks_;
    if (runtime_.estimating()) return;
    std::vector<HostRun> raw;
    for (const Records& run : runs_) {
      runtime_.host_reads(run.keys, "cuts runs into blocks");
      raw.push_back({run.keys.data, run.values.data, run.count});
    }
#pragma omp parallel for schedule(dynamic) num_threads(team())
    for (std::uint64_t b = 1; b < num_blocks_; ++b) cuts_[b] = multisequence_select(type_.key, raw, b * block_);
  }

  [[nodiscard]] std::uint64_t key_at(std::size_t run, std::uint64_t position) const {
    std::uint64_t key = 0;
    std::memcpy(&key, runs_[run].keys.data + position * type_.key_bytes(), type_.key_bytes());
    return key;
  }

  // The bits in which keys of the block can differ.
  [[nodiscard]] BitRange bits_of(std::uint64_t block) const {
    if (runtime_.estimating()) return {0, type_.key_bits()};
    std::uint64_t least = ~0ULL, greatest = 0;
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      if (cuts_[block][r] == cuts_[block + 1][r]) continue;
      least = std::min(least, key_at(r, cuts_[block][r]));
      greatest = std::max(greatest, key_at(r, cuts_[block + 1][r] - 1));
    }
    return {0, static_cast<int>(std::bit_width(least ^ greatest))};
  }

  void merge_block(std::uint64_t block) {
    Worker& worker = workers_[block % workers_.size()];
    const std::uint64_t round = block / workers_.size(), slot = round % slots;
    std::uint64_t count = 0;
    for (std::size_t r = 0; r < runs_.size(); ++r) count += cuts_[block + 1][r] - cuts_[block][r];
    if (count == 0) return;  // possible in an estimate with tiny runs
    const Records primary = records_in(worker.primary[slot].view(), type_, room_).slice(0, count);
    const Records secondary = records_in(worker.secondary[slot].view(), type_, room_).slice(0, count);
    runtime_.wait(worker.in, worker.left[slot]);
    std::uint64_t at = 0;
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      const Records slice = runs_[r].slice(cuts_[block][r], cuts_[block + 1][r] - cuts_[block][r]);
      if (slice.count > 0) io_.router().copy(worker.in, primary.slice(at, slice.count), slice);
      at += slice.count;
    }
    runtime_.wait(worker.compute, runtime_.record(worker.in));
    const Records merged = sort(runtime_, worker.compute, primary, secondary, bits_of(block), worker.scratch.view());
    if (verify_)
      check_part(runtime_, worker.compute, own_codes(merged.type.key), merged,
                 worker.notes.slice(sizeof(PartNumbers) * round, sizeof(PartNumbers)));
    MemoryView keys = merged.keys;
    if (output_.keys != nullptr) keys = io_.decode_sorted(worker.compute, merged, primary, secondary);
    runtime_.wait(worker.out, runtime_.record(worker.compute));
    io_.copy_out(worker.out, block * block_, merged, keys, keys.bytes / count, output_);
    worker.left[slot] = runtime_.record(worker.out);
  }

  void verify(std::uint64_t came_in) {
    std::vector<std::vector<PartNumbers>> notes;
    std::vector<ReadBack> reads;
    for (const Worker& worker : workers_) notes.emplace_back(worker.notes.view().bytes / sizeof(PartNumbers));
    for (std::size_t w = 0; w < workers_.size(); ++w)
      reads.push_back({workers_[w].compute, workers_[w].notes.view(), notes[w].data()});
    runtime_.read_back(reads);
    ResultCheck check(type_.key);
    check.came_in(runtime_.estimating() ? 0 : came_in);
    for (std::uint64_t b = 0; b < num_blocks_; ++b)
      check.came_out(workers_[b % workers_.size()].in.place, notes[b % workers_.size()][b / workers_.size()]);
    check.finish();
  }

  Runtime& runtime_;
  const HostIo& io_;
  std::span<const Records> runs_;
  const HostOutputs& output_;
  bool verify_;
  RecordType type_;
  std::uint64_t total_ = 0;
  std::uint64_t block_ = 0;  // records in a block
  std::uint64_t room_ = 0;   // records in a slot: slices of an estimate may be rounded up
  std::uint64_t num_blocks_ = 0;
  std::vector<Worker> workers_;
  std::vector<std::vector<std::uint64_t>> cuts_;
};

}  // namespace

void gpu_merge(Runtime& runtime, const SortPlan& plan, const HostIo& io, std::span<const Records> runs,
               const HostOutputs& output, std::uint64_t bytes_per_gpu, bool verify, std::uint64_t checksum) {
  GpuMerge(runtime, plan, io, runs, output, bytes_per_gpu, verify).run(checksum);
}

}  // namespace linkwise
