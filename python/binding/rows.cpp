// Row keys of Arrow columns, and the order that they define.
#include <omp.h>

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "bindings.hpp"
#include "linkwise/primitives/host/arrow.hpp"
#include "linkwise/primitives/host/big_endian.hpp"
#include "linkwise/primitives/host/json_depth.hpp"
#include "linkwise/primitives/host/row_keys.hpp"
#include "linkwise/primitives/host/text_rows.hpp"
#include "linkwise/primitives/host/top_k_filter.hpp"
#include "linkwise/sort/tie_refinement.hpp"
#include "linkwise/team.hpp"
#include "rows.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

template <typename Element>
using Numbers = nb::ndarray<const Element, nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>;
using Positions = nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<1>>;
using Output = nb::ndarray<nb::c_contig, nb::device::cpu, nb::ndim<1>>;

// Whether columns of an Arrow type, an object with __arrow_c_schema__, can be keys.
bool can_be_key(const nb::object& type) {
  const auto capsule = type.attr("__arrow_c_schema__")();
  auto* schema = static_cast<ArrowSchema*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_schema"));
  if (schema == nullptr) throw nb::python_error();
  return has_order(*schema);
}

Positions positions_of(std::vector<std::uint64_t>&& numbers) {
  auto* owned = new std::vector<std::uint64_t>(std::move(numbers));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<std::uint64_t>*>(p); });
  return {owned->data(), {owned->size()}, owner};
}

Positions positions_of_least_words(const Words& words, std::uint64_t k) {
  std::vector<std::uint64_t> positions;
  {
    const nb::gil_scoped_release release;
    positions = positions_of_least(width_of(words), words.data(), words.size(), k);
  }
  return positions_of(std::move(positions));
}

Positions starts_of_runs(const OwnedRowKeys& self, const Words& rows) {
  std::vector<std::uint64_t> starts;
  {
    const nb::gil_scoped_release release;
    with_key(width_of(rows), [&](auto tag) {
      starts = self.keys().starts_of_runs(static_cast<const typename decltype(tag)::type*>(rows.data()), rows.size());
    });
  }
  return positions_of(std::move(starts));
}

nb::tuple rows_of_text_as_arrays(
    const nb::ndarray<const std::uint8_t, nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>& text, char delimiter,
    bool keeps_blank) {
  std::optional<TextRows> rows;
  {
    const nb::gil_scoped_release release;
    rows = rows_of_text({reinterpret_cast<const char*>(text.data()), text.size()}, delimiter, keeps_blank);
  }
  const auto letters =
      static_cast<std::uint64_t>(reinterpret_cast<const std::int64_t*>(rows->offsets.data())[rows->count]);
  return nb::make_tuple(
      rows->letters ? nb::cast(numpy_of<std::uint8_t>(std::move(*rows->letters), letters)) : nb::none(),
      numpy_of<std::int64_t>(std::move(rows->offsets), rows->count + 1));
}

nb::object decoded_big_endian(
    const nb::ndarray<const std::uint8_t, nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>& from, std::size_t bytes,
    std::size_t number_bytes) {
  const std::uint64_t size = bytes == 0 ? 0 : from.size() / bytes * number_bytes;
  std::optional<HugePageBuffer> numbers;
  {
    const nb::gil_scoped_release release;
    decode_big_endian({from.data(), from.size()}, bytes, number_bytes, numbers.emplace(size).data());
  }
  return nb::cast(numpy_of<std::uint8_t>(std::move(*numbers), size));
}

nb::object huge_bytes(std::uint64_t bytes) { return nb::cast(numpy_of<std::uint8_t>(HugePageBuffer(bytes), bytes)); }

// 0, 1, … in memory on huge pages.
nb::object row_numbers(std::uint64_t count, int width) {
  HugePageBuffer memory(count * static_cast<std::uint64_t>(width));
  const auto number = [&](auto tag) {
    using Row = typename decltype(tag)::type;
    auto* rows = reinterpret_cast<Row*>(memory.data());
#pragma omp parallel for num_threads(team())
    for (std::uint64_t i = 0; i < count; ++i) rows[i] = static_cast<Row>(i);
    return nb::cast(numpy_of<Row>(std::move(memory), count));
  };
  return to_key_width(width) == KeyWidth::k32 ? number(Tag<std::uint32_t>{}) : number(Tag<std::uint64_t>{});
}

void bind_refinement(nb::module_& m) {
  nb::class_<TieRefinement>(m, "TieRefinement")
      .def(
          "__init__",
          [](TieRefinement* self, const OwnedRowKeys& keys, const Words& words, const Output& rows) {
            if (words.size() != keys.keys().rows() || rows.size() != words.size())
              throw UsageError("there are not as many words and rows as keys");
            const nb::gil_scoped_release release;
            new (self) TieRefinement(keys.keys(), keys.first(), width_of(words), words.data(),
                                     static_cast<int>(rows.itemsize()), rows.data());
          },
          nb::arg("keys"), nb::arg("words"), nb::arg("rows"), nb::keep_alive<1, 2>(), nb::keep_alive<1, 4>())
      .def_prop_ro("open_rows", &TieRefinement::open_rows)
      .def(
          "write_words",
          [](const TieRefinement& self,
             const nb::ndarray<std::uint64_t, nb::c_contig, nb::device::cpu, nb::ndim<1>>& to) {
            if (to.size() != self.open_rows()) throw UsageError("there are not as many words as open rows");
            const nb::gil_scoped_release release;
            self.write_words(to.data());
          },
          nb::arg("words"))
      .def(
          "place",
          [](TieRefinement& self, const Numbers<std::uint64_t>& words, const Words& order) {
            if (words.size() != self.open_rows() || order.size() != words.size())
              throw UsageError("there are not as many words as open rows");
            const nb::gil_scoped_release release;
            self.place(words.data(), order.data());
          },
          nb::arg("words"), nb::arg("order"));
}

}  // namespace

void bind_rows(nb::module_& m) {
  nb::class_<OwnedRowKeys>(m, "RowKeys")
      .def(nb::init<const std::vector<nb::list>&, const std::vector<bool>&, const std::vector<bool>&>(),
           nb::arg("parts"), nb::arg("descending"), nb::arg("nulls_first"),
           "Keys of columns in parts, each a list of arrays with __arrow_c_array__, the most significant first; each "
           "column has a direction and a place for its nulls. For several parts, only words can be made.")
      .def("like_these", &OwnedRowKeys::like_these, nb::arg("columns"),
           "Keys of the same format for some of the same rows, in any order, from their columns.")
      .def_prop_ro("rows", &OwnedRowKeys::rows)
      .def_prop_ro(
          "word_bits", [](const OwnedRowKeys& self) { return self.first().bits; }, "The bits of the first word.")
      .def_prop_ro("decided_by_word", [](const OwnedRowKeys& self) { return self.first().decides; })
      .def(
          "write_words",
          [](const OwnedRowKeys& self, const Output& to) {
            if (to.size() != self.rows() || 8 * to.itemsize() < static_cast<std::size_t>(self.first().bits))
              throw UsageError("the words do not fit into the output");
            const nb::gil_scoped_release release;
            self.words(to_key_width(static_cast<int>(to.itemsize())), to.data());
          },
          nb::arg("words"))
      .def("starts_of_runs", &starts_of_runs, nb::arg("rows"))
      .def(
          "rows_before",
          [](const OwnedRowKeys& self, const OwnedRowKeys& other, std::uint64_t row, bool or_equal) {
            if (row >= other.keys().rows()) throw UsageError("there is no such row");
            return self.keys().rows_before(other.keys(), row, or_equal);
          },
          nb::arg("other"), nb::arg("row"), nb::arg("or_equal"))
      .def(
          "first_descent", [](const OwnedRowKeys& self) { return self.keys().first_descent(); },
          nb::call_guard<nb::gil_scoped_release>());
  m.def("can_be_key", &can_be_key, nb::arg("type"), "Whether columns of an Arrow type can be keys.");
  m.def("decode_big_endian", &decoded_big_endian, nb::arg("integers"), nb::arg("bytes"), nb::arg("number_bytes"),
        "The bytes of numbers of 4 or 8 bytes, from signed integers of fewer bytes, the most significant first. "
        "Releases the GIL.");
  m.def("huge_bytes", &huge_bytes, nb::arg("bytes"),
        "An uninitialised byte array on huge pages; some of the memory of freed arrays is kept for reuse.");
  m.def(
      "huge_pages_pay", [](const std::string& balloons) { return huge_pages_pay(balloons); },
      nb::arg("balloons") = "/sys/bus/virtio/drivers/virtio_balloon",
      "Whether the system provides huge pages faster than as many bytes of small pages.");
  m.def(
      "work_alone", [] { omp_set_num_threads(1); },
      "Makes parallel loops that this thread starts run on it alone: for use with as many threads as there are "
      "cores.");
  m.def(
      "json_depth",
      [](const nb::ndarray<const std::uint8_t, nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>& text) {
        const nb::gil_scoped_release release;
        return json_depth({reinterpret_cast<const char*>(text.data()), text.size()});
      },
      nb::arg("text"), "The maximum nesting depth of brackets and braces in a text of JSON values.");
  m.def(
      "end_of_last_row",
      [](const nb::bytes& text, char delimiter) {
        const std::string_view letters(text.c_str(), text.size());
        const nb::gil_scoped_release release;
        return end_of_last_row(letters, delimiter);
      },
      nb::arg("text"), nb::arg("delimiter"),
      "The position after the last complete row of a text that begins with a row; 0 if there is none.");
  m.def(
      "end_of_last_row",
      [](const nb::ndarray<const std::uint8_t, nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>& text,
         char delimiter) {
        const nb::gil_scoped_release release;
        return end_of_last_row({reinterpret_cast<const char*>(text.data()), text.size()}, delimiter);
      },
      nb::arg("text"), nb::arg("delimiter"), "The same.");
  m.def("rows_of_text", &rows_of_text_as_arrays, nb::arg("text"), nb::arg("delimiter"), nb::arg("keeps_blank"),
        "The rows of a whole text, unparsed: their bytes, including line ends, or None if these equal the text; and "
        "the rows' offsets.");
  m.def("drop_spare_memory", &drop_spare_memory, "Returns memory kept for reuse to the operating system.");
  m.def("row_numbers", &row_numbers, nb::arg("count"), nb::arg("bytes"), "0, 1, … of 4 or 8 bytes each.");
  m.def("positions_of_least", &positions_of_least_words, nb::arg("words"), nb::arg("k"),
        "The positions of the k smallest words, and of a few others.");
  bind_refinement(m);
}

}  // namespace linkwise::binding
