// Radix sort by the most significant digits first, of keys of 64 bits alone: elsewhere CUB is as fast or faster so far.
#include "linkwise/primitives/cuda/msd_sort/msd_sort.cuh"

#include "linkwise/primitives/cuda/cuda_kernels.hpp"

namespace linkwise::cuda {
namespace {

using Key = std::uint64_t;
static_assert(sizeof(msd::LeftMemory<Key, NoValue>) <= 227 << 10, "what a block may have on Hopper");
constexpr std::uint64_t fewest = 4'000'000, most = 0xffffffff;  // records: with fewer, launches take too long

}  // namespace

KernelList msd_sort_kernels() {
  return {address(msd::look_at_sample<Key>),
          address(msd::count_spans<Key, NoValue>),
          address(msd::sum_counters),
          address(msd::scan_counters),
          address(msd::split_buckets<Key>),
          address(msd::partition_spans<Key, NoValue>),
          address(msd::finish<Key, NoValue>),
          address(msd::finish_hard<Key, NoValue>),
          address(msd::sort_what_is_left<Key, NoValue>)};
}

std::uint64_t msd_sort_scratch_bytes(RecordType type, std::uint64_t count) {
  if (type != RecordType{KeyWidth::k64, ValueWidth::none} || count < fewest || count > most) return 0;
  return msd::fits_this_device<Key, NoValue>() ? msd::scratch_bytes<Key, NoValue>(count) : 0;
}

void look_at_keys(cudaStream_t stream, KeyCoding coding, void* keys, std::uint64_t count, bool room_is_input,
                  void* scratch, KeySpread* spread) {
  msd::look<Key, NoValue>(stream, static_cast<Key*>(keys), coding, count, room_is_input, scratch, spread);
}

void msd_sort(cudaStream_t stream, KeyCoding coding, RawRecords input, RawRecords result, RawRecords room,
              std::uint64_t count, void* scratch, std::uint64_t* checksum) {
  const auto keys = [](RawRecords records) { return static_cast<Key*>(records.keys); };
  const auto columns = msd::columns_of<Key, NoValue>({keys(input), keys(result), keys(room)}, {}, coding, checksum);
  msd::sort(stream, columns, count, scratch);
}

}  // namespace linkwise::cuda
