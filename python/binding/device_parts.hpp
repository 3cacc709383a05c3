// Columns of device arrays, a part on each GPU, as the core takes them.
#pragma once

#include <utility>
#include <vector>

#include "device_arrays.hpp"
#include "linkwise/primitives/string_views.hpp"
#include "linkwise/transfer/device_columns.hpp"

namespace linkwise::binding {

using Gpus = std::vector<int>;
using Parts = std::vector<DeviceArray>;
using Strings = std::pair<Parts, Parts>;  // offsets and bytes

/// @throws UsageError if the arrays differ in type, or lie on the GPUs of several runtimes.
void require_same(const DeviceArray& array, const DeviceArray& first, const Runtime& runtime);
void require_on(const DeviceArray& array, int gpu);

/// Each GPU's part of a column. @throws UsageError unless there is one on each of them.
std::vector<MemoryView> views_of(const Parts& column, const Gpus& gpus, const Runtime& runtime);
/// At least one column. @throws UsageError.
std::vector<DeviceColumn> columns_of(const std::vector<Parts>& columns, const Gpus& gpus, const Runtime& runtime);
/// The pieces of a column of strings, which may consist of several that have a part on each GPU. @throws UsageError.
std::vector<StringPiece> pieces_of(const Strings& strings, const Gpus& gpus);

}  // namespace linkwise::binding
