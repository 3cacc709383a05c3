// Common splitters of two relations, which give every GPU an equal part of the join.
//
// Samples of both relations are sorted together, each weighted by the rows that it represents. A cut normally lies
// before all rows of a key in both relations, so that matching rows meet on one GPU. If a key outweighs a good part
// of a GPU's share, its rows in one relation (the split one) are divided over several GPUs by their position in the
// input. Its rows in the other (the whole one) stay together on the first GPU that has the key, and the next GPUs
// borrow copies of them. Parts are thus balanced whatever the key skew (join25 §3.3.1 takes such keys out and joins
// them on the CPU).
#pragma once

#include <cstdint>
#include <vector>

#include "linkwise/sort/exchange/piece_exchange.hpp"
#include "linkwise/sort/exchange/splitters.hpp"
#include "linkwise/sort/host_io.hpp"

namespace linkwise {

/// Rows of a relation in a part, estimated from samples with a margin for their error.
struct PartRoom {
  std::uint64_t rows = 0;
  std::uint64_t borrowed = 0;  ///< rows of a split key, copied from the part that owns them
};

struct JoinSplitters {
  /// A tag of 0 cuts before all rows of the key. Otherwise the tag is the row of the split relation at which its rows
  /// of that key are cut; at least one of them lies before the cut.
  std::vector<Cut> cuts;
  std::vector<PartRoom> split_room, whole_room;  ///< of each part

  /// The splitters that apply to a range of rows of a relation.
  [[nodiscard]] Splitters splitters_for(bool is_split, const RowRange& rows) const;
  /// Whether a part begins with rows of a key that the part before it has as well.
  [[nodiscard]] bool borrows(std::size_t part) const;
  /// The part that owns the rows of such a key in the relation that is not split.
  [[nodiscard]] std::size_t owner(std::size_t part) const;
};

/// A relation to sample, in pieces; the tag of each is its first row.
struct SampledRelation {
  std::vector<SampleSource> sources;
  std::uint64_t rows = 0;
};
/// Host columns in equal pieces, each sampled by the GPU of one of the streams.
SampledRelation sampled(const HostIo& io, std::span<const Stream> streams);

/// Whether a part of the relation, one of `parts`, should be sorted by MSD radix sort. Asks a sample; may block.
bool suits_msd_sort(Runtime& runtime, KeyType type, const SampledRelation& relation, RecordType record,
                    std::size_t parts);

/// `split` is the relation whose rows of one key may be divided. `weight_of_match`: weight of a result row relative
/// to an input row. Takes `samples` samples of each relation. Blocks until the cuts are known.
JoinSplitters choose_join_cuts(Runtime& runtime, KeyType type, SampledRelation split, SampledRelation whole,
                               std::size_t parts, std::uint64_t samples, double weight_of_match);

/// Reports that a part overflows its room, which a margin of six standard deviations of the samples practically rules
/// out.
[[noreturn]] void throw_samples_misjudged();

/// Sorted samples of both relations on the host, from which `cut_samples` chooses the cuts without devices.
struct SortedKeys {
  KeyWidth width = KeyWidth::k64;
  std::uint64_t count = 0;
  const void* codes = nullptr;          ///< rising
  const std::uint64_t* tags = nullptr;  ///< row in its relation, and `whole_bit`; ascending among equal codes
};
constexpr std::uint64_t whole_bit = 1ULL << 63;  ///< marks the tags of the relation that is not split
JoinSplitters cut_samples(const SortedKeys& samples, std::uint64_t split_rows, std::uint64_t whole_rows,
                          std::size_t parts, double weight_of_match);

}  // namespace linkwise
