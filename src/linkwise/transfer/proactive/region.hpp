// One array, mirrored on several GPUs: each writes its part, and every peer that needs it gets it while the kernel that
// makes it still runs (proact21 §III).
//
//   Region<float> next(runtime, gpus, n);
//   Producer<float> producer(next, gpu, Mapping::contiguous(…), plan);   // once for each GPU
//   producer.launch(kernel, {what it reads}, price);                     // an epoch: on each GPU
//   next.flush();                                                        // now kernels of all GPUs may read it
//
// Everything is asynchronous, in the order of the runtime's "compute" streams. A runtime is to outlive its regions, and
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

/// Where kernels of producers run: behind the agents, which have little to do and should do it at once.
inline Stream compute_stream(Runtime& runtime, int gpu) {
  return runtime.stream(Place::gpu(gpu), "compute", Priority::background);
}

/// Memory on a GPU with these contents, one behind the other; blocks until they are there. In an estimate it has none.
Buffer put_on_gpu(Runtime& runtime, int gpu, std::span<const std::span<const std::byte>> contents,
                  const std::string& label);
inline Buffer put_on_gpu(Runtime& runtime, int gpu, const void* data, std::uint64_t bytes, const std::string& label) {
  const std::span contents(static_cast<const std::byte*>(data), bytes);
  return put_on_gpu(runtime, gpu, std::span(&contents, 1), label);
}

/// Somebody who sends parts of a region, and whom it asks how that goes.
class Sender {
 public:
  virtual ~Sender() = default;
  /// @throws DeviceError if something that should have been sent was not.
  virtual void check() = 0;
  /// How far it is, now, in words.
  virtual std::string state() = 0;
  /// A wait was given up: what runs may use its memory after it has gone.
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

  /// Says that of what peers write the GPU needs these bytes, in whole pages, and all others that were named; who never
  /// says so gets everything. Agents that send chunks send whole ones, if any page of them is needed. @throws
  /// UsageError for bytes that are not in the region, or once it has a producer.
  void need(int gpu, ByteRange range);
  /// The peers of a GPU that need any of the pages from first to last, as bits by their place among `peers`.
  [[nodiscard]] std::uint32_t wanted(int gpu, std::uint64_t first_page, std::uint64_t last_page) const;
  /// The other GPUs, in order.
  [[nodiscard]] std::vector<int> peers(int gpu) const;
  /// @throws UsageError for a plan that is none on this machine, or whose agent is for the other kind of memory.
  void check_goes_with(const AgentPlan& plan) const;
  /// Whether every GPU needs everything.
  [[nodiscard]] bool is_needed_by_all() const;
  /// For the kernels of a GPU: of each page, the peers that want it, as bits by their place; null if all want all.
  const std::uint32_t* interest(int gpu);

  /// Copies to all mirrors, after everything that was launched; blocks until it is there. @throws UsageError if the
  /// size differs.
  void fill(const void* data, std::uint64_t bytes);
  /// What one GPU has when everything that was launched has arrived, from the first byte on; blocks. @throws UsageError
  /// for more bytes than there are, DeviceError if an agent gave up, so that they may be old.
  void fetch(int gpu, void* data, std::uint64_t bytes);

  /// Release: what kernels of any GPU do from now on comes after all that was launched on this region, and after its
  /// arrival at the peers.
  void flush();
  /// Acquire, as readers give back what they have read: the next flush also waits for what was launched on a GPU so
  /// far, so that kernels that are launched after it may overwrite the array.
  void consumed(int gpu);
  /// Blocks until everything that was launched has run and arrived. @throws DeviceError if an agent gave up, or if it
  /// takes longer than so many seconds, saying how far every producer is.
  void wait(double patience = 60);
  /// Of what has run. @throws DeviceError if an agent gave up.
  void check();
  /// The same where the host has waited for everything, so that the region's memory is the caller's.
  void check_when_done();
  /// Of producers: whom fetch and wait ask.
  void watch(std::weak_ptr<Sender> sender) {
    senders_.push_back(std::move(sender));
    has_producers_ = true;
  }
  /// Of producers: what the next flush waits for.
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

/// Elements that are copied as bytes, as GPUs and links do.
template <typename T>
class Region : public RegionBytes {
  static_assert(std::is_trivially_copyable_v<T>, "a region's elements are copied as bytes");

 public:
  Region(Runtime& runtime, std::vector<int> gpus, std::uint64_t count, const std::string& label = "region",
         Agent agent = Agent::bulk)
      : RegionBytes(runtime, std::move(gpus), bytes_of(count), label, agent) {}
  [[nodiscard]] std::uint64_t count() const { return bytes() / sizeof(T); }
  /// Element i becomes value_of(i), in all mirrors; blocks. An estimate has no data, and asks for none.
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
