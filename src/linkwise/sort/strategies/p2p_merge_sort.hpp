// P2P merge sort (sort22 §5.2, join25 §3.1.1): sort locally, then merge over peer links.
//
// The merge of m neighbouring chunks selects a pivot p over peer reads and exchanges the last p records of
// the left half with the first p of the right; then each half is merged in the same way, down to pairs.
// For g = 2^k GPUs the stages are 2, then 4 2, then 8 (2) 4 2, …: each exchanges half of the records on
// uniform keys. The leftmost pivot moves as few records as possible, and none where none are misplaced.
//
// Unlike in the papers, the right half's records keep their order where they arrive: position |A| - p + i
// of the left half receives B[i]. The papers pair the GPUs crosswise instead (C0 ↔ C3, C1 ↔ C2), which moves as
// much but reverses the order of whole chunks; ours keeps each chunk at two runs at most and the sort stable,
// and it leaves the quarters of a merged group in order, so that one of the seven stages on eight GPUs moves next
// to nothing.
#pragma once

#include <vector>

#include "linkwise/sort/chunk.hpp"
#include "linkwise/sort/sort_report.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

constexpr auto p2p_needs_peers =
    "p2p_merge reads the memory of peers, and these GPUs cannot reach each other's; use radix or het";

/// See sort_chunks. The number of chunks is a power of two, at most 64; stable.
/// @throws UsageError if the GPUs cannot reach each other's memory.
void p2p_merge_sort(Runtime& runtime, Router& router, std::vector<Chunk>& chunks, ExpectedOrder expected_order);

}  // namespace linkwise
