// The kernels of the CUDA families: they fill, check, and move words in various ways.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

namespace linkwise::cuda {

/// data[i] = i + seed.
void fill_words(cudaStream_t stream, void* data, std::uint64_t bytes, std::uint32_t seed);
/// *wrong += the number of words that are not what fill_words writes.
void count_wrong_words(cudaStream_t stream, const void* data, std::uint64_t bytes, std::uint32_t seed,
                       unsigned long long* wrong);
/// Copies 16 bytes per thread and iteration: by remote stores if `to` is remote, by remote loads if `from` is.
void copy_words(cudaStream_t stream, void* to, const void* from, std::uint64_t bytes);
/// As in commscope19 §3.3 and §3.4, with 256 blocks of 256 threads: read_words adds the words to *sum; write_words
/// writes what fill_words does; in touch_pages the first thread of each warp writes one byte of each of its pages,
/// with the value that fill_words wrote there.
void read_words(cudaStream_t stream, const void* data, std::uint64_t bytes, unsigned long long* sum);
void write_words(cudaStream_t stream, void* data, std::uint64_t bytes, std::uint32_t seed);
void touch_pages(cudaStream_t stream, void* data, std::uint64_t bytes, std::uint64_t page, std::uint32_t seed);
/// A box in a three-dimensional array, in words: its size in each dimension, and the strides between rows and slices.
struct Box {
  std::array<std::uint64_t, 3> size;
  std::uint64_t row, slice;
};
/// Copies one box to another of the same size, one word per thread and iteration.
void copy_box(cudaStream_t stream, void* to, const Box& to_box, const void* from, const Box& from_box);
/// copy_in_bulk copies through shared memory with asynchronous bulk copies. This takes compute capability 9.0 or
/// more, and code that was built for it: can_copy_in_bulk asks the current device.
bool can_copy_in_bulk();
void copy_in_bulk(cudaStream_t stream, void* to, const void* from, std::uint64_t bytes);
/// Stores `count` pieces of `piece` bytes (4 … 256), each at a different multiple of 512 bytes, in an order in which
/// different pieces cannot be coalesced; the words of piece p are p + seed.
void store_pieces(cudaStream_t stream, void* to, std::uint64_t count, int piece, std::uint32_t seed);
void count_wrong_pieces(cudaStream_t stream, const void* data, std::uint64_t count, int piece, std::uint32_t seed,
                        unsigned long long* wrong);
/// Writes a pseudo-random cycle through `count` cache lines of 128 bytes for `chase` to follow; `count` is a power of
/// two.
void make_chain(cudaStream_t stream, void* chain, std::uint32_t count);
/// One thread follows the chain for `steps` steps from position *end, and stores its final position there.
void chase(cudaStream_t stream, const void* chain, std::uint32_t steps, std::uint32_t* end);
void do_nothing(cudaStream_t stream);

}  // namespace linkwise::cuda
