// Copies columns to the GPUs and back, gathers their rows there, and packs several columns into keys.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "device_arrays.hpp"
#include "device_parts.hpp"
#include "linkwise/device/cuda/pinned.hpp"
#include "linkwise/error.hpp"
#include "linkwise/transfer/device_columns.hpp"
#include "rows.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>;

std::vector<DeviceArray> bring(const nb::object& runtime_object, const std::vector<int>& gpus, const Array& column) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  (void)key_type_of(column.dtype());  // rejects types that the resulting arrays could not be exported with
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = bring_column(
        runtime, gpus, {column.data(), column.size(), static_cast<int>(column.itemsize()), !is_pinned(column.data())});
  }
  return arrays_of(runtime_object, std::move(parts), column.dtype());
}

// Views of other software's arrays, one on each GPU. Work that comes later waits for what is queued on the streams.
std::vector<DeviceArray> lend(const nb::object& runtime_object, const std::vector<int>& gpus,
                              const std::vector<nb::ndarray<nb::ndim<1>>>& arrays,
                              const std::vector<std::optional<std::int64_t>>& streams) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  if (arrays.size() != gpus.size() || streams.size() != gpus.size())
    throw UsageError("there must be an array, and its stream, for each GPU");
  std::vector<DeviceArray> lent;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    const nb::ndarray<nb::ndim<1>>& array = arrays[g];
    require_array_on(array, runtime, gpus[g]);
    const Place place = Place::gpu(gpus[g]);
    const Stream stream = runtime.stream(place, "compute");
    runtime.wait(stream, runtime.record(runtime.foreign_stream(place, native_stream(streams[g].value_or(0)))));
    const MemoryView view{place, static_cast<std::byte*>(array.data()), array.nbytes(), 0, false};
    auto memory = std::make_shared<PartMemory>(nb::make_tuple(runtime_object, nb::cast(array)), runtime, gpus[g],
                                               Buffer(), runtime.share(runtime.record(stream)), std::vector<void*>());
    lent.push_back({std::move(memory), view, array.dtype()});
  }
  return lent;
}

std::vector<DeviceArray> number(const nb::object& runtime_object, const std::vector<int>& gpus,
                                const std::vector<std::uint64_t>& rows, int width) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  if (rows.size() != gpus.size() || (width != 4 && width != 8))
    throw UsageError("there must be a number of rows for each GPU, and numbers have 4 or 8 bytes");
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = number_rows(runtime, gpus, rows, width);
  }
  return arrays_of(runtime_object, std::move(parts),
                   width == 4 ? nb::dtype<std::uint32_t>() : nb::dtype<std::int64_t>());
}

std::vector<DeviceArray> filled(const nb::object& runtime_object, const std::vector<int>& gpus,
                                const std::vector<std::uint64_t>& rows, const nb::dlpack::dtype& type,
                                std::uint8_t byte) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  if (rows.size() != gpus.size()) throw UsageError("there must be a number of rows for each GPU");
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = filled_column(runtime, gpus, rows, type.bits / 8, byte);
  }
  return arrays_of(runtime_object, std::move(parts), type);
}

std::vector<DeviceArray> without_nulls(const nb::object& runtime, const std::vector<int>& gpus,
                                       const std::vector<std::uint64_t>& rows) {
  return filled(runtime, gpus, rows, nb::dtype<std::uint8_t>(), 0);
}

std::vector<DeviceArray> missing_rows(const nb::object& runtime, const std::vector<int>& gpus,
                                      const std::vector<std::uint64_t>& rows) {
  return filled(runtime, gpus, rows, nb::dtype<std::uint32_t>(), 0xff);
}

std::vector<DeviceArray> take(const nb::object& runtime_object, const std::vector<int>& gpus,
                              const std::vector<MemoryView>& column, const nb::dlpack::dtype& type,
                              const std::vector<DeviceArray>& numbers) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  const std::vector<MemoryView> rows = views_of(numbers, gpus, runtime);
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = take_rows(runtime, gpus, type.bits / 8, column, numbers.front().type.bits / 8, rows);
  }
  return arrays_of(runtime_object, std::move(parts), type);
}

// A column may consist of several that have a part on each GPU.
std::vector<DeviceArray> take_from_gpus(const nb::object& runtime, const std::vector<int>& gpus,
                                        const std::vector<DeviceArray>& column,
                                        const std::vector<DeviceArray>& numbers) {
  std::vector<int> of_parts;
  while (of_parts.size() < column.size()) of_parts.insert(of_parts.end(), gpus.begin(), gpus.end());
  const std::vector<MemoryView> pieces = views_of(column, of_parts, nb::cast<Runtime&>(runtime));
  return take(runtime, gpus, pieces, column.front().type, numbers);
}

std::optional<std::vector<DeviceArray>> take_from_host(const nb::object& runtime, const std::vector<int>& gpus,
                                                       const Array& column, const std::vector<DeviceArray>& numbers) {
  (void)key_type_of(column.dtype());
  if (!is_pinned(column.data())) return std::nullopt;
  return take(runtime, gpus, {host_view(column.data(), 0, column.nbytes(), /*pageable=*/false)}, column.dtype(),
              numbers);
}

std::vector<std::vector<DeviceArray>> take_all(const nb::object& runtime_object, const std::vector<int>& gpus,
                                               const std::vector<std::vector<DeviceArray>>& columns,
                                               const std::vector<DeviceArray>& numbers) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  const std::vector<MemoryView> rows = views_of(numbers, gpus, runtime);
  std::vector<DeviceColumn> from;
  for (const std::vector<DeviceArray>& column : columns) {
    from.push_back({0, views_of(column, gpus, runtime)});
    from.back().element_bytes = column.front().type.bits / 8;
    for (std::size_t g = 0; g < gpus.size(); ++g)
      if (column[g].size() != columns.front()[g].size()) throw UsageError("the columns differ in length on a GPU");
  }
  std::vector<std::vector<ColumnPart>> parts;
  {
    const nb::gil_scoped_release release;
    parts = take_columns(runtime, gpus, from, numbers.front().type.bits / 8, rows);
  }
  std::vector<std::vector<DeviceArray>> taken;
  for (std::size_t c = 0; c < columns.size(); ++c)
    taken.push_back(arrays_of(runtime_object, std::move(parts[c]), columns[c].front().type));
  return taken;
}

IntegerColumn integer_column(const std::vector<DeviceArray>& column, const std::vector<int>& gpus,
                             const Runtime& runtime) {
  const nb::dlpack::dtype type = column.empty() ? nb::dlpack::dtype{} : column.front().type;
  const bool is_signed = type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int);
  if (column.size() != gpus.size()) throw UsageError("a column has an array for each GPU");
  if (!is_signed && type.code != static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt))
    throw UsageError("the columns of a key are integers");
  if (type.bits != 32 && type.bits != 64) throw UsageError("the integers of a key have 4 or 8 bytes");
  IntegerColumn found{{type.bits / 8, is_signed}, {}};
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    require_same(column[g], column.front(), runtime);
    require_on(column[g], gpus[g]);
    found.parts.push_back(column[g].view);
  }
  return found;
}

std::vector<DeviceArray> append(const nb::object& runtime_object, const std::vector<int>& gpus,
                                const std::vector<DeviceArray>& first, const std::vector<DeviceArray>& second) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  const std::vector<MemoryView> head = views_of(first, gpus, runtime), tail = views_of(second, gpus, runtime);
  require_same(second.front(), first.front(), runtime);
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = appended_columns(runtime, gpus, head, tail);
  }
  return arrays_of(runtime_object, std::move(parts), first.front().type);
}

std::vector<DeviceArray> coalesce(const nb::object& runtime_object, const std::vector<int>& gpus,
                                  const std::vector<DeviceArray>& first, const std::vector<DeviceArray>& second,
                                  std::uint64_t offset) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  const std::vector<MemoryView> head = views_of(first, gpus, runtime), tail = views_of(second, gpus, runtime);
  require_same(second.front(), first.front(), runtime);
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = coalesced_rows(runtime, gpus, first.front().type.bits / 8, head, tail, offset);
  }
  return arrays_of(runtime_object, std::move(parts), first.front().type);
}

std::vector<DeviceArray> codes_of(const nb::object& runtime_object, const std::vector<int>& gpus,
                                  const std::vector<DeviceArray>& column) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  const std::vector<MemoryView> views = views_of(column, gpus, runtime);
  const KeyType type = key_type_of(column.front().type);
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = joined_codes(runtime, gpus, type, views);
  }
  const bool is_narrow = key_width(type) == KeyWidth::k32;
  return arrays_of(runtime_object, std::move(parts),
                   is_narrow ? nb::dtype<std::uint32_t>() : nb::dtype<std::uint64_t>());
}

using Columns = std::vector<std::vector<DeviceArray>>;

nb::object pack(const nb::object& runtime_object, const std::vector<int>& gpus, const Columns& left,
                const Columns& right) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  if (gpus.empty() || left.empty() || left.size() != right.size())
    throw UsageError("both sides of a join have as many columns, and at least one");
  std::array<std::vector<IntegerColumn>, 2> sides;
  for (const auto& [columns, side] : {std::pair{&left, &sides[0]}, {&right, &sides[1]}})
    for (const std::vector<DeviceArray>& column : *columns) {
      side->push_back(integer_column(column, gpus, runtime));
      for (std::size_t g = 0; g < gpus.size(); ++g)
        if (column[g].size() != columns->front()[g].size())
          throw UsageError("the columns of a side differ in length on a GPU");
    }
  for (std::size_t c = 0; c < left.size(); ++c)
    if (sides[0][c].type.is_signed != sides[1][c].type.is_signed)
      throw UsageError("one side's integers are signed, and the other's are not");
  std::optional<PackedKeys> keys;
  {
    const nb::gil_scoped_release release;
    keys = pack_keys(runtime, gpus, sides);
  }
  if (!keys) return nb::none();
  const nb::dlpack::dtype type = keys->width == KeyWidth::k32 ? nb::dtype<std::uint32_t>() : nb::dtype<std::uint64_t>();
  return nb::make_tuple(arrays_of(runtime_object, std::move(keys->sides[0]), type),
                        arrays_of(runtime_object, std::move(keys->sides[1]), type));
}

std::vector<nb::object> fetch(const nb::object& runtime_object, const Columns& columns) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  std::vector<FetchedColumn> fetched(columns.size());
  std::vector<std::uint64_t> bytes(columns.size(), 0);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].empty()) throw UsageError("a column has an array for each GPU, and this one has none");
    for (const DeviceArray& array : columns[c]) {
      require_same(array, columns[c].front(), runtime);
      fetched[c].parts.push_back(array.view);
      bytes[c] += array.view.bytes;
    }
  }
  std::vector<HugePageBuffer> memory;
  {
    const nb::gil_scoped_release release;
    for (std::size_t c = 0; c < columns.size(); ++c) fetched[c].to = memory.emplace_back(bytes[c]).data();
    fetch_columns(runtime, fetched);
  }
  std::vector<nb::object> arrays;
  const nb::object dtype = nb::module_::import_("numpy").attr("dtype");
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const nb::object of_bytes = nb::cast(numpy_of<std::uint8_t>(std::move(memory[c]), bytes[c]));
    arrays.push_back(of_bytes.attr("view")(dtype(type_string(columns[c].front().type))));
  }
  return arrays;
}

}  // namespace

void bind_device_columns(nb::module_& m) {
  m.def("bring_column", &bring, nb::arg("runtime"), nb::arg("gpus"), nb::arg("column"),
        "Copies a host column to the GPUs, an equal share to each.");
  m.def("lend_arrays", &lend, nb::arg("runtime"), nb::arg("gpus"), nb::arg("arrays").noconvert(), nb::arg("streams"),
        "Arrays on GPUs of other software (NumPy arrays if the machine is simulated) as ours, without a copy.");
  m.def("number_rows", &number, nb::arg("runtime"), nb::arg("gpus"), nb::arg("rows"), nb::arg("width") = 4,
        "The numbers of all rows, uint32 or int64 by their width in bytes, with so many on each GPU.");
  m.def("column_without_nulls", &without_nulls, nb::arg("runtime"), nb::arg("gpus"), nb::arg("rows"),
        "For so many rows on each GPU the byte that says that there is a value: 0.");
  m.def("missing_rows", &missing_rows, nb::arg("runtime"), nb::arg("gpus"), nb::arg("rows"),
        "So many row numbers of 4 bytes on each GPU that stand for no row.");
  m.def("append_columns", &append, nb::arg("runtime"), nb::arg("gpus"), nb::arg("first"), nb::arg("second"),
        "On each GPU, its part of the first column and then that of the second.");
  m.def("joined_codes", &codes_of, nb::arg("runtime"), nb::arg("gpus"), nb::arg("column"),
        "The codes that joins compare, of 4 or 8 bytes, in the order of the column's values: one for equal floats.");
  m.def("coalesce_columns", &coalesce, nb::arg("runtime"), nb::arg("gpus"), nb::arg("first"), nb::arg("second"),
        nb::arg("offset"), "The first row numbers, or the second + offset where the first stand for no row.");
  m.def("take_rows", &take_from_gpus, nb::arg("runtime"), nb::arg("gpus"), nb::arg("column"), nb::arg("numbers"),
        "Elements of a column on the GPUs, by their row numbers in the whole; each on the GPU of its number.");
  m.def("take_columns", &take_all, nb::arg("runtime"), nb::arg("gpus"), nb::arg("columns"), nb::arg("numbers"),
        "The same rows of several columns, in random order.");
  m.def("take_rows_from_host", &take_from_host, nb::arg("runtime"), nb::arg("gpus"), nb::arg("column"),
        nb::arg("numbers"),
        "Like take_rows, for a column in pinned host memory, which the GPUs read directly; None if not pinned.");
  m.def("pack_keys", &pack, nb::arg("runtime"), nb::arg("gpus"), nb::arg("left"), nb::arg("right"),
        nb::sig("def pack_keys(runtime: Runtime, gpus: Sequence[int], left: Sequence[Sequence[DeviceArray]], right: "
                "Sequence[Sequence[DeviceArray]]) -> tuple[list[DeviceArray], list[DeviceArray]] | None"),
        "Packs the integer columns of both sides of a join into keys, equal if all columns are equal; None if keys "
        "take more than 64 bits.");
  m.def("fetch_columns", &fetch, nb::arg("runtime"), nb::arg("columns"),
        "Copies whole columns from the GPUs to host memory.");
}

}  // namespace linkwise::binding
