// Device arrays of libraries without DLPack support: the CUDA array interface, and Arrow's C device interface
// (https://arrow.apache.org/docs/format/CDeviceDataInterface.html).
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "linkwise/device/cuda/cuda.hpp"
#include "linkwise/primitives/host/arrow.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

constexpr std::int32_t arrow_device_cuda = 2;
constexpr const char* arrow_device_array_name = "arrow_device_array";

void* native(std::uintptr_t address) { return reinterpret_cast<void*>(address); }  // NOLINT(performance-no-int-to-ptr)

// A DLPack capsule for device memory, which is kept alive by `owner`.
nb::object dlpack_of(std::uintptr_t address, std::size_t count, int code, int bits, int gpu, const nb::object& owner) {
  const nb::dlpack::dtype type{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
  return nb::cast(nb::ndarray<>(native(address), {count}, owner, {}, type, nb::device::cuda::value, gpu));
}

// An array received through Arrow's C device interface, or one of its children. The last one of them releases it.
class ArrowDeviceColumn {
 public:
  explicit ArrowDeviceColumn(const nb::object& capsule) : held_(std::make_shared<Held>()) {
    auto* given = static_cast<ArrowDeviceArray*>(PyCapsule_GetPointer(capsule.ptr(), arrow_device_array_name));
    if (given == nullptr) throw nb::python_error();
    held_->array = *given;
    given->array.release = nullptr;
    array_ = &held_->array.array;
    offset_ = array_->offset;
    size_ = array_->length;
  }

  [[nodiscard]] bool on_gpu() const { return held_->array.device_type == arrow_device_cuda; }
  [[nodiscard]] int gpu() const { return on_gpu() ? static_cast<int>(held_->array.device_id) : -1; }
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int64_t offset() const { return offset_; }
  [[nodiscard]] bool has_nulls() const {
    return array_->null_count != 0 && array_->n_buffers > 0 && array_->buffers[0] != nullptr;
  }
  // The fields of a struct have its rows.
  [[nodiscard]] std::vector<ArrowDeviceColumn> children() const {
    std::vector<ArrowDeviceColumn> found;
    for (std::int64_t c = 0; c < array_->n_children; ++c) {
      ArrowDeviceColumn& child = found.emplace_back(*this);
      child.array_ = array_->children[c];
      child.offset_ = offset_ + child.array_->offset;
    }
    return found;
  }
  // The address of a buffer; 0 if there is none. Blocks until the producer has finished.
  [[nodiscard]] std::uintptr_t address(std::int64_t buffer) const {
    if (buffer < 0 || buffer >= array_->n_buffers) return 0;
    if (held_->array.sync_event != nullptr) wait_for_event(held_->array.sync_event);
    return reinterpret_cast<std::uintptr_t>(array_->buffers[buffer]);
  }

 private:
  struct Held {
    ArrowDeviceArray array{};
    Held() = default;
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
      if (array.array.release != nullptr) array.array.release(&array.array);
    }
  };
  std::shared_ptr<Held> held_;
  const ArrowArray* array_ = nullptr;  // a part of what is held
  std::int64_t offset_ = 0, size_ = 0;
};

// What an exported array owns until its consumer releases it.
struct Exported {
  nb::object owner;
  std::vector<const void*> buffers;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> addresses;

  ~Exported() {
    for (ArrowArray& child : children)
      if (child.release != nullptr) child.release(&child);
  }
};

void release_exported(ArrowArray* array) {
  const nb::gil_scoped_acquire hold;
  delete static_cast<Exported*>(array->private_data);
  array->release = nullptr;
}

nb::object capsule_of(void* pointer, const char* name, PyCapsule_Destructor destroy) {
  return nb::steal(PyCapsule_New(pointer, name, destroy));
}

nb::object capsule_of(std::unique_ptr<Exported> exported, std::int64_t count, std::int64_t null_count, int gpu) {
  auto* device = new ArrowDeviceArray{};
  ArrowArray& array = device->array;
  array.length = count;
  array.null_count = null_count;
  array.n_buffers = static_cast<std::int64_t>(exported->buffers.size());
  array.buffers = exported->buffers.data();
  array.n_children = static_cast<std::int64_t>(exported->children.size());
  for (ArrowArray& child : exported->children) exported->addresses.push_back(&child);
  array.children = exported->addresses.empty() ? nullptr : exported->addresses.data();
  array.private_data = exported.release();
  array.release = release_exported;
  device->device_type = arrow_device_cuda;
  device->device_id = gpu;
  return capsule_of(device, arrow_device_array_name, [](PyObject* capsule) {
    auto* held = static_cast<ArrowDeviceArray*>(PyCapsule_GetPointer(capsule, arrow_device_array_name));
    if (held->array.release != nullptr) held->array.release(&held->array);
    delete held;
  });
}

// Arrays of one GPU and of as many rows, which the capsules give up, as the fields of a struct.
nb::object struct_of(const std::vector<nb::object>& fields, std::int64_t count, int gpu) {
  auto exported = std::make_unique<Exported>();
  exported->buffers = {nullptr};
  exported->children.reserve(fields.size());
  for (const nb::object& field : fields) {
    auto* given = static_cast<ArrowDeviceArray*>(PyCapsule_GetPointer(field.ptr(), arrow_device_array_name));
    if (given == nullptr) throw nb::python_error();
    exported->children.push_back(given->array);
    given->array.release = nullptr;
  }
  return capsule_of(std::move(exported), count, 0, gpu);
}

}  // namespace

nb::object arrow_schema_capsule(const std::string& format) {
  auto* schema = new ArrowSchema{};
  auto* text = new std::string(format);
  schema->format = text->c_str();
  schema->name = "";
  schema->private_data = text;
  schema->release = [](ArrowSchema* self) {
    delete static_cast<std::string*>(self->private_data);
    self->release = nullptr;
  };
  return capsule_of(schema, "arrow_schema", [](PyObject* capsule) {
    auto* held = static_cast<ArrowSchema*>(PyCapsule_GetPointer(capsule, "arrow_schema"));
    if (held->release != nullptr) held->release(held);
    delete held;
  });
}

nb::object arrow_array_capsule(std::vector<const void*> buffers, std::int64_t count, std::int64_t null_count, int gpu,
                               const nb::object& owner) {
  auto exported = std::make_unique<Exported>();
  exported->owner = owner;
  exported->buffers = std::move(buffers);
  return capsule_of(std::move(exported), count, null_count, gpu);
}

void bind_foreign_arrays(nb::module_& m) {
  nb::class_<ArrowDeviceColumn>(m, "ArrowDeviceColumn", "An array of Arrow's C device interface, from its capsule.")
      .def(nb::init<const nb::object&>(), nb::arg("capsule"))
      .def_prop_ro("on_gpu", &ArrowDeviceColumn::on_gpu)
      .def_prop_ro("gpu", &ArrowDeviceColumn::gpu, "-1 in host memory.")
      .def_prop_ro("has_nulls", &ArrowDeviceColumn::has_nulls)
      .def_prop_ro("offset", &ArrowDeviceColumn::offset, "The first row in the buffers.")
      .def_prop_ro("children", &ArrowDeviceColumn::children)
      .def("__len__", &ArrowDeviceColumn::size)
      .def("address", &ArrowDeviceColumn::address, nb::arg("buffer"), nb::call_guard<nb::gil_scoped_release>());
  m.def("arrow_device_struct", &struct_of, nb::arg("fields"), nb::arg("count"), nb::arg("gpu"),
        "The capsule of a struct, the capsules of whose fields are used up.");
  m.def("dlpack_of", &dlpack_of, nb::arg("address"), nb::arg("count"), nb::arg("code"), nb::arg("bits"), nb::arg("gpu"),
        nb::arg("owner"), "A DLPack capsule of memory on a GPU.");
  m.def(
      "gpu_of_pointer", [](std::uintptr_t address) { return gpu_of_pointer(native(address)); }, nb::arg("address"),
      "The GPU on which the memory resides; -1 if on none.");
}

}  // namespace linkwise::binding
