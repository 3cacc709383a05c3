// What a kernel is written against: one block of threads, on a GPU or on the CPU.
//
// A kernel is a functor with `static constexpr int threads` and
//     template <typename Out> LINKWISE_HOST_DEVICE void operator()(const Block& block, Out out) const;
// that calls `out.store(i, value)` for the elements that its block makes. Compiled by nvcc it runs on GPUs; compiled by
// any compiler it runs on the virtual machine, where a block is one thread.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define LINKWISE_HOST_DEVICE __host__ __device__
#else
#define LINKWISE_HOST_DEVICE
#endif

namespace linkwise::proactive {

/// Loads an element that is read only once. On a GPU, this does not evict cached data that will be read again or that
/// an agent is about to send. This applies to numbers and CUDA's vectors of them; other types are loaded normally.
/// For arrays that neighbouring threads read together: a sector that a few threads read in several steps is evicted
/// before the next step.
template <typename T>
[[nodiscard]] LINKWISE_HOST_DEVICE T load_once(const T* from) {
#ifdef __CUDA_ARCH__
  if constexpr (requires { __ldcs(from); }) return __ldcs(from);
#endif
  return *from;
}

#ifdef __CUDACC__
/// The value of another one of these lanes: a number, or a structure of whole words.
template <typename T>
__device__ T of_lane(unsigned lanes, const T& value, int step) {
  static_assert(sizeof(T) % 4 == 0, "threads exchange whole words");
  std::uint32_t words[sizeof(T) / 4];
  memcpy(words, &value, sizeof(T));
#pragma unroll
  for (std::uint32_t& word : words) word = __shfl_xor_sync(lanes, word, step);
  T other;
  memcpy(&other, words, sizeof(T));
  return other;
}
#endif

/// Reductions by threads that work on one item together; all of them get the result. `T`: numbers of 4 or 8 bytes, or
/// structures of whole words that can be added.
template <typename Threads>
class Reductions {
 public:
  /// Σ term(i) over first ≤ i < last. The order of the additions is the backend's.
  template <typename T, typename Term>
  LINKWISE_HOST_DEVICE T sum(std::uint64_t first, std::uint64_t last, T zero, Term&& term) const {
    return threads().reduce(first, last, zero, term, [](T a, T b) { return a + b; });
  }
  template <typename T, typename Term>
  LINKWISE_HOST_DEVICE T min(std::uint64_t first, std::uint64_t last, T most, Term&& term) const {
    return threads().reduce(first, last, most, term, [](T a, T b) { return b < a ? b : a; });
  }

 private:
  [[nodiscard]] LINKWISE_HOST_DEVICE const Threads& threads() const { return static_cast<const Threads&>(*this); }
};

/// `Width` neighbouring threads of a warp.
template <int Width>
class Group : public Reductions<Group<Width>> {
 public:
  LINKWISE_HOST_DEVICE explicit Group(int lane) : lane_(lane) {}
  [[nodiscard]] LINKWISE_HOST_DEVICE bool leads() const { return lane_ == 0; }

 private:
  friend class Reductions<Group>;
  template <typename T, typename Term, typename Combine>
  LINKWISE_HOST_DEVICE T reduce(std::uint64_t first, std::uint64_t last, T value, Term&& term,
                                Combine&& combine) const {
#ifdef __CUDA_ARCH__
    // Unrolled, so that the independent loads of several terms are in flight at once.
#pragma unroll 4
    for (std::uint64_t i = first + lane_; i < last; i += Width) value = combine(value, term(i));
    const unsigned lanes = Width == 32 ? ~0U : ((1U << (Width % 32)) - 1) << (threadIdx.x % 32 / Width * Width);
#pragma unroll
    for (int step = Width / 2; step > 0; step /= 2) value = combine(value, of_lane(lanes, value, step));
#else
    for (std::uint64_t i = first; i < last; ++i) value = combine(value, term(i));
#endif
    return value;
  }
  int lane_;
};

/// All threads of a block that work on one item.
class WholeBlock : public Reductions<WholeBlock> {
 public:
  [[nodiscard]] LINKWISE_HOST_DEVICE bool leads() const {
#ifdef __CUDA_ARCH__
    return threadIdx.x == 0;
#else
    return true;
#endif
  }

 private:
  friend class Reductions<WholeBlock>;
  template <typename T, typename Term, typename Combine>
  LINKWISE_HOST_DEVICE T reduce(std::uint64_t first, std::uint64_t last, T value, Term&& term,
                                Combine&& combine) const {
#ifdef __CUDA_ARCH__
    __shared__ alignas(T) unsigned char room[32 * sizeof(T)];  // bytes, since T may have initialisers
    T* const of_warps = reinterpret_cast<T*>(room);
    // Every thread begins with `value`, which must be neutral, or idempotent as for a minimum.
#pragma unroll 8
    for (std::uint64_t i = first + threadIdx.x; i < last; i += blockDim.x) value = combine(value, term(i));
    for (int step = 16; step > 0; step /= 2) value = combine(value, of_lane(~0U, value, step));
    __syncthreads();  // an earlier reduction has been read
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warps[0];
    for (unsigned w = 1; w < blockDim.x / 32; ++w) value = combine(value, of_warps[w]);
#else
    for (std::uint64_t i = first; i < last; ++i) value = combine(value, term(i));
#endif
    return value;
  }
};

class Block {
 public:
  LINKWISE_HOST_DEVICE explicit Block(std::uint32_t index) : index_(index) {}
  [[nodiscard]] LINKWISE_HOST_DEVICE std::uint32_t index() const { return index_; }

  /// Where this block's rows begin and end, if blocks share the rows from first to last, with `of_block` rows each.
  struct Rows {
    std::uint64_t begin, end;
  };
  [[nodiscard]] LINKWISE_HOST_DEVICE Rows rows(std::uint64_t first, std::uint64_t last, std::uint64_t of_block) const {
    const std::uint64_t begin = first + index_ * of_block;
    return {begin, begin + of_block < last ? begin + of_block : last};
  }

  /// Calls work(i) for first ≤ i < last, each by one thread.
  template <typename Work>
  LINKWISE_HOST_DEVICE void for_each(std::uint64_t first, std::uint64_t last, Work&& work) const {
#ifdef __CUDA_ARCH__
    for (std::uint64_t i = first + threadIdx.x; i < last; i += blockDim.x) work(i);
#else
    for (std::uint64_t i = first; i < last; ++i) work(i);
#endif
  }

  /// Calls work(i, group) for first ≤ i < last, each by `Width` threads, a power of two up to 32.
  template <int Width, typename Work>
  LINKWISE_HOST_DEVICE void for_each_group(std::uint64_t first, std::uint64_t last, Work&& work) const {
    static_assert(Width >= 1 && Width <= 32 && (Width & (Width - 1)) == 0);
#ifdef __CUDA_ARCH__
    const Group<Width> group(static_cast<int>(threadIdx.x % Width));
    for (std::uint64_t i = first + threadIdx.x / Width; i < last; i += blockDim.x / Width) work(i, group);
#else
    for (std::uint64_t i = first; i < last; ++i) work(i, Group<Width>(0));
#endif
  }

  /// Whether is_such(i) holds for any first ≤ i < last; all threads get the answer.
  template <typename Predicate>
  [[nodiscard]] LINKWISE_HOST_DEVICE bool any(std::uint64_t first, std::uint64_t last, Predicate&& is_such) const {
    bool found = false;
    for_each(first, last, [&](std::uint64_t i) { found = found || is_such(i); });
#ifdef __CUDA_ARCH__
    return __syncthreads_or(found) != 0;
#else
    return found;
#endif
  }

  /// A barrier: afterwards, all threads of the block see what any of them wrote before.
  LINKWISE_HOST_DEVICE void synchronize() const {
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
  }

 private:
  std::uint32_t index_;
};

}  // namespace linkwise::proactive
