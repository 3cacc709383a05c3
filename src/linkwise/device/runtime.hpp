// How work is given to devices: the contract of the two backends.
//
// A `Runtime` owns the devices of one machine. Work is enqueued on streams, each of which is in order;
// events and flags order work between streams; the host waits for events. Every operation declares the
// bytes that it reads and writes, and so does the host where it touches them itself: the CUDA backend
// ignores that, the virtual one proves with it that nothing races. Nothing here blocks the host except
// `wait(Event)`, `synchronize` and `read_back`.
//
// One thread at a time uses a Runtime. Streams, events and flags are handles, valid as long as it lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <source_location>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "linkwise/device/arena.hpp"
#include "linkwise/machine/topology.hpp"

namespace linkwise {

class Kernels;  // primitives/kernels.hpp: what this backend can run on one device
class Runtime;

/// Bytes at a place. Does not own them.
struct MemoryView {
  Place place;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t allocation = 0;  ///< the runtime's number for its own memory; 0 for the caller's
  bool pageable = false;         ///< host memory that is not page-locked

  /// @throws ProgramError if the slice is not inside.
  [[nodiscard]] MemoryView slice(std::uint64_t offset, std::uint64_t length) const;
};

/// `bytes` bytes of the caller's, in host memory.
MemoryView host_view(const void* data, std::uint64_t offset, std::uint64_t bytes, bool pageable);

/// Owns arena memory; gives it back at once when destroyed. Whoever destroys it has waited for its users.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Runtime& runtime, MemoryView view) : runtime_(&runtime), view_(view) {}
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  [[nodiscard]] const MemoryView& view() const { return view_; }
  [[nodiscard]] MemoryView slice(std::uint64_t offset, std::uint64_t bytes) const { return view_.slice(offset, bytes); }

 private:
  Runtime* runtime_ = nullptr;
  MemoryView view_;
};

struct Stream {
  int id = -1;
  Place place;
};

enum class Priority { normal, background };

struct Event {
  std::int64_t id = -1;  ///< -1: already happened
};

/// Where a program waits: the virtual machine counts such places, and leaves them out one by one (docs/reliability.md).
using Site = std::source_location;

/// A 32-bit counter that streams set and wait for, in either order of enqueueing.
struct Flag {
  int id = -1;
};

/// What an operation costs on the simulated clock: a row of the processor's rate table, or a price of its own.
struct Work {
  std::string rate;
  std::uint64_t records = 0;
  double bytes_per_record = 0;
  double passes = 1;

  // Where `rate` is empty.
  double fixed_us = 0;
  double microseconds = 0;      ///< that it takes when it has its processor to itself
  bool only_transfers = false;  ///< moves what it writes elsewhere, at the rate of the links, and needs no processor
  double goodput = 1;           ///< useful share of the bytes that its stores to peers put on the links
};

/// Bytes that an operation loads from another device while it runs, which cross the links between them.
struct Fetch {
  Place from;
  std::uint64_t bytes = 0;
};

struct Operation {
  std::string name;
  std::vector<MemoryView> reads;
  std::vector<MemoryView> writes;
  Work work;
  std::function<void(void* native_stream)> run;  ///< a cudaStream_t on the CUDA backend, else null
  std::vector<Fetch> fetches = {};               ///< where they are enough to be priced
  bool is_timed = true;  ///< otherwise the CUDA backend leaves it out of the timeline, and saves the events around it
};

struct ReadBack {
  Stream stream;
  MemoryView from;
  void* to = nullptr;
  const void* expectation = nullptr;  ///< what an estimate takes instead; null: zeros
};

/// Bytes that went from one place to another, and the links that they crossed (indices into Machine::links).
struct Passage {
  Place from;
  Place to;
  std::uint64_t bytes = 0;
  std::vector<int> links;
};

/// One operation or copy, when it has run.
struct TimelineEntry {
  std::string name;
  std::string phase;
  std::string stream;
  Place place;
  Place from;  ///< of a copy
  Place to;
  std::uint64_t bytes = 0;
  bool is_copy = false;
  std::vector<Passage> passages;  ///< of a copy, and of a kernel that stores to peers
  std::int64_t start_ps = 0;
  std::int64_t end_ps = 0;
};

/// A moment of a device's that other software's streams can wait for. Any thread may use it, and it outlives the
/// call that recorded it.
class SharedEvent {
 public:
  virtual ~SharedEvent() = default;
  /// What is enqueued on that stream (a cudaStream_t) from now on comes after the moment.
  virtual void hold(void* native_stream) = 0;
  /// Blocks the calling thread until the moment has passed.
  virtual void wait() = 0;
};

class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime() = default;

  [[nodiscard]] virtual const Machine& machine() const = 0;
  [[nodiscard]] virtual const Kernels& kernels() const = 0;
  /// True where the CPU stands in for the devices and times are simulated.
  [[nodiscard]] virtual bool simulated() const = 0;
  /// True where operations are priced but not run: data has no contents.
  [[nodiscard]] virtual bool estimating() const { return false; }

  /// Whether kernels of each of these GPUs can read what lies on the others.
  [[nodiscard]] virtual bool peers_can_read(std::span<const int> gpus) const {
    return gpus.size() <= 1 || !machine().staged_peers;
  }

  // Memory. A host place gives page-locked memory.
  /// Bytes that a place can still give, within the limit.
  [[nodiscard]] virtual std::uint64_t available(Place place) = 0;
  /// Physical bytes that the place's arena holds, in use or not.
  [[nodiscard]] virtual std::uint64_t reserved(Place place) = 0;
  /// Takes GPUs' memory from there. @throws UsageError once there is any from elsewhere.
  void use_memory(GpuMemory memory);
  /// Limits what the arena of each GPU may hold. 0 lifts the limit.
  virtual void set_memory_limit(std::uint64_t bytes_per_gpu) = 0;
  /// Makes room for `bytes` in one physical allocation, so that later ones are cheap.
  virtual void reserve(Place place, std::uint64_t bytes) = 0;
  /// @throws OutOfMemoryError.
  Buffer allocate(Place place, std::uint64_t bytes, std::string_view label);
  /// Gives unused physical memory back. Synchronises.
  virtual void trim() = 0;
  /// Takes back memory that is still in use: by work enqueued so far, and until `users` have passed. It can be
  /// allocated again after the next `synchronize`. Any thread may call this.
  void retire(Buffer buffer, std::vector<std::shared_ptr<SharedEvent>> users = {});

  // Order.
  /// The stream of that name at a place; made on first use. Kernels of a background stream wait where others could run.
  virtual Stream stream(Place place, std::string_view name, Priority priority) = 0;
  Stream stream(Place place, std::string_view name) { return stream(place, name, Priority::normal); }
  /// Happens when everything enqueued on the stream so far has.
  virtual Event record(Stream stream, Site site = Site::current()) = 0;
  virtual void wait(Stream stream, Event event, Site site = Site::current()) = 0;
  virtual Flag flag(std::string_view name) = 0;
  virtual void set(Stream stream, Flag flag, std::uint32_t value) = 0;
  /// Later work of the stream runs once the flag is at least `value`.
  virtual void wait(Stream stream, Flag flag, std::uint32_t value, Site site = Site::current()) = 0;
  /// Blocks the host. @throws DeviceError, Cancelled, or a ProgramError of the virtual machine.
  virtual void wait(Event event, Site site = Site::current()) = 0;
  /// Blocks the host until everything enqueued on our own streams has run.
  virtual void synchronize(Site site = Site::current()) = 0;

  /// After an exception: blocks until nothing that was enqueued touches the caller's memory any more.
  virtual void abandon() noexcept = 0;

  // Other software's streams, which CUDA programs hand over as a cudaStream_t; null is the legacy default stream.
  /// The caller's stream as one of ours, so that events order our work behind theirs and theirs behind ours.
  virtual Stream foreign_stream(Place place, void* native) = 0;
  /// Blocks until the devices have been given everything enqueued, so that what the caller enqueues comes behind it.
  virtual void flush(Site site = Site::current()) = 0;
  virtual std::shared_ptr<SharedEvent> share(Event event) = 0;
  /// When everything that is on that stream now has run. Any thread may call this.
  virtual std::shared_ptr<SharedEvent> record_foreign(Place place, void* native) = 0;
  /// Copies to host memory what is ready after that moment, and blocks until it is there. Any thread may call this.
  virtual void fetch(void* to, const MemoryView& from, SharedEvent& ready) = 0;

  // Work.
  virtual void enqueue(Stream stream, Operation operation) = 0;
  /// Copies `from.bytes` bytes between any two places. @throws ProgramError if the sizes differ.
  virtual void copy(Stream stream, const MemoryView& to, const MemoryView& from) = 0;
  /// Copies device data to the host and blocks until all of it is there. The only way in which device data
  /// may reach control flow: an estimate, which has no data, takes the expectation.
  virtual void read_back(std::span<const ReadBack> reads, Site site = Site::current()) = 0;
  void read_back(const ReadBack& read, Site site = Site::current()) { read_back(std::span(&read, 1), site); }

  // The host itself, between operations.
  /// The calling thread is about to read these bytes, and has waited for whoever writes them.
  /// @throws RaceError on the virtual machine if it has not.
  virtual void host_reads(const MemoryView&, std::string_view /*purpose*/) {}
  /// It is about to write them, or to let go of them, and has waited for whoever uses them.
  virtual void host_writes(const MemoryView&, std::string_view /*purpose*/) {}

  // Telling what happened.
  /// Names what the operations enqueued from now on belong to ("HtoD", "sort", …).
  virtual void set_phase(std::string_view phase) = 0;
  /// Everything that has run since the last `clear_timeline`, by start. Synchronises.
  virtual std::vector<TimelineEntry> timeline() = 0;
  virtual void clear_timeline() = 0;
  /// Operations enqueued and finished since the last `clear_timeline`; safe to call from other threads.
  struct Progress {
    std::uint64_t enqueued = 0;
    std::uint64_t finished = 0;
  };
  [[nodiscard]] virtual Progress progress() const = 0;
  /// Waits throw `Cancelled` once a stop is requested. Returns the token before.
  virtual std::stop_token set_stop_token(std::stop_token token) = 0;

 protected:
  friend class Buffer;
  virtual MemoryView allocate_memory(Place place, std::uint64_t bytes, std::string_view label) = 0;
  virtual void release_memory(const MemoryView& view) noexcept = 0;
  /// Nothing is allocated on the GPUs, and all functions are there.
  virtual void take_memory_from(GpuMemory memory) = 0;
  /// Gives back what was retired; to be called when nothing of ours runs.
  void release_retired();
  /// The same without looking; to be called by destructors.
  void drop_retired() noexcept { retired_.clear(); }

 private:
  struct Retired {
    Buffer buffer;
    std::vector<std::shared_ptr<SharedEvent>> users;
  };
  std::mutex retired_mutex_;
  std::vector<Retired> retired_;
};

/// Calls work(); if that throws, the caller's memory is let go of before the exception goes on.
template <typename Work>
void run_or_abandon(Runtime& runtime, Work&& work) {
  try {
    work();
  } catch (...) {
    runtime.abandon();
    throw;
  }
}

/// The caller may do with these what it likes: everything of ours that uses them has been waited for.
void hand_back(Runtime& runtime, std::span<const MemoryView> views);

/// What an operation at a place stores elsewhere, and loads from there.
std::vector<Passage> passages_of(Topology& topology, Place place, const Operation& operation);
Passage passage_of(Topology& topology, const MemoryView& from, const MemoryView& to);

/// The seconds of each phase, in the order in which they begin. What an operation adds to the time that those begun
/// before it take, and the wait before it, is its phase's: so the phases add up to the whole, a phase that waits for
/// the last of its operations lasts until then (sort22 §6.1), and one that comes again counts again.
struct PhaseTime {
  std::string phase;
  double seconds = 0;
};
std::vector<PhaseTime> phase_times(std::span<const TimelineEntry> timeline);

}  // namespace linkwise
