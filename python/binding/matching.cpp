// The primitives of joins, for their contract suite.
#include "linkwise/primitives/matching.hpp"

#include "bindings.hpp"

namespace nb = nanobind;

namespace linkwise::binding {

void bind_matching(nb::module_& m) {
  nb::enum_<Emission>(m, "Emission")
      .value("pairs", Emission::pairs)
      .value("pairs_or_one", Emission::pairs_or_one)
      .value("one_if_matched", Emission::one_if_matched)
      .value("one_if_unmatched", Emission::one_if_unmatched);
  nb::class_<IntegerType>(m, "IntegerType")
      .def(
          "__init__",
          [](IntegerType* self, int bytes, bool is_signed) {
            if (bytes != 4 && bytes != 8) throw UsageError("values to add up have 4 or 8 bytes");
            new (self) IntegerType{bytes, is_signed};
          },
          nb::arg("bytes"), nb::arg("is_signed"))
      .def_ro("bytes", &IntegerType::bytes);
  nb::class_<Emitting>(m, "Emitting")
      .def(nb::init<MemoryView, MemoryView>(), nb::arg("first") = MemoryView(), nb::arg("offsets") = MemoryView());
  m.attr("NO_POSITION") = no_position;
  m.attr("UNMATCHED_BIT") = unmatched_bit;
  m.def(
      "probe",
      [](Runtime& runtime, Stream stream, int key_bytes, const MemoryView& keys, const MemoryView& values,
         IntegerType value_type, const MemoryView& build_keys, const MemoryView& build_sums, Emission emission,
         const MemoryView& first, const MemoryView& emitted, const MemoryView& scratch, const MemoryView& totals,
         bool keys_rise) {
        probe(runtime, stream,
              {to_key_width(key_bytes), keys, values, value_type, build_keys, build_sums, emission, first, emitted,
               keys_rise},
              scratch, totals);
      },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("key_bytes"), nb::arg("keys"), nb::arg("values"),
      nb::arg("value_type"), nb::arg("build_keys"), nb::arg("build_sums"), nb::arg("emission"), nb::arg("first"),
      nb::arg("emitted"), nb::arg("scratch"), nb::arg("totals"), nb::arg("keys_rise") = true);
  m.def(
      "probe_scratch_bytes",
      [](const Runtime& runtime, std::uint64_t rows) { return probe_scratch_bytes(runtime.kernels(), rows); },
      nb::arg("runtime"), nb::arg("probing_rows"));
  m.def("range_tiles", &range_tiles, nb::arg("left_rows"), nb::arg("right_rows"));
  m.def(
      "find_ranges",
      [](Runtime& runtime, Stream stream, int key_bytes, const MemoryView& left_keys, const MemoryView& right_keys,
         const MemoryView& ranges, const MemoryView& tiles, const MemoryView& scratch, const MemoryView& totals,
         bool each_key) {
        find_ranges(runtime, stream, {to_key_width(key_bytes), left_keys, right_keys, ranges, tiles, each_key}, scratch,
                    totals);
      },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("key_bytes"), nb::arg("left_keys"), nb::arg("right_keys"),
      nb::arg("ranges"), nb::arg("tiles"), nb::arg("scratch"), nb::arg("totals"), nb::arg("each_key"));
  m.def(
      "find_ranges_scratch_bytes",
      [](const Runtime& runtime, std::uint64_t left, std::uint64_t right) {
        return find_ranges_scratch_bytes(runtime.kernels(), left, right);
      },
      nb::arg("runtime"), nb::arg("left_rows"), nb::arg("right_rows"));
  m.def("running_sums", &running_sums, nb::arg("runtime"), nb::arg("stream"), nb::arg("type"), nb::arg("values"),
        nb::arg("sums"), nb::arg("scratch"));
  m.def(
      "running_sums_scratch_bytes",
      [](const Runtime& runtime, std::uint64_t count) { return runtime.kernels().running_sums_scratch_bytes(count); },
      nb::arg("runtime"), nb::arg("count"));
  m.def(
      "hash_keys",
      [](Runtime& runtime, Stream stream, int key_bytes, const MemoryView& from, const MemoryView& to) {
        hash_keys(runtime, stream, to_key_width(key_bytes), from, to);
      },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("key_bytes"), nb::arg("source"), nb::arg("to"));
  m.def(
      "hash_probe",
      [](Runtime& runtime, Stream stream, int key_bytes, int bits, const MemoryView& keys, const MemoryView& values,
         IntegerType value_type, const MemoryView& build_keys, const MemoryView& build_values,
         IntegerType build_value_type, const MemoryView& totals) {
        hash_probe(
            runtime, stream,
            {to_key_width(key_bytes), bits, keys, values, value_type, build_keys, build_values, build_value_type},
            totals);
      },
      nb::arg("runtime"), nb::arg("stream"), nb::arg("key_bytes"), nb::arg("bits"), nb::arg("keys"), nb::arg("values"),
      nb::arg("value_type"), nb::arg("build_keys"), nb::arg("build_values"), nb::arg("build_value_type"),
      nb::arg("totals"));
  m.def("expand", &expand, nb::arg("runtime"), nb::arg("stream"), nb::arg("left"), nb::arg("right"), nb::arg("window"),
        nb::arg("left_positions"), nb::arg("right_positions"));
  m.def("expand_unmatched", &expand_unmatched, nb::arg("runtime"), nb::arg("stream"), nb::arg("left"), nb::arg("right"),
        nb::arg("window"), nb::arg("left_positions"), nb::arg("right_positions"));
}

}  // namespace linkwise::binding
