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

Parts bytes_of_bits(const nb::object& runtime, const Gpus& gpus, const std::vector<ForeignBits>& bits,
                    std::uint8_t of_set, std::uint8_t of_clear) {
  if (bits.size() != gpus.size()) throw UsageError("there must be bits on each GPU");
  std::vector<BitsPart> columns;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    const auto [address, first, count] = bits[g];
    auto* data = reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
    columns.push_back({{Place::gpu(gpus[g]), data, (first + count + 31) / 32 * 4, 0, false}, first, count});
  }
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = expanded_bits(nb::cast<Runtime&>(runtime), gpus, columns, {of_set, of_clear});
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

std::pair<DeviceArray, std::uint64_t> bits_of_bytes(const nb::object& runtime, const DeviceArray& bytes,
                                                    std::uint8_t of_set) {
  std::vector<ColumnPart> parts;
  std::uint64_t num_set = 0;
  {
    const nb::gil_scoped_release release;
    PackedBits packed = packed_bits(nb::cast<Runtime&>(runtime), bytes.view.place.index, bytes.view, {.set = of_set});
    parts.push_back(std::move(packed.bits));
    num_set = packed.num_set;
  }
  return {arrays_of(runtime, std::move(parts), nb::dtype<std::uint32_t>()).front(), num_set};
}

}  // namespace

void bind_arrow_columns(nb::module_& m) {
  m.def("bring_nulls", &nulls_of, nb::arg("runtime"), nb::arg("gpus"), nb::arg("chunks"),
        "For each row of a column 0, or 255 where it is null, on the GPUs.");
  m.def("bytes_of_bits", &bytes_of_bits, nb::arg("runtime"), nb::arg("gpus"), nb::arg("bits"), nb::arg("of_set"),
        nb::arg("of_clear"),
        "A byte for each bit of other software's columns on these GPUs, each with the address of its bits, the first "
        "one, and their number.");
  m.def("with_nulls_filled", &filled, nb::arg("runtime"), nb::arg("gpus"), nb::arg("column"), nb::arg("nulls"),
        "A copy of a column on the GPUs, with all bits set where a row is null.");
  m.def("bits_of_bytes", &bits_of_bytes, nb::arg("runtime"), nb::arg("bytes"), nb::arg("of_set"),
        "Arrow's bits, in words of 32 on the GPU of a byte for each, and how many of them are set.");
  m.def("bring_values", &values_of, nb::arg("runtime"), nb::arg("gpus"), nb::arg("chunks"), nb::arg("like"),
        nb::arg("nulls"),
        "Copies a column of numbers, times or bools to the GPUs, an equal share to each, as elements of the type of "
        "`like`. Those of null rows have all bits set.");
}

}  // namespace linkwise::binding
