#include "linkwise/primitives/host/key_codec.hpp"

#include <type_traits>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/encoding.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t worthwhile = 1 << 16;  // elements from which several threads pay off

template <typename Bits>
using CodeOf = std::conditional_t<sizeof(Bits) == 8, std::uint64_t, std::uint32_t>;

template <typename Bits>
CodeOf<Bits> joined_code(Bits key, KeyType type) {
  const CodeOf<Bits> code = encode_bits<Bits>(key, key_class(type), /*descending=*/false);
  if constexpr (sizeof(Bits) >= 2)
    if (key_class(type) == KeyClass::floating) return unified_float<Bits>(code);
  return code;
}

}  // namespace

void encode_on_host(KeyType type, bool descending, const void* from, void* to, std::uint64_t count) {
  with_bits(native_bytes(type), [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    const auto* native = static_cast<const Bits*>(from);
    auto* codes = static_cast<CodeOf<Bits>*>(to);
#pragma omp parallel for num_threads(team_if(count > worthwhile))
    for (std::uint64_t i = 0; i < count; ++i) codes[i] = encode_bits<Bits>(native[i], key_class(type), descending);
  });
}

void decode_on_host(KeyType type, bool descending, const void* from, void* to, std::uint64_t count) {
  with_bits(native_bytes(type), [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    const auto* codes = static_cast<const CodeOf<Bits>*>(from);
    auto* native = static_cast<Bits*>(to);
#pragma omp parallel for num_threads(team_if(count > worthwhile))
    for (std::uint64_t i = 0; i < count; ++i)
      native[i] = decode_bits<Bits>(static_cast<Bits>(codes[i]), key_class(type), descending);
  });
}

std::uint64_t joined_code_at(const void* keys, KeyType type, std::uint64_t position) {
  std::uint64_t code = 0;
  with_bits(native_bytes(type), [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    code = joined_code(static_cast<const Bits*>(keys)[position], type);
  });
  return code;
}

bool all_join(const void* keys, KeyType type, std::uint64_t begin, std::uint64_t end) {
  bool equal = true;
  with_bits(native_bytes(type), [&](auto tag) {
    const auto* native = static_cast<const typename decltype(tag)::type*>(keys);
#pragma omp parallel for reduction(&& : equal) num_threads(team_if(end - begin > worthwhile))
    for (std::uint64_t i = begin; i < end; ++i)
      equal = equal && joined_code(native[i], type) == joined_code(native[begin], type);
  });
  return equal;
}

void iota_on_host(ValueWidth width, void* to, std::uint64_t count) {
  with_value(width, [&](auto tag) {
    using Value = typename decltype(tag)::type;
    auto* values = static_cast<Value*>(to);
#pragma omp parallel for num_threads(team_if(count > worthwhile))
    for (std::uint64_t i = 0; i < count; ++i)
      if constexpr (!std::is_same_v<Value, NoValue>) values[i] = row_number<Value>(i);
  });
}

void sample_on_host(KeyType type, bool descending, const void* keys, std::uint64_t count, std::uint64_t samples,
                    std::uint64_t seed, std::uint64_t tag_base, void* codes, std::uint64_t* tags) {
  with_bits(native_bytes(type), [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    const auto* native = static_cast<const Bits*>(keys);
    auto* to = static_cast<CodeOf<Bits>*>(codes);
    // Every sample is a cache miss: with many cores, many are in flight.
#pragma omp parallel for num_threads(team_if(samples > 4096))
    for (std::uint64_t i = 0; i < samples; ++i) {
      const std::uint64_t position = sample_position(i, samples, count, seed);
      to[i] = encode_bits<Bits>(native[position], key_class(type), descending);
      tags[i] = tag_base + position;
    }
  });
}

}  // namespace linkwise
