#include "linkwise/transfer/arrow_columns.hpp"

#include <algorithm>
#include <utility>

#include "linkwise/primitives/gathering.hpp"
#include "linkwise/primitives/host/huge_page_buffer.hpp"
#include "linkwise/transfer/bring_shares.hpp"
#include "linkwise/transfer/column_parts.hpp"
#include "linkwise/transfer/column_share.hpp"

namespace linkwise {
namespace {

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

std::vector<ColumnPart> expanded_bits(Runtime& runtime, std::span<const int> gpus, std::span<const BitsPart> parts,
                                      BytesOfBits as) {
  return make_parts(
      runtime, gpus, [&](std::size_t g) { return parts[g].rows; },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        if (parts[g].bits.data == nullptr) set_bytes(runtime, stream, to, as.set);
        else expand_bits(runtime, stream, parts[g].bits, parts[g].first, as, to);
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

PackedBits packed_bits(Runtime& runtime, int gpu, const MemoryView& bytes, BytesOfBits as) {
  PackedBits packed;
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] {
    const Stream stream = runtime.stream(Place::gpu(gpu), "compute");
    Buffer bits = runtime.allocate(stream.place, bytes_of_bits(bytes.bytes), "bits");
    const Buffer num_set = runtime.allocate(stream.place, sizeof packed.num_set, "bits");
    pack_bits(runtime, stream, bytes, as, bits.view(), num_set.view());
    runtime.read_back({stream, num_set.view(), &packed.num_set});
    packed.bits = {gpu, std::move(bits), runtime.share(runtime.record(stream))};
  });
  return packed;
}

}  // namespace linkwise
