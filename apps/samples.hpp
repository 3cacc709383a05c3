// Small programs that show what regions do, and what happens to programs that are wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "linkwise/device/runtime.hpp"

namespace linkwise::apps {

/// The pages that each of so many blocks writes of a region of `count` floats, found by a dry run of a kernel that
/// stores in places that only it knows; `said` of the floats, from the first on, are said to be all that it writes.
std::vector<std::vector<std::uint32_t>> dry_run_of_scatter(Runtime& runtime, std::uint32_t blocks, std::uint64_t count,
                                                           std::uint64_t said);
/// The same, from what the kernel is known to do.
std::vector<std::vector<std::uint32_t>> pages_of_scatter(std::uint32_t blocks, std::uint64_t count);

/// GPU 0 makes an array and GPU 1 reads it. What is wrong: "mapping", blocks store outside their chunks; "flush",
/// nobody waits until the array has arrived; or "none".
void run_wrong_producer(Runtime& runtime, const std::string& what);

}  // namespace linkwise::apps
