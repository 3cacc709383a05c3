// The interface of the two device backends.
//
// A `Runtime` owns the devices of one machine. Work is enqueued on in-order streams; events and flags order work
// between streams; the host waits for events. Every operation declares the bytes that it reads and writes, and so
// does the host for its own accesses: the CUDA backend ignores these declarations, the virtual backend uses them to
// detect races. Nothing blocks the host except `wait(Event)`, `synchronize`, `read_back` and the calls whose comments
// say so.
//
// A Runtime is used by one thread at a time. Streams, events and flags are handles, valid as long as the Runtime
// lives.
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
  bool pageable = false;         ///< host memory that is not pinned

  /// @throws ProgramError if the slice is out of bounds.
  [[nodiscard]] MemoryView slice(std::uint64_t offset, std::uint64_t length) const;
};

/// A view of the caller's host memory: `bytes` bytes at `offset` bytes from `data`.
MemoryView host_view(const void* data, std::uint64_t offset, std::uint64_t bytes, bool pageable);

/// Owns arena memory and releases it at once when destroyed: wait for the operations that use it first.
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

/// Source location of a wait. The virtual machine counts waits, and can leave them out one by one
/// (docs/reliability.md).
using Site = std::source_location;

/// A 32-bit counter that streams set and wait for; the set and the wait may be enqueued in either order.
struct Flag {
  int id = -1;
};

/// What an operation costs on the simulated clock: a row of the processor's rate table, or a price of its own.
struct Work {
  std::string rate;
  std::uint64_t records = 0;
  double bytes_per_record = 0;
  double passes = 1;
  std::string other_rate;  ///< taken where the machine lacks the first, with as many passes:
  double other_passes = 1;

  // Where `rate` is empty.
  double fixed_us = 0;
  double microseconds = 0;      ///< duration when it has the processor to itself
  bool only_transfers = false;  ///< only moves data over the links, at their rate, and occupies no processor
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
  std::vector<Fetch> fetches = {};               ///< only those large enough to be priced
  bool is_timed = true;  ///< if not, the CUDA backend leaves it out of the timeline and records no events around it
};

struct CopyPiece {
  MemoryView to, from;
};
/// The places of all pieces, with the bytes of all. @throws ProgramError if they differ in place, or one in size.
CopyPiece whole_of(std::span<const CopyPiece> pieces);

struct ReadBack {
  Stream stream;
  MemoryView from;
  void* to = nullptr;
  const void* expectation = nullptr;  ///< what an estimate uses as the value; null: zeros
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

/// An event on a device that other software's streams can wait for. Any thread may use it, and it outlives the call
/// that recorded it.
class SharedEvent {
 public:
  virtual ~SharedEvent() = default;
  /// Makes a stream (a cudaStream_t) wait for the event: all work enqueued on it from now on is ordered after it.
  virtual void hold(void* native_stream) = 0;
  /// Blocks the calling thread until the event has happened.
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
  /// True where operations are priced but not run, and there is no data.
  [[nodiscard]] virtual bool estimating() const { return false; }

  /// Whether kernels on each of these GPUs can load from and store to the others' memory.
  [[nodiscard]] virtual bool reach_each_other(std::span<const int> gpus) const = 0;
  /// Whether kernels on other GPUs can reach these bytes if they can reach this runtime's own memory there: other
  /// software's allocators may map memory for its own GPU alone.
  [[nodiscard]] virtual bool is_mapped_for_peers(const MemoryView& view) const { return view.allocation != 0; }

  // Memory. Allocations at a host place are pinned.
  /// The most bytes that one allocation at a place can get, within the limit.
  [[nodiscard]] virtual std::uint64_t available(Place place) = 0;
  /// Physical bytes that the place's arena holds, in use or not.
  [[nodiscard]] virtual std::uint64_t reserved(Place place) = 0;
  /// Makes the runtime take GPU memory from this source. @throws UsageError once any GPU holds memory.
  void use_memory(GpuMemory memory);
  /// Limits what the arena of each GPU may hold. 0 lifts the limit.
  virtual void set_memory_limit(std::uint64_t bytes_per_gpu) = 0;
  /// Makes room for `bytes` in one physical allocation, so that later ones are cheap.
  virtual void reserve(Place place, std::uint64_t bytes) = 0;
  /// @throws OutOfMemoryError.
  Buffer allocate(Place place, std::uint64_t bytes, std::string_view label);
  /// Frees unused physical memory. Synchronises.
  virtual void trim() = 0;
  /// Takes ownership of a buffer that is still in use, by work enqueued so far or until `users` have happened. Its
  /// memory can be allocated again after the next `synchronize`. Any thread may call this.
  void retire(Buffer buffer, std::vector<std::shared_ptr<SharedEvent>> users = {});

  // Order.
  /// The stream of that name at a place; created on first use. Kernels of a background stream yield to those of other
  /// streams.
  virtual Stream stream(Place place, std::string_view name, Priority priority) = 0;
  Stream stream(Place place, std::string_view name) { return stream(place, name, Priority::normal); }
  /// The event happens when everything enqueued on the stream so far has run.
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
  /// Wraps the caller's stream as a Stream, so that events can order our work after the caller's and the caller's
  /// after ours.
  virtual Stream foreign_stream(Place place, void* native) = 0;
  /// Blocks until everything enqueued has been submitted to the devices, so that what the caller enqueues next comes
  /// after it.
  virtual void flush(Site site = Site::current()) = 0;
  virtual std::shared_ptr<SharedEvent> share(Event event) = 0;
  /// An event that happens when everything now on the stream has run. Any thread may call this.
  virtual std::shared_ptr<SharedEvent> record_foreign(Place place, void* native) = 0;
  /// Waits for `ready`, then copies to host memory and blocks until the copy is complete. Any thread may call this.
  virtual void fetch(void* to, const MemoryView& from, SharedEvent& ready) = 0;

  // Work.
  virtual void enqueue(Stream stream, Operation operation) = 0;
  /// Copies `from.bytes` bytes between any two places. @throws ProgramError if the sizes differ.
  virtual void copy(Stream stream, const MemoryView& to, const MemoryView& from) = 0;
  /// Copies pieces from one GPU to another one, in any order. Many take hardly longer than one that is as long.
  virtual void copy_pieces(Stream stream, std::span<const CopyPiece> pieces) = 0;
  /// Copies device data to the host and blocks until all of it is there. This is the only way in which device data
  /// may affect control flow: an estimate, which has no data, uses the expectation instead.
  virtual void read_back(std::span<const ReadBack> reads, Site site = Site::current()) = 0;
  void read_back(const ReadBack& read, Site site = Site::current()) { read_back(std::span(&read, 1), site); }

  // The host's own accesses, between operations.
  /// Declares that the calling thread is about to read these bytes, and has waited for all operations that write
  /// them.
  /// @throws RaceError on the virtual machine if it has not waited.
  virtual void host_reads(const MemoryView&, std::string_view /*purpose*/) {}
  /// The same for writing or releasing the bytes, after waiting for all operations that use them.
  virtual void host_writes(const MemoryView&, std::string_view /*purpose*/) {}

  // Reporting.
  /// Names the phase of the operations enqueued from now on ("HtoD", "sort", …).
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
  /// Waits throw `Cancelled` once a stop is requested. Returns the previous token.
  virtual std::stop_token set_stop_token(std::stop_token token) = 0;

 protected:
  friend class Buffer;
  virtual MemoryView allocate_memory(Place place, std::uint64_t bytes, std::string_view label) = 0;
  virtual void release_memory(const MemoryView& view) noexcept = 0;
  /// Precondition: nothing is allocated on the GPUs, and all functions of `memory` are set.
  virtual void take_memory_from(GpuMemory memory) = 0;
  /// Releases retired buffers after waiting for their users; call this only when none of our own work is running.
  void release_retired();
  /// The same without waiting for users; for destructors.
  void drop_retired() noexcept { retired_.clear(); }

 private:
  struct Retired {
    Buffer buffer;
    std::vector<std::shared_ptr<SharedEvent>> users;
  };
  std::mutex retired_mutex_;
  std::vector<Retired> retired_;
};

/// Calls work(). If it throws, waits until nothing touches the caller's memory any more, then rethrows.
template <typename Work>
void run_or_abandon(Runtime& runtime, Work&& work) {
  try {
    work();
  } catch (...) {
    runtime.abandon();
    throw;
  }
}

/// Declares that the caller may use these bytes freely again: all of our operations on them have been waited for.
void hand_back(Runtime& runtime, std::span<const MemoryView> views);

/// The transfers of an operation at a place: its stores to other places, and its loads from them.
std::vector<Passage> passages_of(Topology& topology, Place place, const Operation& operation);
Passage passage_of(Topology& topology, const MemoryView& from, const MemoryView& to);

/// The seconds of each phase, in the order in which phases begin. An operation's phase is charged for the time by
/// which the operation extends what earlier ones have covered, including the wait before it. So the phases add up to
/// the total, a phase that waits for its last operation lasts until that ends (sort22 §6.1), and the times of a phase
/// that recurs are added.
struct PhaseTime {
  std::string phase;
  double seconds = 0;
};
std::vector<PhaseTime> phase_times(std::span<const TimelineEntry> timeline);

}  // namespace linkwise
