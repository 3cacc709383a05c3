#include "linkwise/sort/merge/run_merge.hpp"

#include <algorithm>
#include <cmath>

namespace linkwise {
namespace {

// Each record is moved once, and climbs a tree over the runs. If the machine has rates for merging this many runs or
// fewer, the rate for the most runs is used, and the passes are relative to the height of its tree.
Work merge_work(const Machine& machine, std::size_t runs, const Records& to) {
  const auto height = [](std::size_t of) { return 1 + std::log2(static_cast<double>(std::max<std::size_t>(of, 1))); };
  Work work{"multiway_merge", to.count, static_cast<double>(to.type.bytes()), height(runs)};
  for (std::size_t of = 2; of <= std::max<std::size_t>(runs, 2); of *= 2) {
    const std::string name = merge_rate_of(of);
    if (!machine.host.rates.contains(name)) continue;
    work.rate = name;
    work.passes = height(runs) / height(of);
  }
  return work;
}

Operation merge_operation(const Machine& machine, std::span<const Records> runs, const Records& to) {
  Operation operation{"multiway merge", {}, {to.keys}, {}, {}};
  std::vector<HostRun> raw;
  for (const Records& run : runs) {
    raw.push_back({run.keys.data, run.values.data, run.count});
    operation.reads.push_back(run.keys);
    if (run.type.value != ValueWidth::none) operation.reads.push_back(run.values);
  }
  if (to.type.value != ValueWidth::none) operation.writes.push_back(to.values);
  operation.work = merge_work(machine, runs.size(), to);
  operation.run = [type = to.type, raw, keys = to.keys.data, values = to.values.data](void*) {
    multiway_merge(type, raw, keys, values);
  };
  return operation;
}

}  // namespace

std::string merge_rate_of(std::size_t runs) { return "multiway_merge of " + std::to_string(runs); }

Stream merge_stream(Runtime& runtime) { return runtime.stream(Place::host(), "merge"); }

void enqueue_merge(Runtime& runtime, std::span<const Records> runs, const Records& to) {
  runtime.enqueue(merge_stream(runtime), merge_operation(runtime.machine(), runs, to));
}

void merge_into_output(Runtime& runtime, const HostIo& io, std::span<const Records> runs, const HostOutputs& output) {
  const RecordType type = io.record_type();
  std::uint64_t count = 0;
  for (const Records& run : runs) count += run.count;
  // Merge into temporary memory what has no output array, and narrow keys, which need wider codes.
  const bool keys_in_place = output.keys != nullptr && !io.is_narrow();
  const Buffer codes = runtime.allocate(Place::host(), keys_in_place ? 0 : count * type.key_bytes(), "merged codes");
  const Buffer values =
      runtime.allocate(Place::host(), output.values != nullptr ? 0 : count * type.value_bytes(), "merged values");
  const Records to{
      type, count,
      keys_in_place ? host_view(output.keys, 0, count * type.key_bytes(), output.keys_pageable) : codes.view(),
      output.values != nullptr ? host_view(output.values, 0, count * type.value_bytes(), output.values_pageable)
                               : values.view()};
  const Stream host = merge_stream(runtime);
  enqueue_merge(runtime, runs, to);
  if (output.keys != nullptr) io.decode_on_host(host, to.keys, output.keys);
  runtime.wait(runtime.record(host));
}

}  // namespace linkwise
