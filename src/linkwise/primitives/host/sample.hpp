// Sampling keys on the host's cores: what the device cannot read itself, because the memory is pageable.
#pragma once

#include <cstdint>

#include "linkwise/primitives/types.hpp"

namespace linkwise {

/// See Kernels::sample.
void sample_on_host(KeyType type, bool descending, const void* keys, std::uint64_t count, std::uint64_t samples,
                    std::uint64_t seed, std::uint64_t tag_base, void* codes, std::uint64_t* tags);

}  // namespace linkwise
