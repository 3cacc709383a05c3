// Non-temporal stores, for memory that is not read again soon: they bypass the caches, so that lines are neither read
// before they are written nor evict others.
#pragma once

#include <cstddef>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace linkwise {

inline constexpr std::size_t cache_line = 64;

/// Copies whole cache lines to a line-aligned target; other threads see them after `finish_streaming`.
inline void stream_lines(void* to, const void* from, std::size_t lines) {
#ifdef __SSE2__
  auto* target = static_cast<__m128i*>(to);
  const auto* source = static_cast<const __m128i*>(from);
  for (; lines > 0; --lines, target += 4, source += 4) {
    __m128i words[4];
    for (int w = 0; w < 4; ++w) words[w] = _mm_loadu_si128(source + w);
    for (int w = 0; w < 4; ++w) _mm_stream_si128(target + w, words[w]);
  }
#else
  std::memcpy(to, from, lines * cache_line);
#endif
}

inline void finish_streaming() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

/// memcpy with non-temporal stores.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes);
/// The same on all cores.
void copy_on_host(void* to, const void* from, std::size_t bytes);

}  // namespace linkwise
