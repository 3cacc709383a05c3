// Splitters from samples: cutting an input into parts of equal size before it is sorted.
//
// About 2^20 samples, one at random from each of as many equal strata, are sorted on one GPU together with their
// tags, which say where each came from; the cuts are every (samples/parts)-th of them. The tag breaks ties: records
// with the cut's key go to its left or right by where they stand in the input, so the parts are equal whatever the
// keys are, all-equal included, in one round. (join25 §3.1.2 refines MSB buckets instead until none is too large.)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

struct Cut {
  std::uint64_t code = 0;
  std::uint64_t tag = 0;
};

/// A part of the input to sample, in the order of the input.
struct SampleSource {
  Stream stream;    ///< of the GPU that samples it
  MemoryView keys;  ///< on that GPU, or anywhere on the host
  std::uint64_t samples = 0;
  std::uint64_t tag_base = 0;  ///< the tag of its first key; tags rise with the input's order
};

/// Samples in the order of their codes, and of equal codes in that of the sources, on the first source's GPU.
struct SortedSamples {
  Stream stream;    ///< that sorts them
  Records records;  ///< codes, and tags as values
  std::vector<Buffer> memory;
};
SortedSamples sort_samples(Runtime& runtime, KeyType type, bool descending, std::span<const SampleSource> sources);

/// The `parts` - 1 cuts, rising. Sorts the samples on the first source's GPU; blocks until they are there.
std::vector<Cut> choose_cuts(Runtime& runtime, KeyType type, bool descending, std::span<const SampleSource> sources,
                             int parts);

/// The share of `wanted` samples that a source of `count` of `total` keys gives; all keys if there are no more.
std::uint64_t samples_of(std::uint64_t count, std::uint64_t total, std::uint64_t wanted);
/// By what fraction of a part samples may misjudge it: they err by about sqrt(parts / samples), and five times that
/// never happens.
double sampling_error(std::uint64_t parts, std::uint64_t samples);

/// Bytes that choose_cuts takes on the GPU of the first source.
std::uint64_t sample_bytes(const Kernels& kernels, KeyWidth width, std::uint64_t samples);

/// The bits in which the codes between two neighbouring cuts can differ.
BitRange open_bits(const std::vector<Cut>& cuts, std::size_t part, int key_bits);

}  // namespace linkwise
