// One array, mirrored on several GPUs: each GPU writes its part, which is sent to every peer that needs it while the
// producing kernel is still running (proact21 §III).
//
//   Region<float> next(runtime, gpus, n);
//   Producer<float> producer(next, gpu, Mapping::contiguous(…), plan);   // once for each GPU
//   producer.launch(kernel, {what it reads}, price);                     // an epoch: on each GPU
//   next.flush();                                                        // now kernels of all GPUs may read it
//
// Everything is asynchronous and ordered by the runtime's "compute" streams. A runtime must outlive its regions, and
// a region its producers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/error.hpp"
#include "linkwise/transfer/proactive/agent.hpp"
#include "linkwise/transfer/proactive/mapping.hpp"

namespace linkwise::proactive {

/// The stream of producers' kernels. Its priority is below the agents', whose work is short and should run at once.
inline Stream compute_stream(Runtime& runtime, int gpu) {
  return runtime.stream(Place::gpu(gpu), "compute", Priority::background);
}

/// Allocates memory on a GPU and fills it with these contents, one after the other. Blocks until they are there. In
/// an estimate, the memory has no contents.
Buffer put_on_gpu(Runtime& runtime, int gpu, std::span<const std::span<const std::byte>> contents,
                  const std::string& label);
inline Buffer put_on_gpu(Runtime& runtime, int gpu, const void* data, std::uint64_t bytes, const std::string& label) {
  const std::span contents(static_cast<const std::byte*>(data), bytes);
  return put_on_gpu(runtime, gpu, std::span(&contents, 1), label);
}

/// A sender of parts of a region, which the region checks and asks for its progress.
class Sender {
 public:
  virtual ~Sender() = default;
  /// @throws DeviceError if something that should have been sent was not.
  virtual void check() = 0;
  /// Its current progress, in words.
  virtual std::string state() = 0;
  /// Says that a wait was given up, so that running work may use the sender's memory after its destruction.
  virtual void let_go_late() = 0;
};

/// A region without its type.
class RegionBytes {
 public:
  /// @throws UsageError unless there are 1 to 16 different GPUs of the machine, OutOfMemoryError. For the agent
  /// `unified` all mirrors are one array in unified memory.
  RegionBytes(Runtime& runtime, std::vector<int> gpus, std::uint64_t bytes, const std::string& label,
              Agent agent = Agent::bulk);
  ~RegionBytes();
  RegionBytes(RegionBytes&&) = delete;
  RegionBytes& operator=(RegionBytes&&) = delete;

  [[nodiscard]] Runtime& runtime() const { return runtime_; }
  [[nodiscard]] const std::vector<int>& gpus() const { return gpus_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// The whole array as that GPU has it. @throws UsageError if it has none.
  [[nodiscard]] const MemoryView& mirror(int gpu) const;

  /// Declares that the GPU needs these bytes of what its peers write, in whole pages, in addition to those declared
  /// before. A GPU without such declarations gets everything. Agents that send chunks send whole ones if any page of
  /// them is needed. @throws UsageError for bytes that are not in the region, or once it has a producer.
  void need(int gpu, ByteRange range);
  /// The peers of a GPU that need any of the pages from first to last, as a bit mask of indices into `peers`.
  [[nodiscard]] std::uint32_t wanted(int gpu, std::uint64_t first_page, std::uint64_t last_page) const;
  /// The other GPUs, in order.
  [[nodiscard]] std::vector<int> peers(int gpu) const;
  /// @throws UsageError for a plan that is invalid on this machine, or whose agent needs the other kind of memory.
  void check_goes_with(const AgentPlan& plan) const;
  /// Whether every GPU needs everything.
  [[nodiscard]] bool is_needed_by_all() const;
  /// For the kernels of a GPU: for each page, a bit mask of the peers that need it; null if all need everything.
  const std::uint32_t* interest(int gpu);

  /// Copies data to all mirrors, after everything launched so far; blocks until it is there. @throws UsageError if
  /// the size differs from the region's.
  void fill(const void* data, std::uint64_t bytes);
  /// Copies one GPU's mirror, from the first byte on, after everything launched so far has arrived; blocks. @throws
  /// UsageError for more bytes than the region has, DeviceError if an agent gave up, so that bytes may be stale.
  void fetch(int gpu, void* data, std::uint64_t bytes);

  /// Release: kernels that are launched from now on, on any GPU, run after everything launched on this region so far,
  /// and after its arrival at the peers.
  void flush();
  /// Acquire, for readers that have finished: the next flush also waits for everything launched on this GPU so far,
  /// so that kernels launched after the flush may overwrite the array.
  void consumed(int gpu);
  /// Blocks until everything launched so far has run and arrived. @throws DeviceError if an agent gave up, or if this
  /// takes longer than `patience` seconds; it then tells the progress of every producer.
  void wait(double patience = 60);
  /// Checks the work that has run. @throws DeviceError if an agent gave up.
  void check();
  /// The same, if the host has waited for everything; also hands the region's memory to the caller.
  void check_when_done();
  /// For producers: adds a sender for fetch and wait to check.
  void watch(std::weak_ptr<Sender> sender) {
    senders_.push_back(std::move(sender));
    has_producers_ = true;
  }
  /// For producers: adds an event for the next flush to wait for.
  void add_pending(Event event) { pending_.push_back(event); }

 private:
  void let_go_late();
  std::string states();  // of all senders

  Runtime& runtime_;
  std::vector<int> gpus_;
  std::uint64_t bytes_;
  std::shared_ptr<void> unified_;
  std::vector<Buffer> memory_;
  std::vector<MemoryView> mirrors_;
  std::vector<std::vector<bool>> needs_;  // of each GPU, by page; empty: everything
  std::vector<Buffer> interests_;         // of each GPU, once a kernel has asked for it
  std::vector<Event> pending_;
  std::vector<std::weak_ptr<Sender>> senders_;
  bool has_producers_ = false;  // or had
  bool is_late_ = false;        // a wait was given up
};

/// A region of elements, which GPUs and links copy as bytes.
template <typename T>
class Region : public RegionBytes {
  static_assert(std::is_trivially_copyable_v<T>, "a region's elements are copied as bytes");

 public:
  Region(Runtime& runtime, std::vector<int> gpus, std::uint64_t count, const std::string& label = "region",
         Agent agent = Agent::bulk)
      : RegionBytes(runtime, std::move(gpus), bytes_of(count), label, agent) {}
  [[nodiscard]] std::uint64_t count() const { return bytes() / sizeof(T); }
  /// Sets element i to value_of(i) in all mirrors; blocks. An estimate has no data, and does not call value_of.
  template <typename ValueOf>
  void fill_each(ValueOf&& value_of) {
    if (runtime().estimating()) return;
    const auto values = std::make_unique<T[]>(count());
    for (std::uint64_t i = 0; i < count(); ++i) values[i] = value_of(i);
    fill(values.get(), bytes());
  }
  [[nodiscard]] T* data(int gpu) const { return reinterpret_cast<T*>(mirror(gpu).data); }

 private:
  static std::uint64_t bytes_of(std::uint64_t count) {
    if (count > std::numeric_limits<std::uint64_t>::max() / sizeof(T))
      throw UsageError(std::to_string(count) + " elements are more than any memory has");
    return count * sizeof(T);
  }
};

}  // namespace linkwise::proactive
