// Arrays on the GPUs in memory of ours, as Python has them.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/primitives/types.hpp"

namespace linkwise::binding {

/// @throws UsageError if keys cannot be of that type.
KeyType key_type_of(const nanobind::dlpack::dtype& type);
/// As NumPy writes it.
std::string type_string(const nanobind::dlpack::dtype& type);
/// The streams that DLPack and the CUDA array interface have numbers for are CUDA's own handles for them.
void* native_stream(std::int64_t number);

/// The memory of what lies on a GPU, as long as an array of it is alive. Whoever had it may still be using it on
/// streams of their own when they let go, so those are remembered.
class PartMemory {
 public:
  /// `owner` is that of the runtime; what is in the memory is there once `ready` has passed. On `streams`, which wait
  /// for that, somebody may use it.
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
  /// Orders what that stream does next behind what made this.
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

}  // namespace linkwise::binding
