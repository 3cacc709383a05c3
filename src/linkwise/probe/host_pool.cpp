#include "linkwise/probe/host_pool.hpp"

#include <algorithm>
#include <bit>

#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t first_of_all = std::uint64_t{1} << 60;  // no pattern sends such numbers

}  // namespace

HostPool::HostPool(Runtime& runtime, std::uint64_t bytes) {
  for (MemoryView* end : {&source_, &target_}) {
    own_.push_back(runtime.allocate(Place::host(), bytes, "probe"));
    *end = own_.back().view();
  }
  fill();
}

HostPool::HostPool(MemoryView source, MemoryView target) : source_(source), target_(target) { fill(); }

void HostPool::fill() {
  auto* numbers = reinterpret_cast<std::uint64_t*>(source_.data);
  const std::uint64_t count = source_.bytes / 8;
#pragma omp parallel for num_threads(team())
  for (std::uint64_t i = 0; i < count; ++i) numbers[i] = first_of_all + i;
}

std::uint64_t HostPool::windows(std::uint64_t window_bytes) const {
  const std::uint64_t pages = (std::max<std::uint64_t>(window_bytes, 1) + page - 1) / page;
  return std::bit_floor(std::min(source_.bytes, target_.bytes) / (pages * page));
}

// Consecutive windows are about a golden section of the pool apart, so they are never close to each other. The stride
// is odd and the number of windows a power of two, so windows that are in use at once are distinct.
std::uint64_t HostPool::offset(std::uint64_t window_bytes, std::uint64_t index, std::uint64_t together,
                               int repetition) const {
  const std::uint64_t all = std::max<std::uint64_t>(windows(window_bytes), 1);
  const std::uint64_t stride = (all * 5 / 8) | 1;
  const std::uint64_t window = (static_cast<std::uint64_t>(repetition) * together + index) * stride % all;
  const std::uint64_t pitch = std::min(source_.bytes, target_.bytes) / all / page * page;
  return window * pitch;
}

MemoryView HostPool::source_window(std::uint64_t window_bytes, std::uint64_t index, std::uint64_t together,
                                   int repetition) const {
  return source_.slice(offset(window_bytes, index, together, repetition), window_bytes);
}

MemoryView HostPool::target_window(std::uint64_t window_bytes, std::uint64_t index, std::uint64_t together,
                                   int repetition) const {
  return target_.slice(offset(window_bytes, index, together, repetition), window_bytes);
}

std::uint64_t HostPool::first_number(const MemoryView& window) const {
  return first_of_all + static_cast<std::uint64_t>(window.data - source_.data) / 8;
}

}  // namespace linkwise
