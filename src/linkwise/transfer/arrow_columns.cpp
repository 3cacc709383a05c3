#include "linkwise/transfer/arrow_columns.hpp"

#include <algorithm>
#include <utility>

#include "linkwise/primitives/gathering.hpp"
#include "linkwise/primitives/host/huge_page_buffer.hpp"
#include "linkwise/transfer/column_parts.hpp"
#include "linkwise/transfer/gather_workers.hpp"
#include "linkwise/transfer/string_share.hpp"

namespace linkwise {
namespace {

// What a GPU does for its share of a column.
struct ShareOnGpu {
  std::size_t gpu = 0;  // its position among the GPUs
  Share rows;
  Stream stream;
};

// Lets every GPU bring its share: `bring` gets that, and a function that copies from host memory.
template <typename Bring>
void bring_shares(Runtime& runtime, std::span<const int> gpus, std::uint64_t count, const Bring& bring) {
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] {
    std::vector<MemoryView> lent;
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      const ShareOnGpu share{g, share_of(count, g, gpus.size()), runtime.stream(Place::gpu(gpus[g]), "compute")};
      runtime.set_phase("HtoD");
      bring(share, [&](const MemoryView& to, const void* from, std::uint64_t offset, bool pageable) {
        if (to.bytes > 0)
          runtime.copy(share.stream, to, lent.emplace_back(host_view(from, offset, to.bytes, pageable)));
      });
    }
    runtime.synchronize();
    hand_back(runtime, lent);
  });
}

// A byte for each bit of a column; the bits are copied to each GPU as a whole.
std::vector<ColumnPart> bring_bits(Runtime& runtime, std::span<const int> gpus, const ChunkedColumn& column, Bits which,
                                   BytesOfBits as) {
  const HugePageBuffer bits = bits_in_one_piece(column, which);
  std::vector<Buffer> room;
  std::vector<ColumnPart> parts;
  bring_shares(runtime, gpus, column.count(), [&](const ShareOnGpu& share, const auto& copy_in) {
    const Place place = share.stream.place;
    const MemoryView all = room.emplace_back(runtime.allocate(place, bytes_of_bits(column.count()), "bits")).view();
    Buffer made = runtime.allocate(place, share.rows.count(), "column");
    copy_in(all, bits.data(), 0, /*pageable=*/true);
    runtime.set_phase("encode");
    expand_bits(runtime, share.stream, all, share.rows.begin, as, made.view());
    parts.push_back({gpus[share.gpu], std::move(made), runtime.share(runtime.record(share.stream))});
  });
  return parts;
}

// A GPU's share of the strings, which is needed only while words are made of it.
struct StringsOnGpu {
  Buffer memory;
  MemoryView raw_offsets, offsets, bytes;

  StringsOnGpu(Runtime& runtime, Place place, const ChunkedColumn& column, Share rows) {
    const std::vector<ChunkPart> parts = parts_of(column, rows);
    std::uint64_t all_bytes = 0;
    for (const ChunkPart& part : parts) all_bytes += bytes_of(column, part).count();
    const std::uint64_t raw = offset_bytes(column) * (rows.count() + parts.size()), wide = 8 * (rows.count() + 1);
    memory = runtime.allocate(place, rounded(raw) + rounded(wide) + rounded(all_bytes), "strings");
    Carver carver(memory.view());
    raw_offsets = carver.take(raw);
    offsets = carver.take(wide);
    bytes = carver.take(all_bytes);
  }
};

}  // namespace

std::vector<ColumnPart> bring_nulls(Runtime& runtime, std::span<const int> gpus, const ChunkedColumn& column) {
  return bring_bits(runtime, gpus, column, Bits::validity, nulls_of_validity);
}

std::vector<ColumnPart> bring_values(Runtime& runtime, std::span<const int> gpus, const ChunkedColumn& column,
                                     std::span<const MemoryView> nulls) {
  const bool is_bits = column.layout == ChunkedColumn::Layout::bits;
  const auto width = is_bits ? std::uint64_t{1} : static_cast<std::uint64_t>(column.width);
  std::vector<ColumnPart> parts;
  if (is_bits) parts = bring_bits(runtime, gpus, column, Bits::values, numbers_of_bools);
  bring_shares(runtime, gpus, column.count(), [&](const ShareOnGpu& share, const auto& copy_in) {
    const Stream stream = share.stream;
    if (!is_bits) {
      Buffer made = runtime.allocate(stream.place, share.rows.count() * width, "column");
      std::uint64_t at = 0;
      for (const ChunkPart& part : parts_of(column, share.rows)) {
        const MemoryView to = made.slice(at, part.rows.count() * width);
        copy_in(to, part.chunk->values, (part.chunk->offset + part.rows.begin) * width, part.chunk->pageable);
        at += to.bytes;
      }
      parts.push_back({gpus[share.gpu], std::move(made), {}});
    }
    ColumnPart& part = parts[share.gpu];
    if (!nulls.empty()) fill_nulls(runtime, stream, static_cast<int>(width), nulls[share.gpu], part.memory.view());
    part.ready = runtime.share(runtime.record(stream));
  });
  return parts;
}

std::vector<std::vector<ColumnPart>> bring_string_words(Runtime& runtime, std::span<const int> gpus,
                                                        const ChunkedColumn& column, std::uint64_t begin,
                                                        std::size_t words, std::span<const MemoryView> nulls) {
  std::vector<std::vector<ColumnPart>> made(words);
  std::vector<StringsOnGpu> strings;
  bring_shares(runtime, gpus, column.count(), [&](const ShareOnGpu& share, const auto& copy_in) {
    const Stream stream = share.stream;
    const StringsOnGpu& mine = strings.emplace_back(runtime, stream.place, column, share.rows);
    bring_offsets(runtime, stream, column, share.rows, mine.raw_offsets, mine.offsets, copy_in);
    bring_bytes(column, share.rows, mine.bytes, copy_in);
    runtime.set_phase("encode");
    std::vector<Buffer> room;
    std::vector<MemoryView> to;
    for (std::size_t w = 0; w < words; ++w)
      to.push_back(room.emplace_back(runtime.allocate(stream.place, 8 * share.rows.count(), "words")).view());
    for (std::size_t w = 0; w < words && share.rows.count() > 0; w += RawStringWords::most)
      string_words(runtime, stream, {mine.offsets, mine.bytes}, nulls.empty() ? MemoryView{} : nulls[share.gpu],
                   begin + w * bytes_of_word,
                   std::span(to).subspan(w, std::min<std::size_t>(words - w, RawStringWords::most)));
    for (std::size_t w = 0; w < words; ++w)
      made[w].push_back({gpus[share.gpu], std::move(room[w]), runtime.share(runtime.record(stream))});
  });
  return made;
}

std::vector<ColumnPart> nulls_of(Runtime& runtime, std::span<const int> gpus, std::span<const ValidityPart> parts) {
  return make_parts(
      runtime, gpus, [&](std::size_t g) { return parts[g].rows; },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        expand_bits(runtime, stream, parts[g].bits, parts[g].first, nulls_of_validity, to);
      });
}

std::vector<ColumnPart> with_nulls_filled(Runtime& runtime, std::span<const int> gpus, const DeviceColumn& column,
                                          std::span<const MemoryView> nulls) {
  return make_parts(
      runtime, gpus, [&](std::size_t g) { return column.parts[g].bytes; },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        runtime.copy(stream, to, column.parts[g]);
        fill_nulls(runtime, stream, column.element_bytes, nulls[g], to);
      });
}

ColumnPart validity_of(Runtime& runtime, int gpu, const MemoryView& nulls) {
  std::vector<ColumnPart> made = make_parts(
      runtime, {&gpu, 1}, [&](std::size_t) { return bytes_of_bits(nulls.bytes); },
      [&](std::size_t, Stream stream, const MemoryView& to) { pack_validity(runtime, stream, nulls, to); });
  return std::move(made.front());
}

}  // namespace linkwise
