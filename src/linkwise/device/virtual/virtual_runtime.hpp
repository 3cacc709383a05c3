// The virtual machine: the CPU executes, a simulated clock tells the time.
//
// Operations are recorded. When the host waits, they run in a seeded random order that the streams, events, flags and
// host waits allow, and only as far as needed; so a program gets no order here that it merely happens to get on real
// GPUs. Conflicting accesses that nothing orders raise `RaceError`, waits that can never be satisfied
// `DeadlockError`, uses of freed memory `UseAfterFreeError`; freed memory is poisoned. The host and other software's
// streams are agents, as our own streams are. An access by the host is checked against operations that have run and
// against those that are only enqueued. The recorded graph is timed by `simulate` over the machine's links and rates.
//
// In estimate mode nothing is allocated or executed: the same program is only priced.
#pragma once

#include <atomic>
#include <memory>
#include <random>
#include <unordered_map>
#include <utility>

#include "linkwise/device/arena.hpp"
#include "linkwise/device/runtime.hpp"
#include "linkwise/device/virtual/race_detector.hpp"
#include "linkwise/device/virtual/simulate.hpp"
#include "linkwise/device/virtual/wait_log.hpp"

namespace linkwise {

enum class VirtualMode { execute, estimate };

class VirtualRuntime final : public Runtime {
 public:
  VirtualRuntime(Machine machine, VirtualMode mode, std::uint64_t seed, std::shared_ptr<const Kernels> kernels);
  ~VirtualRuntime() override;

  const Machine& machine() const override { return topology_.machine(); }
  const Kernels& kernels() const override { return *kernels_; }
  bool simulated() const override { return true; }
  bool estimating() const override { return mode_ == VirtualMode::estimate; }
  bool reach_each_other(std::span<const int> gpus) const override { return topology_.reach_each_other(gpus); }

  /// Injected faults, for tests of error handling.
  struct Faults {
    std::uint64_t memory_of_others = 0;    ///< bytes per GPU that `available` reports but that cannot be allocated
    std::uint64_t failing_operation = 0;   ///< 1-based number of the operation that fails on its device; 0: none
    std::uint64_t failing_allocation = 0;  ///< 1-based number of the allocation that finds no memory; 0: none
    std::uint64_t flipped_copy = 0;        ///< 1-based number of the large copy that gets a flipped bit; 0: none
    std::uint64_t left_out_wait = 0;       ///< 1-based number, in `waits`, of the wait that is left out; 0: none
  };
  /// Allocations and waits are counted from now on.
  void set_faults(Faults faults) {
    faults_ = faults;
    allocations_ = large_copies_ = 0;
    waits_.begin(faults.left_out_wait);
  }
  /// Since `set_faults`.
  [[nodiscard]] const std::vector<LoggedWait>& waits() const { return waits_.waits(); }
  /// Copies of data, as opposed to those of a few numbers.
  [[nodiscard]] std::uint64_t large_copies() const { return large_copies_; }

  std::uint64_t available(Place place) override;
  std::uint64_t reserved(Place place) override;
  void set_memory_limit(std::uint64_t bytes_per_gpu) override;
  void reserve(Place place, std::uint64_t bytes) override;
  void trim() override;

  using Runtime::read_back;
  using Runtime::stream;
  Stream stream(Place place, std::string_view name, Priority priority) override;
  Event record(Stream stream, Site site = Site::current()) override;
  void wait(Stream stream, Event event, Site site = Site::current()) override;
  Flag flag(std::string_view name) override;
  void set(Stream stream, Flag flag, std::uint32_t value) override;
  void wait(Stream stream, Flag flag, std::uint32_t value, Site site = Site::current()) override;
  void wait(Event event, Site site = Site::current()) override;
  void synchronize(Site site = Site::current()) override;
  void abandon() noexcept override;
  Stream foreign_stream(Place place, void* native) override;
  void flush(Site site = Site::current()) override;
  std::shared_ptr<SharedEvent> share(Event event) override;
  std::shared_ptr<SharedEvent> record_foreign(Place place, void* native) override;
  void fetch(void* to, const MemoryView& from, SharedEvent& ready) override;
  void enqueue(Stream stream, Operation operation) override;
  void copy(Stream stream, const MemoryView& to, const MemoryView& from) override;
  void copy_pieces(Stream stream, std::span<const CopyPiece> pieces) override;
  void read_back(std::span<const ReadBack> reads, Site site = Site::current()) override;
  void host_reads(const MemoryView& view, std::string_view purpose) override;
  void host_writes(const MemoryView& view, std::string_view purpose) override;
  /// Enqueues an operation on a foreign stream as other software would: after what has been flushed, before our other
  /// work.
  void enqueue_as_caller(Stream foreign, Operation operation);

  void set_phase(std::string_view phase) override { phase_ = phase; }
  std::vector<TimelineEntry> timeline() override;
  void clear_timeline() override;
  Progress progress() const override { return {enqueued_.load(), finished_.load()}; }
  std::stop_token set_stop_token(std::stop_token token) override { return std::exchange(stop_, std::move(token)); }

 protected:
  MemoryView allocate_memory(Place place, std::uint64_t bytes, std::string_view label) override;
  void release_memory(const MemoryView& view) noexcept override;
  void take_memory_from(GpuMemory memory) override;

 private:
  struct Node;  // a recorded operation
  struct Lane;  // a stream
  struct FlagState;
  struct Recorded;  // an event
  struct VirtualSharedEvent;

  Node& add(Stream stream, std::string name);
  Node& add_of_host(std::string name);
  std::unique_ptr<Node> make_node(std::string name);
  [[nodiscard]] bool happened_before(const VectorClock& clock, const Node& node) const;
  [[nodiscard]] std::optional<std::int64_t> pending_user(const MemoryView& view, bool also_readers) const;
  void host_touches(const MemoryView& view, bool writes, std::string_view purpose);
  void finish_own_streams();
  void run_waits_of_others();
  [[nodiscard]] bool is_own_work_done() const;
  void check_access(const MemoryView& view, const Node& node) const;
  bool is_ready(const Node& node) const;
  void execute(std::int64_t id);
  void run_until(std::int64_t id);
  [[noreturn]] void report_deadlock(std::int64_t awaited) const;
  [[noreturn]] void report_race(std::int64_t first, std::int64_t second) const;
  std::string describe(const Node& node) const;
  void throw_pending();
  void host_waits_for(std::int64_t id);
  Arena& arena(Place place);
  int engine_of(Place from, Place to) const;
  Task task_of(const Node& node);

  Topology topology_;
  VirtualMode mode_;
  std::shared_ptr<const Kernels> kernels_;
  std::mt19937_64 random_;
  std::uint64_t seed_;
  std::uint64_t memory_limit_ = 0;
  GpuMemory memory_;  // an engine's pool, or empty
  Faults faults_;
  std::uint64_t allocations_ = 0, large_copies_ = 0;
  std::map<Place, std::unique_ptr<Arena>> arenas_;
  std::unordered_map<std::uint32_t, std::string> live_;  // allocation → label
  std::unordered_map<std::uint32_t, std::string> freed_;
  std::uint32_t next_allocation_ = 1;
  std::uintptr_t next_fake_address_ = 1 << 20;

  std::vector<Lane> lanes_;
  std::vector<FlagState> flags_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Recorded> events_;
  WaitLog waits_;
  std::shared_ptr<VirtualRuntime*> self_;  // for shared events, which may outlive the runtime; then holds null
  std::uint64_t past_ = 0;                 // full clears of the timeline; events from before one have happened
  RaceDetector races_;
  VectorClock host_clock_;
  std::int64_t host_accesses_ = 0;
  std::int64_t host_fence_ = -1;  // the node of the host's latest wait or access
  std::string pending_error_;     // found where throwing is not possible; thrown later
  std::string phase_ = "work";
  std::atomic<std::uint64_t> enqueued_ = 0, finished_ = 0;
  std::stop_token stop_;
};

}  // namespace linkwise
