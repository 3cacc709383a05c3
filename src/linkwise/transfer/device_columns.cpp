#include "linkwise/transfer/device_columns.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/primitives/gathering.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/primitives/packing.hpp"
#include "linkwise/primitives/primitives.hpp"
#include "linkwise/transfer/column_parts.hpp"
#include "linkwise/transfer/column_share.hpp"
#include "linkwise/transfer/peer_pieces.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t worth_waking = 1 << 20;  // bytes above which the threads for pageable copies pay off

// The range of each column's values, over both sides and all GPUs.
std::vector<CodeRange> ranges_of(Runtime& runtime, std::span<const int> gpus,
                                 const std::array<std::vector<IntegerColumn>, 2>& sides) {
  const std::size_t columns = sides.front().size();
  std::vector<CodeRange> found(sides.size() * columns * gpus.size()), ranges(columns);
  run_or_abandon(runtime, [&] {
    std::vector<Buffer> room;
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      const Place place = Place::gpu(gpus[g]);
      const Stream stream = runtime.stream(place, "compute");
      room.push_back(runtime.allocate(place, sides.size() * columns * sizeof(CodeRange), "ranges"));
      std::uint64_t at = 0;
      for (const std::vector<IntegerColumn>& side : sides)
        for (const IntegerColumn& column : side) {
          const MemoryView range = room.back().slice(at, sizeof(CodeRange));
          find_range(runtime, stream, column.type, column.parts[g], range);
          reads.push_back({stream, range, &found[reads.size()]});
          at += sizeof(CodeRange);
        }
    }
    runtime.read_back(reads);
  });
  for (std::size_t f = 0; f < found.size(); ++f) {
    CodeRange& range = ranges[f % columns];
    range = {std::min(range.least, found[f].least), std::max(range.greatest, found[f].greatest)};
  }
  return ranges;
}

// Divides the columns, the widest first, into groups that each make a record.
std::vector<std::vector<std::size_t>> records_of(std::span<const DeviceColumn> columns) {
  std::vector<std::size_t> order(columns.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t c) { return columns[c].element_bytes; });
  std::vector<std::vector<std::size_t>> groups;
  int bytes = 0;
  for (const std::size_t c : order) {
    bytes += columns[c].element_bytes;
    if (groups.empty() || bytes > most_record_bytes || groups.back().size() == most_packed_columns) {
      groups.emplace_back();
      bytes = columns[c].element_bytes;
    }
    groups.back().push_back(c);
  }
  return groups;
}

// Packs some columns' rows on each GPU, and gathers them: for each column its parts.
std::vector<std::vector<ColumnPart>> take_packed(Runtime& runtime, std::span<const int> gpus,
                                                 const std::vector<DeviceColumn>& columns, int number_bytes,
                                                 std::span<const MemoryView> numbers) {
  std::vector<std::vector<ColumnPart>> taken(columns.size());
  run_or_abandon(runtime, [&] {
    std::vector<Buffer> memory;
    std::vector<MemoryView> records;
    std::vector<Event> packed;
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      const Stream stream = runtime.stream(Place::gpu(gpus[g]), "compute");
      std::vector<FixedColumn> fields;
      for (const DeviceColumn& column : columns) fields.push_back({column.element_bytes, column.parts[g]});
      const std::uint64_t rows =
          fields.front().elements.bytes / static_cast<std::uint64_t>(fields.front().element_bytes);
      memory.push_back(
          runtime.allocate(stream.place, rows * static_cast<std::uint64_t>(record_bytes_of(fields)), "rows"));
      records.push_back(memory.back().view());
      runtime.set_phase("encode");
      pack_rows(runtime, stream, fields, records.back());
      packed.push_back(runtime.record(stream));
    }
    runtime.set_phase("gather");
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      const Stream stream = runtime.stream(Place::gpu(gpus[g]), "compute");
      const std::uint64_t rows = numbers[g].bytes / static_cast<std::uint64_t>(number_bytes);
      std::vector<FixedColumn> fields;
      std::vector<Buffer> made;
      for (const DeviceColumn& column : columns) {
        made.push_back(
            runtime.allocate(stream.place, rows * static_cast<std::uint64_t>(column.element_bytes), "column"));
        fields.push_back({column.element_bytes, made.back().view()});
      }
      for (const Event event : packed) runtime.wait(stream, event);
      gather_packed(runtime, stream, number_bytes, records, numbers[g], fields);
      for (std::size_t c = 0; c < columns.size(); ++c)
        taken[c].push_back({gpus[g], std::move(made[c]), runtime.share(runtime.record(stream))});
    }
    runtime.synchronize();
  });
  return taken;
}

}  // namespace

std::vector<ColumnPart> bring_column(Runtime& runtime, std::span<const int> gpus, const HostColumn& column) {
  const auto width = static_cast<std::uint64_t>(column.element_bytes);
  const auto share = [&](std::size_t g) { return share_of(column.count, g, gpus.size()); };
  return make_parts(
      runtime, gpus, [&](std::size_t g) { return share(g).count() * width; },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        runtime.set_phase("HtoD");
        runtime.copy(stream, to, host_view(column.data, share(g).begin * width, to.bytes, column.pageable));
      },
      {host_view(column.data, 0, column.count * width, column.pageable)});
}

std::vector<ColumnPart> number_rows(Runtime& runtime, std::span<const int> gpus, std::span<const std::uint64_t> rows,
                                    int number_bytes) {
  std::uint64_t first = 0;
  return make_parts(
      runtime, gpus, [&](std::size_t g) { return rows[g] * static_cast<std::uint64_t>(number_bytes); },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        iota(runtime, stream, to_value_width(number_bytes), to, first);
        first += rows[g];
      });
}

std::vector<ColumnPart> filled_column(Runtime& runtime, std::span<const int> gpus, std::span<const std::uint64_t> rows,
                                      int element_bytes, std::uint8_t byte) {
  return make_parts(
      runtime, gpus, [&](std::size_t g) { return rows[g] * static_cast<std::uint64_t>(element_bytes); },
      [&](std::size_t, Stream stream, const MemoryView& to) { set_bytes(runtime, stream, to, byte); });
}

std::vector<ColumnPart> appended_columns(Runtime& runtime, std::span<const int> gpus, std::span<const MemoryView> first,
                                         std::span<const MemoryView> second) {
  return make_parts(
      runtime, gpus, [&](std::size_t g) { return first[g].bytes + second[g].bytes; },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        std::uint64_t at = 0;
        for (const MemoryView& from : {first[g], second[g]}) {
          if (from.bytes > 0) runtime.copy(stream, to.slice(at, from.bytes), from);
          at += from.bytes;
        }
      });
}

std::vector<ColumnPart> joined_codes(Runtime& runtime, std::span<const int> gpus, KeyType type,
                                     std::span<const MemoryView> column) {
  const auto native = static_cast<std::uint64_t>(native_bytes(type)),
             width = static_cast<std::uint64_t>(key_width(type));
  return make_parts(
      runtime, gpus, [&](std::size_t g) { return column[g].bytes / native * width; },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        runtime.set_phase("encode");
        encode(runtime, stream, type, /*descending=*/false, column[g], to);
        unify_floats(runtime, stream, type, to);
      });
}

std::vector<ColumnPart> coalesced_rows(Runtime& runtime, std::span<const int> gpus, int number_bytes,
                                       std::span<const MemoryView> first, std::span<const MemoryView> second,
                                       std::uint64_t offset) {
  return make_parts(
      runtime, gpus, [&](std::size_t g) { return first[g].bytes; },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        coalesce_rows(runtime, stream, number_bytes, first[g], second[g], offset, to);
      });
}

std::vector<ColumnPart> take_rows(Runtime& runtime, std::span<const int> gpus, int element_bytes,
                                  std::span<const MemoryView> column, int number_bytes,
                                  std::span<const MemoryView> numbers) {
  const PeerPieces pieces(runtime, gpus, column);
  const auto rows = [&](std::size_t g) { return numbers[g].bytes / static_cast<std::uint64_t>(number_bytes); };
  std::vector<MemoryView> lent;
  std::ranges::copy_if(column, std::back_inserter(lent), [](const MemoryView& part) { return !part.place.is_gpu(); });
  return make_parts(
      runtime, gpus, [&](std::size_t g) { return rows(g) * static_cast<std::uint64_t>(element_bytes); },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        runtime.set_phase("gather");
        gather(runtime, stream, element_bytes, number_bytes, pieces.views(), numbers[g], to);
      },
      lent);
}

std::vector<std::vector<ColumnPart>> take_columns(Runtime& runtime, std::span<const int> gpus,
                                                  std::span<const DeviceColumn> columns, int number_bytes,
                                                  std::span<const MemoryView> numbers) {
  if (!runtime.reach_each_other(gpus))
    throw UsageError("these GPUs cannot read each other's memory; take the rows in host memory");
  std::vector<std::vector<ColumnPart>> taken(columns.size());
  for (const std::vector<std::size_t>& group : records_of(columns)) {
    std::vector<std::vector<ColumnPart>> of_group;
    if (group.size() > 1) {
      std::vector<DeviceColumn> some;
      for (const std::size_t c : group) some.push_back(columns[c]);
      try {
        of_group = take_packed(runtime, gpus, some, number_bytes, numbers);
      } catch (const OutOfMemoryError&) {  // NOLINT(bugprone-empty-catch): then one after the other
      }
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      const DeviceColumn& column = columns[group[i]];
      taken[group[i]] = !of_group.empty()
                            ? std::move(of_group[i])
                            : take_rows(runtime, gpus, column.element_bytes, column.parts, number_bytes, numbers);
    }
  }
  return taken;
}

std::optional<PackedKeys> pack_keys(Runtime& runtime, std::span<const int> gpus,
                                    const std::array<std::vector<IntegerColumn>, 2>& sides) {
  std::vector<Packing> packings;
  int bits = 0;
  for (const CodeRange& range : ranges_of(runtime, gpus, sides)) {
    Packing packing;  // of a column without rows, no bits
    if (range.least <= range.greatest)
      packing = {.least = range.least, .bits = static_cast<int>(std::bit_width(range.greatest - range.least))};
    packings.push_back(packing);
    bits += packing.bits;
  }
  if (bits > 64) return std::nullopt;
  packings.front().is_first = true;
  PackedKeys keys;
  keys.width = bits <= 32 ? KeyWidth::k32 : KeyWidth::k64;
  for (std::size_t s = 0; s < sides.size(); ++s) {
    const std::vector<IntegerColumn>& side = sides[s];
    const auto rows = [&](std::size_t g) {
      return side.front().parts[g].bytes / static_cast<std::uint64_t>(side.front().type.bytes);
    };
    keys.sides[s] = make_parts(
        runtime, gpus, [&](std::size_t g) { return static_cast<std::uint64_t>(keys.width) * rows(g); },
        [&](std::size_t g, Stream stream, const MemoryView& to) {
          runtime.set_phase("encode");
          for (std::size_t c = 0; c < side.size(); ++c) {
            packings[c].type = side[c].type;
            if (packings[c].is_first || packings[c].bits > 0)
              pack(runtime, stream, packings[c], side[c].parts[g], keys.width, to);
          }
        });
  }
  return keys;
}

void fetch_columns(Runtime& runtime, std::span<const FetchedColumn> columns) {
  runtime.clear_timeline();
  runtime.set_phase("DtoH");
  run_or_abandon(runtime, [&] {
    std::vector<ReadBack> few, many;
    for (const FetchedColumn& column : columns) {
      auto* to = static_cast<std::byte*>(column.to);
      for (const MemoryView& part : column.parts) {
        std::vector<ReadBack>& reads = part.bytes <= worth_waking ? few : many;
        if (part.bytes > 0) reads.push_back({runtime.stream(part.place, "compute"), part, to});
        to += part.bytes;
      }
    }
    for (const ReadBack& read : many)
      runtime.copy(read.stream, host_view(read.to, 0, read.from.bytes, true), read.from);
    if (!few.empty()) runtime.read_back(few);
    if (!many.empty()) runtime.synchronize();
    for (const ReadBack& read : many)
      runtime.host_reads(host_view(read.to, 0, read.from.bytes, true), "hands columns to the caller");
  });
}

}  // namespace linkwise
