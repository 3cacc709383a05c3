// The radix-partitioned sort as described in join25 §3.1.2 (after Ilic et al., BTW 2023): MSB buckets are exchanged
// as a whole.
//
// Each GPU partitions its chunk by the first eight bits. A bucket that would lie across the end of a GPU's share, by
// more than ε = 0.5 % of it, is a spanning bucket: it is partitioned again by its next eight bits, until none spans;
// one whose keys are all equal is cut where the share ends. Then every GPU gets its buckets from all others in one
// all-to-all exchange, and sorts each by its remaining bits; neighbouring buckets are sorted together up to γ = 1 %
// of a chunk. Sorted buckets can be copied out while later ones are sorted (Chunk::finished).
//
// By contrast, `radix_sort` cuts by samples and partitions once, into one part per GPU, whose keys need not share
// leading bits: it moves each record less often within a GPU's memory, and sorts it by more bits.
#pragma once

#include <vector>

#include "linkwise/sort/chunk.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

/// See sort_chunks. Any number of GPUs; stable.
void bucket_radix_sort(Runtime& runtime, Router& router, std::vector<Chunk>& chunks);

/// Bytes of histograms on each GPU.
std::uint64_t bucket_bytes();

}  // namespace linkwise
