// Device arrays of libraries without DLPack support: the CUDA array interface, and Arrow's C device interface
// (https://arrow.apache.org/docs/format/CDeviceDataInterface.html).
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>

#include "bindings.hpp"
#include "linkwise/device/cuda/cuda.hpp"
#include "linkwise/primitives/host/arrow.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

constexpr std::int32_t arrow_device_cuda = 2;

void* native(std::uintptr_t address) { return reinterpret_cast<void*>(address); }  // NOLINT(performance-no-int-to-ptr)

// A DLPack capsule for device memory, which is kept alive by `owner`.
nb::object dlpack_of(std::uintptr_t address, std::size_t count, int code, int bits, int gpu, const nb::object& owner) {
  const nb::dlpack::dtype type{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
  return nb::cast(nb::ndarray<>(native(address), {count}, owner, {}, type, nb::device::cuda::value, gpu));
}

// A column of numbers on a GPU, received through Arrow's C device interface and released by the destructor.
class ArrowDeviceColumn {
 public:
  explicit ArrowDeviceColumn(const nb::object& source) {
    const auto capsules = nb::cast<nb::tuple>(source.attr("__arrow_c_device_array__")());
    auto* schema = static_cast<ArrowSchema*>(PyCapsule_GetPointer(capsules[0].ptr(), "arrow_schema"));
    auto* array = static_cast<ArrowDeviceArray*>(PyCapsule_GetPointer(capsules[1].ptr(), "arrow_device_array"));
    if (schema == nullptr || array == nullptr) throw nb::python_error();
    format_ = schema->format;
    array_ = *array;
    array->array.release = nullptr;
  }
  ArrowDeviceColumn(const ArrowDeviceColumn&) = delete;
  ArrowDeviceColumn& operator=(const ArrowDeviceColumn&) = delete;
  ~ArrowDeviceColumn() {
    if (array_.array.release != nullptr) array_.array.release(&array_.array);
  }

  [[nodiscard]] bool on_gpu() const { return array_.device_type == arrow_device_cuda; }
  [[nodiscard]] int gpu() const { return static_cast<int>(array_.device_id); }
  [[nodiscard]] std::int64_t size() const { return array_.array.length; }
  [[nodiscard]] const std::string& format() const { return format_; }
  [[nodiscard]] bool has_nulls() const {
    return array_.array.null_count != 0 && array_.array.n_buffers > 0 && array_.array.buffers[0] != nullptr;
  }
  /// The address of the bits of validity, of which the first one is at `offset`. Blocks as `address` does.
  [[nodiscard]] std::uintptr_t validity() const {
    if (array_.sync_event != nullptr) wait_for_event(array_.sync_event);
    return reinterpret_cast<std::uintptr_t>(array_.array.buffers[0]);
  }
  [[nodiscard]] std::int64_t offset() const { return array_.array.offset; }
  /// The address of the first element. Blocks until the column's producer has finished.
  [[nodiscard]] std::uintptr_t address(std::int64_t element_bytes) const {
    if (array_.sync_event != nullptr) wait_for_event(array_.sync_event);
    const auto* data = static_cast<const std::byte*>(array_.array.buffers[1]);
    return reinterpret_cast<std::uintptr_t>(data + array_.array.offset * element_bytes);
  }

 private:
  std::string format_;
  ArrowDeviceArray array_{};
};

// Keeps an exported column alive until its consumer releases it.
struct Exported {
  nb::object owner;
  const void* buffers[2];
};

nb::object capsule_of(void* pointer, const char* name, PyCapsule_Destructor destroy) {
  return nb::steal(PyCapsule_New(pointer, name, destroy));
}

}  // namespace

nb::tuple arrow_device_array_of(const ArrowNumbers& numbers, const nb::object& owner) {
  auto* schema = new ArrowSchema{};
  auto* text = new std::string(numbers.format);
  schema->format = text->c_str();
  schema->name = "";
  schema->private_data = text;
  schema->release = [](ArrowSchema* self) {
    delete static_cast<std::string*>(self->private_data);
    self->release = nullptr;
  };
  auto* exported = new Exported{owner, {native(numbers.validity), native(numbers.address)}};
  auto* array = new ArrowDeviceArray{};
  array->array.length = numbers.count;
  array->array.null_count = numbers.validity == 0 ? 0 : -1;  // not counted
  array->array.n_buffers = 2;
  array->array.buffers = exported->buffers;
  array->array.private_data = exported;
  array->array.release = [](ArrowArray* self) {
    const nb::gil_scoped_acquire hold;
    delete static_cast<Exported*>(self->private_data);
    self->release = nullptr;
  };
  array->device_type = arrow_device_cuda;
  array->device_id = numbers.gpu;
  return nb::make_tuple(
      capsule_of(schema, "arrow_schema",
                 [](PyObject* capsule) {
                   auto* held = static_cast<ArrowSchema*>(PyCapsule_GetPointer(capsule, "arrow_schema"));
                   if (held->release != nullptr) held->release(held);
                   delete held;
                 }),
      capsule_of(array, "arrow_device_array", [](PyObject* capsule) {
        auto* held = static_cast<ArrowDeviceArray*>(PyCapsule_GetPointer(capsule, "arrow_device_array"));
        if (held->array.release != nullptr) held->array.release(&held->array);
        delete held;
      }));
}

void bind_foreign_arrays(nb::module_& m) {
  nb::class_<ArrowDeviceColumn>(m, "ArrowDeviceColumn", "A GPU column of an object with __arrow_c_device_array__.")
      .def(nb::init<const nb::object&>(), nb::arg("source"))
      .def_prop_ro("on_gpu", &ArrowDeviceColumn::on_gpu)
      .def_prop_ro("gpu", &ArrowDeviceColumn::gpu)
      .def_prop_ro("format", &ArrowDeviceColumn::format)
      .def_prop_ro("has_nulls", &ArrowDeviceColumn::has_nulls)
      .def_prop_ro("offset", &ArrowDeviceColumn::offset)
      .def("validity", &ArrowDeviceColumn::validity, nb::call_guard<nb::gil_scoped_release>())
      .def("__len__", &ArrowDeviceColumn::size)
      .def("address", &ArrowDeviceColumn::address, nb::arg("element_bytes"), nb::call_guard<nb::gil_scoped_release>());
  m.def("dlpack_of", &dlpack_of, nb::arg("address"), nb::arg("count"), nb::arg("code"), nb::arg("bits"), nb::arg("gpu"),
        nb::arg("owner"), "A DLPack capsule of memory on a GPU.");
  m.def(
      "gpu_of_pointer", [](std::uintptr_t address) { return gpu_of_pointer(native(address)); }, nb::arg("address"),
      "The GPU on which the memory resides; -1 if on none.");
}

}  // namespace linkwise::binding
