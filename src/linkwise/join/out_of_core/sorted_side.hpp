// One side of a join of sorted relations: sorted runs in host memory, presorted by the caller or sorted here.
#pragma once

#include <vector>

#include "linkwise/join/join_plan.hpp"
#include "linkwise/join/out_of_core/merge_path_partitions.hpp"
#include "linkwise/sort/host_io.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

class SortedSide {
 public:
  /// Sorts the columns, unless they are claimed to be sorted. @throws as sort_host.
  SortedSide(Runtime& runtime, const JoinPlan& plan, const HostColumns& columns, bool is_presorted,
             const SortOptions& options);

  /// Prepares the copies to the GPUs; to be called after all sorting. Without `with_values`, only keys are copied.
  void use(Runtime& runtime, Router& router, const SortOptions& options, bool with_values);

  [[nodiscard]] const SortedRuns& runs() const { return runs_; }
  /// The type of the records that are copied.
  [[nodiscard]] RecordType type() const { return type_; }
  [[nodiscard]] bool is_claimed() const { return is_claimed_; }
  [[nodiscard]] bool is_merged() const { return columns_.size() <= 1; }
  /// The columns of the only run.
  [[nodiscard]] const HostColumns& merged() const { return columns_.front(); }

  /// Decides how slices of several runs, of up to `most` rows, are sorted together. The stream's GPU looks at a sample.
  void choose_sort(Runtime& runtime, Stream stream, std::uint64_t most);
  [[nodiscard]] bool sorts_by_msd() const { return sorts_by_msd_; }
  /// Where the runs lie.
  [[nodiscard]] std::vector<MemoryView> views() const;

  /// Copies the ranges in, one after the other; narrow keys go to `raw`.
  void copy_in(Stream stream, const std::vector<RunRange>& ranges, const Records& to, const MemoryView& raw) const {
    for_each_slice(ranges, to, raw,
                   [&](const HostIo& io, std::uint64_t first, const Records& slice, const MemoryView& native) {
                     io.copy_in(stream, first, slice, native);
                   });
  }
  /// Encodes the copied keys.
  void encode(Stream stream, const std::vector<RunRange>& ranges, const Records& to, const MemoryView& raw) const {
    for_each_slice(ranges, to, raw,
                   [&](const HostIo& io, std::uint64_t first, const Records& slice, const MemoryView& native) {
                     io.encode_rows(stream, first, slice, native);
                   });
  }
  /// The sum of the values of some rows, computed on the CPU.
  [[nodiscard]] std::uint64_t sum(const std::vector<RunRange>& ranges, bool is_signed) const;

 private:
  template <typename Body>
  void for_each_slice(const std::vector<RunRange>& ranges, const Records& to, const MemoryView& raw,
                      const Body& body) const {
    std::uint64_t at = 0;
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      const Records slice = to.slice(at, ranges[r].count());
      at += slice.count;
      if (slice.count == 0) continue;
      const std::uint64_t native = ios_[r].is_narrow() ? slice.count * ios_[r].native_key_bytes() : 0;
      body(ios_[r], ranges[r].begin, slice, raw.slice(0, native));
    }
  }
  void sort_into_several(Runtime& runtime, const SortPlan& plan, const HostColumns& columns,
                         const SortOptions& options);
  void sort_pairwise(Runtime& runtime, const SortPlan& plan, const HostColumns& columns, const SortOptions& options);
  void sort_into_one(Runtime& runtime, const SortPlan& plan, const HostColumns& columns, const SortOptions& options);

  bool is_claimed_, sorts_by_msd_ = false;
  RecordType type_;
  std::vector<Buffer> memory_;
  std::vector<HostColumns> columns_, copied_;
  SortedRuns runs_;
  std::vector<HostIo> ios_;
};

}  // namespace linkwise
