#include "linkwise/primitives/gathering.hpp"

#include <algorithm>
#include <iterator>

#include "linkwise/primitives/require.hpp"
#include "linkwise/primitives/string_views.hpp"
#include "linkwise/primitives/views.hpp"

namespace linkwise {
namespace {

std::uint64_t rows_of(const MemoryView& indices, int index_bytes, const char* operation) {
  require(index_bytes == 4 || index_bytes == 8, operation, "indices have 4 or 8 bytes");
  require(indices.bytes % static_cast<std::uint64_t>(index_bytes) == 0, operation, "whole indices");
  return indices.bytes / static_cast<std::uint64_t>(index_bytes);
}

// The link traffic of gathering rows spread over all pieces, in whole sectors: each piece's share of the rows is its
// share of the bytes.
std::vector<Fetch> fetched(Place here, std::span<const MemoryView> pieces, std::uint64_t rows, double bytes_each) {
  constexpr double sector = 32;
  double all = 0;
  for (const MemoryView& piece : pieces) all += static_cast<double>(piece.bytes);
  std::vector<Fetch> fetches;
  for (const MemoryView& piece : pieces) {
    if (piece.place == here || piece.bytes == 0) continue;
    const double share = static_cast<double>(piece.bytes) / all, each = std::max(bytes_each, sector);
    fetches.push_back({piece.place, static_cast<std::uint64_t>(share * each * static_cast<double>(rows))});
  }
  return fetches;
}

RawFields raw_fields(std::span<const FixedColumn> columns, std::uint64_t rows, const char* operation) {
  require(0 < columns.size() && columns.size() <= most_packed_columns, operation, "up to eight columns");
  RawFields fields;
  int offset = 0, previous = 8;
  for (const auto& [bytes, elements] : columns) {
    require((bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) && bytes <= previous, operation,
            "elements of 1, 2, 4 or 8 bytes, the widest first");
    require(elements.bytes == rows * static_cast<std::uint64_t>(bytes), operation, "an element for each row");
    fields.bytes[fields.count] = previous = bytes;
    fields.offset[fields.count] = offset;
    fields.column[fields.count++] = elements.data;
    offset += bytes;
  }
  require(offset <= most_record_bytes, operation, "a record has 32 bytes at most");
  return fields;
}

std::vector<MemoryView> views_of(std::span<const FixedColumn> columns) {
  std::vector<MemoryView> views;
  for (const FixedColumn& column : columns) views.push_back(column.elements);
  return views;
}

std::vector<MemoryView> offsets_of(std::span<const StringPiece> pieces) {
  std::vector<MemoryView> views;
  for (const StringPiece& piece : pieces) views.push_back(piece.offsets);
  return views;
}

std::vector<MemoryView> read_by_gather(std::span<const StringPiece> pieces, const MemoryView& indices, bool bytes) {
  std::vector<MemoryView> reads{indices};
  for (const StringPiece& piece : pieces) {
    reads.push_back(piece.offsets);
    if (bytes && piece.bytes.bytes > 0) reads.push_back(piece.bytes);
  }
  return reads;
}

}  // namespace

void gather(Runtime& runtime, Stream stream, int element_bytes, int index_bytes, std::span<const MemoryView> pieces,
            const MemoryView& indices, const MemoryView& to) {
  require(element_bytes == 1 || element_bytes == 2 || element_bytes == 4 || element_bytes == 8 || element_bytes == 16,
          "gather", "elements have 1, 2, 4, 8 or 16 bytes");
  const std::uint64_t count = rows_of(indices, index_bytes, "gather"),
                      width = static_cast<std::uint64_t>(element_bytes);
  require(to.bytes == count * width, "gather", "the output has another size");
  if (count == 0) return;
  const RawPieces from = raw_pieces(pieces, width, "gather");
  std::vector<MemoryView> reads{indices};
  std::ranges::copy_if(pieces, std::back_inserter(reads), [](const MemoryView& piece) { return piece.bytes > 0; });
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"gather",
                           std::move(reads),
                           {to},
                           {"gather", count, static_cast<double>(element_bytes)},
                           [=, &kernels](void* native) {
                             kernels.gather(native, element_bytes, index_bytes, from, indices.data, to.data, count);
                           },
                           fetched(stream.place, pieces, count, element_bytes)});
}

void gather(Runtime& runtime, Stream stream, int element_bytes, int index_bytes, const MemoryView& from,
            const MemoryView& indices, const MemoryView& to) {
  gather(runtime, stream, element_bytes, index_bytes, std::span(&from, 1), indices, to);
}

void coalesce_rows(Runtime& runtime, Stream stream, int index_bytes, const MemoryView& first, const MemoryView& second,
                   std::uint64_t offset, const MemoryView& to) {
  const std::uint64_t count = rows_of(to, index_bytes, "coalesce rows");
  require(first.bytes == to.bytes && second.bytes == to.bytes, "coalesce rows", "as many rows on both sides");
  if (count == 0) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"coalesce rows",
                           {first, second},
                           {to},
                           {"encode", count, static_cast<double>(index_bytes)},
                           [=, &kernels](void* native) {
                             kernels.coalesce_rows(native, index_bytes, first.data, second.data, offset, to.data,
                                                   count);
                           }});
}

int record_bytes_of(std::span<const FixedColumn> columns) {
  int bytes = 0;
  for (const FixedColumn& column : columns) bytes += column.element_bytes;
  return bytes <= most_record_bytes / 2 ? most_record_bytes / 2 : most_record_bytes;
}

void pack_rows(Runtime& runtime, Stream stream, std::span<const FixedColumn> columns, const MemoryView& records) {
  const int record_bytes = record_bytes_of(columns);
  const std::uint64_t rows = records.bytes / static_cast<std::uint64_t>(record_bytes);
  require(records.bytes % static_cast<std::uint64_t>(record_bytes) == 0, "pack rows", "whole records");
  const RawFields fields = raw_fields(columns, rows, "pack rows");
  if (rows == 0) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(
      stream, {"pack rows",
               views_of(columns),
               {records},
               {"encode", rows, static_cast<double>(record_bytes)},
               [=, &kernels](void* native) { kernels.pack_rows(native, fields, record_bytes, records.data, rows); }});
}

void gather_packed(Runtime& runtime, Stream stream, int index_bytes, std::span<const MemoryView> pieces,
                   const MemoryView& indices, std::span<const FixedColumn> to) {
  const int record_bytes = record_bytes_of(to);
  const std::uint64_t count = rows_of(indices, index_bytes, "gather rows");
  const RawFields fields = raw_fields(to, count, "gather rows");
  if (count == 0) return;
  const RawPieces from = raw_pieces(pieces, static_cast<std::uint64_t>(record_bytes), "gather rows");
  std::vector<MemoryView> reads{indices};
  std::ranges::copy_if(pieces, std::back_inserter(reads), [](const MemoryView& piece) { return piece.bytes > 0; });
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"gather rows",
                           std::move(reads),
                           views_of(to),
                           {"gather", count, static_cast<double>(record_bytes)},
                           [=, &kernels](void* native) {
                             kernels.gather_packed(native, index_bytes, from, record_bytes, indices.data, fields,
                                                   count);
                           },
                           fetched(stream.place, pieces, count, record_bytes)});
}

void gather_bits(Runtime& runtime, Stream stream, int index_bytes, const MemoryView& from, const MemoryView& indices,
                 const MemoryView& to) {
  const std::uint64_t count = rows_of(indices, index_bytes, "gather bits");
  const bool are_all_set = from.bytes == 0;
  require(are_all_set || from.place == stream.place, "gather bits", "the bits lie elsewhere");
  require(from.bytes % 4 == 0 && to.bytes == (count + 31) / 32 * 4, "gather bits", "whole words, one for 32 rows");
  if (count == 0) return;
  std::vector<MemoryView> reads{indices};
  if (!are_all_set) reads.push_back(from);
  const auto* bits = are_all_set ? nullptr : reinterpret_cast<const std::uint32_t*>(from.data);
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream,
                  {"gather bits", std::move(reads), {to}, {"gather", count, 0.125}, [=, &kernels](void* native) {
                     kernels.gather_bits(native, index_bytes, bits, indices.data,
                                         reinterpret_cast<std::uint32_t*>(to.data), count);
                   }});
}

void shift_offsets(Runtime& runtime, Stream stream, int from_bytes, const MemoryView& from, int to_bytes,
                   const MemoryView& to, std::uint64_t delta) {
  const std::uint64_t count = rows_of(from, from_bytes, "shift offsets");
  require(rows_of(to, to_bytes, "shift offsets") == count, "shift offsets", "the output has another size");
  if (count == 0) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(
      stream,
      {"shift offsets", {from}, {to}, {"encode", count, static_cast<double>(to_bytes)}, [=, &kernels](void* native) {
         kernels.shift_offsets(native, from_bytes, from.data, to_bytes, to.data, count, delta);
       }});
}

void gather_lengths(Runtime& runtime, Stream stream, int index_bytes, std::span<const StringPiece> pieces,
                    const MemoryView& indices, const MemoryView& lengths) {
  const std::uint64_t count = rows_of(indices, index_bytes, "gather lengths");
  require(lengths.bytes == 8 * count, "gather lengths", "64 bits for each row");
  if (count == 0) return;
  const RawStrings from = raw_strings(pieces, "gather lengths");
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"gather lengths",
                           read_by_gather(pieces, indices, /*bytes=*/false),
                           {lengths},
                           {"gather", count, 16.0},
                           [=, &kernels](void* native) {
                             kernels.gather_lengths(native, index_bytes, from, indices.data,
                                                    reinterpret_cast<std::uint64_t*>(lengths.data), count);
                           },
                           fetched(stream.place, offsets_of(pieces), count, 16)});
}

void gather_strings(Runtime& runtime, Stream stream, int index_bytes, std::span<const StringPiece> pieces,
                    const MemoryView& indices, const MemoryView& sums, const MemoryView& to) {
  const std::uint64_t count = rows_of(indices, index_bytes, "gather strings");
  require(sums.bytes == 8 * (count + 1), "gather strings", "a sum for each row, and one more");
  if (count == 0 || to.bytes == 0) return;
  const RawStrings from = raw_strings(pieces, "gather strings");
  const double bytes_each = 16 + static_cast<double>(to.bytes) / static_cast<double>(count);
  std::vector<MemoryView> reads = read_by_gather(pieces, indices, /*bytes=*/true);
  reads.push_back(sums);
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(
      stream, {"gather strings", std::move(reads), {to}, {"gather", count, bytes_each}, [=, &kernels](void* native) {
                 kernels.gather_strings(native, index_bytes, from, indices.data,
                                        reinterpret_cast<const std::uint64_t*>(sums.data), to.data, count);
               }});
}

void expand_bits(Runtime& runtime, Stream stream, const MemoryView& bits, std::uint64_t first, BytesOfBits bytes,
                 const MemoryView& to) {
  require(bits.bytes % 4 == 0 && 8 * bits.bytes >= first + to.bytes, "expand bits", "whole words, a bit for each row");
  if (to.bytes == 0) return;
  const auto* words = reinterpret_cast<const std::uint32_t*>(bits.data);
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"expand bits", {bits}, {to}, {"encode", to.bytes, 1.125}, [=, &kernels](void* native) {
                             kernels.expand_bits(native, words, first, bytes, reinterpret_cast<std::uint8_t*>(to.data),
                                                 to.bytes);
                           }});
}

void pack_bits(Runtime& runtime, Stream stream, const MemoryView& bytes, BytesOfBits as, const MemoryView& bits,
               const MemoryView& num_set) {
  require(bits.bytes == (bytes.bytes + 31) / 32 * 4, "pack bits", "whole words, one for 32 rows");
  require(num_set.bytes == 8, "pack bits", "a number of 64 bits");
  set_bytes(runtime, stream, num_set, 0);
  if (bytes.bytes == 0) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(
      stream,
      {"pack bits", {bytes, num_set}, {bits, num_set}, {"encode", bytes.bytes, 1.125}, [=, &kernels](void* native) {
         kernels.pack_bits(native, reinterpret_cast<const std::uint8_t*>(bytes.data), as.set,
                           reinterpret_cast<std::uint32_t*>(bits.data), bytes.bytes,
                           reinterpret_cast<std::uint64_t*>(num_set.data));
       }});
}

void fill_nulls(Runtime& runtime, Stream stream, int element_bytes, const MemoryView& nulls,
                const MemoryView& elements) {
  require(elements.bytes == nulls.bytes * static_cast<std::uint64_t>(element_bytes), "fill nulls",
          "a byte for each element says whether it is null");
  if (nulls.bytes == 0) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream,
                  {"fill nulls", {nulls}, {elements}, {"encode", nulls.bytes, 1.0}, [=, &kernels](void* native) {
                     kernels.fill_nulls(native, element_bytes, reinterpret_cast<const std::uint8_t*>(nulls.data),
                                        elements.data, nulls.bytes);
                   }});
}

}  // namespace linkwise
