#include "linkwise/device/virtual/race_detector.hpp"

#include <algorithm>

namespace linkwise {

void join(VectorClock& clock, const VectorClock& other) {
  if (clock.size() < other.size()) clock.resize(other.size(), 0);
  for (std::size_t s = 0; s < other.size(); ++s) clock[s] = std::max(clock[s], other[s]);
}

bool RaceDetector::ordered(const Access& access, const VectorClock& clock) {
  return access.stream < static_cast<int>(clock.size()) && clock[access.stream] >= access.number;
}

// Makes `at` a boundary between ranges and returns the first range that begins at or after it.
RaceDetector::Ranges::iterator RaceDetector::split(std::uintptr_t at) {
  auto next = ranges_.lower_bound(at);
  if (next == ranges_.begin()) return next;
  const auto before = std::prev(next);
  if (before->second.end <= at) return next;
  History upper = before->second;
  before->second.end = at;
  return ranges_.emplace_hint(next, at, std::move(upper));
}

std::optional<std::int64_t> RaceDetector::conflict_with_all(std::uintptr_t begin, std::uintptr_t end,
                                                            const VectorClock& clock) {
  split(begin);
  split(end);
  for (auto range = ranges_.lower_bound(begin); range != ranges_.end() && range->first < end; ++range) {
    const History& history = range->second;
    if (history.write && !ordered(*history.write, clock)) return history.write->operation;
    for (const Access& reader : history.reads)
      if (!ordered(reader, clock)) return reader.operation;
  }
  return std::nullopt;
}

std::optional<std::int64_t> RaceDetector::write(std::uintptr_t begin, std::uintptr_t end, const Access& access,
                                                const VectorClock& clock) {
  const auto conflict = conflict_with_all(begin, end, clock);
  ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
  ranges_[begin] = {end, access, {}};
  return conflict;
}

std::optional<std::int64_t> RaceDetector::read(std::uintptr_t begin, std::uintptr_t end, const Access& access,
                                               const VectorClock& clock) {
  std::optional<std::int64_t> conflict;
  split(begin);
  split(end);
  std::uintptr_t at = begin;
  auto range = ranges_.lower_bound(begin);
  while (at < end) {
    if (range == ranges_.end() || range->first > at) {  // a gap that nobody touched yet
      const std::uintptr_t gap_end = range == ranges_.end() ? end : std::min(end, range->first);
      range = std::next(ranges_.emplace_hint(range, at, History{gap_end, std::nullopt, {access}}));
      at = gap_end;
      continue;
    }
    History& history = range->second;
    if (history.write && !ordered(*history.write, clock)) conflict = history.write->operation;
    const auto same_stream = std::ranges::find(history.reads, access.stream, &Access::stream);
    if (same_stream == history.reads.end()) {
      history.reads.push_back(access);
    } else {
      *same_stream = access;
    }
    at = history.end;
    ++range;
  }
  return conflict;
}

std::optional<std::int64_t> RaceDetector::forget(std::uintptr_t begin, std::uintptr_t end, const VectorClock& clock) {
  const auto conflict = conflict_with_all(begin, end, clock);
  ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
  return conflict;
}

}  // namespace linkwise
