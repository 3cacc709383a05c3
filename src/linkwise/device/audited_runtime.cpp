#include "linkwise/device/audited_runtime.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include "linkwise/error.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t around = 256;  // guard bytes on each side of a buffer
constexpr std::byte other{0xA5};       // XORed into bytes that are not declared as read

using Bytes = std::vector<std::byte>;

bool overlap(const MemoryView& a, const MemoryView& b) {
  return a.data < b.data + b.bytes && b.data < a.data + a.bytes;
}

// A mask of the range: 0xFF for each byte that any of the views covers.
Bytes marks_of(const MemoryView& range, const std::vector<MemoryView>& views) {
  Bytes marks(range.bytes);
  for (const MemoryView& view : views) {
    if (!overlap(range, view)) continue;
    const std::byte *first = std::max(range.data, view.data),
                    *last = std::min(range.data + range.bytes, view.data + view.bytes);
    std::fill(marks.begin() + (first - range.data), marks.begin() + (last - range.data), std::byte{0xFF});
  }
  return marks;
}

}  // namespace

AuditedRuntime::AuditedRuntime(Runtime& inner) : inner_(inner) {}

AuditedRuntime::~AuditedRuntime() { drop_retired(); }

void AuditedRuntime::refuse_flags() { throw UsageError("an audited runtime runs one operation at a time: no flags"); }

void AuditedRuntime::trim() {
  synchronize();
  inner_.trim();
}

void AuditedRuntime::synchronize(Site site) {
  inner_.synchronize(site);
  release_retired();
}

void AuditedRuntime::abandon() noexcept {
  inner_.abandon();
  try {
    release_retired();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): other software's error; later calls meet it too
  }
}

void AuditedRuntime::clear_timeline() {
  inner_.clear_timeline();
  release_retired();
}

MemoryView AuditedRuntime::allocate_memory(Place place, std::uint64_t bytes, std::string_view label) {
  Buffer whole = inner_.allocate(place, bytes + 2 * around, label);
  const MemoryView view = whole.slice(around, bytes);
  allocations_.emplace(view.data, Allocation{std::move(whole), std::string(label)});
  return view;
}

void AuditedRuntime::release_memory(const MemoryView& view) noexcept { allocations_.erase(view.data); }

// All of our allocations, and the other memory that the operation names, with overlapping parts merged.
std::vector<AuditedRuntime::Range> AuditedRuntime::ranges_around(const Operation& operation) const {
  std::vector<Range> ranges;
  for (const auto& [data, allocation] : allocations_)
    if (allocation.whole.view().bytes > 0) ranges.push_back({allocation.whole.view(), allocation.label});
  std::vector<MemoryView> others;
  for (const std::vector<MemoryView>* views : {&operation.reads, &operation.writes})
    for (const MemoryView& view : *views)
      if (view.bytes > 0 && std::ranges::none_of(ranges, [&](const Range& range) { return overlap(range.view, view); }))
        others.push_back(view);
  std::ranges::sort(others, {}, &MemoryView::data);
  for (std::size_t i = 0; i < others.size(); ++i) {
    MemoryView whole = others[i];
    for (; i + 1 < others.size() && overlap(whole, others[i + 1]); ++i)
      whole.bytes = std::max<std::uint64_t>(whole.bytes, others[i + 1].data + others[i + 1].bytes - whole.data);
    ranges.push_back({whole, "the caller's"});
  }
  for (Range& range : ranges) {
    range.reads = marks_of(range.view, operation.reads);
    range.writes = marks_of(range.view, operation.writes);
  }
  return ranges;
}

std::vector<std::byte> AuditedRuntime::contents(const MemoryView& view) {
  Bytes bytes(view.bytes);
  if (!view.place.is_gpu()) std::memcpy(bytes.data(), view.data, view.bytes);
  else inner_.copy(inner_.stream(view.place, "audit"), host_view(bytes.data(), 0, view.bytes, /*pageable=*/true), view);
  inner_.synchronize();
  return bytes;
}

void AuditedRuntime::set_contents(const MemoryView& view, const std::vector<std::byte>& bytes) {
  if (!view.place.is_gpu()) std::memcpy(view.data, bytes.data(), view.bytes);
  else inner_.copy(inner_.stream(view.place, "audit"), view, host_view(bytes.data(), 0, view.bytes, /*pageable=*/true));
  inner_.synchronize();
}

void AuditedRuntime::run_alone(Stream stream, const Operation& operation) {
  try {
    inner_.enqueue(stream, operation);
    inner_.synchronize();
  } catch (const DeviceError& error) {
    throw DeviceError("'" + operation.name + "', audited: " + error.what());
  }
}

void AuditedRuntime::find(const Operation& operation, const Range& range, std::size_t at, const std::string& what) {
  findings_.push_back("'" + operation.name + "' " + what + " byte " + std::to_string(at) + " of " +
                      std::to_string(range.view.bytes) + " around '" + range.label + "' at " + range.view.place.name());
}

// Reports at most one finding per range. Returns whether both runs left the same bytes where the operation may write.
bool AuditedRuntime::compare(const Operation& operation, const Range& range) {
  const bool is_repeatable = simulated();
  const auto touched = [&](std::size_t at) {
    return (range.after[at] ^ range.before[at]) | (range.again[at] ^ range.changed[at]);
  };
  std::byte undeclared{}, differing{};
  for (std::size_t at = 0; at < range.view.bytes; ++at) {
    const std::byte of_both = range.after[at] ^ range.again[at];
    undeclared |= touched(at) & ~range.writes[at];
    differing |= touched(at) == std::byte{} ? std::byte{} : of_both & range.writes[at];
  }
  const auto first = [&](const auto& is_it) {
    std::size_t at = 0;
    while (!is_it(at)) ++at;
    return at;
  };
  if (undeclared != std::byte{})
    find(operation, range, first([&](std::size_t at) { return (touched(at) & ~range.writes[at]) != std::byte{}; }),
         "writes, undeclared,");
  else if (is_repeatable && differing != std::byte{})
    find(operation, range, first([&](std::size_t at) {
           return touched(at) != std::byte{} && range.writes[at] != std::byte{} && range.after[at] != range.again[at];
         }),
         "reads something undeclared, from which it makes");
  return differing == std::byte{};
}

// If rows come in no particular order, a byte that neither run changed may have been written by both, each time with
// the value that it had. So the operation runs once more, with the memory that it writes in its original state.
void AuditedRuntime::run_for_its_result(Stream stream, const Operation& operation, std::vector<Range>& ranges) {
  for (Range& range : ranges) {
    for (std::size_t at = 0; at < range.view.bytes; ++at)
      range.changed[at] = range.before[at] ^ (other & ~range.reads[at] & ~range.writes[at]);
    set_contents(range.view, range.changed);
  }
  run_alone(stream, operation);
  for (Range& range : ranges) {
    range.again = contents(range.view);
    for (std::size_t at = 0; at < range.view.bytes; ++at)
      range.again[at] ^= (range.again[at] ^ range.before[at]) & ~range.writes[at];
    set_contents(range.view, range.again);
  }
}

void AuditedRuntime::enqueue(Stream stream, Operation operation) {
  if (!operation.run || inner_.estimating()) return inner_.enqueue(stream, std::move(operation));
  inner_.synchronize();
  std::vector<Range> ranges = ranges_around(operation);
  for (Range& range : ranges) range.before = contents(range.view);
  run_alone(stream, operation);
  for (Range& range : ranges) {
    range.after = contents(range.view);
    range.changed = range.before;
    for (std::size_t at = 0; at < range.view.bytes; ++at) range.changed[at] ^= other & ~range.reads[at];
    if (range.changed != range.after) set_contents(range.view, range.changed);
  }
  run_alone(stream, operation);
  bool are_alike = true;
  for (Range& range : ranges) {
    range.again = contents(range.view);
    are_alike = compare(operation, range) && are_alike;
  }
  if (!are_alike && !simulated()) run_for_its_result(stream, operation, ranges);
  else keep(ranges);
  ++audited_;
}

// Keeps the second run's bytes where a run changed memory that the operation may write, and restores the rest.
void AuditedRuntime::keep(std::vector<Range>& ranges) {
  for (Range& range : ranges) {
    const Bytes now = range.again;
    for (std::size_t at = 0; at < range.view.bytes; ++at) {
      const bool is_new = range.again[at] != range.changed[at] || range.after[at] != range.before[at];
      range.again[at] = is_new && range.writes[at] != std::byte{} ? range.again[at] : range.before[at];
    }
    if (range.again != now) set_contents(range.view, range.again);
  }
}

}  // namespace linkwise
