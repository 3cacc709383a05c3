// Probing sorted keys and expanding matches on one core, for virtual devices: a reference for the CUDA kernels.
#pragma once

#include <cstdint>

#include "linkwise/primitives/kernels.hpp"

namespace linkwise {

/// The sum of the integers at [begin, end), modulo 2^64; on all cores.
std::uint64_t sum_of_integers(const void* values, IntegerType type, std::uint64_t begin, std::uint64_t end);

/// See Kernels::probe, find_ranges, hash_probe, expand and expand_unmatched.
void probe_on_host(const RawProbe& probe, MatchTotals* totals);
void find_ranges_on_host(const RawRangeSearch& search, RangeTotals* totals);
void hash_probe_on_host(const RawHashProbe& probe, MatchTotals* totals);
void expand_on_host(const RawEmitting& left, const RawEmitting& right, const RawWindow& window);
void expand_unmatched_on_host(const RawEmitting& left, const RawEmitting& right, const RawWindow& window);

}  // namespace linkwise
