// Concurrent writes of disjoint parts of one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace linkwise {

/// Writes bytes to a regular file at an offset, which may lie past its end; several threads may write disjoint parts
/// at once. `write` would serialise them, since it locks the file: instead, the space is allocated and the bytes are
/// copied into mapped pages. Falls back to pwrite where the file system cannot allocate or map the space.
/// @throws std::system_error, for example when the disk is full.
void write_at(int file, std::uint64_t offset, std::span<const std::byte> bytes);

}  // namespace linkwise
