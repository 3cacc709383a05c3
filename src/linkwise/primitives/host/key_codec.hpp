// Keys on the host's cores: encode, decode, and sampling, for memory that no device can read itself.
#pragma once

#include <cstdint>

#include "linkwise/primitives/types.hpp"

namespace linkwise {

/// See Kernels::encode, ::decode and ::sample.
void encode_on_host(KeyType type, bool descending, const void* from, void* to, std::uint64_t count);
void decode_on_host(KeyType type, bool descending, const void* from, void* to, std::uint64_t count);
/// The code by which joins compare a key: -0.0 equals 0.0, and all NaNs are equal.
std::uint64_t joined_code_at(const void* keys, KeyType type, std::uint64_t position);
/// Whether the keys at [begin, end) all match each other; on all cores.
bool all_join(const void* keys, KeyType type, std::uint64_t begin, std::uint64_t end);
/// 0, 1, … as values; in 16-byte values the upper half is 0.
void iota_on_host(ValueWidth width, void* to, std::uint64_t count);
void sample_on_host(KeyType type, bool descending, const void* keys, std::uint64_t count, std::uint64_t samples,
                    std::uint64_t seed, std::uint64_t tag_base, void* codes, std::uint64_t* tags);

}  // namespace linkwise
