// Finds the matching rows of two relations.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>

#include "bindings.hpp"
#include "linkwise/join/host_merge_join.hpp"
#include "linkwise/join/in_core/join_splitters.hpp"
#include "linkwise/primitives/host/huge_page_buffer.hpp"
#include "rows.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

nb::tuple indices_of(const Matches& self, const std::string& how, std::uint64_t first,
                     const std::optional<std::uint64_t>& at_most) {
  const JoinKind kind = join_kind_from(how);
  const bool is_filter = kind == JoinKind::semi || kind == JoinKind::anti;
  std::uint64_t count = 0;
  std::optional<HugePageBuffer> left, right;
  {
    const nb::gil_scoped_release release;
    const std::uint64_t all = self.count(kind);
    first = std::min(first, all);
    count = std::min(all - first, at_most.value_or(all));
    left.emplace(count * sizeof(std::int64_t));
    if (!is_filter) right.emplace(count * sizeof(std::int64_t));
    self.write(kind, first, count, reinterpret_cast<std::int64_t*>(left->data()),
               right ? reinterpret_cast<std::int64_t*>(right->data()) : nullptr);
  }
  const nb::object right_rows = right ? nb::cast(numpy_of<std::int64_t>(std::move(*right), count)) : nb::none();
  return nb::make_tuple(numpy_of<std::int64_t>(std::move(*left), count), right_rows);
}

nb::tuple ranges_of(const Matches& self) {
  NumpyRanges buffers;
  {
    const nb::gil_scoped_release release;
    self.write_ranges(buffers.make(self.range_sizes()));
  }
  return buffers.take();
}

using Unsigned = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>;

JoinSplitters cuts_of_samples(const Unsigned& codes, const Unsigned& tags, std::uint64_t split_rows,
                              std::uint64_t whole_rows, std::size_t parts, double weight_of_match) {
  if (tags.size() != codes.size() || tags.itemsize() != 8) throw UsageError("each sample has a tag of 64 bits");
  return cut_samples({to_key_width(static_cast<int>(codes.itemsize())), codes.size(), codes.data(),
                      static_cast<const std::uint64_t*>(tags.data())},
                     split_rows, whole_rows, parts, weight_of_match);
}

}  // namespace

void bind_join(nb::module_& m) {
  nb::class_<Cut>(m, "Cut").def_ro("code", &Cut::code).def_ro("tag", &Cut::tag);
  nb::class_<PartRoom>(m, "PartRoom").def_ro("rows", &PartRoom::rows).def_ro("borrowed", &PartRoom::borrowed);
  nb::class_<JoinSplitters>(m, "JoinSplitters")
      .def_ro("cuts", &JoinSplitters::cuts)
      .def_ro("split_room", &JoinSplitters::split_room)
      .def_ro("whole_room", &JoinSplitters::whole_room)
      .def("borrows", &JoinSplitters::borrows, nb::arg("part"))
      .def("owner", &JoinSplitters::owner, nb::arg("part"));
  m.attr("WHOLE_BIT") = whole_bit;
  m.def("cut_join_samples", &cuts_of_samples, nb::arg("codes"), nb::arg("tags"), nb::arg("split_rows"),
        nb::arg("whole_rows"), nb::arg("parts"), nb::arg("weight_of_match"));
  nb::class_<Matches>(m, "Matches")
      .def(
          "__init__",
          [](Matches* self, const OwnedRowKeys& keys, const std::optional<Words>& words, const Words& rows,
             std::uint64_t left_rows, bool nulls_equal) {
            if (rows.size() != keys.keys().rows() || (words && words->size() != rows.size()) || left_rows > rows.size())
              throw UsageError("there are not as many words and rows as keys");
            const nb::gil_scoped_release release;
            new (self) Matches(keys.keys(), words ? width_of(*words) : KeyWidth::k64, words ? words->data() : nullptr,
                               static_cast<int>(rows.itemsize()), rows.data(), left_rows, nulls_equal);
          },
          nb::arg("keys"), nb::arg("words").none(), nb::arg("rows"), nb::arg("left_rows"), nb::arg("nulls_equal"),
          nb::keep_alive<1, 4>())
      .def(
          "count", [](const Matches& self, const std::string& how) { return self.count(join_kind_from(how)); },
          nb::arg("how"), nb::call_guard<nb::gil_scoped_release>())
      .def("indices", &indices_of, nb::arg("how"), nb::arg("first") = 0, nb::arg("count").none() = nb::none(),
           "The left and right row numbers of `count` rows of the result, from `first` on, -1 for no row; (left, "
           "None) for semi and anti.")
      .def("ranges", &ranges_of,
           "(left rows, left first, right rows, right first): the rows of each matching key, and their offsets.")
      .def_prop_ro("left_is_unique", &Matches::left_is_unique)
      .def_prop_ro("right_is_unique", &Matches::right_is_unique);
}

}  // namespace linkwise::binding
