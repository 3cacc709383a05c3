#include "linkwise/join/range_room.hpp"

#include <algorithm>

#include "linkwise/error.hpp"
#include "linkwise/primitives/matching.hpp"

namespace linkwise {

RangeRoom::RangeRoom(Runtime& runtime, const Subpartitions& pairs, bool searches_each_key)
    : estimating_(runtime.estimating()), pairs_(pairs) {
  std::uint64_t ranges = 0, tiles = 0;
  for (const PairOfRanges& pair : pairs.parts) {
    const std::uint64_t left = rows_in(pair.left), right = rows_in(pair.right);
    rooms_.push_back({ranges, std::min(left, right), tiles, range_tiles(left, right, searches_each_key)});
    ranges += rooms_.back().ranges;
    tiles += rooms_.back().tiles;
  }
  ranges_ = runtime.allocate(Place::host(), sizeof(KeyRange) * ranges, "ranges of keys");
  tiles_ = runtime.allocate(Place::host(), sizeof(RangeTile) * tiles, "tiles of ranges");
}

MemoryView RangeRoom::ranges(std::size_t pair, std::uint64_t expected) const {
  const Room& room = rooms_[pair];
  const std::uint64_t count = estimating_ ? std::min(expected, room.ranges) : room.ranges;
  return ranges_.slice(sizeof(KeyRange) * room.first_range, sizeof(KeyRange) * count);
}

MemoryView RangeRoom::tiles(std::size_t pair) const {
  return tiles_.slice(sizeof(RangeTile) * rooms_[pair].first_tile, sizeof(RangeTile) * rooms_[pair].tiles);
}

KeyBlocks RangeRoom::keys(std::span<const std::uint64_t> ranges_of_pair) const {
  KeyBlocks keys;
  for (std::size_t p = 0; p < rooms_.size(); ++p) {
    const PairOfRanges& pair = pairs_.parts[p];
    const auto* ranges = reinterpret_cast<const KeyRange*>(ranges_.view().data) + rooms_[p].first_range;
    const auto* tiles = reinterpret_cast<const RangeTile*>(tiles_.view().data) + rooms_[p].first_tile;
    std::uint64_t found = 0;
    for (const RangeTile& tile : std::span(tiles, rooms_[p].tiles)) {
      found += tile.count;
      if (found > ranges_of_pair[p]) break;
      if (tile.count > 0)
        keys.emplace_back(pair.left.front().begin, pair.right.front().begin,
                          std::span(ranges + tile.begin, tile.count));
    }
    if (found != ranges_of_pair[p])
      throw CorruptDataError("ranges were lost between a GPU and the host; check the links, and run again");
  }
  for (const PairOfRanges& key : pairs_.taken_out)
    if (rows_in(key.left) > 0 && rows_in(key.right) > 0)
      keys.emplace_back(MatchedKey{key.left.front(), key.right.front()});
  std::ranges::stable_sort(keys, {}, [](const KeyBlock& block) { return block[0].left.begin; });
  return keys;
}

}  // namespace linkwise
