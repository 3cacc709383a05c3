#include "linkwise/primitives/host/gather_rows.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "linkwise/error.hpp"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/host/chunk_finder.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

using Layout = ChunkedColumn::Layout;

// Rows that a core does at once: at most so many that what it notes of them stays in its cache.
constexpr std::uint64_t least_block = 1 << 9, most_block = 1 << 12;
constexpr std::uint64_t worthwhile = 1 << 14;  // rows that pay for waking the other cores
constexpr int ahead = 12;                      // strings, from asking for memory to copying it

// In which all cores have a share; whole bytes of bits.
std::uint64_t block_of(std::uint64_t rows) {
  constexpr std::uint64_t turns = 4;
  const std::uint64_t share = rows / (turns * static_cast<std::uint64_t>(team()));
  return std::clamp(share / 8 * 8, least_block, most_block);
}

// Where a row lies.
struct Location {
  const ColumnChunk* chunk;  // null: nowhere
  std::uint64_t at;          // with the chunk's offset
};

[[noreturn]] void throw_missing_row() { throw UsageError("a row that is asked for does not exist"); }

bool bit(const void* bits, std::uint64_t at) {
  return (static_cast<const std::uint8_t*>(bits)[at / 8] >> (at % 8) & 1) != 0;
}

struct Bytes16 {
  std::uint64_t low, high;
};

// Lengths of strings are mostly small, and known only here: a call of memcpy takes longer than the copy.
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

std::vector<std::uint64_t> begins_of(const ChunkedColumn& column) {
  std::vector<std::uint64_t> begins{0};
  for (const ColumnChunk& chunk : column.chunks) begins.push_back(begins.back() + chunk.count);
  return begins;
}

class Gather {
 public:
  Gather(const ChunkedColumn& column, const void* rows, int row_bytes, std::uint64_t count)
      : column_(column),
        rows_(rows),
        row_bytes_(row_bytes),
        count_(count),
        block_(block_of(count)),
        finder_(begins_of(column)) {}

  GatheredColumn run() {
    result_.count = count_;
    ask_for_validity();
    switch (column_.layout) {
      case Layout::bits: gather_bits(); break;
      case Layout::fixed: gather_fixed(); break;
      case Layout::strings32: gather_strings<std::int32_t>(); break;
      case Layout::strings64: gather_strings<std::int64_t>(); break;
    }
    return std::move(result_);
  }

  // Only what of the result tells nulls.
  GatheredColumn run_validity() {
    ask_for_validity();
    if (validity_) for_blocks([](std::uint64_t, const Location*, std::uint64_t) {});
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::uint64_t row(std::uint64_t i) const {
    if (rows_ == nullptr) return i;
    return row_bytes_ == 4 ? static_cast<const std::uint32_t*>(rows_)[i] : static_cast<const std::uint64_t*>(rows_)[i];
  }

  [[nodiscard]] Location locate(std::uint64_t row) const {
    if (row == no_row) return {nullptr, 0};
    const std::size_t chunk = finder_.find(row);
    return {&column_.chunks[chunk], row - finder_.begin(chunk) + column_.chunks[chunk].offset};
  }

  // body(first, locations of the rows [first, first + n), n), block by block on all cores. The first time, nulls are
  // found as well, if somebody has asked for them.
  template <typename Body>
  void for_blocks(Body&& body) {
    const std::uint64_t rows_there_are = finder_.rows();
    std::atomic<bool> missing = false;
    std::atomic<std::uint64_t> nulls = 0;
#pragma omp parallel num_threads(team_if(count_ > worthwhile))
    {
      std::vector<Location> locations(std::min(block_, count_));
#pragma omp for schedule(dynamic)
      for (std::uint64_t first = 0; first < count_; first += block_) {
        const std::uint64_t n = std::min(block_, count_ - first);
        bool all_there = true;
        for (std::uint64_t i = 0; i < n; ++i) {
          const std::uint64_t r = row(first + i);
          all_there = all_there && (r < rows_there_are || r == no_row);
          if (all_there) locations[i] = locate(r);
        }
        if (!all_there) {
          missing = true;
          continue;
        }
        body(first, locations.data(), n);
        if (validity_) nulls += write_validity(first, locations.data(), n);
      }
    }
    if (missing) throw_missing_row();
    if (nulls > 0) {
      result_.nulls = nulls;
      result_.validity = std::move(validity_);
    }
    validity_.reset();
  }

  void ask_for_validity() {
    const auto has_nulls = [](const ColumnChunk& c) { return c.validity != nullptr; };
    if (row_bytes_ == 8 || std::ranges::any_of(column_.chunks, has_nulls)) validity_.emplace((count_ + 7) / 8);
  }

  // Returns the number of nulls.
  std::uint64_t write_validity(std::uint64_t first, const Location* from, std::uint64_t n) {
    const auto is_valid = [](const Location& l) {
      return l.chunk != nullptr && (l.chunk->validity == nullptr || bit(l.chunk->validity, l.at));
    };
    return n - write_bits(reinterpret_cast<std::uint8_t*>(validity_->data()) + first / 8, from, n, is_valid);
  }

  // Returns how many are set. Blocks begin at whole bytes.
  template <typename IsSet>
  static std::uint64_t write_bits(std::uint8_t* to, const Location* from, std::uint64_t n, IsSet&& is_set) {
    std::uint64_t set = 0;
    for (std::uint64_t i = 0; i < n; i += 8) {
      unsigned byte = 0;
      for (std::uint64_t j = i; j < std::min(i + 8, n); ++j) byte |= (is_set(from[j]) ? 1U : 0U) << (j - i);
      to[i / 8] = static_cast<std::uint8_t>(byte);
      set += static_cast<std::uint64_t>(__builtin_popcount(byte));
    }
    return set;
  }

  std::byte* make_values(std::uint64_t bytes) {
    result_.value_bytes = bytes;
    return result_.values.emplace(bytes).data();
  }

  void gather_bits() {
    auto* to = reinterpret_cast<std::uint8_t*>(make_values((count_ + 7) / 8));
    for_blocks([&](std::uint64_t first, const Location* from, std::uint64_t n) {
      write_bits(to + first / 8, from, n,
                 [](const Location& l) { return l.chunk != nullptr && bit(l.chunk->values, l.at); });
    });
  }

  static void copy_element(std::byte* to, const Location& from, std::size_t width) {
    if (from.chunk != nullptr) std::memcpy(to, from.chunk->values + from.at * width, width);
    else std::memset(to, 0, width);
  }

  void gather_fixed() {
    switch (column_.width) {
      case 1: return gather_elements<std::uint8_t>();
      case 2: return gather_elements<std::uint16_t>();
      case 4: return gather_elements<std::uint32_t>();
      case 8: return gather_elements<std::uint64_t>();
      case 16: return gather_elements<Bytes16>();
      default: break;
    }
    const auto width = static_cast<std::uint64_t>(column_.width);
    std::byte* to = make_values(count_ * width);
    for_blocks([&](std::uint64_t first, const Location* from, std::uint64_t n) {
      for (std::uint64_t i = 0; i < n; ++i) copy_element(to + (first + i) * width, from[i], width);
    });
  }

  template <typename Element>
  void gather_elements() {
    std::byte* values = make_values(count_ * sizeof(Element));
    for_blocks([&](std::uint64_t first, const Location* from, std::uint64_t n) {
      std::byte* to = values + first * sizeof(Element);
      for (std::uint64_t i = 0; i < n; ++i) copy_element(to + i * sizeof(Element), from[i], sizeof(Element));
    });
  }

  // Lengths first, and where the bytes are, so that nothing is looked for twice all over the column; then where each
  // string begins, and the bytes.
  template <typename Offset>
  void gather_strings() {
    auto* offsets = reinterpret_cast<Offset*>(result_.offsets.emplace((count_ + 1) * sizeof(Offset)).data());
    const HugeBuffer memory(count_ * sizeof(const std::byte*));
    auto* sources = reinterpret_cast<const std::byte**>(memory.data());
    std::vector<std::uint64_t> bytes_of_block((count_ + block_ - 1) / block_ + 1, 0);
    for_blocks([&](std::uint64_t first, const Location* from, std::uint64_t n) {
      std::uint64_t sum = 0;
      for (std::uint64_t i = 0; i < n; ++i) {
        Offset begin = 0, end = 0;
        sources[first + i] = nullptr;
        if (from[i].chunk != nullptr) {
          const auto* source = static_cast<const Offset*>(from[i].chunk->offsets) + from[i].at;
          begin = source[0], end = source[1];
          sources[first + i] = from[i].chunk->values + begin;
        }
        offsets[first + i] = end - begin;
        sum += static_cast<std::uint64_t>(end - begin);
      }
      bytes_of_block[first / block_ + 1] = sum;
    });
    for (std::size_t b = 1; b < bytes_of_block.size(); ++b) bytes_of_block[b] += bytes_of_block[b - 1];
    const std::uint64_t total = bytes_of_block.back();
    if (total > static_cast<std::uint64_t>(std::numeric_limits<Offset>::max()))
      throw std::overflow_error("the strings take more bytes than their offsets count");
    std::byte* to = make_values(total);
#pragma omp parallel for schedule(dynamic) num_threads(team_if(count_ > worthwhile))
    for (std::uint64_t first = 0; first < count_; first += block_) {
      std::uint64_t at = bytes_of_block[first / block_];
      const std::uint64_t last = std::min(first + block_, count_);
      for (std::uint64_t i = first; i < last; ++i) {
        if (i + ahead < last) __builtin_prefetch(sources[i + ahead]);
        const auto length = static_cast<std::uint64_t>(offsets[i]);
        if (length > 0) copy_string(to + at, sources[i], length);
        offsets[i] = static_cast<Offset>(at);
        at += length;
      }
    }
    offsets[count_] = static_cast<Offset>(total);
  }

  const ChunkedColumn& column_;
  const void* rows_;
  int row_bytes_;
  std::uint64_t count_, block_;
  ChunkFinder finder_;
  std::optional<HugeBuffer> validity_;  // to be written
  GatheredColumn result_;
};

}  // namespace

std::uint64_t ChunkedColumn::count() const {
  std::uint64_t sum = 0;
  for (const ColumnChunk& chunk : chunks) sum += chunk.count;
  return sum;
}

double ChunkedColumn::mean_width() const {
  if (!has_strings()) return width;
  std::uint64_t bytes = 0;
  const auto add = [&]<typename Offset>(const ColumnChunk& chunk, const Offset* offsets) {
    bytes += static_cast<std::uint64_t>(offsets[chunk.offset + chunk.count] - offsets[chunk.offset]);
  };
  for (const ColumnChunk& chunk : chunks) {
    if (layout == Layout::strings32) add(chunk, static_cast<const std::int32_t*>(chunk.offsets));
    else add(chunk, static_cast<const std::int64_t*>(chunk.offsets));
  }
  return static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(count(), 1));
}

GatheredColumn gather_rows(const ChunkedColumn& column, const void* rows, int row_bytes, std::uint64_t count) {
  return Gather(column, rows, row_bytes, count).run();
}

void gather_validity(const ChunkedColumn& column, const void* rows, int row_bytes, std::uint64_t count,
                     GatheredColumn& gathered) {
  GatheredColumn found = Gather(column, rows, row_bytes, count).run_validity();
  gathered.nulls = found.nulls;
  gathered.validity = std::move(found.validity);
}

void check_rows(const void* rows, int row_bytes, std::uint64_t count, std::uint64_t rows_there_are) {
  with_key(to_key_width(row_bytes), [&](auto tag) {
    using Row = typename decltype(tag)::type;
    const auto* numbers = static_cast<const Row*>(rows);
    bool all_there = true;
#pragma omp parallel for reduction(&& : all_there) num_threads(team_if(count > worthwhile))
    for (std::uint64_t i = 0; i < count; ++i)
      all_there = all_there && (numbers[i] < rows_there_are || (sizeof(Row) == 8 && numbers[i] == no_row));
    if (!all_there) throw_missing_row();
  });
}

}  // namespace linkwise
