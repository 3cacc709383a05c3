// The radix-partitioned sort as join25 §3.1.2 has it (after Ilic et al., BTW 2023): MSB buckets that are exchanged
// whole.
//
// Each GPU partitions its chunk by the first eight bits. A bucket that would lie across the end of a GPU's share, by
// more than ε = 0.5 % of it, is a spanning bucket: it is partitioned again by its next eight bits, until none spans;
// one whose keys are all the same is cut where the share ends. Then every GPU gets its buckets from all others in one
// all-to-all exchange, and sorts each by the bits that are left, neighbours of less than γ = 1 % of a chunk together.
// What is sorted can leave while the next bucket is sorted (Chunk::finished).
//
// `radix_sort`, which cuts by samples, partitions once into as many parts as there are GPUs, and keeps them apart by no
// bits: it moves each record less often within a GPU's memory, and sorts it by more bits.
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
