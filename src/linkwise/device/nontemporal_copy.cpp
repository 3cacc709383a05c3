#include "linkwise/device/nontemporal_copy.hpp"

#include <algorithm>
#include <cstdint>

#include "linkwise/team.hpp"

namespace linkwise {

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t into_line = reinterpret_cast<std::uintptr_t>(to) % cache_line;
  const std::size_t head = std::min((cache_line - into_line) % cache_line, bytes);
  std::memcpy(to, from, head);
  const std::size_t lines = (bytes - head) / cache_line;
  stream_lines(to + head, from + head, lines);
  finish_streaming();
  const std::size_t done = head + lines * cache_line;
  std::memcpy(to + done, from + done, bytes - done);
}

void copy_on_host(void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t block = 1 << 20;  // enough to be worth waking another core
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
#pragma omp parallel for num_threads(team_if(bytes > block))
  for (std::size_t at = 0; at < bytes; at += block) stream_copy(target + at, source + at, std::min(block, bytes - at));
}

}  // namespace linkwise
