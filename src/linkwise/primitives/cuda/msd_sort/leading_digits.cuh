// The first level of an MSD radix sort that several GPUs share: its records are stored in the memory of the GPUs that
// sort them on. Every GPU cuts by the same Root, which lies in memory of its own rather than in the scratch.
#pragma once

#include "linkwise/primitives/cuda/msd_sort/msd_sort.cuh"

namespace linkwise::cuda::msd {

// Few digits in the first level make long runs, which the links like; the second level cuts each into as many as this
// share of its most digits, which leaves room for unequal ones. More digits divide the keys among GPUs more equally.
constexpr double planned_digits = 0.7;
constexpr std::uint32_t fewest_per_source = 128;

/// With as many digits as a bucket can have: the first level has few. Keys are stored whole.
inline Extent with_most_digits(Extent extent) {
  extent.digits = extent.is_stable ? stable_digits : most_digits;
  extent.narrow = {};
  extent.pages = 0;
  return extent;
}

inline State leading_state(const RawLeadingDigits& level, const Extent& extent) {
  State state = state_in(level.scratch, extent);
  state.root = static_cast<Root*>(level.digits);
  return state;
}

template <typename Key>
void look_at_all(cudaStream_t stream, const RawLeadingDigits& level, const Extent& extent, const RawSegments& samples,
                 std::uint64_t total, KeySpread* spread) {
  const double parts = static_cast<double>(total) / (planned_fill * extent.usual.capacity);
  const auto needed = static_cast<std::uint32_t>(std::ceil(parts / (planned_digits * extent.digits)));
  const auto digits = std::min(std::max(needed, fewest_per_source * samples.count), std::uint32_t{root_digits});
  const auto cuts = static_cast<std::uint32_t>(std::ceil(std::max(parts / digits, 1.0)));
  look_at_sample<<<1, sample_threads, 0, stream>>>(
      keys_of<Key>({level.source, {}, {}}, own_codes(level.type.key), level.count), sampled(samples, total),
      static_cast<std::uint32_t>(level.count), WantedDigits{digits, cuts}, {}, in_result, leading_state(level, extent),
      spread);
  check_launch("look at all keys");
}

/// One block. The counters of the first bucket have become places.
static __global__ void __launch_bounds__(level_threads)
    tell_counts(const __grid_constant__ State state, LeadingDigitCounts* counts) {
  const Bucket& bucket = state.buckets[0][0];
  const auto place = [&](unsigned digit) {
    return digit < bucket.digits ? state.entries[bucket.first_entry + digit * bucket.spans] : bucket.count;
  };
  for (unsigned digit = threadIdx.x; digit < bucket.digits; digit += level_threads)
    counts->count[digit] = bucket.count == 0 ? 0 : place(digit + 1) - place(digit);
  if (threadIdx.x != 0) return;
  counts->digits = bucket.digits;
  counts->least = bucket.least;
  counts->greatest = bucket.greatest;
}

template <typename Key>
void count_leading(cudaStream_t stream, const RawLeadingDigits& level, const Extent& extent,
                   LeadingDigitCounts* counts) {
  const State state = leading_state(level, extent);
  count_level<Key, NoValue>(stream, keys_of<Key>({level.source, {}, {}}, level.coding, level.count), state, 0);
  tell_counts<<<1, level_threads, 0, stream>>>(state, counts);
  check_launch("tell the counts");
}

/// One block.
static __global__ void __launch_bounds__(level_threads)
    set_destinations(const __grid_constant__ State state, const __grid_constant__ DigitPlaces places,
                     const __grid_constant__ RawDestinations parts) {
  const Bucket& bucket = state.buckets[0][0];
  Destinations& to = *state.destinations;
  for (unsigned digit = threadIdx.x; digit < places.digits; digit += level_threads) {
    const RawRecords& part = parts.records[places.part[digit]];
    to.keys[digit] = part.keys;
    to.values[digit] = part.values;
    to.delta[digit] =
        places.begin[digit] - (bucket.spans == 0 ? 0 : state.entries[bucket.first_entry + digit * bucket.spans]);
  }
}

template <typename Key, typename Value>
void store_leading(cudaStream_t stream, const RawLeadingDigits& level, const DigitPlaces& places,
                   const RawDestinations& parts, std::uint64_t* checksum) {
  const State state = leading_state(level, with_most_digits(extent_of<Key, Value>(level.count)));
  clear_checksum(stream, checksum);
  set_destinations<<<1, level_threads, 0, stream>>>(state, places, parts);
  launch_partition<Key, Value, Way::shared>(
      stream, columns_of<Key, Value>({level.source, {}, {}}, level.coding, level.count, checksum), state, 0);
  check_launch("store leading digits");
}

/// One block: makes the part the first level's bucket, as if this GPU alone had partitioned it.
template <typename Key>
__global__ void __launch_bounds__(level_threads)
    begin_received(const __grid_constant__ State state, const __grid_constant__ ReceivedDigits received,
                   std::uint32_t count) {
  for (unsigned digit = threadIdx.x; digit < received.digits; digit += level_threads)
    state.entries[digit] = received.begin[digit];
  if (threadIdx.x != 0) return;
  const Root& root = *state.root;
  Bucket bucket{};
  cut_evenly(bucket, root.window, received.digits - 2);
  bucket.low = root.low;
  bucket.reach = static_cast<Key>(~Key{0});
  bucket.digits = received.digits;
  bucket.is_root = true;
  const KeySpan first = keys_of_digit(bucket, root, received.first);
  const KeySpan last = keys_of_digit(bucket, root, received.end - 1);
  bucket.least = max(received.least, first.low);
  bucket.greatest = min(received.greatest, last.low + last.reach);
  bucket.count = count;
  bucket.spans = 1;
  bucket.place = in_result;
  // A bucket that is divided has been moved to its next place; another one is still to go there.
  const bool divided = is_divided(bucket, Digits<Key>(bucket, root, root.table, true));
  bucket.next_place = divided ? in_result : in_room;
  state.buckets[0][0] = bucket;
  *state.counters = {.buckets = {1, 0}, .spans = {1, 0}, .entries = {received.digits, 0}};
}

template <typename Key, typename Value>
void sort_received(cudaStream_t stream, const RawLeadingDigits& level, const ReceivedDigits& received, RawRecords part,
                   RawRecords room, std::uint64_t count) {
  const State state = leading_state(level, with_most_digits(extent_of<Key, Value>(count)));
  begin_received<Key><<<1, level_threads, 0, stream>>>(state, received, static_cast<std::uint32_t>(count));
  split_level<Key, Value>(stream, state, 0);
  sort_from_level<Key, Value>(stream, 1,
                              columns_of<Key, Value>({RawRecords{}, part, room}, level.coding, count, nullptr), state);
}

}  // namespace linkwise::cuda::msd
