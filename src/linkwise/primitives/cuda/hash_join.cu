// Partitioned hash joins: radix passes by bits of the hashes, and the join of matching parts.
#include "linkwise/primitives/cuda/cuda_kernels.hpp"
#include "linkwise/primitives/cuda/hash_join/match.cuh"
#include "linkwise/primitives/cuda/hash_join/partition.cuh"
#include "linkwise/primitives/cuda/hash_join/samples.cuh"

namespace linkwise::cuda {
namespace {

template <typename Kernel>
void take_shared(Kernel* kernel, std::size_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "take shared memory");
}

std::uint64_t bytes_of_tiles(std::uint32_t runs) { return (4 * (std::uint64_t{runs} + 1) + 15) / 16 * 16; }

// Writes the number of each run's first tile to the scratch; a single run of all rows does not need it.
hash::Tiles find_tiles(cudaStream_t stream, const RawHashPass& pass, unsigned rows, void* scratch) {
  auto* const first = static_cast<std::uint32_t*>(scratch);
  if (pass.runs.begin != nullptr) hash::find_tiles_kernel<<<1, 1024, 0, stream>>>(pass.runs, rows, first);
  return {first, rows};
}
unsigned most_tiles(const RawHashPass& pass, const hash::Tiles& tiles) {
  return static_cast<unsigned>(pass.rows / tiles.rows + pass.runs.count);
}

template <typename Body>
void with_hashed_record(RecordType type, Body&& body) {
  with_key(type.key, [&](auto key) {
    switch (type.value) {
      case ValueWidth::none: return body(key, Tag<NoValue>{});
      case ValueWidth::v4: return body(key, Tag<std::uint32_t>{});
      default: return body(key, Tag<std::uint64_t>{});
    }
  });
}

void clear_checksums(cudaStream_t stream, const RawHashMatch& match) {
  if (match.checksums != nullptr) check(cudaMemsetAsync(match.checksums, 0, 16, stream), "clear the checksums");
}

// Launches a kernel with a block for each task, and a hash table in the block's shared memory.
template <typename Kernel, typename What>
void match_parts(cudaStream_t stream, const RawHashMatch& match, bool keeps_values, std::uint32_t key_bytes,
                 Kernel* kernel, const What& what) {
  const HashTableShape shape(match.table_rows, keeps_values ? match.build.value_type.bytes : 0, match.met != nullptr);
  const std::size_t bytes =
      shape.table_bytes(key_bytes) + (match.emission == Emission::pairs ? 0 : match.task_rows / 8);
  take_shared(kernel, bytes);
  kernel<<<static_cast<unsigned>(match.most_tasks), hash::match_threads, bytes, stream>>>(match, shape, what);
  check_launch("match parts");
}

template <typename Key>
void add_kernels(KernelList& list) {
  list.insert(list.end(), {address(hash::compare_samples_kernel<Key>), address(hash::count_digits_kernel<Key>),
                           address(hash::move_to_parts_kernel<Key, NoValue>),
                           address(hash::move_to_parts_kernel<Key, std::uint32_t>),
                           address(hash::move_to_parts_kernel<Key, std::uint64_t>),
                           address(hash::count_matches_kernel<Key>), address(hash::write_matches_kernel<Key>)});
}

}  // namespace

KernelList hash_join_kernels() {
  KernelList list{address(hash::find_tiles_kernel), address(hash::list_tasks_kernel), address(hash::take_rest_kernel)};
  add_kernels<std::uint32_t>(list);
  add_kernels<std::uint64_t>(list);
  return list;
}

std::uint64_t block_memory_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(least_of_devices(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  return bytes;
}

std::uint64_t hash_pass_scratch_bytes(std::uint32_t runs, std::uint64_t parts) {
  return bytes_of_tiles(runs) + 8 * parts;
}

void compare_samples(cudaStream_t stream, const RawSamples& samples, SeenKeys* seen) {
  check(cudaMemsetAsync(samples.build_table, 0, 8ULL * samples.slots, stream), "clear a table");
  check(cudaMemsetAsync(samples.probe_table, 0, 8ULL * samples.slots, stream), "clear a table");
  with_key(samples.width, [&](auto key) {
    hash::compare_samples_kernel<typename decltype(key)::type><<<1, 1024, 0, stream>>>(samples, seen);
  });
  check_launch("compare samples");
}

void count_digits(cudaStream_t stream, const RawHashPass& pass, void* scratch, std::uint64_t* counts) {
  const std::uint64_t parts = std::uint64_t{pass.runs.buckets} << pass.bits;
  check(cudaMemsetAsync(counts, 0, 8 * parts, stream), "clear the counters");
  if (pass.rows == 0) return;
  const hash::Tiles tiles = find_tiles(stream, pass, hash::count_tile, scratch);
  with_key(pass.type.key, [&](auto key) {
    hash::count_digits_kernel<typename decltype(key)::type><<<most_tiles(pass, tiles), hash::pass_threads, 0, stream>>>(
        pass, tiles, reinterpret_cast<unsigned long long*>(counts));
  });
  check_launch("count digits");
}

void move_to_parts(cudaStream_t stream, const RawHashPass& pass, const std::uint64_t* begin, RawRecords to,
                   void* scratch, std::uint64_t* checksum) {
  const std::uint64_t parts = std::uint64_t{pass.runs.buckets} << pass.bits;
  if (checksum != nullptr) check(cudaMemsetAsync(checksum, 0, sizeof *checksum, stream), "clear the checksum");
  if (pass.rows == 0) return;
  auto* const cursors =
      reinterpret_cast<unsigned long long*>(static_cast<std::byte*>(scratch) + bytes_of_tiles(pass.runs.count));
  check(cudaMemcpyAsync(cursors, begin, 8 * parts, cudaMemcpyDeviceToDevice, stream), "copy where parts begin");
  with_hashed_record(pass.type, [&](auto key, auto value) {
    using Key = typename decltype(key)::type;
    using Value = typename decltype(value)::type;
    using Memory = hash::PassMemory<Key, Value>;
    static_assert(sizeof(Memory) <= least_hash_block_bytes);
    const hash::Tiles tiles = find_tiles(stream, pass, Memory::tile, scratch);
    const auto kernel = hash::move_to_parts_kernel<Key, Value>;
    take_shared(kernel, sizeof(Memory));
    kernel<<<most_tiles(pass, tiles), hash::pass_threads, sizeof(Memory), stream>>>(
        pass, tiles, static_cast<Key*>(to.keys), static_cast<Value*>(to.values), cursors,
        reinterpret_cast<unsigned long long*>(checksum));
  });
  check_launch("move to parts");
}

void list_hash_tasks(cudaStream_t stream, const RawHashTasks& list) {
  check(cudaMemsetAsync(list.count, 0, sizeof *list.count, stream), "clear the number of tasks");
  hash::list_tasks_kernel<<<grid_for(list.parts), block_threads, 0, stream>>>(list);
  check_launch("list tasks");
}

void count_hash_matches(cudaStream_t stream, const RawHashMatch& match, const RawHashCount& count) {
  check(cudaMemsetAsync(count.totals, 0, sizeof *count.totals, stream), "clear the totals");
  check(cudaMemsetAsync(count.emitted, 0, 8 * match.most_tasks, stream), "clear the rows of tasks");
  if (match.met != nullptr) check(cudaMemsetAsync(match.met, 0, match.build.count, stream), "clear who met whom");
  clear_checksums(stream, match);
  with_key(match.width, [&](auto key) {
    using Key = typename decltype(key)::type;
    match_parts(stream, match, count.adds_values, sizeof(Key), hash::count_matches_kernel<Key>, count);
  });
}

void write_hash_matches(cudaStream_t stream, const RawHashMatch& match, const RawHashRows& rows) {
  clear_checksums(stream, match);
  with_key(match.width, [&](auto key) {
    using Key = typename decltype(key)::type;
    match_parts(stream, match, rows.build.to != nullptr, sizeof(Key), hash::write_matches_kernel<Key>, rows);
  });
}

void take_hash_rest(cudaStream_t stream, const RawHashRest& rest) {
  check(cudaMemsetAsync(rest.taken, 0, sizeof *rest.taken, stream), "clear the number of rows");
  if (rest.build.count == 0) return;
  hash::take_rest_kernel<<<grid_for(rest.build.count), block_threads, 0, stream>>>(rest);
  check_launch("take the rest");
}

}  // namespace linkwise::cuda
