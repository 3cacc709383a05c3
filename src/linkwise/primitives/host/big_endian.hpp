// Integers of a few bytes, the most significant first, as Parquet stores decimals (Apache Parquet, LogicalTypes.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace linkwise {

/// Decodes signed integers of `bytes` bytes each into numbers of `number_bytes` bytes, 4 or 8, on all cores.
/// @throws UsageError for other widths, where a number has fewer bytes than an integer, or if one is cut off.
void decode_big_endian(std::span<const std::uint8_t> from, std::size_t bytes, std::size_t number_bytes, std::byte* to);

}  // namespace linkwise
