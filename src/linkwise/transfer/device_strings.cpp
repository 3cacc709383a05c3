#include "linkwise/transfer/device_strings.hpp"

#include <algorithm>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/primitives/packing.hpp"
#include "linkwise/primitives/strings.hpp"
#include "linkwise/transfer/bring_shares.hpp"
#include "linkwise/transfer/column_parts.hpp"
#include "linkwise/transfer/peer_pieces.hpp"
#include "linkwise/transfer/string_share.hpp"

namespace linkwise {
namespace {

std::uint64_t rows_of(const StringPiece& strings) { return strings.offsets.bytes / 8 - 1; }

}  // namespace

DeviceStrings bring_strings(Runtime& runtime, std::span<const int> gpus, const ChunkedColumn& column) {
  DeviceStrings strings;
  std::vector<Buffer> room;  // for offsets as they are in host memory
  bring_shares(runtime, gpus, column.count(), [&](const ShareOnGpu& share, const auto& copy_in) {
    const Place place = share.stream.place;
    const std::vector<ChunkPart> parts = parts_of(column, share.rows);
    std::uint64_t bytes = 0;
    for (const ChunkPart& part : parts) bytes += bytes_of(column, part).count();
    const std::uint64_t raw = offset_bytes(column) * (share.rows.count() + parts.size());
    Buffer offsets = runtime.allocate(place, 8 * (share.rows.count() + 1), "offsets"),
           values = runtime.allocate(place, bytes, "strings");
    if (parts.empty()) set_bytes(runtime, share.stream, offsets.view(), 0);
    room.push_back(runtime.allocate(place, raw, "offsets"));
    bring_offsets(runtime, share.stream, column, share.rows, room.back().view(), offsets.view(), copy_in);
    bring_bytes(column, share.rows, values.view(), copy_in);
    strings.offsets.push_back({gpus[share.gpu], std::move(offsets), runtime.share(runtime.record(share.stream))});
    strings.bytes.push_back({gpus[share.gpu], std::move(values), runtime.share(runtime.record(share.stream))});
  });
  return strings;
}

std::vector<ColumnPart> resized_offsets(Runtime& runtime, std::span<const int> gpus, int from_bytes,
                                        std::span<const MemoryView> offsets, std::span<const std::uint64_t> rows,
                                        int to_bytes) {
  return make_parts(
      runtime, gpus, [&](std::size_t g) { return static_cast<std::uint64_t>(to_bytes) * (rows[g] + 1); },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        if (rows[g] == 0) set_bytes(runtime, stream, to, 0);
        else shift_offsets(runtime, stream, from_bytes, offsets[g], to_bytes, to, 0);
      });
}

std::vector<std::uint64_t> last_offsets(Runtime& runtime, std::span<const MemoryView> offsets) {
  std::vector<std::uint64_t> last(offsets.size(), 0);
  run_or_abandon(runtime, [&] {
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < offsets.size(); ++g)
      reads.push_back(
          {runtime.stream(offsets[g].place, "compute"), offsets[g].slice(offsets[g].bytes - 8, 8), &last[g]});
    runtime.read_back(reads);
  });
  return last;
}

StringExtent extent_of_strings(Runtime& runtime, std::span<const int> gpus, std::span<const StringPiece> strings,
                               std::span<const MemoryView> nulls) {
  const auto first = std::ranges::find_if(strings, [](const StringPiece& piece) { return rows_of(piece) > 0; });
  if (first == strings.end()) return {};
  const PeerStrings compared(runtime, gpus, {first, 1});
  std::vector<CodeRange> shared(gpus.size()), lengths(gpus.size());
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] {
    std::vector<Buffer> room;
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      const std::uint64_t rows = rows_of(strings[g]);
      if (rows == 0) continue;
      const Stream stream = runtime.stream(Place::gpu(gpus[g]), "compute");
      const auto allocate = [&](std::uint64_t bytes) {
        return room.emplace_back(runtime.allocate(stream.place, bytes, "lengths")).view();
      };
      const MemoryView numbers = allocate(4 * rows), of_each = allocate(8 * rows);
      const auto find = [&](CodeRange& found) {
        const MemoryView range = allocate(sizeof(CodeRange));
        find_range(runtime, stream, length_of_string, of_each, range);
        reads.push_back({stream, range, &found});
      };
      runtime.set_phase("encode");
      iota(runtime, stream, ValueWidth::v4, numbers, 0);
      gather_lengths(runtime, stream, 4, strings.subspan(g, 1), numbers, of_each);
      find(lengths[g]);
      shared_lengths(runtime, stream, strings[g], nulls.empty() ? MemoryView{} : nulls[g], compared.strings().front(),
                     of_each);
      find(shared[g]);
    }
    if (!reads.empty()) runtime.read_back(reads);
  });
  StringExtent extent{shared.front().least, 0};
  for (std::size_t g = 0; g < gpus.size(); ++g)
    extent = {std::min(extent.shared, shared[g].least), std::max(extent.longest, lengths[g].greatest)};
  return extent;
}

DeviceStrings take_strings(Runtime& runtime, std::span<const int> gpus, std::span<const StringPiece> given,
                           int number_bytes, std::span<const MemoryView> numbers) {
  const PeerStrings readable(runtime, gpus, given);
  const std::span<const StringPiece> strings = readable.strings();
  const auto rows = [&](std::size_t g) { return numbers[g].bytes / static_cast<std::uint64_t>(number_bytes); };
  DeviceStrings taken;
  std::vector<Buffer> room;
  taken.offsets = make_parts(
      runtime, gpus, [&](std::size_t g) { return 8 * (rows(g) + 1); },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        const auto allocate = [&](std::uint64_t bytes) {
          return room.emplace_back(runtime.allocate(stream.place, bytes, "lengths")).view();
        };
        const MemoryView lengths = allocate(8 * rows(g)),
                         scratch = allocate(runtime.kernels().running_sums_scratch_bytes(rows(g)));
        runtime.set_phase("gather");
        gather_lengths(runtime, stream, number_bytes, strings, numbers[g], lengths);
        running_sums(runtime, stream, length_of_string, lengths, to, scratch);
      });
  std::vector<MemoryView> offsets;
  for (const ColumnPart& part : taken.offsets) offsets.push_back(part.memory.view());
  room.clear();
  const std::vector<std::uint64_t> bytes = last_offsets(runtime, offsets);
  taken.bytes = make_parts(
      runtime, gpus, [&](std::size_t g) { return bytes[g]; },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        runtime.set_phase("gather");
        gather_strings(runtime, stream, number_bytes, strings, numbers[g], offsets[g], to);
      });
  return taken;
}

std::vector<std::vector<ColumnPart>> words_of_strings(Runtime& runtime, std::span<const int> gpus,
                                                      std::span<const StringPiece> strings, std::uint64_t begin,
                                                      std::size_t words, std::span<const MemoryView> nulls) {
  std::vector<std::vector<ColumnPart>> made(words);
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] {
    runtime.set_phase("encode");
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      const Stream stream = runtime.stream(Place::gpu(gpus[g]), "compute");
      std::vector<Buffer> room;
      std::vector<MemoryView> to;
      for (std::size_t w = 0; w < words; ++w)
        to.push_back(room.emplace_back(runtime.allocate(stream.place, 8 * rows_of(strings[g]), "words")).view());
      for (std::size_t w = 0; w < words && rows_of(strings[g]) > 0; w += RawStringWords::most)
        string_words(runtime, stream, strings[g], nulls.empty() ? MemoryView{} : nulls[g], begin + w * bytes_of_word,
                     std::span(to).subspan(w, std::min<std::size_t>(words - w, RawStringWords::most)));
      for (std::size_t w = 0; w < words; ++w)
        made[w].push_back({gpus[g], std::move(room[w]), runtime.share(runtime.record(stream))});
    }
    runtime.synchronize();
  });
  return made;
}

}  // namespace linkwise
