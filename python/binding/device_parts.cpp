#include "device_parts.hpp"

#include "linkwise/error.hpp"

namespace linkwise::binding {

void require_same(const DeviceArray& array, const DeviceArray& first, const Runtime& runtime) {
  if (array.type != first.type) throw UsageError("the arrays differ in type");
  if (&array.memory->runtime() != &runtime) throw UsageError("an array lies on the GPUs of another runtime");
}

void require_on(const DeviceArray& array, int gpu) {
  if (array.view.place != Place::gpu(gpu))
    throw UsageError("an array does not lie on the GPU that it is said to be on");
}

std::vector<MemoryView> views_of(const Parts& column, const Gpus& gpus, const Runtime& runtime) {
  if (gpus.empty() || column.size() != gpus.size())
    throw UsageError("there must be an array of the column, and one of row numbers, for each GPU");
  std::vector<MemoryView> views;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    require_same(column[g], column.front(), runtime);
    require_on(column[g], gpus[g]);
    views.push_back(column[g].view);
  }
  return views;
}

std::vector<DeviceColumn> columns_of(const std::vector<Parts>& columns, const Gpus& gpus, const Runtime& runtime) {
  if (columns.empty()) throw UsageError("rows are compared by at least one column");
  std::vector<DeviceColumn> found;
  for (const Parts& column : columns) {
    std::vector<MemoryView> parts = views_of(column, gpus, runtime);
    found.push_back({column.front().type.bits / 8, std::move(parts)});
  }
  return found;
}

std::vector<StringPiece> pieces_of(const Strings& strings, const Gpus& gpus) {
  const auto& [offsets, bytes] = strings;
  if (gpus.empty() || offsets.size() != bytes.size() || offsets.size() % gpus.size() != 0)
    throw UsageError("there must be offsets and bytes of strings on each GPU");
  std::vector<StringPiece> pieces;
  for (std::size_t p = 0; p < offsets.size(); ++p) {
    const Place place = Place::gpu(gpus[p % gpus.size()]);
    if (offsets[p].view.place != place || bytes[p].view.place != place || offsets[p].type.bits != 64)
      throw UsageError("offsets of strings have 64 bits, and lie on the GPU of the bytes");
    pieces.push_back({offsets[p].view, bytes[p].view});
  }
  return pieces;
}

}  // namespace linkwise::binding
