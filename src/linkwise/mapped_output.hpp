// Parts of a file that several threads write side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace linkwise {

/// Writes bytes to a regular file at an offset, behind its end or not; parts that do not overlap may be written by
/// several threads at once. `write` would have them wait for each other, since it locks the file: room is made, and the
/// bytes are copied into pages that are mapped. A file system that makes no room is written as usual.
/// @throws std::system_error, as where the disk is full.
void write_at(int file, std::uint64_t offset, std::span<const std::byte> bytes);

}  // namespace linkwise
