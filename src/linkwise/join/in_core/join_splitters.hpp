// Where two relations are cut so that every GPU gets its part of the join: common splitters.
//
// Samples of both relations are sorted together, and each weighs as many rows as it stands for. A cut is put in front
// of all rows of a key, of both relations, so what matches meets on one GPU. Where one key weighs as much as a good
// part of a GPU's share, its rows of one relation are cut instead, by where they stand in the input; its rows of the
// other stay together, on the first GPU that has any of the key, and the next ones borrow them. So parts are balanced
// whatever the keys are (join25 §3.3.1 takes such keys out and joins them on the CPU).
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/sort/exchange/piece_exchange.hpp"
#include "linkwise/sort/exchange/splitters.hpp"
#include "linkwise/sort/host_io.hpp"

namespace linkwise {

/// What a relation puts into a part, as far as samples tell: with room for their error.
struct PartRoom {
  std::uint64_t rows = 0;
  std::uint64_t borrowed = 0;  ///< rows of the key that the part in front of it keeps
};

struct JoinSplitters {
  /// A tag of 0: in front of all rows of the key. Otherwise the row of the split relation at which its rows of that key
  /// are cut; at least one of them is in front.
  std::vector<Cut> cuts;
  std::vector<PartRoom> split_room, whole_room;  ///< of each part

  /// What a range of rows of a relation goes by.
  [[nodiscard]] Splitters splitters_for(bool is_split, const RowRange& rows) const;
  /// Whether a part begins with rows of a key that the part before it has as well.
  [[nodiscard]] bool borrows(std::size_t part) const;
  /// The part that keeps such a key's rows of the relation that is not split.
  [[nodiscard]] std::size_t owner(std::size_t part) const;
};

/// A relation to sample, in pieces; the tag of each is its first row.
struct SampledRelation {
  std::vector<SampleSource> sources;
  std::uint64_t rows = 0;
};
/// Of host columns, in equal pieces, each read by one of the streams' GPUs.
SampledRelation sampled(const HostIo& io, std::span<const Stream> streams);

/// `split` is the relation whose rows of one key may be cut; `weight_of_match`: of a row of the result, beside rows
/// that come in. Uses `samples` of each. Blocks until the cuts are there.
JoinSplitters choose_join_cuts(Runtime& runtime, KeyType type, SampledRelation split, SampledRelation whole,
                               std::size_t parts, std::uint64_t samples, double weight_of_match);

/// For a part that gets more than its room, which six standard deviations of the samples rule out.
[[noreturn]] void throw_samples_misjudged();

/// The same from samples, without devices.
struct SortedKeys {
  KeyWidth width = KeyWidth::k64;
  std::uint64_t count = 0;
  const void* codes = nullptr;          ///< rising
  const std::uint64_t* tags = nullptr;  ///< the row in its relation, and `whole_bit`; rising among equal codes
};
constexpr std::uint64_t whole_bit = 1ULL << 63;  ///< of a tag: of the relation that is not split
JoinSplitters cut_samples(const SortedKeys& samples, std::uint64_t split_rows, std::uint64_t whole_rows,
                          std::size_t parts, double weight_of_match);

}  // namespace linkwise
