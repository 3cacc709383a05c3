// Concurrent writes of disjoint parts of one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace linkwise {

/// Allocates space in a regular file, which grows if it must. False if the file system does not support this.
/// @throws std::system_error, for example when the disk is full.
bool allocate(int file, std::uint64_t offset, std::uint64_t bytes);

/// Writes bytes to a regular file at an offset, which may lie past its end; several threads may write disjoint parts
/// at once. `write` would serialise them, since it locks the file: instead, the space is allocated, unless it
/// `is_allocated`, and the bytes are copied into mapped pages. Falls back to pwrite where the file system cannot
/// allocate or map the space. @throws std::system_error, for example when the disk is full.
void write_at(int file, std::uint64_t offset, std::span<const std::byte> bytes, bool is_allocated);

}  // namespace linkwise
