// Arguments of the steps of a join with one table of the whole build side in device memory, as raw pointers, for host
// and device alike; primitives/join_table.hpp enqueues the steps.
#pragma once

#include "linkwise/primitives/hash_join_steps.hpp"

namespace linkwise {

/// How the table finds a key's build rows.
enum class TableKind : std::uint8_t {
  hashed,  ///< open addressing with linear probing, the first slot being the upper bits of the key's hash
  direct,  ///< indexed by the key itself: unique integers
  bitmap   ///< a bit for each key, where it does not matter which row has it
};

/// The bytes of a table with so many places: slots of a hash and a row number, row numbers of 4 bytes, or bits.
constexpr std::uint64_t table_bytes(TableKind kind, KeyWidth width, std::uint64_t places) {
  switch (kind) {
    case TableKind::hashed: return 2 * static_cast<std::uint64_t>(width) * places;
    case TableKind::direct: return 4 * places;
    case TableKind::bitmap: return (places + 31) / 32 * 4;
  }
  return 0;
}
/// Every byte of an empty table.
constexpr std::uint8_t empty_table_byte(TableKind kind) { return kind == TableKind::bitmap ? 0 : 0xff; }

/// What filling and checking the table found out.
struct TableState {
  std::uint64_t repeated = 0;  ///< rows that met an equal key in the table
  std::uint64_t crowded = 0;   ///< rows that found no free slot nearby, or lie outside of the range of keys
  std::uint64_t missing = 0;   ///< rows that the check did not find in the table

  /// More rows of one key than this, on average, are left to joins that partition.
  static constexpr std::uint64_t most_alike = 8;
  /// Whether a table of so many rows can be used: a hashed one holds equal keys, a direct one the last of them, and a
  /// bitmap forgets them, which matters unless `asks_whether`: for each probe row only whether it matches.
  [[nodiscard]] LINKWISE_BOTH bool is_usable(TableKind kind, std::uint64_t rows, bool asks_whether) const {
    if (crowded > 0) return false;
    if (kind == TableKind::hashed) return repeated <= rows - rows / most_alike;
    return repeated == 0 || (kind == TableKind::bitmap && asks_whether);
  }
};

/// A slot of a hashed table: a hash and a row of the build side.
template <typename Key>
struct alignas(2 * sizeof(Key)) TableSlot {
  Key row, hash;
};

struct RawJoinTable {
  KeyWidth width = KeyWidth::k32;
  TableKind kind = TableKind::hashed;
  RawHashSide build;         ///< without parts; fewer than 2^32 - 1 rows
  void* entries = nullptr;   ///< TableSlot, 4-byte row numbers, or the bitmap's words of 4 bytes
  std::uint64_t places = 1;  ///< hashed: slots, a power of two; otherwise: possible keys
  int shift = 0;             ///< hashed: 8 · width - log2(places)
  std::uint64_t least = 0;   ///< direct and bitmap: the least key, extended to 64 bits
  TableState* state = nullptr;

  static constexpr std::uint32_t nobody = ~0U;
  /// A free slot's row has all bits set where keys have 4 bytes, and its hash where they have 8: that slot is claimed
  /// by its hash, which one key in 2^64 cannot be told from a free one. Such a row counts as crowded.
  template <typename Key>
  static constexpr Key free_slot = static_cast<Key>(~Key{0});
  /// Most slots beyond its first one at which a row is put.
  static constexpr std::uint32_t most_steps = 256;

  /// Where a key is found, or at least `places` if it is not in the range.
  template <typename Key>
  [[nodiscard]] LINKWISE_BOTH std::uint64_t place(Key key_or_hash) const {
    if (kind == TableKind::hashed) return shift >= 8 * static_cast<int>(sizeof(Key)) ? 0 : key_or_hash >> shift;
    return static_cast<Key>(key_or_hash - static_cast<Key>(least));
  }
  /// What is looked up: the key's hash or, in a direct table, the key.
  template <typename Key>
  [[nodiscard]] LINKWISE_BOTH Key sought(const RawHashSide& side, Key key) const {
    return kind == TableKind::hashed ? side.hash(key) : key;
  }
  [[nodiscard]] LINKWISE_BOTH std::uint64_t after(std::uint64_t place) const { return (place + 1) & (places - 1); }

  template <typename Key>
  [[nodiscard]] LINKWISE_BOTH TableSlot<Key> slot(std::uint64_t at) const {
    return static_cast<const TableSlot<Key>*>(entries)[at];
  }
  template <typename Key>
  static LINKWISE_BOTH bool is_free(const TableSlot<Key>& slot) {
    if constexpr (sizeof(Key) == 4) return slot.row == free_slot<Key>;
    else return slot.hash == free_slot<Key>;
  }
};

/// A probe row's matches, one after the other.
template <typename Key>
struct TableCursor {
  std::uint64_t place = 0;
  std::uint32_t row = RawJoinTable::nobody;

  [[nodiscard]] LINKWISE_BOTH bool has_row() const { return row != RawJoinTable::nobody; }
  /// Goes to the first slot from `place` on, whose contents are `slot`, that has the hash.
  LINKWISE_BOTH void seek(const RawJoinTable& table, Key hash, TableSlot<Key> slot) {
    while (!RawJoinTable::is_free(slot)) {
      if (slot.hash == hash) {
        row = static_cast<std::uint32_t>(slot.row);
        return;
      }
      place = table.after(place);
      slot = table.slot<Key>(place);
    }
    row = RawJoinTable::nobody;
  }
  /// Goes to the next match. A direct table has one at most.
  LINKWISE_BOTH void next(const RawJoinTable& table, Key hash) {
    if (table.kind != TableKind::hashed) {
      row = RawJoinTable::nobody;
      return;
    }
    place = table.after(place);
    seek(table, hash, table.slot<Key>(place));
  }
};

/// Looks up the rows of the probe side.
struct RawTableProbe {
  RawJoinTable table;
  RawHashSide probe;
  Emission emission = Emission::pairs;
  std::uint8_t* met = nullptr;  ///< a byte for each build row: whether it matched; null: not wanted
  bool adds_values = false;
  bool may_repeat = true;  ///< keys of the build side, as far as the host knows

  [[nodiscard]] LINKWISE_BOTH bool is_usable() const {
    return table.state->is_usable(table.kind, table.build.count, asks_whether(emission));
  }
};

/// Where the rows of the result go.
struct RawTableRows {
  RawHashColumn probe, build;
  std::uint64_t capacity = 0;      ///< rows beyond it are counted and not written
  std::uint64_t* taken = nullptr;  ///< how many rows there are
};

}  // namespace linkwise
