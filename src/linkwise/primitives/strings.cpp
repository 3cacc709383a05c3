#include "linkwise/primitives/strings.hpp"

#include <utility>
#include <vector>

namespace linkwise {

void string_words(Runtime& runtime, Stream stream, const StringPiece& from, const MemoryView& nulls,
                  std::uint64_t begin, std::span<const MemoryView> to) {
  require(to.size() <= RawStringWords::most, "words of strings", "too many words at once");
  const RawStrings raw = raw_strings({&from, 1}, "words of strings");
  const std::uint64_t count = raw.offsets.begin[raw.offsets.count];
  require(nulls.bytes == 0 || nulls.bytes == count, "words of strings", "a byte for each row says whether it is null");
  if (count == 0 || to.empty()) return;
  std::vector<MemoryView> reads{from.offsets};
  for (const MemoryView& view : {from.bytes, nulls})
    if (view.bytes > 0) reads.push_back(view);
  RawStringWords words{.begin = begin};
  for (const MemoryView& word : to) {
    require(word.bytes == 8 * count, "words of strings", "64 bits for each row");
    words.word[words.count++] = reinterpret_cast<std::uint64_t*>(word.data);
  }
  const auto* is_null = nulls.bytes == 0 ? nullptr : reinterpret_cast<const std::uint8_t*>(nulls.data);
  const double bytes_each = 8 * static_cast<double>(to.size() + 1) + static_cast<double>(from.bytes.bytes) / count;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"words of strings",
                           std::move(reads),
                           {to.begin(), to.end()},
                           {"encode", count, bytes_each},
                           [=, &kernels](void* native) { kernels.string_words(native, raw, is_null, words, count); }});
}

void shared_lengths(Runtime& runtime, Stream stream, const StringPiece& from, const MemoryView& nulls,
                    const StringPiece& other, const MemoryView& lengths) {
  const RawStrings raw = raw_strings({&from, 1}, "shared lengths"), first = raw_strings({&other, 1}, "shared lengths");
  const std::uint64_t count = raw.offsets.begin[raw.offsets.count];
  require(nulls.bytes == 0 || nulls.bytes == count, "shared lengths", "a byte for each row says whether it is null");
  require(lengths.bytes == 8 * count && first.offsets.count > 0, "shared lengths", "64 bits a row, and a first string");
  if (count == 0) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"shared lengths",
                           without_empty({from.offsets, from.bytes, nulls, other.offsets, other.bytes}),
                           {lengths},
                           {"encode", count, 32.0},
                           [=, &kernels](void* native) {
                             kernels.shared_lengths(native, raw, pointer<std::uint8_t>(nulls), first,
                                                    pointer<std::uint64_t>(lengths), count);
                           }});
}

void mix_strings_into_hashes(Runtime& runtime, Stream stream, const StringPiece& strings, const MemoryView& hashes) {
  const RawStrings raw = raw_strings({&strings, 1}, "hash strings");
  const std::uint64_t count = raw.offsets.begin[raw.offsets.count];
  require(hashes.bytes == 8 * count, "hash strings", "a hash for each row");
  if (count == 0) return;
  const double bytes_each = 24 + static_cast<double>(strings.bytes.bytes) / static_cast<double>(count);
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"hash strings",
                           without_empty({strings.offsets, strings.bytes, hashes}),
                           {hashes},
                           {"encode", count, bytes_each},
                           [=, &kernels](void* native) {
                             kernels.mix_strings_into_hashes(native, raw, pointer<std::uint64_t>(hashes), count);
                           }});
}

void count_unequal_strings(Runtime& runtime, Stream stream, int index_bytes, std::span<const StringPiece> left,
                           const MemoryView& left_rows, std::span<const StringPiece> right,
                           const MemoryView& right_rows, const MemoryView& unequal) {
  require(index_bytes == 4 || index_bytes == 8, "count unequal strings", "indices have 4 or 8 bytes");
  require(left_rows.bytes == right_rows.bytes && left_rows.bytes % static_cast<std::uint64_t>(index_bytes) == 0,
          "count unequal strings", "as many rows of both sides");
  require(unequal.bytes == 8, "count unequal strings", "a number of 64 bits");
  const std::uint64_t count = left_rows.bytes / static_cast<std::uint64_t>(index_bytes);
  if (count == 0) return;
  const RawStrings of_left = raw_strings(left, "count unequal strings"),
                   of_right = raw_strings(right, "count unequal strings");
  std::vector<MemoryView> reads{left_rows, right_rows, unequal};
  double bytes = 0, rows = 0;
  for (const std::span<const StringPiece> side : {left, right})
    for (const StringPiece& piece : side) {
      for (const MemoryView& view : without_empty({piece.offsets, piece.bytes})) reads.push_back(view);
      bytes += static_cast<double>(piece.bytes.bytes + piece.offsets.bytes);
      rows += static_cast<double>(piece.offsets.bytes / 8);
    }
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"count unequal strings",
                           std::move(reads),
                           {unequal},
                           {"gather", count, 2 * bytes / rows},
                           [=, &kernels](void* native) {
                             kernels.count_unequal_strings(native, index_bytes, of_left, left_rows.data, of_right,
                                                           right_rows.data, count, pointer<std::uint64_t>(unequal));
                           }});
}

void mark_unequal_strings(Runtime& runtime, Stream stream, const StringPiece& strings, const MemoryView& groups,
                          const MemoryView& marks) {
  const RawStrings raw = raw_strings({&strings, 1}, "mark unequal strings");
  const std::uint64_t count = raw.offsets.begin[raw.offsets.count];
  require(groups.bytes == 4 * count && marks.bytes % 4 == 0, "mark unequal strings", "a group for each string");
  if (count == 0) return;
  const double bytes_each = 12 + static_cast<double>(strings.bytes.bytes) / static_cast<double>(count);
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"mark unequal strings",
                           without_empty({strings.offsets, strings.bytes, groups, marks}),
                           {marks},
                           {"encode", count, bytes_each},
                           [=, &kernels](void* native) {
                             kernels.mark_unequal_strings(native, raw, pointer<std::uint32_t>(groups),
                                                          pointer<std::uint32_t>(marks), count);
                           }});
}

}  // namespace linkwise
