// Copying to memory that nobody reads soon.
#pragma once

#include <cstddef>

namespace linkwise {

/// memcpy that goes around the caches: lines are written without having been read, and push nothing out.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace linkwise
