// Arrow columns as numbers on the GPUs.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "device_arrays.hpp"
#include "linkwise/error.hpp"
#include "linkwise/primitives/host/key_column.hpp"
#include "linkwise/primitives/pieces.hpp"
#include "linkwise/transfer/arrow_columns.hpp"
#include "rows.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

using Gpus = std::vector<int>;
using Parts = std::vector<DeviceArray>;

const ChunkedColumn& column_of(const OwnedColumn& owned) {
  if (!owned.column()) throw UsageError("GPUs do not support columns of this type, or without rows");
  return *owned.column();
}

// Of bytes that tell nulls, the part on each GPU; none if there are none.
std::vector<MemoryView> views_of(const Parts& nulls, const Gpus& gpus) {
  std::vector<MemoryView> views;
  for (const DeviceArray& array : nulls) views.push_back(array.view);
  if (!nulls.empty() && nulls.size() != gpus.size()) throw UsageError("there must be bytes of nulls on each GPU");
  return views;
}

// Where the strings that differ begin to, and how many words tell them apart from there.
std::pair<std::uint64_t, std::size_t> words_of_strings(const nb::list& chunks) {
  const std::vector<KeyColumn> keys = OwnedColumn(chunks, OwnedColumn::For::cores).keys();
  std::vector<const KeyColumn*> parts;
  for (const KeyColumn& key : keys) parts.push_back(&key);
  const nb::gil_scoped_release release;
  const BytesExtent extent = bytes_extent(parts);
  return {extent.prefix, (extent.longest - extent.prefix + bytes_of_word - 1) / bytes_of_word};
}

std::vector<Parts> bring_words(const nb::object& runtime, const Gpus& gpus, const nb::list& chunks, std::uint64_t begin,
                               std::size_t words, const Parts& nulls) {
  const OwnedColumn owned(chunks);
  if (!column_of(owned).has_strings()) throw UsageError("words are made of strings and bytes alone");
  const std::vector<MemoryView> is_null = views_of(nulls, gpus);
  std::vector<std::vector<ColumnPart>> made;
  {
    const nb::gil_scoped_release release;
    made = bring_string_words(nb::cast<Runtime&>(runtime), gpus, *owned.column(), begin, words, is_null);
  }
  std::vector<Parts> arrays;
  for (std::vector<ColumnPart>& word : made)
    arrays.push_back(arrays_of(runtime, std::move(word), nb::dtype<std::uint64_t>()));
  return arrays;
}

Parts nulls_of(const nb::object& runtime, const Gpus& gpus, const nb::list& chunks) {
  const OwnedColumn owned(chunks);
  const ChunkedColumn& column = column_of(owned);
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = bring_nulls(nb::cast<Runtime&>(runtime), gpus, column);
  }
  return arrays_of(runtime, std::move(parts), nb::dtype<std::uint8_t>());
}

// The elements are taken for those of `like`.
Parts values_of(const nb::object& runtime, const Gpus& gpus, const nb::list& chunks, const Words& like,
                const Parts& nulls) {
  const OwnedColumn owned(chunks);
  const ChunkedColumn& column = column_of(owned);
  const int width = column.layout == ChunkedColumn::Layout::bits ? 1 : column.width;
  if (column.has_strings() || width != static_cast<int>(like.itemsize()))
    throw UsageError("the column's elements are not of that type");
  const std::vector<MemoryView> is_null = views_of(nulls, gpus);
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = bring_values(nb::cast<Runtime&>(runtime), gpus, column, is_null);
  }
  return arrays_of(runtime, std::move(parts), like.dtype());
}

// The bits that columns of other software have on their GPUs: an address, the first bit, and how many there are.
using ForeignBits = std::tuple<std::uintptr_t, std::uint64_t, std::uint64_t>;

Parts nulls_there(const nb::object& runtime, const Gpus& gpus, const std::vector<ForeignBits>& bits) {
  if (bits.size() != gpus.size()) throw UsageError("there must be bits of validity on each GPU");
  std::vector<ValidityPart> columns;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    const auto [address, first, count] = bits[g];
    auto* data = reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
    columns.push_back({{Place::gpu(gpus[g]), data, (first + count + 31) / 32 * 4, 0, false}, first, count});
  }
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = nulls_of(nb::cast<Runtime&>(runtime), gpus, columns);
  }
  return arrays_of(runtime, std::move(parts), nb::dtype<std::uint8_t>());
}

Parts filled(const nb::object& runtime, const Gpus& gpus, const Parts& column, const Parts& nulls) {
  if (column.size() != gpus.size() || nulls.size() != gpus.size())
    throw UsageError("there must be values, and bytes of nulls, on each GPU");
  DeviceColumn there{column.front().type.bits / 8, {}};
  for (const DeviceArray& part : column) there.parts.push_back(part.view);
  const std::vector<MemoryView> is_null = views_of(nulls, gpus);
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = with_nulls_filled(nb::cast<Runtime&>(runtime), gpus, there, is_null);
  }
  return arrays_of(runtime, std::move(parts), column.front().type);
}

Parts validity(const nb::object& runtime, const DeviceArray& nulls) {
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts.push_back(validity_of(nb::cast<Runtime&>(runtime), nulls.view.place.index, nulls.view));
  }
  return arrays_of(runtime, std::move(parts), nb::dtype<std::uint32_t>());
}

}  // namespace

void bind_arrow_columns(nb::module_& m) {
  m.def("words_of_strings", &words_of_strings, nb::arg("chunks"),
        "Of a column of strings, the bytes that all share, and how many words tell them apart from there.");
  m.def("bring_string_words", &bring_words, nb::arg("runtime"), nb::arg("gpus"), nb::arg("chunks"), nb::arg("begin"),
        nb::arg("words"), nb::arg("nulls"),
        "Copies a column of strings to the GPUs, an equal share to each, and makes words of them, columns of uint64 "
        "that compare, one after the other, as the strings do. nulls: what bring_nulls returns, or empty.");
  m.def("bring_nulls", &nulls_of, nb::arg("runtime"), nb::arg("gpus"), nb::arg("chunks"),
        "For each row of a column 0, or 255 where it is null, on the GPUs.");
  m.def(
      "nulls_there", &nulls_there, nb::arg("runtime"), nb::arg("gpus"), nb::arg("bits"),
      "The same for columns of other software on these GPUs, each with the address of its bits of validity, the first "
      "one, and their number.");
  m.def("with_nulls_filled", &filled, nb::arg("runtime"), nb::arg("gpus"), nb::arg("column"), nb::arg("nulls"),
        "A copy of a column on the GPUs, with all bits set where a row is null.");
  m.def("validity_of", &validity, nb::arg("runtime"), nb::arg("nulls"),
        "Arrow's bits of validity, in words of 32 bits on the GPU of such bytes, as the only array of a list.");
  m.def("bring_values", &values_of, nb::arg("runtime"), nb::arg("gpus"), nb::arg("chunks"), nb::arg("like"),
        nb::arg("nulls"),
        "Copies a column of numbers, times or bools to the GPUs, an equal share to each, as elements of the type of "
        "`like`. Those of null rows have all bits set.");
}

}  // namespace linkwise::binding
