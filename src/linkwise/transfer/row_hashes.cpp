#include "linkwise/transfer/row_hashes.hpp"

#include <numeric>
#include <optional>

#include "linkwise/primitives/primitives.hpp"
#include "linkwise/primitives/row_hashes.hpp"
#include "linkwise/primitives/strings.hpp"
#include "linkwise/transfer/column_parts.hpp"
#include "linkwise/transfer/peer_pieces.hpp"

namespace linkwise {
namespace {

using StringPieces = std::vector<StringPiece>;

std::uint64_t rows_of(const ComparedColumn& column, std::size_t part) {
  if (const auto* strings = std::get_if<StringPieces>(&column)) return (*strings)[part].offsets.bytes / 8 - 1;
  const auto& numbers = std::get<DeviceColumn>(column);
  return numbers.parts[part].bytes / static_cast<std::uint64_t>(numbers.element_bytes);
}

void mix_in(Runtime& runtime, Stream stream, const ComparedColumn& column, std::size_t part, const MemoryView& hashes) {
  if (const auto* strings = std::get_if<StringPieces>(&column)) {
    mix_strings_into_hashes(runtime, stream, (*strings)[part], hashes);
    return;
  }
  const auto& numbers = std::get<DeviceColumn>(column);
  mix_into_hashes(runtime, stream, to_key_width(numbers.element_bytes), numbers.parts[part], hashes);
}

void count_unequal(Runtime& runtime, Stream stream, const ComparedColumn& left, const MemoryView& left_rows,
                   const ComparedColumn& right, const MemoryView& right_rows, int number_bytes,
                   const MemoryView& unequal) {
  if (const auto* strings = std::get_if<StringPieces>(&left)) {
    count_unequal_strings(runtime, stream, number_bytes, *strings, left_rows, std::get<StringPieces>(right), right_rows,
                          unequal);
    return;
  }
  const auto& numbers = std::get<DeviceColumn>(left);
  count_unequal(runtime, stream, to_key_width(numbers.element_bytes), number_bytes, numbers.parts, left_rows,
                std::get<DeviceColumn>(right).parts, right_rows, unequal);
}

// A column as kernels on all GPUs can read it.
class PeerColumn {
 public:
  PeerColumn(Runtime& runtime, std::span<const int> gpus, const ComparedColumn& column) : column_(column) {
    if (auto* strings = std::get_if<StringPieces>(&column_))
      *strings = strings_.emplace(runtime, gpus, *strings).strings();
    else if (auto* numbers = std::get_if<DeviceColumn>(&column_))
      numbers->parts = pieces_.emplace(runtime, gpus, numbers->parts).views();
  }
  [[nodiscard]] const ComparedColumn& column() const { return column_; }

 private:
  ComparedColumn column_;
  std::optional<PeerStrings> strings_;
  std::optional<PeerPieces> pieces_;
};

}  // namespace

std::vector<ColumnPart> row_hashes(Runtime& runtime, std::span<const int> gpus,
                                   std::span<const ComparedColumn> columns) {
  return make_parts(
      runtime, gpus, [&](std::size_t g) { return rows_of(columns.front(), g) * 8; },
      [&](std::size_t g, Stream stream, const MemoryView& to) {
        runtime.set_phase("encode");
        set_bytes(runtime, stream, to, 0);
        for (const ComparedColumn& column : columns) mix_in(runtime, stream, column, g, to);
      });
}

std::uint64_t unequal_pairs(Runtime& runtime, std::span<const int> gpus, std::span<const ComparedColumn> left,
                            std::span<const ComparedColumn> right, int number_bytes,
                            std::span<const MemoryView> left_rows, std::span<const MemoryView> right_rows) {
  std::vector<PeerColumn> lefts, rights;
  for (const ComparedColumn& column : left) lefts.emplace_back(runtime, gpus, column);
  for (const ComparedColumn& column : right) rights.emplace_back(runtime, gpus, column);
  std::vector<std::uint64_t> found(gpus.size(), 0);
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] {
    std::vector<Buffer> room;
    std::vector<ReadBack> reads;
    runtime.set_phase("verify");
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      const Stream stream = runtime.stream(Place::gpu(gpus[g]), "compute");
      const MemoryView unequal = room.emplace_back(runtime.allocate(stream.place, 8, "unequal")).view();
      set_bytes(runtime, stream, unequal, 0);
      for (std::size_t c = 0; c < left.size(); ++c)
        count_unequal(runtime, stream, lefts[c].column(), left_rows[g], rights[c].column(), right_rows[g], number_bytes,
                      unequal);
      reads.push_back({stream, unequal, &found[g]});
    }
    runtime.read_back(reads);
  });
  return std::accumulate(found.begin(), found.end(), std::uint64_t{0});
}

}  // namespace linkwise
