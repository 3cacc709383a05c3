#include "linkwise/primitives/row_hashes.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

#include "linkwise/primitives/views.hpp"

namespace linkwise {

void mix_into_hashes(Runtime& runtime, Stream stream, KeyWidth width, const MemoryView& elements,
                     const MemoryView& hashes) {
  const auto bytes = static_cast<std::uint64_t>(width);
  require(hashes.bytes % 8 == 0 && elements.bytes == hashes.bytes / 8 * bytes, "hash rows", "an element for each row");
  if (hashes.bytes == 0) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"hash rows",
                           {elements, hashes},
                           {hashes},
                           {"encode", hashes.bytes / 8, static_cast<double>(bytes)},
                           [=, &kernels](void* native) {
                             kernels.mix_into_hashes(native, width, elements.data, pointer<std::uint64_t>(hashes),
                                                     hashes.bytes / 8);
                           }});
}

void count_unequal(Runtime& runtime, Stream stream, KeyWidth width, int index_bytes, std::span<const MemoryView> left,
                   const MemoryView& left_rows, std::span<const MemoryView> right, const MemoryView& right_rows,
                   const MemoryView& unequal) {
  require(index_bytes == 4 || index_bytes == 8, "count unequal", "indices have 4 or 8 bytes");
  require(left_rows.bytes == right_rows.bytes && left_rows.bytes % static_cast<std::uint64_t>(index_bytes) == 0,
          "count unequal", "as many rows of both sides");
  require(unequal.bytes == 8, "count unequal", "a number of 64 bits");
  const std::uint64_t count = left_rows.bytes / static_cast<std::uint64_t>(index_bytes);
  if (count == 0) return;
  const auto bytes = static_cast<std::uint64_t>(width);
  const RawPieces of_left = raw_pieces(left, bytes, "count unequal"),
                  of_right = raw_pieces(right, bytes, "count unequal");
  std::vector<MemoryView> reads{left_rows, right_rows, unequal};
  for (const std::span<const MemoryView> side : {left, right})
    std::ranges::copy_if(side, std::back_inserter(reads), [](const MemoryView& piece) { return piece.bytes > 0; });
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"count unequal",
                           std::move(reads),
                           {unequal},
                           {"gather", count, 2 * static_cast<double>(bytes)},
                           [=, &kernels](void* native) {
                             kernels.count_unequal(native, width, index_bytes, of_left, left_rows.data, of_right,
                                                   right_rows.data, count, pointer<std::uint64_t>(unequal));
                           }});
}

}  // namespace linkwise
