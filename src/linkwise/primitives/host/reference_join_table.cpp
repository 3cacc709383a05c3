#include "linkwise/primitives/host/reference_join_table.hpp"

#include <algorithm>

#include "linkwise/primitives/dispatch.hpp"

namespace linkwise {
namespace {

template <typename Key>
void enter_hashed(const RawJoinTable& table, Key hash, std::uint64_t row) {
  auto* const slots = static_cast<TableSlot<Key>*>(table.entries);
  if (sizeof(Key) == 8 && hash == RawJoinTable::free_slot<Key>) {
    ++table.state->crowded;
    return;
  }
  std::uint64_t at = table.place(hash);
  bool is_repeated = false;
  for (std::uint32_t step = 0; step <= RawJoinTable::most_steps; ++step, at = table.after(at)) {
    if (RawJoinTable::is_free(slots[at])) {
      slots[at] = {static_cast<Key>(row), hash};
      table.state->repeated += is_repeated ? 1 : 0;
      return;
    }
    is_repeated |= slots[at].hash == hash;
  }
  ++table.state->crowded;
}

// Calls body(row, what is looked up) for each row of a side.
template <typename Body>
void for_rows(const RawJoinTable& table, const RawHashSide& side, const Body& body) {
  with_key(table.width, [&](auto tag) {
    using Key = typename decltype(tag)::type;
    for (std::uint64_t row = 0; row < side.count; ++row)
      body(row, table.sought(side, static_cast<const Key*>(side.keys)[row]));
  });
}

template <typename Key>
TableCursor<Key> found(const RawJoinTable& table, Key sought) {
  TableCursor<Key> cursor{table.place(sought)};
  if (table.kind == TableKind::hashed) cursor.seek(table, sought, table.slot<Key>(cursor.place));
  else if (cursor.place >= table.places) return cursor;
  else if (table.kind == TableKind::direct) cursor.row = static_cast<const std::uint32_t*>(table.entries)[cursor.place];
  else if ((static_cast<const std::uint32_t*>(table.entries)[cursor.place / 32] >> cursor.place % 32 & 1) != 0)
    cursor.row = 0;
  return cursor;
}

// Calls body(probe row, what is looked up, its first match) for each probe row.
template <typename Body>
void for_probes(const RawTableProbe& probe, const Body& body) {
  if (probe.met != nullptr) std::fill_n(probe.met, probe.table.build.count, 0);
  if (!probe.is_usable()) return;
  for_rows(probe.table, probe.probe,
           [&](std::uint64_t row, auto sought) { body(row, sought, found(probe.table, sought)); });
}

}  // namespace

void fill_join_table_on_host(const RawJoinTable& table) {
  *table.state = {};
  std::fill_n(static_cast<std::uint8_t*>(table.entries), table_bytes(table.kind, table.width, table.places),
              empty_table_byte(table.kind));
  for_rows(table, table.build, [&](std::uint64_t row, auto sought) {
    if (table.kind == TableKind::hashed) return enter_hashed(table, sought, row);
    const std::uint64_t at = table.place(sought);
    auto* const words = static_cast<std::uint32_t*>(table.entries);
    if (at >= table.places) {
      ++table.state->crowded;
    } else if (table.kind == TableKind::direct) {
      table.state->repeated += words[at] == RawJoinTable::nobody ? 0 : 1;
      words[at] = static_cast<std::uint32_t>(row);
    } else {
      table.state->repeated += words[at / 32] >> at % 32 & 1;
      words[at / 32] |= std::uint32_t{1} << at % 32;
    }
  });
}

void check_join_table_on_host(const RawJoinTable& table) {
  table.state->missing = 0;
  if (table.state->crowded > 0 || (table.kind == TableKind::direct && table.state->repeated > 0)) return;
  for_rows(table, table.build, [&](std::uint64_t row, auto sought) {
    auto cursor = found(table, sought);
    while (table.kind != TableKind::bitmap && cursor.has_row() && cursor.row != row) cursor.next(table, sought);
    table.state->missing += cursor.has_row() ? 0 : 1;
  });
}

void count_table_matches_on_host(const RawTableProbe& probe, MatchTotals* totals) {
  *totals = {};
  for_probes(probe, [&](std::uint64_t row, auto sought, auto cursor) {
    totals->matched_rows += cursor.has_row() ? 1 : 0;
    for (; cursor.has_row(); cursor.next(probe.table, sought)) {
      ++totals->matches;
      if (probe.met != nullptr) probe.met[cursor.row] = 1;
      if (!probe.adds_values) continue;
      totals->probe_sum += probe.probe.value(row);
      totals->build_sum += probe.table.build.value(cursor.row);
    }
  });
}

void write_table_matches_on_host(const RawTableProbe& probe, const RawTableRows& rows) {
  *rows.taken = 0;
  const auto write = [&](std::uint64_t row, std::uint64_t of_build) {
    const std::uint64_t at = (*rows.taken)++;
    if (at >= rows.capacity) return;
    rows.probe.set(at, probe.probe.value(row));
    rows.build.set(at, of_build);
  };
  const bool writes_pairs = !asks_whether(probe.emission);
  for_probes(probe, [&](std::uint64_t row, auto sought, auto cursor) {
    const bool matches = cursor.has_row();
    for (; cursor.has_row(); cursor.next(probe.table, sought)) {
      if (probe.met != nullptr) probe.met[cursor.row] = 1;
      if (writes_pairs) write(row, probe.table.build.value(cursor.row));
    }
    if (rows_emitted(probe.emission, matches ? 1 : 0) == 1 && !(writes_pairs && matches)) write(row, ~std::uint64_t{0});
  });
}

}  // namespace linkwise
