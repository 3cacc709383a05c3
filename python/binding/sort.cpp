#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "fields.hpp"
#include "linkwise/device/cuda/pinned.hpp"
#include "linkwise/primitives/host/key_codec.hpp"
#include "linkwise/sort/chunk.hpp"
#include "linkwise/sort/host_sort.hpp"
#include "linkwise/sort/record_buckets.hpp"
#include "linkwise/sort/strategies/cpu_sort.hpp"
#include "linkwise/sort/verify.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

using Input = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>;
using Output = nb::ndarray<nb::c_contig, nb::device::cpu, nb::ndim<1>>;

void require(bool condition, const char* what) {
  if (!condition) throw UsageError(what);
}

// The caller's arrays, validated.
struct HostArrays {
  HostColumns input;
  HostOutputs output;

  HostArrays(KeyType type, const Input& keys, const std::optional<Input>& values, const std::optional<Output>& out_keys,
             const std::optional<Output>& out_values, int row_number_bytes) {
    require(keys.itemsize() == static_cast<std::size_t>(native_bytes(type)),
            "the keys have not the size of their type");
    input = {type, keys.size(), keys.data()};
    input.keys_pageable = !is_pinned(keys.data());
    if (values) {
      require(values->size() == keys.size(), "there are not as many values as keys");
      input.value_width = to_value_width(static_cast<int>(values->itemsize()));
      input.values = values->data();
      input.values_pageable = !is_pinned(values->data());
    } else {
      input.value_width = to_value_width(row_number_bytes);
    }
    if (out_keys) {
      require(out_keys->size() == keys.size() && out_keys->itemsize() == keys.itemsize(),
              "the output for the keys has another shape");
      output.keys = out_keys->data();
      output.keys_pageable = !is_pinned(out_keys->data());
    }
    if (out_values) {
      require(
          out_values->size() == keys.size() && out_values->itemsize() == static_cast<std::size_t>(input.value_width),
          "the output for the values has another shape");
      output.values = out_values->data();
      output.values_pageable = !is_pinned(out_values->data());
    }
  }
};

SortReport sort_arrays(Runtime& runtime, const SortPlan& plan, KeyType type, const Input& keys,
                       const std::optional<Input>& values, const std::optional<Output>& out_keys,
                       const std::optional<Output>& out_values, int row_number_bytes, const SortOptions& options) {
  const HostArrays arrays(type, keys, values, out_keys, out_values, row_number_bytes);
  const nb::gil_scoped_release release;
  return sort_host(runtime, plan, arrays.input, arrays.output, options);
}

void sort_arrays_on_cpu(KeyType type, const Input& keys, const std::optional<Input>& values,
                        const std::optional<Output>& out_keys, const std::optional<Output>& out_values,
                        int row_number_bytes, const SortOptions& options, CpuAlgorithm algorithm) {
  const HostArrays arrays(type, keys, values, out_keys, out_values, row_number_bytes);
  const nb::gil_scoped_release release;
  sort_on_cpu(arrays.input, arrays.output, options, algorithm);
}

std::optional<RecordBuckets> scatter_into_buckets(KeyType type, const Input& keys, const Output& codes,
                                                  const SortOptions& options) {
  require(keys.itemsize() == static_cast<std::size_t>(native_bytes(type)), "the keys have not the size of their type");
  require(codes.size() == keys.size() && codes.itemsize() == keys.itemsize(), "the codes have not the keys' shape");
  const nb::gil_scoped_release release;
  HostColumns input;
  input.key_type = type;
  input.count = keys.size();
  input.keys = keys.data();
  return RecordBuckets::scatter(input, {codes.data(), nullptr}, {options.descending, /*keys=*/true, options.verify});
}

// The codes of an array's keys: unsigned integers in the same order as the keys.
nb::object encode_keys(KeyType type, bool descending, const Input& keys) {
  require(keys.itemsize() == static_cast<std::size_t>(native_bytes(type)), "the keys have not the size of their type");
  const auto width = static_cast<std::size_t>(key_width(type));
  auto* codes = new std::byte[std::max<std::size_t>(keys.size() * width, 1)];
  const nb::capsule owner(codes, [](void* p) noexcept { delete[] static_cast<std::byte*>(p); });
  encode_on_host(type, descending, keys.data(), codes, keys.size());
  const nb::dlpack::dtype code_type = width == 8 ? nb::dtype<std::uint64_t>() : nb::dtype<std::uint32_t>();
  return nb::cast(nb::ndarray<nb::numpy>(codes, {keys.size()}, owner, {}, code_type));
}

// Verifies that `after` is the sorted `before`, with both divided equally among the first GPUs. With `copies`,
// `after` holds one copy of the whole result per GPU, one after another.
void verify_parts(Runtime& runtime,
                  const nb::ndarray<const std::uint32_t, nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>& before,
                  const nb::ndarray<const std::uint32_t, nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>& after,
                  int gpus, bool copies) {
  SortPlan plan;
  plan.gpus.clear();
  std::vector<Chunk> chunks;
  const std::uint64_t count = before.size();
  for (int g = 0; g < gpus; ++g) plan.gpus.push_back(g);
  const auto fill = [&](const std::uint32_t* keys, std::uint64_t all) {
    for (std::size_t g = 0; g < chunks.size(); ++g) {
      const std::uint64_t first = all * g / chunks.size(), last = all * (g + 1) / chunks.size();
      chunks[g].set_count(last - first);
      auto* data = reinterpret_cast<std::byte*>(const_cast<std::uint32_t*>(keys + first));  // NOLINT: only read
      runtime.copy(chunks[g].stream(), chunks[g].records().keys, {Place::host(), data, 4 * (last - first), 0, true});
    }
  };
  for (const int gpu : plan.gpus) chunks.emplace_back(runtime, plan, gpu, RecordType{}, count);
  SortVerifier verifier(runtime, streams_of(chunks), own_codes(KeyWidth::k32));
  fill(before.data(), count);
  verifier.before(records_of(chunks));
  fill(after.data(), after.size());
  if (copies) verifier.check_copies(records_of(chunks));
  else verifier.check(records_of(chunks));
}

}  // namespace

void bind_sort(nb::module_& m) {
  nb::enum_<SortStrategy>(m, "SortStrategy")
      .value("radix", SortStrategy::radix)
      .value("p2p_merge", SortStrategy::p2p_merge)
      .value("het", SortStrategy::het)
      .value("cpu", SortStrategy::cpu);
  nb::enum_<CpuAlgorithm>(m, "CpuAlgorithm")
      .value("radix", CpuAlgorithm::radix)
      .value("comparison", CpuAlgorithm::comparison)
      .value("paradis", CpuAlgorithm::paradis);
  nb::enum_<Exchange>(m, "Exchange").value("fused", Exchange::fused).value("copies", Exchange::copies);
  nb::enum_<Splitting>(m, "Splitting")
      .value("samples", Splitting::samples)
      .value("msb", Splitting::msb)
      .value("buckets", Splitting::buckets);
  m.def("sort_strategy_from", &sort_strategy_from, nb::arg("name"));
  auto plan = nb::class_<SortPlan>(m, "SortPlan")
                  .def(nb::init<>())
                  .def("__copy__", [](const SortPlan& self) { return self; })
                  .def("__str__", &SortPlan::to_string);
  bind_fields(plan);
  nb::class_<SortOptions>(m, "SortOptions")
      .def(
          "__init__",
          [](SortOptions* self, bool descending, bool verify) { new (self) SortOptions{descending, verify}; },
          nb::arg("descending") = false, nb::arg("verify") = true);
  nb::enum_<ExpectedOrder>(m, "ExpectedOrder")
      .value("random", ExpectedOrder::random)
      .value("sorted", ExpectedOrder::sorted)
      .value("nearly_sorted", ExpectedOrder::nearly_sorted)
      .value("reversed", ExpectedOrder::reversed);
  nb::class_<SortReport>(m, "SortReport")
      .def_ro("seconds", &SortReport::seconds)
      .def_ro("verified", &SortReport::verified)
      .def_ro("phases", &SortReport::phases)
      .def_ro("timeline", &SortReport::timeline);
  m.def("sort_host", &sort_arrays, nb::arg("runtime"), nb::arg("plan"), nb::arg("key_type"), nb::arg("keys"),
        nb::arg("values").none() = nb::none(), nb::arg("out_keys").none() = nb::none(),
        nb::arg("out_values").none() = nb::none(), nb::arg("row_number_bytes") = 0, nb::arg("options") = SortOptions(),
        "Sorts host arrays by key; without values, row numbers of the given width follow the keys. Releases the GIL.");
  m.def("sort_on_cpu", &sort_arrays_on_cpu, nb::arg("key_type"), nb::arg("keys"), nb::arg("values").none() = nb::none(),
        nb::arg("out_keys").none() = nb::none(), nb::arg("out_values").none() = nb::none(),
        nb::arg("row_number_bytes") = 0, nb::arg("options") = SortOptions(), nb::arg("algorithm") = CpuAlgorithm::radix,
        "Like sort_host, but on the CPU of this machine. Releases the GIL.");
  nb::class_<RecordBuckets>(m, "RecordBuckets")
      .def_static("scatter", &scatter_into_buckets, nb::arg("key_type"), nb::arg("keys"), nb::arg("codes"),
                  nb::arg("options"),
                  "Scatters the keys' codes into buckets; None if a few buckets would hold most of the work.")
      .def_prop_ro("begins", &RecordBuckets::begins, "Where each bucket begins, and where the last one ends.")
      .def("finish", &RecordBuckets::finish, nb::arg("bucket"), nb::call_guard<nb::gil_scoped_release>(),
           "Decodes the keys of a bucket whose codes have been sorted.")
      .def("check", &RecordBuckets::check, "To be called after finishing all buckets. Raises CorruptDataError.");
  m.def("report_of", &report_of, nb::arg("runtime"), nb::arg("options"), nb::call_guard<nb::gil_scoped_release>(),
        "The report of the runtime's last sort.");
  m.def("encode_keys", &encode_keys, nb::arg("key_type"), nb::arg("descending"), nb::arg("keys"));
  m.def("verify_parts", &verify_parts, nb::arg("runtime"), nb::arg("before"), nb::arg("after"), nb::arg("gpus"),
        nb::arg("copies") = false,
        "Checks a claimed result of sorting u32 keys as a sort checks its own, or a copy of it for each GPU. Raises "
        "CorruptDataError.");
  m.def("records_that_fit", &records_that_fit, nb::arg("runtime"), nb::arg("plan"), nb::arg("type"),
        nb::arg("is_narrow") = true);
}

}  // namespace linkwise::binding
