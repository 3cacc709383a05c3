#include "linkwise/primitives/host/stream_copy.hpp"

#include <algorithm>
#include <cstdint>

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

}  // namespace linkwise
