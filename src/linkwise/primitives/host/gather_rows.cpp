#include "linkwise/primitives/host/gather_rows.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "linkwise/error.hpp"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/host/value_copies.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

using Layout = ChunkedColumn::Layout;

// Rows of a block, which a core processes at once: at most so many that their locations stay in its cache.
constexpr std::uint64_t least_block = 1 << 9, most_block = 1 << 12;
constexpr std::uint64_t worthwhile = 1 << 14;  // rows from which several threads pay off
constexpr int ahead = 12;                      // strings, from prefetch to copy

// Rows per block, such that all cores get a share; a multiple of 8, so that blocks of bits are whole bytes.
std::uint64_t block_of(std::uint64_t rows) {
  constexpr std::uint64_t turns = 4;
  const std::uint64_t share = rows / (turns * static_cast<std::uint64_t>(team()));
  return std::clamp(share / 8 * 8, least_block, most_block);
}

constexpr const char* missing_row = "a row that is asked for does not exist";

// Where a row lies.
struct Location {
  const ColumnChunk* chunk;  // null: no row
  std::uint64_t at;          // includes the chunk's offset
};

// Strings are mostly short, of a length known only at run time: a call of memcpy would take longer than the copy.
void copy_string(std::byte* to, const std::byte* from, std::uint64_t length) {
  const auto both_ends = [&]<typename Word>(Word) {
    Word first, last;
    std::memcpy(&first, from, sizeof(Word));
    std::memcpy(&last, from + length - sizeof(Word), sizeof(Word));
    std::memcpy(to, &first, sizeof(Word));
    std::memcpy(to + length - sizeof(Word), &last, sizeof(Word));
  };
  if (length > 16) std::memcpy(to, from, length);
  else if (length >= 8) both_ends(std::uint64_t{});
  else if (length >= 4) both_ends(std::uint32_t{});
  else
    for (std::uint64_t i = 0; i < length; ++i) to[i] = from[i];
}

struct Rows {
  const void* numbers;  // null: all rows in order
  int width;
  std::uint64_t count, block;  // number of rows, and rows per block

  [[nodiscard]] std::uint64_t operator[](std::uint64_t i) const {
    if (numbers == nullptr) return i;
    return width == 4 ? static_cast<const std::uint32_t*>(numbers)[i] : static_cast<const std::uint64_t*>(numbers)[i];
  }
};

// Gathers a column's rows, a block at a time, on any core. Strings take two passes: the first gathers their lengths
// and addresses, so that no row is located twice; when all offsets are known, the second copies the bytes.
class Gather {
 public:
  Gather(const ChunkedColumn& column, const Rows& rows) : column_(column), rows_(rows), finder_(column) {
    result_.count = rows.count;
    if (rows.width == 8 || column.has_validity()) validity_ = result_.validity.emplace((rows.count + 7) / 8).data();
    if (column.has_strings()) {
      offsets_ = result_.offsets.emplace((rows.count + 1) * (column.layout == Layout::strings32 ? 4 : 8)).data();
      sources_ =
          reinterpret_cast<const std::byte**>(room_for_sources_.emplace(rows.count * sizeof(const std::byte*)).data());
      bytes_before_.assign((rows.count + rows.block - 1) / rows.block + 1, 0);
    } else {
      const bool is_bits = column.layout == Layout::bits;
      make_values(is_bits ? (rows.count + 7) / 8 : rows.count * static_cast<std::uint64_t>(column.width));
    }
  }

  // Gathers the block that begins with row `first`. Returns false if a row does not exist.
  bool gather(std::uint64_t first, std::vector<Location>& locations) {
    const std::uint64_t n = std::min(rows_.block, rows_.count - first), there_are = finder_.rows();
    if (rows_.numbers == nullptr && column_.layout == Layout::fixed && validity_ == nullptr && first + n <= there_are) {
      copy_in_order(first, n);
      return true;
    }
    if (rows_.width == 4 && column_.layout == Layout::fixed && validity_ == nullptr && column_.chunks.size() == 1)
      return gather_from_one_chunk(first, n);
    locations.resize(n);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t row = rows_[first + i];
      if (row >= there_are && row != no_row) return false;
      locations[i] = locate(row);
    }
    gather_block(first, locations);
    if (validity_ != nullptr) nulls_ += write_validity(first, locations);
    return true;
  }

  // Call when all blocks have been gathered. Returns false if there are too many bytes for 32-bit offsets.
  bool place_strings() {
    for (std::size_t b = 1; b < bytes_before_.size(); ++b) bytes_before_[b] += bytes_before_[b - 1];
    const std::uint64_t total = bytes_before_.back();
    if (column_.layout == Layout::strings64) {
      reinterpret_cast<std::int64_t*>(offsets_)[rows_.count] = static_cast<std::int64_t>(total);
    } else {
      if (total > std::numeric_limits<std::int32_t>::max()) return false;
      reinterpret_cast<std::int32_t*>(offsets_)[rows_.count] = static_cast<std::int32_t>(total);
    }
    make_values(total);
    return true;
  }

  void gather_bytes(std::uint64_t first) {
    if (column_.layout == Layout::strings32) copy_strings<std::int32_t>(first);
    else copy_strings<std::int64_t>(first);
  }

  GatheredColumn finish() {
    result_.nulls = nulls_;
    if (result_.nulls == 0) result_.validity.reset();
    return std::move(result_);
  }

  [[nodiscard]] bool has_strings() const { return column_.has_strings(); }

 private:
  [[nodiscard]] Location locate(std::uint64_t row) const {
    if (row == no_row) return {nullptr, 0};
    const std::size_t chunk = finder_.find(row);
    return {&column_.chunks[chunk], row - finder_.begin(chunk) + column_.chunks[chunk].offset};
  }

  // Concatenates what the chunks have of a block.
  void copy_in_order(std::uint64_t first, std::uint64_t count) {
    const auto width = static_cast<std::size_t>(column_.width);
    for (std::uint64_t row = first; row < first + count;) {
      const std::size_t number = finder_.find(row);
      const ColumnChunk& chunk = column_.chunks[number];
      const std::uint64_t at = row - finder_.begin(number) + chunk.offset;
      const std::uint64_t in_chunk = std::min(first + count, finder_.begin(number + 1)) - row;
      std::memcpy(values_ + row * width, chunk.values + at * width, in_chunk * width);
      row += in_chunk;
    }
  }

  // None of the rows is missing, and none is null: they need not be located first.
  bool gather_from_one_chunk(std::uint64_t first, std::uint64_t count) {
    const std::uint32_t* rows = static_cast<const std::uint32_t*>(rows_.numbers) + first;
    if (*std::max_element(rows, rows + count) >= finder_.rows()) return false;
    const ColumnChunk& chunk = column_.chunks[0];
    with_width(static_cast<std::size_t>(column_.width), [&](auto&& width) {
      const std::byte* from = chunk.values + chunk.offset * width();
      std::byte* to = values_ + first * width();
      for (std::uint64_t i = 0; i < count; ++i) std::memcpy(to + i * width(), from + rows[i] * width(), width());
    });
    return true;
  }

  void make_values(std::uint64_t bytes) {
    result_.value_bytes = bytes;
    values_ = result_.values.emplace(bytes).data();
  }

  void gather_block(std::uint64_t first, const std::vector<Location>& from) {
    if (column_.layout == Layout::bits) gather_bits(first, from);
    else if (column_.layout == Layout::fixed) gather_elements(first, from);
    else if (column_.layout == Layout::strings32) gather_lengths<std::int32_t>(first, from);
    else gather_lengths<std::int64_t>(first, from);
  }

  // Returns the number of nulls. Blocks begin at whole bytes.
  std::uint64_t write_validity(std::uint64_t first, const std::vector<Location>& from) {
    return from.size() - write_bits(validity_ + first / 8, from.size(), [&](std::uint64_t i) {
             const auto& [chunk, at] = from[i];
             return chunk != nullptr && (chunk->validity == nullptr || bit(chunk->validity, at));
           });
  }

  void gather_bits(std::uint64_t first, const std::vector<Location>& from) {
    write_bits(values_ + first / 8, from.size(),
               [&](std::uint64_t i) { return from[i].chunk != nullptr && bit(from[i].chunk->values, from[i].at); });
  }

  void gather_elements(std::uint64_t first, const std::vector<Location>& from) {
    const auto width = static_cast<std::size_t>(column_.width);
    std::byte* to = values_ + first * width;
    with_width(width, [&](auto&& constant) { copy_elements(to, from, constant); });
  }

  template <typename Width>
  static void copy_elements(std::byte* to, const std::vector<Location>& from, Width&& width) {
    for (const Location& location : from) {
      if (location.chunk != nullptr) std::memcpy(to, location.chunk->values + location.at * width(), width());
      else std::memset(to, 0, width());
      to += width();
    }
  }

  template <typename Offset>
  void gather_lengths(std::uint64_t first, const std::vector<Location>& from) {
    auto* lengths = reinterpret_cast<Offset*>(offsets_) + first;
    const std::byte** sources = sources_ + first;
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < from.size(); ++i) {
      lengths[i] = 0;
      sources[i] = nullptr;
      if (from[i].chunk == nullptr) continue;
      const auto* offsets = static_cast<const Offset*>(from[i].chunk->offsets) + from[i].at;
      const Offset begin = offsets[0], end = offsets[1];
      lengths[i] = end - begin;
      sources[i] = from[i].chunk->values + begin;
      sum += static_cast<std::uint64_t>(end - begin);
    }
    bytes_before_[first / rows_.block + 1] = sum;
  }

  template <typename Offset>
  void copy_strings(std::uint64_t first) {
    const std::uint64_t n = std::min(rows_.block, rows_.count - first);
    auto* offsets = reinterpret_cast<Offset*>(offsets_) + first;  // so far, these are lengths
    const std::byte* const* sources = sources_ + first;
    std::uint64_t at = bytes_before_[first / rows_.block];
    for (std::uint64_t i = 0; i < n; ++i) {
      if (i + ahead < n) __builtin_prefetch(sources[i + ahead]);
      const auto length = static_cast<std::uint64_t>(offsets[i]);
      if (length > 0) copy_string(values_ + at, sources[i], length);
      offsets[i] = static_cast<Offset>(at);
      at += length;
    }
  }

  const ChunkedColumn& column_;
  const Rows rows_;
  const ChunkFinder finder_;
  std::byte *validity_ = nullptr, *offsets_ = nullptr, *values_ = nullptr;  // of the result, where there are any
  std::optional<HugePageBuffer> room_for_sources_;
  const std::byte** sources_ = nullptr;      // of each string
  std::vector<std::uint64_t> bytes_before_;  // each block of strings; until place_strings, of the block before it
  std::atomic<std::uint64_t> nulls_ = 0;
  GatheredColumn result_;
};

// Calls body(gather, first row, room for locations) for each block of each gather, on all cores.
template <typename Body>
void for_blocks(const std::vector<std::unique_ptr<Gather>>& gathers, std::uint64_t count, const Body& body) {
  const std::uint64_t block = block_of(count), blocks = (count + block - 1) / block, all = blocks * gathers.size();
#pragma omp parallel num_threads(team_if(count* gathers.size() > worthwhile))
  {
    std::vector<Location> locations;
#pragma omp for schedule(dynamic)
    for (std::uint64_t b = 0; b < all; ++b) body(*gathers[b / blocks], b % blocks * block, locations);
  }
}

void gather_all(const std::vector<std::unique_ptr<Gather>>& gathers, std::uint64_t count) {
  std::atomic<bool> missing = false;
  for_blocks(gathers, count, [&](Gather& gather, std::uint64_t first, std::vector<Location>& locations) {
    if (!gather.gather(first, locations)) missing = true;
  });
  if (missing) throw UsageError(missing_row);
}

}  // namespace

std::vector<std::optional<GatheredColumn>> gather_rows(std::span<const RowsOfColumn> columns, std::uint64_t count) {
  std::vector<std::unique_ptr<Gather>> gathers, of_strings;
  for (const RowsOfColumn& of : columns)
    gathers.push_back(std::make_unique<Gather>(of.column, Rows{of.rows, of.row_bytes, count, block_of(count)}));
  gather_all(gathers, count);
  std::vector<std::optional<GatheredColumn>> results(columns.size());
  std::vector<std::size_t> numbers_of_strings;
  for (std::size_t c = 0; c < gathers.size(); ++c) {
    if (!gathers[c]->has_strings()) {
      results[c] = gathers[c]->finish();
    } else if (gathers[c]->place_strings()) {
      numbers_of_strings.push_back(c);
      of_strings.push_back(std::move(gathers[c]));
    }
  }
  for_blocks(of_strings, count, [](Gather& gather, std::uint64_t first, auto&) { gather.gather_bytes(first); });
  for (std::size_t s = 0; s < of_strings.size(); ++s) results[numbers_of_strings[s]] = of_strings[s]->finish();
  return results;
}

GatheredColumn gather_rows(const ChunkedColumn& column, const void* rows, int row_bytes, std::uint64_t count) {
  const RowsOfColumn alone{column, rows, row_bytes};
  std::optional<GatheredColumn> gathered = std::move(gather_rows(std::span(&alone, 1), count).front());
  if (!gathered) throw std::overflow_error("the strings take more bytes than their offsets count");
  return std::move(*gathered);
}

void check_rows(const void* rows, int row_bytes, std::uint64_t count, std::uint64_t rows_there_are) {
  with_key(to_key_width(row_bytes), [&](auto tag) {
    using Row = typename decltype(tag)::type;
    const auto* numbers = static_cast<const Row*>(rows);
    bool all_there = true;
#pragma omp parallel for reduction(&& : all_there) num_threads(team_if(count > worthwhile))
    for (std::uint64_t i = 0; i < count; ++i)
      all_there = all_there && (numbers[i] < rows_there_are || (sizeof(Row) == 8 && numbers[i] == no_row));
    if (!all_there) throw UsageError(missing_row);
  });
}

}  // namespace linkwise
