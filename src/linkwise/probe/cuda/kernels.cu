#include "linkwise/probe/cuda/kernels.hpp"

#include "linkwise/primitives/cuda/launch.cuh"

namespace linkwise::cuda {
namespace {

constexpr int line_bytes = 128;
constexpr std::uint64_t piece_stride = 512;
constexpr unsigned bulk_bytes = 16 << 10;

__global__ void fill_kernel(std::uint32_t* data, std::uint64_t words, std::uint32_t seed) {
  for (std::uint64_t i = global_thread(); i < words; i += grid_threads())
    data[i] = static_cast<std::uint32_t>(i) + seed;
}

__global__ void check_kernel(const std::uint32_t* data, std::uint64_t words, std::uint32_t seed,
                             unsigned long long* wrong) {
  unsigned long long found = 0;
  for (std::uint64_t i = global_thread(); i < words; i += grid_threads())
    found += data[i] != static_cast<std::uint32_t>(i) + seed;
  if (found != 0) atomicAdd(wrong, found);
}

__global__ void copy_kernel(uint4* to, const uint4* from, std::uint64_t count) {
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads()) to[i] = from[i];
}

__global__ void read_kernel(const std::uint32_t* data, std::uint64_t words, unsigned long long* sum) {
  unsigned long long mine = 0;
  for (std::uint64_t i = global_thread(); i < words; i += grid_threads()) mine += data[i];
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(~0U, mine, step);
  if (threadIdx.x % 32 == 0) atomicAdd_system(sum, mine);
}

__global__ void touch_kernel(std::uint8_t* data, std::uint64_t bytes, std::uint64_t page, std::uint32_t seed) {
  if (threadIdx.x % 32 != 0) return;
  for (std::uint64_t at = global_thread() / 32 * page; at < bytes; at += grid_threads() / 32 * page)
    data[at] = static_cast<std::uint8_t>(at / 4 + seed);
}

__global__ void box_kernel(std::uint32_t* to, Box to_box, const std::uint32_t* from, Box from_box) {
  const std::uint64_t width = to_box.size[0], height = to_box.size[1], cells = width * height * to_box.size[2];
  for (std::uint64_t i = global_thread(); i < cells; i += grid_threads()) {
    const std::uint64_t x = i % width, y = i / width % height, z = i / (width * height);
    to[x + y * to_box.row + z * to_box.slice] = from[x + y * from_box.row + z * from_box.slice];
  }
}

__global__ void bulk_kernel(std::byte* to, const std::byte* from, std::uint64_t bytes) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) std::byte tile[bulk_bytes];
  for (std::uint64_t at = blockIdx.x * std::uint64_t{bulk_bytes}; at < bytes;
       at += gridDim.x * std::uint64_t{bulk_bytes}) {
    const auto size = static_cast<unsigned>(min(std::uint64_t{bulk_bytes}, bytes - at));
    const auto* source = reinterpret_cast<const uint4*>(from + at);
    for (unsigned i = threadIdx.x; i < size / sizeof(uint4); i += blockDim.x)
      reinterpret_cast<uint4*>(tile)[i] = source[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // makes the threads' writes visible to the copy
    __syncthreads();
    if (threadIdx.x == 0) {
      const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(tile));
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to + at), "r"(shared), "r"(size)
                   : "memory");
      asm volatile("cp.async.bulk.commit_group;");
      asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    __syncthreads();
  }
#else
  (void)to, (void)from, (void)bytes;
#endif
}

// The slot of piece p: an odd multiplier permutes the slots, so consecutive pieces are not adjacent in memory.
__device__ std::uint64_t slot_of(std::uint64_t piece, std::uint64_t count) {
  return (piece * 0x9e3779b1U) & (count - 1);
}

__global__ void store_kernel(std::byte* to, std::uint64_t count, int words, std::uint32_t seed) {
  const std::uint64_t total = count * static_cast<std::uint64_t>(words);
  for (std::uint64_t i = global_thread(); i < total; i += grid_threads()) {
    const std::uint64_t piece = i / words;
    auto* words_of_piece = reinterpret_cast<std::uint32_t*>(to + slot_of(piece, count) * piece_stride);
    words_of_piece[i % words] = static_cast<std::uint32_t>(piece) + seed;
  }
}

__global__ void check_pieces_kernel(const std::byte* data, std::uint64_t count, int words, std::uint32_t seed,
                                    unsigned long long* wrong) {
  const std::uint64_t total = count * static_cast<std::uint64_t>(words);
  unsigned long long found = 0;
  for (std::uint64_t i = global_thread(); i < total; i += grid_threads()) {
    const std::uint64_t piece = i / words;
    const auto* words_of_piece = reinterpret_cast<const std::uint32_t*>(data + slot_of(piece, count) * piece_stride);
    found += words_of_piece[i % words] != static_cast<std::uint32_t>(piece) + seed;
  }
  if (found != 0) atomicAdd(wrong, found);
}

// A cycle through all lines, whose number is a power of two, by a linear congruential generator of full period (Hull
// and Dobell), so that no prefetcher can predict the next line.
__global__ void chain_kernel(std::uint32_t* chain, std::uint32_t count) {
  constexpr std::uint32_t words = line_bytes / sizeof(std::uint32_t);
  for (std::uint64_t i = global_thread(); i < count; i += grid_threads())
    chain[i * words] = ((static_cast<std::uint32_t>(i) * 1664525U + 1013904223U) & (count - 1)) * words;
}

__global__ void chase_kernel(const volatile std::uint32_t* chain, std::uint32_t steps, std::uint32_t* end) {
  std::uint32_t at = *end;
  for (std::uint32_t s = 0; s < steps; ++s) at = chain[at];
  *end = at;
}

__global__ void empty_kernel() {}

}  // namespace

void fill_words(cudaStream_t stream, void* data, std::uint64_t bytes, std::uint32_t seed) {
  fill_kernel<<<grid_for(bytes / 4), block_threads, 0, stream>>>(static_cast<std::uint32_t*>(data), bytes / 4, seed);
  check_launch("fill");
}

void count_wrong_words(cudaStream_t stream, const void* data, std::uint64_t bytes, std::uint32_t seed,
                       unsigned long long* wrong) {
  check_kernel<<<grid_for(bytes / 4), block_threads, 0, stream>>>(static_cast<const std::uint32_t*>(data), bytes / 4,
                                                                  seed, wrong);
  check_launch("check");
}

void copy_words(cudaStream_t stream, void* to, const void* from, std::uint64_t bytes) {
  copy_kernel<<<grid_for(bytes / 16), block_threads, 0, stream>>>(static_cast<uint4*>(to),
                                                                  static_cast<const uint4*>(from), bytes / 16);
  check_launch("copy");
}

void copy_box(cudaStream_t stream, void* to, const Box& to_box, const void* from, const Box& from_box) {
  const std::uint64_t cells = to_box.size[0] * to_box.size[1] * to_box.size[2];
  box_kernel<<<grid_for(cells), block_threads, 0, stream>>>(static_cast<std::uint32_t*>(to), to_box,
                                                            static_cast<const std::uint32_t*>(from), from_box);
  check_launch("copy a box");
}

constexpr unsigned commscope_grid = 256;

void read_words(cudaStream_t stream, const void* data, std::uint64_t bytes, unsigned long long* sum) {
  read_kernel<<<commscope_grid, 256, 0, stream>>>(static_cast<const std::uint32_t*>(data), bytes / 4, sum);
  check_launch("read");
}

void write_words(cudaStream_t stream, void* data, std::uint64_t bytes, std::uint32_t seed) {
  fill_kernel<<<commscope_grid, 256, 0, stream>>>(static_cast<std::uint32_t*>(data), bytes / 4, seed);
  check_launch("write");
}

void touch_pages(cudaStream_t stream, void* data, std::uint64_t bytes, std::uint64_t page, std::uint32_t seed) {
  touch_kernel<<<commscope_grid, 256, 0, stream>>>(static_cast<std::uint8_t*>(data), bytes, page, seed);
  check_launch("touch");
}

bool can_copy_in_bulk() {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, bulk_kernel), "ask for a kernel");
  return attributes.ptxVersion >= 90;
}

void copy_in_bulk(cudaStream_t stream, void* to, const void* from, std::uint64_t bytes) {
  bulk_kernel<<<static_cast<unsigned>(8 * current_multiprocessors()), 512, 0, stream>>>(
      static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  check_launch("bulk copy");
}

void store_pieces(cudaStream_t stream, void* to, std::uint64_t count, int piece, std::uint32_t seed) {
  store_kernel<<<grid_for(count * piece / 4), block_threads, 0, stream>>>(static_cast<std::byte*>(to), count, piece / 4,
                                                                          seed);
  check_launch("store pieces");
}

void count_wrong_pieces(cudaStream_t stream, const void* data, std::uint64_t count, int piece, std::uint32_t seed,
                        unsigned long long* wrong) {
  check_pieces_kernel<<<grid_for(count * piece / 4), block_threads, 0, stream>>>(static_cast<const std::byte*>(data),
                                                                                 count, piece / 4, seed, wrong);
  check_launch("check pieces");
}

void make_chain(cudaStream_t stream, void* chain, std::uint32_t count) {
  chain_kernel<<<grid_for(count), block_threads, 0, stream>>>(static_cast<std::uint32_t*>(chain), count);
  check_launch("make a chain");
}

void chase(cudaStream_t stream, const void* chain, std::uint32_t steps, std::uint32_t* end) {
  chase_kernel<<<1, 1, 0, stream>>>(static_cast<const std::uint32_t*>(chain), steps, end);
  check_launch("chase");
}

void do_nothing(cudaStream_t stream) {
  empty_kernel<<<1, 1, 0, stream>>>();
  check_launch("do nothing");
}

}  // namespace linkwise::cuda
