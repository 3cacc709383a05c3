// Arrays on the GPUs in memory of ours, for any library that knows DLPack, the CUDA array interface or Arrow's device
// interface; columns that are brought there, and rows of them.
#include "device_arrays.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

#include "bindings.hpp"
#include "linkwise/device/cuda/pinned.hpp"
#include "linkwise/error.hpp"
#include "linkwise/transfer/device_columns.hpp"
#include "rows.hpp"

namespace nb = nanobind;

namespace linkwise::binding {

KeyType key_type_of(const nb::dlpack::dtype& type) {
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(type.code);
  for (const KeyType key : {KeyType::u8, KeyType::u16, KeyType::u32, KeyType::u64, KeyType::i8, KeyType::i16,
                            KeyType::i32, KeyType::i64, KeyType::f16, KeyType::f32, KeyType::f64}) {
    const Code of_key = key_class(key) == KeyClass::floating         ? Code::Float
                        : key_class(key) == KeyClass::signed_integer ? Code::Int
                                                                     : Code::UInt;
    if (code == of_key && type.bits == 8 * native_bytes(key) && type.lanes == 1) return key;
  }
  throw UsageError("keys of this type cannot be sorted; integers and floats of 8 to 64 bits can");
}

void* native_stream(std::int64_t number) {
  return reinterpret_cast<void*>(number);  // NOLINT(performance-no-int-to-ptr)
}

PartMemory::~PartMemory() {
  try {
    std::vector<std::shared_ptr<SharedEvent>> users{ready_};
    for (void* stream : streams_) users.push_back(runtime_.record_foreign(Place::gpu(gpu_), stream));
    runtime_.retire(std::move(memory_), std::move(users));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): CUDA is gone, and the memory with it
  }
}

void PartMemory::use_on(void* stream) {
  if (std::ranges::find(streams_, stream) != streams_.end()) return;
  ready_->hold(stream);
  streams_.push_back(stream);
}

namespace {

constexpr std::int64_t legacy_default_stream = 1;

// The letter of a type in Arrow's C interfaces.
std::string arrow_format(const nb::dlpack::dtype& type) {
  switch (key_type_of(type)) {
    case KeyType::i8: return "c";
    case KeyType::u8: return "C";
    case KeyType::i16: return "s";
    case KeyType::u16: return "S";
    case KeyType::i32: return "i";
    case KeyType::u32: return "I";
    case KeyType::i64: return "l";
    case KeyType::u64: return "L";
    case KeyType::f16: return "e";
    case KeyType::f32: return "f";
    case KeyType::f64: return "g";
  }
  return {};
}

nb::object to_dlpack(DeviceArray& self, std::optional<std::int64_t> stream) {
  if (!self.simulated() && stream != -1) self.memory->use_on(native_stream(stream.value_or(legacy_default_stream)));
  const nb::object owner = nb::cast(self.memory);
  const int device_type = self.simulated() ? nb::device::cpu::value : nb::device::cuda::value;
  const nb::ndarray<> array(self.view.data, {self.size()}, owner, {}, self.type, device_type,
                            self.simulated() ? 0 : self.view.place.index);
  return nb::cast(array);  // a capsule
}

// As NumPy writes it.
std::string type_string(const nb::dlpack::dtype& type) {
  static constexpr const char* codes = "iuf";
  const bool is_complex = type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Complex);
  return (is_complex ? "<c" : std::string("<") + codes[type.code]) + std::to_string(type.bits / 8);
}

nb::dict cuda_array_interface(DeviceArray& self) {
  if (self.simulated()) throw nb::attribute_error("a simulated GPU has no CUDA array");
  self.memory->use_on(native_stream(legacy_default_stream));
  nb::dict interface;
  interface["shape"] = nb::make_tuple(self.size());
  interface["typestr"] = type_string(self.type);
  interface["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(self.view.data), false);
  interface["version"] = 3;
  interface["stream"] = legacy_default_stream;
  return interface;
}

nb::tuple to_arrow(nb::handle_t<DeviceArray> self_object, const nb::object&) {
  auto& self = nb::cast<DeviceArray&>(self_object);
  if (self.simulated()) throw nb::attribute_error("a simulated GPU has no device array");
  self.memory->use_on(native_stream(legacy_default_stream));  // or any other, for all that Arrow says
  {
    const nb::gil_scoped_release release;
    self.memory->ready().wait();
  }
  return arrow_device_array_of(reinterpret_cast<std::uintptr_t>(self.view.data), static_cast<std::int64_t>(self.size()),
                               arrow_format(self.type), self.view.place.index, nb::borrow(self_object));
}

nb::object to_numpy(const DeviceArray& self) {
  auto* bytes = new std::byte[std::max<std::uint64_t>(self.view.bytes, 1)];
  const nb::capsule owner(bytes, [](void* p) noexcept { delete[] static_cast<std::byte*>(p); });
  {
    const nb::gil_scoped_release release;
    if (self.view.bytes > 0) self.memory->runtime().fetch(bytes, self.view, self.memory->ready());
  }
  return nb::cast(nb::ndarray<nb::numpy>(bytes, {self.size()}, owner, {}, self.type));
}

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>;

std::vector<DeviceArray> arrays_of(const nb::object& runtime_object, std::vector<ColumnPart> parts,
                                   const nb::dlpack::dtype& type) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  std::vector<DeviceArray> arrays;
  for (ColumnPart& part : parts) {
    const MemoryView view = part.memory.view();
    auto memory = std::make_shared<PartMemory>(runtime_object, runtime, part.gpu, std::move(part.memory),
                                               std::move(part.ready), std::vector<void*>());
    arrays.push_back({std::move(memory), view, type});
  }
  return arrays;
}

std::vector<DeviceArray> bring(const nb::object& runtime_object, const std::vector<int>& gpus, const Array& column) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  (void)key_type_of(column.dtype());  // so that its results, too, have a type that others know
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = bring_column(
        runtime, gpus, {column.data(), column.size(), static_cast<int>(column.itemsize()), !is_pinned(column.data())});
  }
  return arrays_of(runtime_object, std::move(parts), column.dtype());
}

void require_same(const DeviceArray& array, const DeviceArray& first, const Runtime& runtime) {
  if (array.type != first.type) throw UsageError("the arrays differ in type");
  if (&array.memory->runtime() != &runtime) throw UsageError("an array lies on the GPUs of another runtime");
}

void require_on(const DeviceArray& array, int gpu) {
  if (array.view.place != Place::gpu(gpu))
    throw UsageError("an array does not lie on the GPU that it is said to be on");
}

// What each GPU has of a column.
std::vector<MemoryView> views_of(const std::vector<DeviceArray>& column, const std::vector<int>& gpus,
                                 const Runtime& runtime) {
  if (gpus.empty() || column.size() != gpus.size())
    throw UsageError("there must be an array of the column, and one of row numbers, for each GPU");
  std::vector<MemoryView> views;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    require_same(column[g], column.front(), runtime);
    require_on(column[g], gpus[g]);
    views.push_back(column[g].view);
  }
  return views;
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

std::vector<DeviceArray> take_from_gpus(const nb::object& runtime, const std::vector<int>& gpus,
                                        const std::vector<DeviceArray>& column,
                                        const std::vector<DeviceArray>& numbers) {
  const std::vector<MemoryView> pieces = views_of(column, gpus, nb::cast<Runtime&>(runtime));
  return take(runtime, gpus, pieces, column.front().type, numbers);
}

std::optional<std::vector<DeviceArray>> take_from_host(const nb::object& runtime, const std::vector<int>& gpus,
                                                       const Array& column, const std::vector<DeviceArray>& numbers) {
  (void)key_type_of(column.dtype());
  if (!is_pinned(column.data())) return std::nullopt;
  return take(runtime, gpus, {host_view(column.data(), 0, column.nbytes(), /*pageable=*/false)}, column.dtype(),
              numbers);
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
  std::vector<HugeBuffer> memory;
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

void bind_device_arrays(nb::module_& m) {
  nb::class_<PartMemory>(m, "PartMemory", "What keeps the memory of device arrays.");
  nb::class_<DeviceArray>(m, "DeviceArray",
                          "A one-dimensional array on a GPU, for any library that knows DLPack or the CUDA array "
                          "interface. What a consumer's stream does with it comes behind the sort that made it.")
      .def("__len__", &DeviceArray::size)
      .def_prop_ro("gpu", [](const DeviceArray& self) { return self.view.place.index; })
      .def_prop_ro("nbytes", [](const DeviceArray& self) { return self.view.bytes; })
      .def("numpy", &to_numpy, "A copy in host memory.")
      .def(
          "__dlpack__",
          [](DeviceArray& self, std::optional<std::int64_t> stream, const nb::kwargs&) {
            return to_dlpack(self, stream);
          },
          nb::arg("stream").none() = nb::none(), nb::arg("kwargs"),
          nb::sig("def __dlpack__(self, stream: int | None = None, **kwargs: object) -> object"))
      .def("__dlpack_device__",
           [](const DeviceArray& self) {
             return self.simulated() ? nb::make_tuple(nb::device::cpu::value, 0)
                                     : nb::make_tuple(nb::device::cuda::value, self.view.place.index);
           })
      .def("__arrow_c_device_array__", &to_arrow, nb::arg("requested_schema").none() = nb::none())
      .def_prop_ro("__cuda_array_interface__", &cuda_array_interface);
  m.def("bring_column", &bring, nb::arg("runtime"), nb::arg("gpus"), nb::arg("column"),
        "A column of host memory on the GPUs, an equal share on each.");
  m.def("take_rows", &take_from_gpus, nb::arg("runtime"), nb::arg("gpus"), nb::arg("column"), nb::arg("numbers"),
        "Elements of a column that lies on the GPUs, by their numbers in the whole; each where its number lies.");
  m.def("take_rows_from_host", &take_from_host, nb::arg("runtime"), nb::arg("gpus"), nb::arg("column"),
        nb::arg("numbers"),
        "The same of a column in page-locked host memory, which the GPUs read across their links; None if it is not.");
  m.def("pack_keys", &pack, nb::arg("runtime"), nb::arg("gpus"), nb::arg("left"), nb::arg("right"),
        nb::sig("def pack_keys(runtime: Runtime, gpus: Sequence[int], left: Sequence[Sequence[DeviceArray]], right: "
                "Sequence[Sequence[DeviceArray]]) -> tuple[list[DeviceArray], list[DeviceArray]] | None"),
        "Keys for the rows of both sides of a join, equal where all columns of integers are; None if they "
        "take more than 64 bits.");
  m.def("fetch_columns", &fetch, nb::arg("runtime"), nb::arg("columns"),
        "All of several columns that lie on the GPUs, in host memory.");
}

}  // namespace linkwise::binding
