// Device arrays in memory that Linkwise owns, as exposed to Python.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/primitives/types.hpp"
#include "linkwise/transfer/device_columns.hpp"

namespace linkwise::binding {

/// @throws UsageError if keys cannot be of that type.
KeyType key_type_of(const nanobind::dlpack::dtype& type);
/// The type in NumPy's notation, for example "<i4".
std::string type_string(const nanobind::dlpack::dtype& type);
/// The CUDA handle of a stream; the numbers of DLPack and of the CUDA array interface are CUDA's own handles.
void* native_stream(std::int64_t number);

/// @throws UsageError unless the array is contiguous and lies on that GPU, or in host memory if GPUs are simulated.
void require_array_on(const nanobind::ndarray<nanobind::ndim<1>>& array, const Runtime& runtime, int gpu);

/// Memory on a GPU, kept for as long as an array refers to it. Consumers may still be using it on their own streams
/// when they drop the array, so those streams are recorded.
class PartMemory {
 public:
  /// `owner` keeps the runtime alive; the memory's contents are complete once `ready` has happened. `streams`, which
  /// already wait for `ready`, may be using the memory.
  PartMemory(nanobind::object owner, Runtime& runtime, int gpu, Buffer memory, std::shared_ptr<SharedEvent> ready,
             std::vector<void*> streams)
      : owner_(std::move(owner)),
        runtime_(runtime),
        gpu_(gpu),
        memory_(std::move(memory)),
        ready_(std::move(ready)),
        streams_(std::move(streams)) {}
  PartMemory(const PartMemory&) = delete;
  PartMemory& operator=(const PartMemory&) = delete;
  ~PartMemory();

  [[nodiscard]] Runtime& runtime() const { return runtime_; }
  [[nodiscard]] SharedEvent& ready() const { return *ready_; }
  /// Orders the further work of that stream after the work that produced the contents.
  void use_on(void* stream);

 private:
  nanobind::object owner_;
  Runtime& runtime_;
  int gpu_;
  Buffer memory_;
  std::shared_ptr<SharedEvent> ready_;
  std::vector<void*> streams_;
};

struct DeviceArray {
  std::shared_ptr<PartMemory> memory;
  MemoryView view;
  nanobind::dlpack::dtype type;

  [[nodiscard]] std::size_t size() const { return view.bytes * 8 / type.bits; }
  [[nodiscard]] bool simulated() const { return memory->runtime().simulated(); }
};

/// A column's parts as arrays of that type.
std::vector<DeviceArray> arrays_of(const nanobind::object& runtime, std::vector<ColumnPart> parts,
                                   const nanobind::dlpack::dtype& type);

}  // namespace linkwise::binding
