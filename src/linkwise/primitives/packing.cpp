#include "linkwise/primitives/packing.hpp"

#include "linkwise/primitives/require.hpp"

namespace linkwise {
namespace {

std::uint64_t count_of(IntegerType type, const MemoryView& column, const char* operation) {
  require(type.bytes == 4 || type.bytes == 8, operation, "integers have 4 or 8 bytes");
  require(column.bytes % static_cast<std::uint64_t>(type.bytes) == 0, operation, "whole integers");
  return column.bytes / static_cast<std::uint64_t>(type.bytes);
}

}  // namespace

void find_range(Runtime& runtime, Stream stream, IntegerType type, const MemoryView& column, const MemoryView& range) {
  const std::uint64_t count = count_of(type, column, "find range");
  require(range.bytes == sizeof(CodeRange), "find range", "a range has 16 bytes");
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream,
                  {"find range",
                   {column},
                   {range},
                   {"checksum", count, static_cast<double>(type.bytes)},
                   [=, &kernels](void* native) { kernels.find_range(native, type, column.data, count, range.data); }});
}

void pack(Runtime& runtime, Stream stream, const Packing& packing, const MemoryView& column, KeyWidth key_width,
          const MemoryView& keys) {
  const std::uint64_t count = count_of(packing.type, column, "pack"), width = static_cast<std::uint64_t>(key_width);
  require(keys.bytes == width * count, "pack", "a key for each row");
  require(packing.bits >= 0 && packing.bits <= 64, "pack", "at most 64 bits");
  if (count == 0) return;
  std::vector<MemoryView> reads{column};
  if (!packing.is_first) reads.push_back(keys);
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"pack",
                           std::move(reads),
                           {keys},
                           {"encode", count, static_cast<double>(packing.type.bytes) + static_cast<double>(width)},
                           [=, &kernels](void* native) {
                             kernels.pack(native, packing, column.data, key_width, keys.data, count);
                           }});
}

}  // namespace linkwise
