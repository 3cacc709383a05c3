// The stable order of keys with few distinct values, as bools, categories and states have: row numbers are counted and
// then written to where they belong, without moving the keys.
#pragma once

#include "linkwise/device/runtime.hpp"
#include "linkwise/sort/host_columns.hpp"
#include "linkwise/sort/host_io.hpp"

namespace linkwise {

/// Writes the row numbers in the order of the keys, and the sorted keys if they are wanted, on all cores. Returns
/// false if it does not suit the input, and then the outputs have no meaning: if it has values, or few rows, or if the
/// codes of two keys differ by 256 or more. @throws CorruptDataError if, with `verify`, checksums differ.
bool counting_sort(const HostColumns& input, const HostOutputs& output, const SortOptions& options);

}  // namespace linkwise
