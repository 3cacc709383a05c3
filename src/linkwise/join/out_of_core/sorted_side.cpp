#include "linkwise/join/out_of_core/sorted_side.hpp"

#include "linkwise/primitives/host/reference_matching.hpp"
#include "linkwise/sort/host_sort.hpp"
#include "linkwise/sort/local_sort.hpp"
#include "linkwise/sort/merge/pairwise_merge.hpp"

namespace linkwise {

SortedSide::SortedSide(Runtime& runtime, const JoinPlan& plan, const HostColumns& columns, bool is_presorted,
                       const SortOptions& options)
    : is_claimed_(is_presorted) {
  if (is_presorted) columns_.push_back(columns);
  else if (plan.path == JoinPath::pairwise) sort_pairwise(runtime, plan.sort, columns, options);
  else if (plan.merges_runs) sort_into_one(runtime, plan.sort, columns, options);
  else sort_into_several(runtime, plan.sort, columns, options);
  for (const HostColumns& run : columns_) {
    runs_.key_type = run.key_type;
    runs_.runs.push_back({run.keys, run.values, run.count});
  }
  if (columns_.empty()) runs_.key_type = code_type(key_width(columns.key_type));
  type_ = {key_width(columns.key_type), columns.value_width};
}

void SortedSide::use(Runtime& runtime, Router& router, const SortOptions& options, bool with_values) {
  copied_ = columns_;
  for (HostColumns& run : copied_)
    if (!with_values) {
      run.values = nullptr;
      run.value_width = ValueWidth::none;
    }
  if (!with_values) type_.value = ValueWidth::none;
  for (const HostColumns& run : copied_) ios_.emplace_back(runtime, router, run, options);
}

void SortedSide::choose_sort(Runtime& runtime, Stream stream, std::uint64_t most) {
  if (is_merged()) return;
  std::vector<SampleSource> keys;
  for (const HostIo& io : ios_) keys.push_back({stream, io.host_keys(0, io.rows())});
  sorts_by_msd_ =
      keys_suit_msd_sort(runtime, columns_.front().key_type, /*descending=*/false, std::move(keys), type_, most);
}

std::vector<MemoryView> SortedSide::views() const {
  std::vector<MemoryView> views;
  for (const HostColumns& run : columns_)
    for (const MemoryView& view : views_of(run)) views.push_back(view);
  return views;
}

std::uint64_t SortedSide::sum(const std::vector<RunRange>& ranges, bool is_signed) const {
  std::uint64_t total = 0;
  for (std::size_t r = 0; r < ranges.size(); ++r)
    total += sum_of_integers(columns_[r].values, {static_cast<int>(columns_[r].value_width), is_signed},
                             ranges[r].begin, ranges[r].end);
  return total;
}

void SortedSide::sort_into_several(Runtime& runtime, const SortPlan& plan, const HostColumns& columns,
                                   const SortOptions& options) {
  const RecordType type{key_width(columns.key_type), columns.value_width};
  memory_.push_back(runtime.allocate(Place::host(), record_bytes(type, columns.count), "runs"));
  for (const Records& run : sort_into_runs(runtime, plan, columns, memory_.back().view(), options))
    columns_.push_back({code_type(type.key), run.count, run.keys.data, type.value, run.values.data});
}

void SortedSide::sort_pairwise(Runtime& runtime, const SortPlan& plan, const HostColumns& columns,
                               const SortOptions& options) {
  const RecordType type{key_width(columns.key_type), columns.value_width};
  for (const char* label : {"runs", "merged runs"})
    memory_.push_back(runtime.allocate(Place::host(), record_bytes(type, columns.count), label));
  const std::vector<Records> runs = sort_into_runs(runtime, plan, columns, memory_[0].view(), options);
  runtime.set_phase("merge");
  Router router(runtime, {}, plan.relay_bytes);
  const Records all = merge_pairwise(runtime, router, plan, runs, memory_[0].view(), memory_[1].view());
  columns_.push_back({code_type(type.key), all.count, all.keys.data, type.value, all.values.data});
}

void SortedSide::sort_into_one(Runtime& runtime, const SortPlan& plan, const HostColumns& columns,
                               const SortOptions& options) {
  const auto width = static_cast<std::uint64_t>(columns.value_width);
  memory_.push_back(runtime.allocate(
      Place::host(), columns.count * static_cast<std::uint64_t>(native_bytes(columns.key_type)), "sorted keys"));
  memory_.push_back(runtime.allocate(Place::host(), columns.count * width, "sorted values"));
  HostColumns sorted{columns.key_type, columns.count, memory_[0].view().data, columns.value_width, nullptr};
  if (width > 0) sorted.values = memory_[1].view().data;
  sort_columns(runtime, plan, columns, {memory_[0].view().data, width > 0 ? memory_[1].view().data : nullptr}, options);
  columns_.push_back(sorted);
}

}  // namespace linkwise
