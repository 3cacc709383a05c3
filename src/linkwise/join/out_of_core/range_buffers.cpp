#include "linkwise/join/out_of_core/range_buffers.hpp"

#include <algorithm>
#include <limits>

#include "linkwise/error.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/team.hpp"

namespace linkwise {

RangeBuffers::RangeBuffers(Runtime& runtime, const MergePathPartitions& pairs)
    : estimating_(runtime.estimating()), pairs_(pairs) {
  std::uint64_t ranges = 0, tiles = 0;
  for (const PairOfRanges& pair : pairs.parts) {
    const std::uint64_t left = rows_in(pair.left), right = rows_in(pair.right);
    rooms_.push_back({ranges, std::min(left, right), tiles, range_tiles(left, right)});
    ranges += rooms_.back().ranges;
    tiles += rooms_.back().tiles;
  }
  ranges_ = runtime.allocate(Place::host(), sizeof(KeyRange) * ranges, "ranges of keys");
  tiles_ = runtime.allocate(Place::host(), sizeof(RangeTile) * tiles, "tiles of ranges");
}

MemoryView RangeBuffers::ranges(std::size_t pair, std::uint64_t expected) const {
  const Room& room = rooms_[pair];
  const std::uint64_t count = estimating_ ? std::min(expected, room.ranges) : room.ranges;
  return ranges_.slice(sizeof(KeyRange) * room.first_range, sizeof(KeyRange) * count);
}

MemoryView RangeBuffers::tiles(std::size_t pair) const {
  return tiles_.slice(sizeof(RangeTile) * rooms_[pair].first_tile, sizeof(RangeTile) * rooms_[pair].tiles);
}

KeyBlocks RangeBuffers::keys(std::span<const std::uint64_t> ranges_of_pair) const {
  std::vector<KeyBlocks> of_pairs(rooms_.size());
  bool complete = true;
#pragma omp parallel for schedule(dynamic) reduction(&& : complete) num_threads(team())
  for (std::size_t p = 0; p < rooms_.size(); ++p) {
    of_pairs[p] = keys_of_pair(p);
    std::uint64_t found = 0;
    for (const KeyBlock& block : of_pairs[p]) found += block.size();
    complete = complete && found == ranges_of_pair[p];
  }
  if (!complete) throw CorruptDataError("ranges were lost between a GPU and the host; check the links, and run again");
  KeyBlocks keys;
  auto taken_out = pairs_.taken_out.begin();
  const auto take_out_before = [&](std::uint64_t left) {
    for (; taken_out != pairs_.taken_out.end() && taken_out->left.front().begin < left; ++taken_out)
      if (rows_in(taken_out->left) > 0 && rows_in(taken_out->right) > 0)
        keys.emplace_back(MatchedKey{taken_out->left.front(), taken_out->right.front()});
  };
  for (std::size_t p = 0; p < rooms_.size(); ++p) {
    take_out_before(pairs_.parts[p].left.front().end);
    keys.insert(keys.end(), of_pairs[p].begin(), of_pairs[p].end());
  }
  take_out_before(std::numeric_limits<std::uint64_t>::max());
  return keys;
}

KeyBlocks RangeBuffers::keys_of_pair(std::size_t pair) const {
  const auto* ranges = reinterpret_cast<const KeyRange*>(ranges_.view().data) + rooms_[pair].first_range;
  const auto* tiles = reinterpret_cast<const RangeTile*>(tiles_.view().data) + rooms_[pair].first_tile;
  KeyBlocks keys;
  for (const RangeTile& tile : std::span(tiles, rooms_[pair].tiles)) {
    if (tile.count == 0 || tile.begin + std::uint64_t{tile.count} > rooms_[pair].ranges) continue;
    keys.emplace_back(pairs_.parts[pair].left.front().begin, pairs_.parts[pair].right.front().begin,
                      std::span(ranges + tile.begin, tile.count));
  }
  return keys;
}

}  // namespace linkwise
