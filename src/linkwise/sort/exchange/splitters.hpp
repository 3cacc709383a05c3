// Splitters from samples: cutting an input into parts of equal size before it is sorted.
//
// About 2^20 samples, one at random from each of as many equal strata, are sorted on one GPU together with their
// tags, which say where each came from; every (samples/parts)-th of them is a cut. The tag breaks ties: records with
// the cut's key go to its left or right depending on their position in the input. So the parts are equal whatever the
// keys are, even if all are equal, in one round. (join25 §3.1.2 refines MSB buckets instead until none is too large.)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/sort/exchange/samples.hpp"

namespace linkwise {

struct Cut {
  std::uint64_t code = 0;
  std::uint64_t tag = 0;
};

/// Samples in the order of their codes; equal codes are in the order of the sources.
Samples sort_samples(Runtime& runtime, KeyType type, bool descending, std::span<const SampleSource> sources);

/// The `parts` - 1 cuts in ascending order. Sorts the samples on the first source's GPU; blocks until they are known.
std::vector<Cut> choose_cuts(Runtime& runtime, KeyType type, bool descending, std::span<const SampleSource> sources,
                             int parts);

/// The error of a part's size that samples may cause, as a fraction: five times sqrt(parts / samples), which is about
/// the usual error. Larger ones do not occur.
double sampling_error(std::uint64_t parts, std::uint64_t samples);

/// Bytes that choose_cuts takes on the GPU of the first source.
std::uint64_t sample_bytes(const Kernels& kernels, KeyWidth width, std::uint64_t samples);

/// The bits in which the codes between two neighbouring cuts can differ.
BitRange open_bits(const std::vector<Cut>& cuts, std::size_t part, int key_bits);

}  // namespace linkwise
