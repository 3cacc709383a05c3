#include "linkwise/primitives/host/stream_copy.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace linkwise {

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
#ifdef __SSE2__
  constexpr std::size_t line = 64;
  const std::size_t head = std::min((line - reinterpret_cast<std::uintptr_t>(to) % line) % line, bytes);
  std::memcpy(to, from, head);
  to += head;
  from += head;
  bytes -= head;
  for (; bytes >= line; bytes -= line, to += line, from += line) {
    __m128i words[4];
    for (int w = 0; w < 4; ++w) words[w] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + w);
    for (int w = 0; w < 4; ++w) _mm_stream_si128(reinterpret_cast<__m128i*>(to) + w, words[w]);
  }
  _mm_sfence();
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace linkwise
