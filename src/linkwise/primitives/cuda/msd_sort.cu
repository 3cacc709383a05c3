// Radix sort by the most significant digits first, of keys without values.
#include "linkwise/primitives/cuda/msd_sort/msd_sort.cuh"

#include "linkwise/primitives/cuda/cuda_kernels.hpp"

namespace linkwise::cuda {
namespace {

constexpr std::size_t shared_on_hopper = 227 << 10;               // bytes that a block may have
constexpr std::uint64_t most = 0xffffffff - msd::copied_at_once;  // leaves room for 32-bit sums that round up

template <typename Key>
void add_kernels(KernelList& list) {
  static_assert(std::max(sizeof(msd::LevelMemory<Key>), sizeof(msd::LeftMemory<Key>)) <= shared_on_hopper);
  list.insert(list.end(),
              {address(msd::look_at_sample<Key>), address(msd::count_spans<Key>), address(msd::split_buckets<Key>),
               address(msd::partition_spans<Key>), address(msd::finish<Key>), address(msd::finish_hard<Key>),
               address(msd::sort_what_is_left<Key>)});
}

}  // namespace

KernelList msd_sort_kernels() {
  KernelList list{address(msd::sum_counters), address(msd::scan_counters)};
  add_kernels<std::uint32_t>(list);
  add_kernels<std::uint64_t>(list);
  return list;
}

std::uint64_t msd_sort_scratch_bytes(RecordType type, std::uint64_t count) {
  if (type.value != ValueWidth::none || count == 0 || count > most) return 0;
  std::uint64_t bytes = 0;
  with_key(type.key, [&](auto key) {
    using Key = typename decltype(key)::type;
    if (msd::fits_every_device<Key>()) bytes = msd::scratch_bytes<Key>(count);
  });
  return bytes;
}

// With fewer records, kernel launches take too large a share of the time, above all for unevenly spread keys.
std::uint64_t fewest_for_msd_sort(RecordType type) { return type.key == KeyWidth::k32 ? 36'000'000 : 4'000'000; }

void look_at_keys(cudaStream_t stream, KeyCoding coding, RawRecords input, RecordType type, std::uint64_t count,
                  SortBuffers buffers, void* scratch, KeySpread* spread) {
  with_key(type.key, [&](auto key) {
    using Key = typename decltype(key)::type;
    msd::look<Key>(stream, static_cast<Key*>(input.keys), coding, count, buffers, scratch, spread);
  });
}

void msd_sort(cudaStream_t stream, KeyCoding coding, RecordType type, RawRecords input, RawRecords result,
              RawRecords room, std::uint64_t count, void* scratch, std::uint64_t* checksum) {
  with_key(type.key, [&](auto key) {
    using Key = typename decltype(key)::type;
    const auto keys = [](RawRecords records) { return static_cast<Key*>(records.keys); };
    const auto columns = msd::columns_of<Key>({keys(input), keys(result), keys(room)}, coding, count, checksum);
    msd::sort<Key>(stream, columns, scratch);
  });
}

}  // namespace linkwise::cuda
