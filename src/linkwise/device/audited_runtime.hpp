// Wraps another runtime and audits its operations: does each read and write what it declares, and nothing else?
//
// Each operation is run alone, twice. For the second run, all memory that it does not declare to read is changed: the
// guard bytes around every buffer, other buffers, and what it only writes. The operation must leave alone what it
// does not declare to write, and must produce the same from what it reads. On GPUs, where scratch memory may end up
// with any contents, results that differ are no finding; the program's own result shows whether they were right. The
// second result is kept if it equals the first. If not, as when rows come in no particular order, that of a third run
// is kept, for which the memory that the operation writes has its original contents.
//
// Flags are refused: an operation that runs alone could wait for one for ever.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "linkwise/device/runtime.hpp"

namespace linkwise {

class AuditedRuntime final : public Runtime {
 public:
  /// `inner` must outlive it.
  explicit AuditedRuntime(Runtime& inner);
  ~AuditedRuntime() override;

  [[nodiscard]] Runtime& inner() const { return inner_; }
  /// How many operations were audited, and what was found, a line each.
  [[nodiscard]] std::uint64_t audited() const { return audited_; }
  [[nodiscard]] const std::vector<std::string>& findings() const { return findings_; }

  const Machine& machine() const override { return inner_.machine(); }
  const Kernels& kernels() const override { return inner_.kernels(); }
  bool simulated() const override { return inner_.simulated(); }
  bool estimating() const override { return inner_.estimating(); }
  bool reach_each_other(std::span<const int> gpus) const override { return inner_.reach_each_other(gpus); }
  bool is_mapped_for_peers(const MemoryView& view) const override { return inner_.is_mapped_for_peers(view); }
  std::uint64_t available(Place place) override { return inner_.available(place); }
  std::uint64_t reserved(Place place) override { return inner_.reserved(place); }
  void set_memory_limit(std::uint64_t bytes) override { inner_.set_memory_limit(bytes); }
  /// Adds room for the guard bytes around buffers.
  void reserve(Place place, std::uint64_t bytes) override { inner_.reserve(place, bytes + bytes / 4 + (1 << 16)); }
  void trim() override;
  Stream stream(Place place, std::string_view name, Priority priority) override {
    return inner_.stream(place, name, priority);
  }
  using Runtime::read_back;
  using Runtime::stream;
  Event record(Stream stream, Site site) override { return inner_.record(stream, site); }
  void wait(Stream stream, Event event, Site site) override { inner_.wait(stream, event, site); }
  Flag flag(std::string_view) override { refuse_flags(); }
  void set(Stream, Flag, std::uint32_t) override { refuse_flags(); }
  void wait(Stream, Flag, std::uint32_t, Site) override { refuse_flags(); }
  void wait(Event event, Site site) override { inner_.wait(event, site); }
  void synchronize(Site site = Site::current()) override;
  void abandon() noexcept override;
  Stream foreign_stream(Place place, void* native) override { return inner_.foreign_stream(place, native); }
  void flush(Site site) override { inner_.flush(site); }
  std::shared_ptr<SharedEvent> share(Event event) override { return inner_.share(event); }
  std::shared_ptr<SharedEvent> record_foreign(Place place, void* native) override {
    return inner_.record_foreign(place, native);
  }
  void fetch(void* to, const MemoryView& from, SharedEvent& ready) override { inner_.fetch(to, from, ready); }
  void enqueue(Stream stream, Operation operation) override;
  void copy(Stream stream, const MemoryView& to, const MemoryView& from) override { inner_.copy(stream, to, from); }
  void copy_pieces(Stream stream, std::span<const CopyPiece> pieces) override { inner_.copy_pieces(stream, pieces); }
  void read_back(std::span<const ReadBack> reads, Site site) override { inner_.read_back(reads, site); }
  void host_reads(const MemoryView& view, std::string_view purpose) override { inner_.host_reads(view, purpose); }
  void host_writes(const MemoryView& view, std::string_view purpose) override { inner_.host_writes(view, purpose); }
  void set_phase(std::string_view phase) override { inner_.set_phase(phase); }
  std::vector<TimelineEntry> timeline() override { return inner_.timeline(); }
  void clear_timeline() override;
  Progress progress() const override { return inner_.progress(); }
  std::stop_token set_stop_token(std::stop_token token) override { return inner_.set_stop_token(std::move(token)); }

 protected:
  MemoryView allocate_memory(Place place, std::uint64_t bytes, std::string_view label) override;
  void release_memory(const MemoryView& view) noexcept override;
  void take_memory_from(GpuMemory memory) override { inner_.use_memory(std::move(memory)); }

 private:
  /// Audited memory: `reads` and `writes` mask (with 0xFF) the bytes that the operation declares; `before` and
  /// `after` are the contents around its first run; `changed` and `again` those around the second, with the
  /// undeclared reads changed.
  struct Range {
    MemoryView view;
    std::string label;
    std::vector<std::byte> reads = {}, writes = {};
    std::vector<std::byte> before = {}, after = {}, changed = {}, again = {};
  };

  [[noreturn]] static void refuse_flags();
  std::vector<Range> ranges_around(const Operation& operation) const;
  std::vector<std::byte> contents(const MemoryView& view);
  void set_contents(const MemoryView& view, const std::vector<std::byte>& bytes);
  void run_alone(Stream stream, const Operation& operation);
  bool compare(const Operation& operation, const Range& range);
  void run_for_its_result(Stream stream, const Operation& operation, std::vector<Range>& ranges);
  void keep(std::vector<Range>& ranges);
  void find(const Operation& operation, const Range& range, std::size_t at, const std::string& what);

  struct Allocation {
    Buffer whole;  // including the guard bytes
    std::string label;
  };

  Runtime& inner_;
  std::map<const std::byte*, Allocation> allocations_;  // by the address of the requested part
  std::uint64_t audited_ = 0;
  std::vector<std::string> findings_;
};

}  // namespace linkwise
