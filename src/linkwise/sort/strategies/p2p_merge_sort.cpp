#include "linkwise/sort/strategies/p2p_merge_sort.hpp"

#include <algorithm>
#include <bit>
#include <span>

#include "linkwise/error.hpp"
#include "linkwise/transfer/exchange.hpp"

namespace linkwise {
namespace {

using Group = std::span<Chunk>;

std::uint64_t count_of(Group chunks) {
  std::uint64_t sum = 0;
  for (const Chunk& chunk : chunks) sum += chunk.count();
  return sum;
}

std::vector<Records> records_of(Group chunks) {
  std::vector<Records> records;
  for (const Chunk& chunk : chunks) records.push_back(chunk.records());
  return records;
}

/// A range of the concatenated chunks, as pieces: (chunk, first, count).
struct Piece {
  std::size_t chunk;
  std::uint64_t first;
  std::uint64_t count;
};

std::vector<Piece> pieces_of(Group chunks, std::uint64_t first, std::uint64_t count) {
  std::vector<Piece> pieces;
  for (std::size_t c = 0; c < chunks.size() && count > 0; ++c) {
    if (first >= chunks[c].count()) {
      first -= chunks[c].count();
      continue;
    }
    const std::uint64_t here = std::min(count, chunks[c].count() - first);
    pieces.push_back({c, first, here});
    count -= here;
    first = 0;
  }
  return pieces;
}

// Ships `count` records, from position `from` of the concatenated sources to position `to` of the
// concatenated destinations' other buffers.
void ship(Group sources, std::uint64_t from, Group destinations, std::uint64_t to, std::uint64_t count,
          std::vector<Shipment>& shipments) {
  std::vector<Piece> remaining = pieces_of(sources, from, count);
  auto source = remaining.begin();
  for (Piece target : pieces_of(destinations, to, count)) {
    const Chunk& receiver = destinations[target.chunk];
    while (target.count > 0) {
      const std::uint64_t length = std::min(target.count, source->count);
      const Chunk& sender = sources[source->chunk];
      shipments.push_back({sender.records().slice(source->first, length),
                           receiver.other(receiver.count()).slice(target.first, length)});
      for (Piece* piece : {&target, &*source}) {
        piece->first += length;
        piece->count -= length;
      }
      if (source->count == 0) ++source;
    }
  }
}

class Merger {
 public:
  Merger(Runtime& runtime, Router& router, std::vector<Chunk>& chunks, ExpectedOrder expected_order)
      : runtime_(runtime), router_(router), chunks_(chunks), expected_order_(expected_order) {}

  // Merges every group of m neighbouring chunks, all groups at once. `in_order` and `halves_in_order` say that random
  // keys would already be in order in the group, or in each of its halves; only the expected pivots of an estimate
  // depend on them.
  void merge_groups(std::size_t m, bool in_order = false, bool halves_in_order = false) {
    if (m > 2) merge_groups(m / 2, in_order || halves_in_order);
    merge_stage(m, in_order);
    if (m > 2) merge_groups(m / 2, in_order, true);
  }

 private:
  void merge_stage(std::size_t m, bool in_order) {
    runtime_.set_phase("merge");
    const std::size_t groups = chunks_.size() / m;
    std::vector<std::uint64_t> pivots(groups, 0), expected(groups, 0);
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < groups; ++g) {
      const Group group = Group(chunks_).subspan(g * m, m);
      const Group left = group.first(m / 2), right = group.last(m / 2);
      Chunk& leader = group.front();
      for (Chunk& chunk : group.subspan(1)) runtime_.wait(leader.stream(), runtime_.record(chunk.stream()));
      const MemoryView pivot = leader.counters().slice(0, 8);
      select_pivot(runtime_, leader.stream(), records_of(left), records_of(right), pivot);
      expected[g] = expected_pivot(std::min(count_of(left), count_of(right)), in_order);
      reads.push_back({leader.stream(), pivot, &pivots[g], &expected[g]});
    }
    runtime_.read_back(reads);
    for (std::size_t g = 0; g < groups; ++g)
      if (pivots[g] > 0) swap_and_merge(Group(chunks_).subspan(g * m, m), pivots[g]);
  }

  // For random keys the pivot is near the middle, though never quite on the boundary of two chunks. Where all is in
  // order except for the chunk that an earlier pivot cut, a few records are misplaced. Reversed keys all change
  // sides.
  [[nodiscard]] std::uint64_t expected_pivot(std::uint64_t most, bool in_order) const {
    switch (expected_order_) {
      case ExpectedOrder::sorted: return 0;
      case ExpectedOrder::nearly_sorted: return std::min<std::uint64_t>(most, 1);
      case ExpectedOrder::reversed: return in_order ? 0 : most;
      case ExpectedOrder::random: break;
    }
    return std::min(most, in_order ? 1 : most / 2 + 1);
  }

  // Chunks that exchange no records stay as they are; each of the others moves to its other buffer.
  void swap_and_merge(Group group, std::uint64_t pivot) {
    const Group left = group.first(group.size() / 2), right = group.last(group.size() / 2);
    const std::uint64_t kept_left = count_of(left) - pivot;
    std::vector<Event> ready;  // once they have happened, the chunks' buffers are free
    for (Chunk& chunk : group) ready.push_back(runtime_.record(chunk.stream()));
    std::vector<Shipment> shipments;
    ship(left, kept_left, right, 0, pivot, shipments);
    ship(right, 0, left, kept_left, pivot, shipments);

    struct Touched {
      Chunk* chunk;
      std::uint64_t boundary;  // between its two runs
    };
    std::vector<Touched> touched;
    // Records that stay in a touched chunk are copied within its GPU's memory, during the transfers (sort22 §5.2).
    const auto keep = [&](Chunk& chunk, std::uint64_t first, std::uint64_t count, std::uint64_t boundary) {
      if (count > 0)
        shipments.push_back({chunk.records().slice(first, count), chunk.other(chunk.count()).slice(first, count)});
      touched.push_back({&chunk, boundary});
    };
    for (const Piece& piece : pieces_of(left, kept_left, pivot)) keep(left[piece.chunk], 0, piece.first, piece.first);
    for (const Piece& piece : pieces_of(right, 0, pivot)) {
      Chunk& chunk = right[piece.chunk];
      keep(chunk, piece.count, chunk.count() - piece.count, piece.count);
    }
    const std::vector<Event> moved = exchange_by_copies(runtime_, router_, shipments, ready);
    for (const Touched& each : touched) {
      Chunk& chunk = *each.chunk;
      for (const Event event : moved) runtime_.wait(chunk.stream(), event);
      chunk.flip(chunk.count());
      if (each.boundary == 0 || each.boundary == chunk.count()) continue;  // one run: sorted already
      const Records runs = chunk.records();
      merge(runtime_, chunk.stream(), runs.slice(0, each.boundary),
            runs.slice(each.boundary, chunk.count() - each.boundary), chunk.other(chunk.count()), chunk.scratch());
      chunk.flip(chunk.count());
    }
  }

  Runtime& runtime_;
  Router& router_;
  std::vector<Chunk>& chunks_;
  ExpectedOrder expected_order_;
};

}  // namespace

void p2p_merge_sort(Runtime& runtime, Router& router, std::vector<Chunk>& chunks, ExpectedOrder expected_order) {
  if (!std::has_single_bit(chunks.size()) || chunks.size() > 2 * max_segments)
    throw UsageError("p2p_merge runs on 2, 4, 8, … GPUs, not on " + std::to_string(chunks.size()) + "; use radix");
  std::vector<int> gpus;
  for (const Chunk& chunk : chunks) gpus.push_back(chunk.stream().place.index);
  if (!runtime.reach_each_other(gpus)) throw UsageError(p2p_needs_peers);
  runtime.set_phase("sort");
  const bool by_msd = chunks_suit_msd_sort(runtime, chunks);
  for (Chunk& chunk : chunks) sort_locally(runtime, chunk, {0, chunk.type().key_bits()}, by_msd);
  if (chunks.size() > 1) Merger(runtime, router, chunks, expected_order).merge_groups(chunks.size());
}

}  // namespace linkwise
