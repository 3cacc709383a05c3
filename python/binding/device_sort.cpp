// Sorting and joining arrays of other libraries that lie on the GPUs, and handing the results over to them.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>

#include "bindings.hpp"
#include "linkwise/join/device_join.hpp"
#include "linkwise/join/hash_join.hpp"
#include "linkwise/sort/device_sort.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

using AnyArray = nb::ndarray<nb::ndim<1>>;

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

// The memory of a sorted part, as long as an array of it is alive. Whoever had it may still be using it on streams of
// their own when they let go, so those are remembered.
class PartMemory {
 public:
  PartMemory(nb::object owner, Runtime& runtime, SortedPart part, void* caller)
      : owner_(std::move(owner)), runtime_(runtime), part_(std::move(part)), streams_{caller} {}
  PartMemory(const PartMemory&) = delete;
  PartMemory& operator=(const PartMemory&) = delete;
  ~PartMemory() {
    try {
      std::vector<std::shared_ptr<SharedEvent>> users{part_.ready};
      for (void* stream : streams_) users.push_back(runtime_.record_foreign(Place::gpu(part_.gpu), stream));
      runtime_.retire(std::move(part_.memory), std::move(users));
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): CUDA is gone, and the memory with it
    }
  }

  [[nodiscard]] Runtime& runtime() const { return runtime_; }
  [[nodiscard]] const SortedPart& part() const { return part_; }
  /// Orders what that stream does next behind the sort.
  void use_on(void* stream) {
    if (std::ranges::find(streams_, stream) != streams_.end()) return;
    part_.ready->hold(stream);
    streams_.push_back(stream);
  }

 private:
  nb::object owner_;  // of the runtime
  Runtime& runtime_;
  SortedPart part_;
  std::vector<void*> streams_;
};

struct DeviceArray {
  std::shared_ptr<PartMemory> memory;
  MemoryView view;
  nb::dlpack::dtype type;

  [[nodiscard]] std::size_t size() const { return view.bytes * 8 / type.bits; }
  [[nodiscard]] bool simulated() const { return memory->runtime().simulated(); }
};

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

// The streams that DLPack and the CUDA array interface have numbers for are CUDA's own handles for them.
void* native_stream(std::optional<std::int64_t> number) {
  return reinterpret_cast<void*>(number.value_or(1));  // NOLINT(performance-no-int-to-ptr)
}

nb::object to_dlpack(DeviceArray& self, std::optional<std::int64_t> stream) {
  if (!self.simulated() && stream != -1) self.memory->use_on(native_stream(stream));
  const nb::object owner = nb::cast(self.memory);
  const int device_type = self.simulated() ? nb::device::cpu::value : nb::device::cuda::value;
  const nb::ndarray<> array(self.view.data, {self.size()}, owner, {}, self.type, device_type,
                            self.simulated() ? 0 : self.view.place.index);
  return nb::cast(array);  // a capsule
}

nb::dict cuda_array_interface(DeviceArray& self) {
  if (self.simulated()) throw nb::attribute_error("a simulated GPU has no CUDA array");
  self.memory->use_on(native_stream(1));
  static constexpr const char* codes = "iuf";
  nb::dict interface;
  const std::string kind = self.type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Complex)
                               ? "c"
                               : std::string(1, codes[self.type.code]);
  interface["shape"] = nb::make_tuple(self.size());
  interface["typestr"] = "<" + kind + std::to_string(self.type.bits / 8);
  interface["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(self.view.data), false);
  interface["version"] = 3;
  interface["stream"] = 1;
  return interface;
}

nb::tuple to_arrow(nb::handle_t<DeviceArray> self_object, const nb::object&) {
  auto& self = nb::cast<DeviceArray&>(self_object);
  if (self.simulated()) throw nb::attribute_error("a simulated GPU has no device array");
  {
    const nb::gil_scoped_release release;
    self.memory->runtime().synchronize();  // Arrow's consumers may use any stream
  }
  return arrow_device_array_of(reinterpret_cast<std::uintptr_t>(self.view.data), static_cast<std::int64_t>(self.size()),
                               arrow_format(self.type), self.view.place.index, nb::borrow(self_object));
}

nb::object to_numpy(const DeviceArray& self) {
  auto* bytes = new std::byte[std::max<std::uint64_t>(self.view.bytes, 1)];
  const nb::capsule owner(bytes, [](void* p) noexcept { delete[] static_cast<std::byte*>(p); });
  {
    const nb::gil_scoped_release release;
    if (self.view.bytes > 0) self.memory->runtime().fetch(bytes, self.view, *self.memory->part().ready);
  }
  return nb::cast(nb::ndarray<nb::numpy>(bytes, {self.size()}, owner, {}, self.type));
}

using Streams = std::vector<std::optional<std::int64_t>>;

// Columns that lie on the plan's GPUs, checked.
DeviceColumns columns_of(const Runtime& runtime, const SortPlan& plan, const std::vector<AnyArray>& keys,
                         const std::vector<AnyArray>& values, const Streams& streams, bool donated) {
  if (keys.size() != plan.gpus.size() || streams.size() != keys.size() ||
      (!values.empty() && values.size() != keys.size()))
    throw UsageError("there must be an array of keys, and one of values or none, for each GPU");
  DeviceColumns columns{key_type_of(keys.front().dtype()), ValueWidth::none, {}, donated};
  if (!values.empty()) columns.value_width = to_value_width(static_cast<int>(values.front().itemsize()));
  const auto check = [&](const AnyArray& array, const nb::dlpack::dtype& type, std::size_t g) {
    if (array.dtype() != type) throw UsageError("the arrays differ in type");
    if (array.size() > 1 && array.stride(0) != 1) throw UsageError("the arrays on the GPUs must be contiguous");
    const bool on_gpu = array.device_type() == nb::device::cuda::value;
    if (on_gpu == runtime.simulated() || (on_gpu && array.device_id() != plan.gpus[g]))
      throw UsageError("an array does not lie on the GPU that it is said to be on");
  };
  for (std::size_t g = 0; g < keys.size(); ++g) {
    check(keys[g], keys.front().dtype(), g);
    DevicePart part{keys[g].size(), keys[g].data(), nullptr, nullptr};
    if (!values.empty()) {
      check(values[g], values.front().dtype(), g);
      if (values[g].size() != keys[g].size()) throw UsageError("there are not as many values as keys");
      part.values = values[g].data();
    }
    if (streams[g].has_value()) part.stream = native_stream(streams[g]);
    columns.parts.push_back(part);
  }
  return columns;
}

std::vector<nb::tuple> sort_arrays(const nb::object& runtime_object, const SortPlan& plan,
                                   const std::vector<AnyArray>& keys, const std::vector<AnyArray>& values,
                                   const Streams& streams, bool donated, const SortOptions& options) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  const DeviceColumns columns = columns_of(runtime, plan, keys, values, streams, donated);
  std::vector<SortedPart> sorted;
  {
    const nb::gil_scoped_release release;
    sorted = sort_device(runtime, plan, columns, options);
    const bool anyone_unknown = std::ranges::any_of(streams, [](const auto& stream) { return !stream; });
    if (runtime.simulated() || anyone_unknown) runtime.synchronize();
  }
  std::vector<nb::tuple> results;
  for (std::size_t g = 0; g < sorted.size(); ++g) {
    const MemoryView key_view = sorted[g].keys, value_view = sorted[g].values;
    const auto memory =
        std::make_shared<PartMemory>(runtime_object, runtime, std::move(sorted[g]), columns.parts[g].stream);
    const DeviceArray sorted_keys{memory, key_view, keys.front().dtype()};
    if (values.empty()) results.push_back(nb::make_tuple(sorted_keys, nb::none()));
    else results.push_back(nb::make_tuple(sorted_keys, DeviceArray{memory, value_view, values.front().dtype()}));
  }
  return results;
}

struct ArraysOfSide {
  std::vector<AnyArray> keys, values;
  Streams streams;
};

DeviceJoinInput join_input_of(const Runtime& runtime, const JoinPlan& plan, const ArraysOfSide& left,
                              const ArraysOfSide& right, const std::string& how, bool verify) {
  DeviceJoinInput input;
  input.left = columns_of(runtime, plan.sort, left.keys, left.values, left.streams, false);
  input.right = columns_of(runtime, plan.sort, right.keys, right.values, right.streams, false);
  const auto is_signed = [](const ArraysOfSide& side) {
    return !side.values.empty() &&
           side.values.front().dtype().code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int);
  };
  input.left_values_signed = is_signed(left);
  input.right_values_signed = is_signed(right);
  input.kind = join_kind_from(how);
  input.verify = verify;
  return input;
}

JoinTotals totals_of(Runtime& runtime, const JoinPlan& plan, const ArraysOfSide& left, const ArraysOfSide& right,
                     const std::string& how, bool verify) {
  const DeviceJoinInput input = join_input_of(runtime, plan, left, right, how, verify);
  const nb::gil_scoped_release release;
  return join_device_totals(runtime, plan, input);
}

JoinTotals hash_totals_of(Runtime& runtime, const JoinPlan& plan, const ArraysOfSide& left, const ArraysOfSide& right) {
  const DeviceJoinInput input = join_input_of(runtime, plan, left, right, "inner", /*verify=*/false);
  const nb::gil_scoped_release release;
  return hash_join_device_totals(runtime, plan, input);
}

// For each GPU what the left side shows of its rows, and the right side, or None of semi and anti joins.
std::vector<nb::tuple> rows_of(const nb::object& runtime_object, const JoinPlan& plan, const ArraysOfSide& left,
                               const ArraysOfSide& right, const std::string& how, bool verify) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  const DeviceJoinInput input = join_input_of(runtime, plan, left, right, how, verify);
  std::vector<SortedPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = join_device_rows(runtime, plan, input);
  }
  const auto type_of = [](const ArraysOfSide& side) {
    return side.values.empty() ? nb::dtype<std::int64_t>() : side.values.front().dtype();
  };
  const bool is_filter = input.kind == JoinKind::semi || input.kind == JoinKind::anti;
  std::vector<nb::tuple> results;
  for (std::size_t g = 0; g < parts.size(); ++g) {
    const MemoryView left_view = parts[g].keys, right_view = parts[g].values;
    const auto memory =
        std::make_shared<PartMemory>(runtime_object, runtime, std::move(parts[g]), input.left.parts[g].stream);
    const nb::object of_right = is_filter ? nb::none() : nb::cast(DeviceArray{memory, right_view, type_of(right)});
    results.push_back(nb::make_tuple(DeviceArray{memory, left_view, type_of(left)}, of_right));
  }
  return results;
}

}  // namespace

void bind_device_sort(nb::module_& m) {
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
  nb::class_<ArraysOfSide>(m, "ArraysOfSide",
                           "One side of a join: an array of keys for each GPU, and one of values or none.")
      .def(
          "__init__",
          [](ArraysOfSide* self, std::vector<AnyArray> keys, std::vector<AnyArray> values, Streams streams) {
            new (self) ArraysOfSide{std::move(keys), std::move(values), std::move(streams)};
          },
          nb::arg("keys").noconvert(), nb::arg("values").noconvert(), nb::arg("streams"));
  m.def("join_device_totals", &totals_of, nb::arg("runtime"), nb::arg("plan"), nb::arg("left"), nb::arg("right"),
        nb::arg("how") = "inner", nb::arg("verify") = true,
        "How many rows a join of arrays that lie on the plan's GPUs has and, if both sides have values, their sums.");
  m.def("hash_join_device_totals", &hash_totals_of, nb::arg("runtime"), nb::arg("plan"), nb::arg("left"),
        nb::arg("right"), "As join_device_totals by a partitioned hash join: a baseline, for inner joins.");
  m.def("join_device_rows", &rows_of, nb::arg("runtime"), nb::arg("plan"), nb::arg("left"), nb::arg("right"),
        nb::arg("how") = "inner", nb::arg("verify") = true,
        "The rows of the join, on the GPUs: for each a pair of arrays, the values of both sides or, of a side without, "
        "numbers of rows; of semi and anti joins, (array, None).");
  m.def("sort_device", &sort_arrays, nb::arg("runtime"), nb::arg("plan"), nb::arg("keys").noconvert(),
        nb::arg("values").noconvert(), nb::arg("streams"), nb::arg("donated"), nb::arg("options"),
        "Sorts arrays that lie on the plan's GPUs (NumPy arrays stand in for them where the machine is simulated): for "
        "each a pair of arrays, keys and values or None. Streams are the caller's, as in DLPack; None waits until all "
        "is done.");
}

}  // namespace linkwise::binding
