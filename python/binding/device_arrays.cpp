// Device arrays in memory that Linkwise owns, for any library that supports DLPack, the CUDA array interface or
// Arrow's C device interface.
#include "device_arrays.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "linkwise/error.hpp"

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

void require_array_on(const nb::ndarray<nb::ndim<1>>& array, const Runtime& runtime, int gpu) {
  if (array.size() > 1 && array.stride(0) != 1) throw UsageError("the arrays on the GPUs must be contiguous");
  const bool on_gpu = array.device_type() == nb::device::cuda::value;
  if (on_gpu == runtime.simulated() || (on_gpu && array.device_id() != gpu))
    throw UsageError("an array does not lie on the GPU that it is said to be on");
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

std::string type_string(const nb::dlpack::dtype& type) {
  static constexpr const char* codes = "iuf";
  const bool is_complex = type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Complex);
  return (is_complex ? "<c" : std::string("<") + codes[type.code]) + std::to_string(type.bits / 8);
}

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
  if (self.simulated()) {  // the consumer reads host memory; one thread at a time may use a virtual machine
    self.memory->ready().wait();
    self.memory->runtime().host_reads(self.view, "shows a result");
  } else if (stream != -1) {
    self.memory->use_on(native_stream(stream.value_or(legacy_default_stream)));
  }
  const nb::object owner = nb::cast(self.memory);
  const int device_type = self.simulated() ? nb::device::cpu::value : nb::device::cuda::value;
  const nb::ndarray<> array(self.view.data, {self.size()}, owner, {}, self.type, device_type,
                            self.simulated() ? 0 : self.view.place.index);
  return nb::cast(array);  // a capsule
}

nb::dict cuda_array_interface(DeviceArray& self) {
  if (self.simulated()) throw nb::attribute_error("a simulated GPU has no CUDA array");
  self.memory->use_on(native_stream(legacy_default_stream));
  nb::dict interface;
  interface["shape"] = nb::make_tuple(self.size());
  interface["typestr"] = type_string(self.type);
  interface["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(self.view.data), false);
  interface["strides"] = nb::none();  // contiguous: optional, but cuDF asks for it
  interface["version"] = 3;
  interface["stream"] = legacy_default_stream;
  return interface;
}

// Blocks until the array is complete: Arrow does not say which stream the consumer uses.
void wait_for(DeviceArray& array) {
  if (array.simulated()) throw nb::attribute_error("a simulated GPU has no device array");
  array.memory->use_on(native_stream(legacy_default_stream));
  const nb::gil_scoped_release release;
  array.memory->ready().wait();
}

// Without the schema. The arrays lie on one GPU.
nb::object arrow_array_of(const std::vector<std::optional<DeviceArray>>& buffers, std::int64_t count,
                          std::int64_t null_count, int gpu) {
  std::vector<const void*> addresses;
  for (std::optional<DeviceArray> buffer : buffers) {
    if (buffer) wait_for(*buffer);
    addresses.push_back(buffer ? buffer->view.data : nullptr);
  }
  return arrow_array_capsule(std::move(addresses), count, null_count, gpu, nb::cast(buffers));
}

nb::tuple to_arrow(DeviceArray& self, const nb::object&) {
  return nb::make_tuple(
      arrow_schema_capsule(arrow_format(self.type)),
      arrow_array_of({std::nullopt, self}, static_cast<std::int64_t>(self.size()), 0, self.view.place.index));
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

}  // namespace

void bind_device_arrays(nb::module_& m) {
  m.def("arrow_device_array", &arrow_array_of, nb::arg("buffers").none(), nb::arg("count"), nb::arg("null_count"),
        nb::arg("gpu"),
        "The capsule of Arrow's C device interface for a column on a GPU with these buffers, which it keeps alive.");
  nb::class_<PartMemory>(m, "PartMemory", "Keeps the memory of device arrays alive.");
  nb::class_<DeviceArray>(m, "DeviceArray",
                          "A one-dimensional array on a GPU, for any library that supports DLPack or the CUDA array "
                          "interface. A consumer's stream is ordered after the work that produced the array.")
      .def("__len__", &DeviceArray::size)
      .def_prop_ro(
          "shape", [](const DeviceArray& self) { return nb::make_tuple(self.size()); },
          nb::sig("def shape(self) -> tuple[int]"))
      .def_prop_ro(
          "dtype",
          [](const DeviceArray& self) { return nb::module_::import_("numpy").attr("dtype")(type_string(self.type)); },
          nb::sig("def dtype(self) -> numpy.dtype[typing.Any]"))
      .def_prop_ro("gpu", [](const DeviceArray& self) { return self.view.place.index; })
      .def_prop_ro("nbytes", [](const DeviceArray& self) { return self.view.bytes; })
      .def_prop_ro("view", [](const DeviceArray& self) { return self.view; })
      .def(
          "as_integers",
          [](const DeviceArray& self, bool is_signed) {
            using Code = nb::dlpack::dtype_code;
            DeviceArray integers = self;
            integers.type.code = static_cast<std::uint8_t>(is_signed ? Code::Int : Code::UInt);
            return integers;
          },
          nb::arg("is_signed"), "The same memory as signed or unsigned integers of that width.")
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
}

}  // namespace linkwise::binding
