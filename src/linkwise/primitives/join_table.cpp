#include "linkwise/primitives/join_table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "linkwise/primitives/hash_views.hpp"

namespace linkwise {
namespace {

// Measured on an H200, where copies within its memory reach so many GB/s: picoseconds of a lookup in a table that an
// SM's cache holds, in one that just fits the GPU's cache, and in memory; and of entering a row. A lookup by hash looks
// at more than one slot.
constexpr double h200_gb_per_s = 2050;
constexpr double near_bytes = 128 << 10;
struct TableRates {
  double near, cached, far, cached_entry, far_entry;
};
constexpr TableRates by_hash{3.2, 10, 32, 20, 80}, by_key{0.5, 8, 24, 10, 40};
constexpr double far_bytes = 512 << 20, farther = 6.5;  // picoseconds more for each doubling of a larger table
constexpr double not_hidden = 0.45;  // of the shorter of lookups and reading and writing columns, in the time of both
constexpr double kept_share = 0.75;  // of the GPU's cache, which the table shares with what streams through

RawJoinTable raw(const JoinTable& table) {
  const HashSide& build = table.build;
  return {build.width(), table.kind,
          raw(build),    table.entries.data,
          table.places,  8 * static_cast<int>(build.width()) - std::countr_zero(table.places),
          table.least,   pointer<TableState>(table.state)};
}

RawTableProbe raw(const TableProbe& probe) {
  return {raw(probe.table),  raw(probe.probe), probe.emission, pointer<std::uint8_t>(probe.met),
          probe.adds_values, probe.may_repeat};
}

void check(const JoinTable& table, const char* operation) {
  require(table.build.rows() <= JoinTable::most_rows, operation, "fewer than 2^32 - 1 build rows");
  require(table.build.begin.bytes == 0 && !table.build.are_hashes, operation, "keys in one part");
  require(table.kind != TableKind::hashed || std::has_single_bit(table.places), operation, "a power of two of slots");
  require(table.kind != TableKind::hashed || table.build.rows() <= JoinTable::most_hashed_rows(table.build.width()),
          operation, "as many rows as hashes tell apart");
  require(table.entries.bytes == table.entry_bytes(), operation, "room for the table");
  require(table.state.bytes == sizeof(TableState), operation, "room for the state");
}

void check(const TableProbe& probe, const char* operation) {
  check(probe.table, operation);
  require(probe.probe.begin.bytes == 0 && !probe.probe.are_hashes, operation, "keys in one part");
  require(probe.probe.width() == probe.table.build.width(), operation, "keys of one width");
  require(probe.met.bytes == 0 || probe.met.bytes == probe.table.build.rows(), operation, "a byte for each build row");
  require(probe.table.kind != TableKind::bitmap || (probe.met.bytes == 0 && !probe.adds_values), operation,
          "a bitmap does not know rows");
}

std::vector<MemoryView> what_probe_reads(const TableProbe& probe) {
  return without_empty(
      {probe.probe.keys, probe.probe.values, probe.table.build.values, probe.table.entries, probe.table.state});
}

Work lasting(double seconds) {
  Work work;
  work.microseconds = 1e6 * seconds;
  return work;
}

Work work_of(const Runtime& runtime, const TableProbe& probe, int written_bytes) {
  return lasting(seconds_of_lookups(runtime, probe.table.kind, probe.probe.rows(), probe.table.entries.bytes,
                                    static_cast<double>(probe.probe.width()) + written_bytes));
}

double cache_for_table(const Runtime& runtime) {
  return kept_share * static_cast<double>(runtime.kernels().cache_bytes());
}

// The share of random accesses to a table that find the GPU's cache.
double cached_share(const Runtime& runtime, double table_bytes) {
  return std::min(1.0, cache_for_table(runtime) / std::max(table_bytes, 1.0));
}

// Seconds of so many random accesses, from their picoseconds on an H200.
double seconds_of_accesses(const Runtime& runtime, std::uint64_t accesses, double picoseconds) {
  return 1e-12 * static_cast<double>(accesses) * picoseconds * h200_gb_per_s /
         runtime.machine().gpu.local_copy_gb_per_s;
}

double seconds_of_bytes(const Runtime& runtime, double bytes) {
  return bytes / (2e9 * runtime.machine().gpu.local_copy_gb_per_s);  // a copy reads and writes
}

}  // namespace

std::uint64_t JoinTable::slots_for(KeyWidth width, std::uint64_t rows) {
  constexpr std::uint64_t in_many = 16;  // a row then seldom meets another
  const auto near_slots = static_cast<std::uint64_t>(near_bytes) / table_bytes(TableKind::hashed, width, 1);
  const std::uint64_t least = std::max<std::uint64_t>(2 * rows, 2);
  return std::bit_ceil(std::max(least, std::min(in_many * rows, near_slots)));
}

std::uint64_t JoinTable::places_in(CodeRange range) {
  if (range.greatest < range.least) return 1;  // of no keys
  const std::uint64_t more = range.greatest - range.least;
  return more >= std::uint64_t{1} << 32 ? 0 : more + 1;
}

JoinTable JoinTable::hashed(const HashSide& build) {
  return {TableKind::hashed, build, slots_for(build.width(), build.rows()), 0, {}, {}};
}

JoinTable JoinTable::by_key(const HashSide& build, TableKind kind, CodeRange range) {
  const bool is_signed = key_class(build.key_type) == KeyClass::signed_integer;
  return {kind, build, places_in(range), range.least ^ (is_signed ? std::uint64_t{1} << 63 : 0), {}, {}};
}

double seconds_to_fill_table(const Runtime& runtime, TableKind kind, std::uint64_t rows, std::uint64_t table_bytes) {
  const auto bytes = static_cast<double>(table_bytes);
  const TableRates& rates = kind == TableKind::hashed ? by_hash : by_key;
  const double entry = std::lerp(rates.far_entry, rates.cached_entry, cached_share(runtime, bytes));
  return seconds_of_bytes(runtime, bytes) + seconds_of_accesses(runtime, rows, entry);
}

double seconds_of_lookups(const Runtime& runtime, TableKind kind, std::uint64_t rows, std::uint64_t table_bytes,
                          double row_bytes) {
  const auto bytes = static_cast<double>(table_bytes);
  const TableRates& rates = kind == TableKind::hashed ? by_hash : by_key;
  const double filled =
      std::log2(std::max(bytes, near_bytes) / near_bytes) / std::log2(cache_for_table(runtime) / near_bytes);
  const double in_cache = std::lerp(rates.near, rates.cached, std::min(filled, 1.0));
  const double far = rates.far + farther * std::log2(std::max(bytes, far_bytes) / far_bytes);
  const double lookup = std::lerp(far, in_cache, cached_share(runtime, bytes));
  const double looking = seconds_of_accesses(runtime, rows, lookup),
               moving = seconds_of_bytes(runtime, static_cast<double>(rows) * row_bytes);
  return std::max(looking, moving) + not_hidden * std::min(looking, moving);
}

void fill_join_table(Runtime& runtime, Stream stream, const JoinTable& table) {
  check(table, "fill table");
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream,
                  {table.kind == TableKind::hashed ? "fill table by hash" : "fill table by key",
                   without_empty({table.build.keys}),
                   {table.entries, table.state},
                   lasting(seconds_to_fill_table(runtime, table.kind, table.build.rows(), table.entries.bytes)),
                   [&kernels, raw_table = raw(table)](void* native) { kernels.fill_join_table(native, raw_table); }});
}

void check_join_table(Runtime& runtime, Stream stream, const JoinTable& table) {
  check(table, "check table");
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream,
                  {"check table",
                   without_empty({table.build.keys, table.entries}),
                   {table.state},
                   lasting(seconds_of_lookups(runtime, table.kind, table.build.rows(), table.entries.bytes,
                                              static_cast<double>(table.build.width()))),
                   [&kernels, raw_table = raw(table)](void* native) { kernels.check_join_table(native, raw_table); }});
}

void count_table_matches(Runtime& runtime, Stream stream, const TableProbe& probe, const MemoryView& totals) {
  check(probe, "count in table");
  require(totals.bytes == sizeof(MatchTotals), "count in table", "one set of totals");
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"count in table", what_probe_reads(probe), without_empty({totals, probe.met}),
                           work_of(runtime, probe, 0), [&kernels, raw_probe = raw(probe), totals](void* native) {
                             kernels.count_table_matches(native, raw_probe, pointer<MatchTotals>(totals));
                           }});
}

void write_table_matches(Runtime& runtime, Stream stream, const TableProbe& probe, const HashColumn& of_probe,
                         const HashColumn& of_build, std::uint64_t capacity, const MemoryView& taken) {
  check(probe, "write from table");
  check(of_probe, "write from table");
  check(of_build, "write from table");
  require(taken.bytes == 8, "write from table", "one number");
  const Kernels& kernels = runtime.kernels();
  const RawTableRows rows{raw(of_probe), raw(of_build), capacity, pointer<std::uint64_t>(taken)};
  const int written = of_probe.bytes + (of_build.to.bytes > 0 ? of_build.bytes : 0);
  runtime.enqueue(
      stream, {"write from table", what_probe_reads(probe), without_empty({taken, of_probe.to, of_build.to, probe.met}),
               work_of(runtime, probe, written), [&kernels, raw_probe = raw(probe), rows](void* native) {
                 kernels.write_table_matches(native, raw_probe, rows);
               }});
}

}  // namespace linkwise
