// Narrow keys: 64-bit keys without values that differ by less than 2^32, as ids, dates and counts often do. The first
// level stores them as 32-bit distances from the least, or from the root's `low`, so that all that follows moves half
// the bytes; the last kernel writes native keys.
//
// The sample guesses whether keys are narrow; then each step is launched twice, for narrow keys and others. The first
// level's count knows, `split_bucket` decides before the partition, and from there on one launch of two does nothing. A
// paged first level finds out while it stores narrow keys; if they are not narrow, the sort begins anew.
#pragma once

#include "linkwise/primitives/cuda/msd_sort/layout.cuh"

namespace linkwise::cuda::msd {

/// Whether the caller expects narrow keys, so that each step is launched for them too.
LINKWISE_BOTH inline bool may_be_narrow(const State& state) { return state.narrow.capacity > 0; }

/// The same keys as distances. The result's memory is kept for native keys: distances lie in the two halves of the
/// room, except that the first level stores them in the result if the room is its input.
class NarrowColumns {
 public:
  static constexpr bool are_codes = true;
  static constexpr std::uint64_t* checksum = nullptr;  // which is the first level's, as these two are
  __device__ static bool flips_bits() { return false; }
  __device__ static NarrowKey code_of_zero() { return 0; }
  const std::uint64_t count;

  __device__ __forceinline__ NarrowColumns(const Columns<std::uint64_t>& columns, const State& state)
      : count(columns.count), columns_(columns), least_(state.counters->least_key) {}

  [[nodiscard]] __device__ __forceinline__ NarrowKey* keys_at(std::uint32_t place) const {
    auto* const room = reinterpret_cast<NarrowKey*>(columns_.keys[in_room]);
    auto* const result = reinterpret_cast<NarrowKey*>(columns_.keys[in_result]);
    const bool room_is_input = columns_.keys[in_room] == columns_.keys[in_input];
    if (place == in_input) return room_is_input ? result : room;
    return (place == in_result) == room_is_input ? room : room + count;
  }
  template <int keys>
  __device__ __forceinline__ void encode(NarrowKey (&)[keys], std::uint32_t) const {}
  [[nodiscard]] __device__ __forceinline__ NarrowKey narrow(std::uint64_t code) const {
    return static_cast<NarrowKey>(code - least_);
  }
  [[nodiscard]] __device__ __forceinline__ std::uint64_t native(NarrowKey key) const {
    return columns_.native(least_ + key);
  }
  [[nodiscard]] __device__ __forceinline__ std::uint64_t native_at(std::uint32_t, NarrowKey key) const {
    return native(key);
  }
  [[nodiscard]] __device__ __forceinline__ bool are_final(std::uint32_t) const { return false; }
  [[nodiscard]] __device__ __forceinline__ std::uint64_t* result() const { return columns_.keys[in_result]; }

 private:
  const Columns<std::uint64_t>& columns_;
  const std::uint64_t least_;
};

__device__ inline bool fits_narrow_key(std::uint64_t distance) {
  return distance <= static_cast<NarrowKey>(~NarrowKey{0});
}

/// Of keys as distances from `least`.
__device__ inline KeySpan narrow_span(KeySpan keys, std::uint64_t least) {
  const std::uint64_t low = keys.low - least;
  return {low, min(keys.reach, std::uint64_t{static_cast<NarrowKey>(~NarrowKey{0})} - low)};
}

static_assert(usual_levels >= 3);  // see clear_result

/// Where the first level stores narrow keys, and where they are its parts' input.
constexpr Place narrow_parts = in_input;

/// Whether the level's input is narrow. The first level's is not, of which the sample has only guessed.
__device__ inline bool reads_narrow(const State& state, int now) {
  return state.counters->is_narrow != 0 && !state.buckets[now][0].is_root;
}

/// Items of the first level that still lie in the result, where the last kernel would write onto them, move to the
/// room. Launched if the room is the input. No bucket lies there any more: one that the second level does not divide is
/// divided by the third, which knows its range.
template <typename Key>
__global__ void __launch_bounds__(finish_threads)
    clear_result(const __grid_constant__ Columns<Key> columns, const __grid_constant__ State state) {
  if (state.counters->is_narrow == 0) return;
  const NarrowColumns narrow(columns, state);
  for (std::uint32_t i = blockIdx.x; i < state.counters->items; i += gridDim.x) {
    Item& item = state.items[i];
    const std::uint32_t begin = item.begin, count = item.count;
    if (item.place != narrow_parts) continue;
    for (std::uint32_t at = begin + threadIdx.x; at < begin + count; at += finish_threads)
      narrow.keys_at(in_room)[at] = narrow.keys_at(narrow_parts)[at];
    __syncthreads();  // all have read the place
    if (threadIdx.x == 0) item.place = in_room;
  }
}

}  // namespace linkwise::cuda::msd
