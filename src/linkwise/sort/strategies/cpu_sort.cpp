#include "linkwise/sort/strategies/cpu_sort.hpp"

#include <cstdint>
#include <utility>

#include "linkwise/device/nontemporal_copy.hpp"
#include "linkwise/error.hpp"
#include "linkwise/primitives/host/huge_page_buffer.hpp"
#include "linkwise/primitives/host/key_codec.hpp"
#include "linkwise/primitives/host/paradis.hpp"
#include "linkwise/primitives/host/parallel_sort.hpp"
#include "linkwise/sort/host_io.hpp"
#include "linkwise/sort/record_buckets.hpp"
#include "linkwise/sort/strategies/counting_sort.hpp"
#include "linkwise/sort/verify.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t least_in_buckets = 1 << 17;  // records; fewer stay in one core's caches

class CpuSort {
 public:
  CpuSort(const HostColumns& input, const HostOutputs& output, const SortOptions& options, CpuAlgorithm algorithm)
      : input_(input),
        output_(output),
        options_(options),
        algorithm_(algorithm),
        type_{key_width(input.key_type), input.value_width},
        // What is sorted lies in the output's arrays, where they exist and have the right width.
        own_keys_(keys_fit() ? 0 : input.count * type_.key_bytes()),
        own_values_(output.values != nullptr ? 0 : input.count * type_.value_bytes()) {}

  void run() {
    RawRecords records{keys_fit() ? output_.keys : own_keys_.data(),
                       output_.values != nullptr ? output_.values : own_values_.data()};
    if (algorithm_ == CpuAlgorithm::radix && sort_in_buckets(records)) return;
    const bool by_passes = algorithm_ == CpuAlgorithm::radix;
    const HugePageBuffer spare_keys(by_passes ? input_.count * type_.key_bytes() : 0);
    const HugePageBuffer spare_values(by_passes ? input_.count * type_.value_bytes() : 0);
    const RawRecords spare{spare_keys.data(), spare_values.data()};
    read_input(records);
    const std::uint64_t before = options_.verify ? checksum_on_host(type_, records, input_.count) : 0;
    if (algorithm_ == CpuAlgorithm::comparison) comparison_sort_on_host(type_, records, input_.count);
    else if (algorithm_ == CpuAlgorithm::paradis) paradis_sort_on_host(type_.key, records.keys, input_.count);
    else if (radix_sort_on_host(type_, records, spare, input_.count)) records = spare;
    if (options_.verify) verify(before, records);
    const bool is_there = records.keys == output_.keys && is_own_code(input_.key_type, options_.descending);
    if (output_.keys != nullptr && !is_there)
      decode_on_host(input_.key_type, options_.descending, records.keys, output_.keys, input_.count);
    if (output_.values != nullptr && records.values != output_.values)
      copy_on_host(output_.values, records.values, input_.count * type_.value_bytes());
  }

 private:
  // Sorts into `records`, which are the output where there is one. Returns whether it did; see RecordBuckets.
  [[nodiscard]] bool sort_in_buckets(RawRecords records) const {
    if (input_.count < least_in_buckets) return false;
    auto buckets = RecordBuckets::scatter(input_, records,
                                          {options_.descending, /*keys=*/output_.keys != nullptr, options_.verify});
    if (!buckets) return false;
    buckets->sort();
    buckets->check();
    return true;
  }

  [[nodiscard]] bool keys_fit() const {
    return output_.keys != nullptr && static_cast<std::uint64_t>(native_bytes(input_.key_type)) == type_.key_bytes();
  }

  void read_input(const RawRecords& to) const {
    encode_on_host(input_.key_type, options_.descending, input_.keys, to.keys, input_.count);
    if (input_.values != nullptr) copy_on_host(to.values, input_.values, input_.count * type_.value_bytes());
    else if (type_.value != ValueWidth::none) iota_on_host(type_.value, to.values, input_.count);
  }

  void verify(std::uint64_t before, const RawRecords& sorted) const {
    ResultCheck check(type_.key);
    check.came_in(before);
    check.came_out(Place::host(), {checksum_on_host(type_, sorted, input_.count),
                                   violations_on_host(type_.key, sorted.keys, input_.count)});
    check.finish();
  }

  const HostColumns& input_;
  const HostOutputs& output_;
  const SortOptions& options_;
  CpuAlgorithm algorithm_;
  RecordType type_;
  HugePageBuffer own_keys_, own_values_;
};

}  // namespace

void sort_on_cpu(const HostColumns& input, const HostOutputs& output, const SortOptions& options,
                 CpuAlgorithm algorithm) {
  if (algorithm == CpuAlgorithm::paradis && input.value_width != ValueWidth::none)
    throw UsageError(
        "cpu_algorithm is paradis, which would not keep the order of equal keys: it sorts keys alone; "
        "take radix for rows");
  if (input.count == 0 || (algorithm == CpuAlgorithm::radix && counting_sort(input, output, options))) return;
  CpuSort(input, output, options, algorithm).run();
}

void cpu_sort(Runtime& runtime, const SortPlan& plan, const HostColumns& input, const HostOutputs& output,
              const SortOptions& options) {
  const RecordType type{key_width(input.key_type), input.value_width};
  const auto native = static_cast<std::uint64_t>(native_bytes(input.key_type));
  const Stream host = runtime.stream(Place::host(), "sort");
  Operation operation{"sort", views_of(input), views_of(output, input, native), {}, {}};
  operation.work = {"cpu_sort", input.count, static_cast<double>(type.bytes()), static_cast<double>(native)};
  operation.run = [=, algorithm = plan.cpu_algorithm](void*) { sort_on_cpu(input, output, options, algorithm); };
  runtime.set_phase("sort");
  runtime.enqueue(host, std::move(operation));
  runtime.wait(runtime.record(host));
}

}  // namespace linkwise
