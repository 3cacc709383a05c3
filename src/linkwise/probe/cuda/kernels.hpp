// The kernels of the CUDA families: they fill, check, and move words in every way there is.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

namespace linkwise::cuda {

/// data[i] = i + seed.
void fill_words(cudaStream_t stream, void* data, std::uint64_t bytes, std::uint32_t seed);
/// *wrong += words that are not what fill_words wrote.
void count_wrong_words(cudaStream_t stream, const void* data, std::uint64_t bytes, std::uint32_t seed,
                       unsigned long long* wrong);
/// 16 bytes a thread and turn: stores where `to` is remote, loads where `from` is.
void copy_words(cudaStream_t stream, void* to, const void* from, std::uint64_t bytes);
/// As commscope19 §3.3 and §3.4 have them, by 256 blocks of 256 threads: reads words, adding them up in *sum; writes
/// what fill_words does; and writes one byte of each page, that which fill_words wrote there, by the first thread of a
/// warp.
void read_words(cudaStream_t stream, const void* data, std::uint64_t bytes, unsigned long long* sum);
void write_words(cudaStream_t stream, void* data, std::uint64_t bytes, std::uint32_t seed);
void touch_pages(cudaStream_t stream, void* data, std::uint64_t bytes, std::uint64_t page, std::uint32_t seed);
/// Words of a part of an array in three dimensions: how many each way, and words from a row, and from a slice, to the
/// next.
struct Box {
  std::array<std::uint64_t, 3> size;
  std::uint64_t row, slice;
};
/// From one box to another of the same size, a word a thread and turn.
void copy_box(cudaStream_t stream, void* to, const Box& to_box, const void* from, const Box& from_box);
/// By way of shared memory and the bulk copy engine. Compute capability 9.0 or more, and code that was built for it:
/// the current device says whether it can.
bool can_copy_in_bulk();
void copy_in_bulk(cudaStream_t stream, void* to, const void* from, std::uint64_t bytes);
/// Stores `count` pieces of `piece` bytes (4 … 256), each at another multiple of 512 bytes in an order that nothing
/// merges; the words of piece p are p + seed.
void store_pieces(cudaStream_t stream, void* to, std::uint64_t count, int piece, std::uint32_t seed);
void count_wrong_pieces(cudaStream_t stream, const void* data, std::uint64_t count, int piece, std::uint32_t seed,
                        unsigned long long* wrong);
/// next[i] of a random cycle through `count` cache lines of 128 bytes, a power of two, to be followed by `chase`.
void make_chain(cudaStream_t stream, void* chain, std::uint32_t count);
/// One thread follows the chain for `steps` from where *end says; that is where it then comes to.
void chase(cudaStream_t stream, const void* chain, std::uint32_t steps, std::uint32_t* end);
void do_nothing(cudaStream_t stream);

}  // namespace linkwise::cuda
