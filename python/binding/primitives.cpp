// The primitives, for their contract suite.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "linkwise/primitives/gathering.hpp"
#include "linkwise/primitives/host/multiway_merge.hpp"
#include "linkwise/primitives/primitives.hpp"
#include "linkwise/primitives/row_hashes.hpp"
#include "linkwise/primitives/strings.hpp"
#include "linkwise/primitives/ties.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

using Keys = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>;
using Output = nb::ndarray<nb::c_contig, nb::device::cpu, nb::ndim<1>>;

Splitters splitters_from(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& cuts) {
  if (cuts.size() >= max_destinations)
    throw UsageError("at most " + std::to_string(max_destinations - 1) + " splitters");
  Splitters splitters;
  for (const auto& [key, position] : cuts) {
    splitters.key[splitters.count] = key;
    splitters.position[splitters.count++] = position;
  }
  return splitters;
}

std::vector<HostRun> runs_from(const std::vector<Keys>& keys, const std::vector<Keys>& values) {
  std::vector<HostRun> runs;
  for (std::size_t r = 0; r < keys.size(); ++r)
    runs.push_back({keys[r].data(), values.empty() ? nullptr : values.at(r).data(), keys[r].size()});
  return runs;
}

void bind_host_primitives(nb::module_& m) {
  m.def(
      "multisequence_select",
      [](int key_bytes, const std::vector<Keys>& runs, std::uint64_t rank) {
        return multisequence_select(to_key_width(key_bytes), runs_from(runs, {}), rank);
      },
      nb::arg("key_bytes"), nb::arg("runs"), nb::arg("rank"));
  m.def(
      "multiway_merge",
      [](int key_bytes, int value_bytes, const std::vector<Keys>& keys, const std::vector<Keys>& values,
         const Output& to_keys, const Output& to_values, int parts) {
        multiway_merge({to_key_width(key_bytes), to_value_width(value_bytes)}, runs_from(keys, values), to_keys.data(),
                       to_values.data(), parts);
      },
      nb::arg("key_bytes"), nb::arg("value_bytes"), nb::arg("keys"), nb::arg("values"), nb::arg("to_keys"),
      nb::arg("to_values"), nb::arg("parts") = 0);
}

void bind_records(nb::module_& m) {
  nb::enum_<KeyType>(m, "KeyType")
      .value("u8", KeyType::u8)
      .value("u16", KeyType::u16)
      .value("u32", KeyType::u32)
      .value("u64", KeyType::u64)
      .value("i8", KeyType::i8)
      .value("i16", KeyType::i16)
      .value("i32", KeyType::i32)
      .value("i64", KeyType::i64)
      .value("f16", KeyType::f16)
      .value("f32", KeyType::f32)
      .value("f64", KeyType::f64);
  nb::class_<RecordType>(m, "RecordType")
      .def(
          "__init__",
          [](RecordType* self, int key_bytes, int value_bytes) {
            new (self) RecordType{to_key_width(key_bytes), to_value_width(value_bytes)};
          },
          nb::arg("key_bytes"), nb::arg("value_bytes") = 0)
      .def_prop_ro("key_bytes", &RecordType::key_bytes)
      .def_prop_ro("value_bytes", &RecordType::value_bytes);
  nb::class_<Records>(m, "Records")
      .def(nb::init<RecordType, std::uint64_t, MemoryView, MemoryView>(), nb::arg("type"), nb::arg("count"),
           nb::arg("keys"), nb::arg("values"))
      .def_ro("type", &Records::type)
      .def_ro("count", &Records::count)
      .def_ro("keys", &Records::keys)
      .def_ro("values", &Records::values)
      .def("slice", &Records::slice, nb::arg("first"), nb::arg("length"));
  m.def("record_bytes", &record_bytes, nb::arg("type"), nb::arg("count"));
  m.def("records_in", &records_in, nb::arg("memory"), nb::arg("type"), nb::arg("count"));
}

void bind_scratch(nb::module_& m) {
  m.def(
      "sort_scratch_bytes",
      [](const Runtime& r, RecordType type, std::uint64_t count) {
        return r.kernels().sort_scratch_bytes(type, count);
      },
      nb::arg("runtime"), nb::arg("type"), nb::arg("count"));
  m.def(
      "msd_sort_scratch_bytes",
      [](const Runtime& r, RecordType type, std::uint64_t count) {
        return r.kernels().msd_sort_scratch_bytes(type, count);
      },
      nb::arg("runtime"), nb::arg("type"), nb::arg("count"));
  m.def(
      "merge_scratch_bytes",
      [](const Runtime& r, RecordType type, std::uint64_t left, std::uint64_t right) {
        return r.kernels().merge_scratch_bytes(type, left, right);
      },
      nb::arg("runtime"), nb::arg("type"), nb::arg("left"), nb::arg("right"));
  m.def(
      "partition_scratch_bytes",
      [](const Runtime& r, RecordType type, std::uint64_t count, int destinations) {
        return r.kernels().partition_scratch_bytes(type, count, destinations);
      },
      nb::arg("runtime"), nb::arg("type"), nb::arg("count"), nb::arg("destinations"));
}

void bind_sorting(nb::module_& m) {
  m.def(
      "sort",
      [](Runtime& r, Stream s, const Records& primary, const Records& secondary, int begin_bit, int end_bit,
         const MemoryView& scratch) { return sort(r, s, primary, secondary, {begin_bit, end_bit}, scratch); },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("primary"), nb::arg("secondary"), nb::arg("begin_bit"),
      nb::arg("end_bit"), nb::arg("scratch"));
  nb::enum_<SortBuffers>(m, "SortBuffers")
      .value("three", SortBuffers::three)
      .value("room_is_input", SortBuffers::room_is_input)
      .value("result_is_input", SortBuffers::result_is_input);
  m.def(
      "look_at_keys",
      [](Runtime& r, Stream s, KeyType type, bool descending, const Records& input, SortBuffers buffers,
         const MemoryView& scratch) {
        const Buffer numbers = r.allocate(s.place, sizeof(KeySpread), "spread of the keys");
        look_at_keys(r, s, {type, descending}, input, buffers, ExpectedKeys::narrow, scratch, numbers.view());
        KeySpread spread;
        r.read_back({s, numbers.view(), &spread, &even_spread});
        return std::pair(suits_msd_sort(input.type, input.count, spread), spread.is_narrow != 0);
      },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("type"), nb::arg("descending"), nb::arg("input"),
      nb::arg("buffers"), nb::arg("scratch"), "Whether the MSD sort suits these keys, and whether they are narrow.");
  m.def(
      "msd_sort",
      [](Runtime& r, Stream s, KeyType type, bool descending, const Records& input, const Records& result,
         const Records& room, bool are_narrow, const MemoryView& scratch, const MemoryView& sum) {
        const ExpectedKeys expected = are_narrow ? ExpectedKeys::narrow : ExpectedKeys::wide;
        msd_sort(r, s, {type, descending}, input, result, room, expected, scratch, sum);
      },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("type"), nb::arg("descending"), nb::arg("input"),
      nb::arg("result"), nb::arg("room"), nb::arg("are_narrow"), nb::arg("scratch"), nb::arg("checksum"));
  m.def("merge", &merge, nb::arg("runtime"), nb::arg("stream"), nb::arg("left"), nb::arg("right"), nb::arg("to"),
        nb::arg("scratch"));
  m.def("encode", &encode, nb::arg("runtime"), nb::arg("stream"), nb::arg("type"), nb::arg("descending"),
        nb::arg("source"), nb::arg("to"));
  m.def("decode", &decode, nb::arg("runtime"), nb::arg("stream"), nb::arg("type"), nb::arg("descending"),
        nb::arg("source"), nb::arg("to"));
  m.def(
      "iota",
      [](Runtime& r, Stream s, int value_bytes, const MemoryView& to, std::uint64_t first) {
        iota(r, s, to_value_width(value_bytes), to, first);
      },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("value_bytes"), nb::arg("to"), nb::arg("first"));
  m.def("mark_changes", &mark_changes, nb::arg("runtime"), nb::arg("stream"), nb::arg("element_bytes"),
        nb::arg("elements"), nb::arg("before"), nb::arg("marks"));
  m.def("list_marked", &list_marked, nb::arg("runtime"), nb::arg("stream"), nb::arg("marks"), nb::arg("sums"),
        nb::arg("first"), nb::arg("to"));
  m.def("mark_ties", &mark_ties, nb::arg("runtime"), nb::arg("stream"), nb::arg("words"), nb::arg("changes"),
        nb::arg("next"), nb::arg("marks"));
  m.def("refine_ranks", &refine_ranks, nb::arg("runtime"), nb::arg("stream"), nb::arg("ranks"), nb::arg("positions"),
        nb::arg("first"), nb::arg("finer"), nb::arg("to"));
  m.def("set_bytes", &set_bytes, nb::arg("runtime"), nb::arg("stream"), nb::arg("to"), nb::arg("byte"));
  m.def("sample", &sample, nb::arg("runtime"), nb::arg("stream"), nb::arg("type"), nb::arg("descending"),
        nb::arg("keys"), nb::arg("seed"), nb::arg("tag_base"), nb::arg("codes"), nb::arg("tags"));
}

void bind_gathers(nb::module_& m) {
  m.def(
      "gather",
      [](Runtime& r, Stream s, int element_bytes, int index_bytes, const std::vector<MemoryView>& pieces,
         const MemoryView& indices,
         const MemoryView& to) { gather(r, s, element_bytes, index_bytes, pieces, indices, to); },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("element_bytes"), nb::arg("index_bytes"), nb::arg("pieces"),
      nb::arg("indices"), nb::arg("to"));
  m.def("coalesce_rows", &coalesce_rows, nb::arg("runtime"), nb::arg("stream"), nb::arg("index_bytes"),
        nb::arg("first"), nb::arg("second"), nb::arg("offset"), nb::arg("to"));
  m.def("gather_bits", &gather_bits, nb::arg("runtime"), nb::arg("stream"), nb::arg("index_bytes"), nb::arg("source"),
        nb::arg("indices"), nb::arg("to"));
  nb::class_<StringPiece>(m, "StringPiece")
      .def(nb::init<MemoryView, MemoryView>(), nb::arg("offsets"), nb::arg("bytes"));
  m.def("shift_offsets", &shift_offsets, nb::arg("runtime"), nb::arg("stream"), nb::arg("from_bytes"),
        nb::arg("source"), nb::arg("to_bytes"), nb::arg("to"), nb::arg("delta"));
  using Strings = std::vector<StringPiece>;
  m.def(
      "gather_lengths",
      [](Runtime& r, Stream s, int index_bytes, const Strings& pieces, const MemoryView& indices,
         const MemoryView& lengths) { gather_lengths(r, s, index_bytes, pieces, indices, lengths); },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("index_bytes"), nb::arg("pieces"), nb::arg("indices"),
      nb::arg("lengths"));
  m.def(
      "gather_strings",
      [](Runtime& r, Stream s, int index_bytes, const Strings& pieces, const MemoryView& indices,
         const MemoryView& sums,
         const MemoryView& to) { gather_strings(r, s, index_bytes, pieces, indices, sums, to); },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("index_bytes"), nb::arg("pieces"), nb::arg("indices"),
      nb::arg("sums"), nb::arg("to"));
  m.def(
      "string_words",
      [](Runtime& r, Stream s, const StringPiece& from, const MemoryView& nulls, std::uint64_t begin,
         const std::vector<MemoryView>& to) { string_words(r, s, from, nulls, begin, to); },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("source"), nb::arg("nulls"), nb::arg("begin"), nb::arg("to"));
  m.def("shared_lengths", &shared_lengths, nb::arg("runtime"), nb::arg("stream"), nb::arg("source"), nb::arg("nulls"),
        nb::arg("other"), nb::arg("lengths"));
  m.def(
      "expand_bits",
      [](Runtime& r, Stream s, const MemoryView& bits, std::uint64_t first, std::uint8_t set, std::uint8_t clear,
         const MemoryView& to) { expand_bits(r, s, bits, first, {set, clear}, to); },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("bits"), nb::arg("first"), nb::arg("set"), nb::arg("clear"),
      nb::arg("to"));
  m.def(
      "pack_bits",
      [](Runtime& r, Stream s, const MemoryView& bytes, std::uint8_t set, const MemoryView& bits,
         const MemoryView& num_set) { pack_bits(r, s, bytes, {.set = set}, bits, num_set); },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("bytes"), nb::arg("set"), nb::arg("bits"), nb::arg("num_set"));
  m.def(
      "mix_into_hashes",
      [](Runtime& r, Stream s, int width, const MemoryView& elements, const MemoryView& hashes) {
        mix_into_hashes(r, s, to_key_width(width), elements, hashes);
      },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("width"), nb::arg("elements"), nb::arg("hashes"));
  m.def(
      "count_unequal",
      [](Runtime& r, Stream s, int width, int index_bytes, const std::vector<MemoryView>& left,
         const MemoryView& left_rows, const std::vector<MemoryView>& right, const MemoryView& right_rows,
         const MemoryView& unequal) {
        count_unequal(r, s, to_key_width(width), index_bytes, left, left_rows, right, right_rows, unequal);
      },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("width"), nb::arg("index_bytes"), nb::arg("left"),
      nb::arg("left_rows"), nb::arg("right"), nb::arg("right_rows"), nb::arg("unequal"));
  m.def("mix_strings_into_hashes", &mix_strings_into_hashes, nb::arg("runtime"), nb::arg("stream"), nb::arg("strings"),
        nb::arg("hashes"));
  m.def(
      "count_unequal_strings",
      [](Runtime& r, Stream s, int index_bytes, const Strings& left, const MemoryView& left_rows, const Strings& right,
         const MemoryView& right_rows, const MemoryView& unequal) {
        count_unequal_strings(r, s, index_bytes, left, left_rows, right, right_rows, unequal);
      },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("index_bytes"), nb::arg("left"), nb::arg("left_rows"),
      nb::arg("right"), nb::arg("right_rows"), nb::arg("unequal"));
  m.def("mark_unequal_strings", &mark_unequal_strings, nb::arg("runtime"), nb::arg("stream"), nb::arg("strings"),
        nb::arg("groups"), nb::arg("marks"));
  m.def("fill_nulls", &fill_nulls, nb::arg("runtime"), nb::arg("stream"), nb::arg("element_bytes"), nb::arg("nulls"),
        nb::arg("elements"));
}

void bind_partitioning(nb::module_& m) {
  m.def(
      "histogram",
      [](Runtime& r, Stream s, int key_bytes, const MemoryView& keys, int begin_bit, int end_bit,
         const MemoryView& counts, const std::vector<std::uint64_t>& prefixes) {
        if (prefixes.size() >= max_destinations) throw UsageError("a histogram has fewer prefixes");
        Prefixes known;
        for (const std::uint64_t prefix : prefixes) known.value[known.count++] = prefix;
        histogram(r, s, to_key_width(key_bytes), keys, {begin_bit, end_bit}, known, counts);
      },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("key_bytes"), nb::arg("keys"), nb::arg("begin_bit"),
      nb::arg("end_bit"), nb::arg("counts"), nb::arg("prefixes") = std::vector<std::uint64_t>());
  using Cuts = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  m.def(
      "partition_count",
      [](Runtime& r, Stream s, const Records& from, const Cuts& cuts, const MemoryView& scratch,
         const MemoryView& totals) { partition_count(r, s, from, splitters_from(cuts), scratch, totals); },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("source"), nb::arg("splitters"), nb::arg("scratch"),
      nb::arg("totals"));
  m.def(
      "partition",
      [](Runtime& r, Stream s, const Records& from, const Cuts& cuts, const MemoryView& scratch,
         const std::vector<Records>& to) { partition(r, s, from, splitters_from(cuts), scratch, to); },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("source"), nb::arg("splitters"), nb::arg("scratch"),
      nb::arg("destinations"));
}

void bind_checks(nb::module_& m) {
  m.def("checksum", &checksum, nb::arg("runtime"), nb::arg("stream"), nb::arg("records"), nb::arg("sum"));
  m.def(
      "check_order",
      [](Runtime& r, Stream s, int key_bytes, const MemoryView& keys, const MemoryView& violations) {
        check_order(r, s, to_key_width(key_bytes), keys, violations);
      },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("key_bytes"), nb::arg("keys"), nb::arg("violations"));
  m.def(
      "check_part",
      [](Runtime& r, Stream s, KeyType type, bool descending, const Records& sorted, const MemoryView& numbers) {
        check_part(r, s, {type, descending}, sorted, numbers);
      },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("type"), nb::arg("descending"), nb::arg("sorted"),
      nb::arg("numbers"));
  m.def(
      "select_pivot",
      [](Runtime& r, Stream s, const std::vector<Records>& left, const std::vector<Records>& right,
         const MemoryView& pivot) { select_pivot(r, s, left, right, pivot); },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("left"), nb::arg("right"), nb::arg("pivot"));
}

}  // namespace

void bind_primitives(nb::module_& m) {
  bind_records(m);
  bind_scratch(m);
  bind_sorting(m);
  bind_gathers(m);
  bind_partitioning(m);
  bind_checks(m);
  bind_host_primitives(m);
}

}  // namespace linkwise::binding
