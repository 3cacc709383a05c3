// Samples of keys that lie on several GPUs or on the host, gathered on one GPU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// A part of the input to sample, in the order of the input.
struct SampleSource {
  Stream stream;    ///< of the GPU that samples it
  MemoryView keys;  ///< on that GPU, or anywhere on the host
  std::uint64_t samples = 0;
  std::uint64_t tag_base = 0;  ///< the tag of its first key; tags rise with the input's order
};

/// How many of `wanted` samples to take from a source with `count` of the `total` keys; all, if `total` is no more.
std::uint64_t samples_of(std::uint64_t count, std::uint64_t total, std::uint64_t wanted);

/// Samples on the first source's GPU.
struct Samples {
  Stream stream;    ///< on which they are gathered
  Records records;  ///< codes, and tags as values
  std::vector<Buffer> memory;

  static RecordType type(KeyWidth width) { return {width, ValueWidth::v8}; }
  /// Memory on the samples' GPU that lives as long as they do.
  MemoryView allocate(Runtime& runtime, std::uint64_t bytes);
};
/// In the order of the sources.
Samples gather_samples(Runtime& runtime, KeyType type, bool descending, std::span<const SampleSource> sources);

}  // namespace linkwise
