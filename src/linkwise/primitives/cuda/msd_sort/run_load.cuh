// Asynchronous loads of consecutive records into shared memory: Hopper's bulk copies, which take no registers and no
// places in the load queue.
#pragma once

#include <cstdint>

namespace linkwise::cuda::msd {

/// Bulk copies and the barriers in shared memory that count their bytes (PTX: cp.async.bulk, mbarrier). Kernels that
/// use them are compiled for older devices too, and not launched there.
namespace bulk {

__device__ inline unsigned shared_address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
__device__ inline void create(std::uint64_t&) { __trap(); }
__device__ inline void destroy(std::uint64_t&) { __trap(); }
__device__ inline void expect(std::uint64_t&, unsigned) { __trap(); }
__device__ inline void wait(std::uint64_t&, unsigned) { __trap(); }
__device__ inline void copy(void*, const void*, unsigned, std::uint64_t&) { __trap(); }
__device__ inline void order_writes() { __trap(); }
__device__ inline void order_shared_writes() { __trap(); }
#else
/// Called by one thread, and followed by a block barrier. Orders earlier writes to shared memory before bulk copies.
__device__ inline void create(std::uint64_t& barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void destroy(std::uint64_t& barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
__device__ inline void expect(std::uint64_t& barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
               : "memory");
}
__device__ inline void wait(std::uint64_t& barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred arrived;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 arrived, [%0], %1;\n"
      "@!arrived bra again;\n"
      "}" ::"r"(shared_address(&barrier)),
      "r"(parity)
      : "memory");
}
/// Orders the thread's writes to global memory before bulk copies of the same kernel that follow a grid barrier.
__device__ inline void order_writes() { asm volatile("fence.proxy.async;" ::: "memory"); }
/// Orders the thread's writes to shared memory before bulk copies that follow a block barrier.
__device__ inline void order_shared_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Copies whole units of 16 bytes, which the L2 cache may evict first.
__device__ inline void copy(void* to, const void* from, unsigned bytes, std::uint64_t& barrier) {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier)), "l"(policy)
      : "memory");
}
#endif

}  // namespace bulk

/// Room for one run of up to `capacity` elements at a time, and the barrier that signals its arrival.
template <typename Element, int capacity>
struct alignas(128) RunMemory {
  static constexpr int per_unit = 16 / sizeof(Element);  // a bulk copy moves units of 16 bytes, aligned on both sides
  static constexpr int per_line = 128 / sizeof(Element);
  Element elements[capacity + per_line];
  alignas(8) std::uint64_t arrived;
};

/// All threads of a block make each call together. A block barrier must separate the last read of a run from the next
/// `begin`.
template <typename Element, int capacity>
class RunLoad {
  using Memory = RunMemory<Element, capacity>;
  static constexpr unsigned per_unit = Memory::per_unit;

 public:
  __device__ explicit RunLoad(Memory& memory) : memory_(memory) {
    if (threadIdx.x == 0) bulk::create(memory.arrived);
    __syncthreads();
  }
  RunLoad(const RunLoad&) = delete;
  RunLoad& operator=(const RunLoad&) = delete;

  /// Begins to load `count` elements of an array of `length`, from its `first` on. The copy starts at the beginning
  /// of the first element's cache line, as a partly copied line costs the cache another request, and ends with a
  /// whole unit of 16 bytes. At the array's ends, elements outside of whole units are loaded with ordinary loads.
  __device__ __forceinline__ void begin(const Element* array, std::uint64_t length, std::uint64_t first,
                                        unsigned count) {
    const Element* const from = array + first;
    const auto of_line = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from) % 128 / sizeof(Element));
    const auto of_unit = of_line % per_unit;
    const bool is_inside = first >= of_line;
    const unsigned begin = is_inside || of_unit == 0 ? 0 : per_unit;
    phase_ = is_inside ? of_line : of_unit;
    const unsigned end = phase_ + count, wanted = (end + per_unit - 1) / per_unit * per_unit;
    const unsigned until = first + (wanted - phase_) <= length ? wanted : end / per_unit * per_unit;
    const bool is_any = count > 0 && until > begin;
    is_loose_ = count > 0 && (begin > phase_ || until < end);
    if (threadIdx.x == 0) {
      const auto bytes = static_cast<unsigned>(is_any ? (until - begin) * sizeof(Element) : 0);
      bulk::expect(memory_.arrived, bytes);
      if (bytes > 0) bulk::copy(memory_.elements + begin, from - phase_ + begin, bytes, memory_.arrived);
    }
    if (!is_loose_ || threadIdx.x >= 64) return;
    // A run that is shorter than a unit may begin after `until`.
    const unsigned lane = threadIdx.x % 32, at = lane + (threadIdx.x < 32 ? phase_ : max(max(until, begin), phase_));
    if (at < (threadIdx.x < 32 ? min(begin, end) : end)) memory_.elements[at] = from[at - phase_];
  }

  /// Waits until the run has arrived.
  __device__ __forceinline__ void wait() {
    if (is_loose_) __syncthreads();
    bulk::wait(memory_.arrived, parity_);
    parity_ ^= 1;
  }

  /// The elements of the run that was begun last.
  [[nodiscard]] __device__ __forceinline__ Element* elements() const { return memory_.elements + phase_; }

  /// Call before the memory is used for anything else.
  __device__ __forceinline__ void end() {
    __syncthreads();
    if (threadIdx.x == 0) bulk::destroy(memory_.arrived);
  }

 private:
  Memory& memory_;
  unsigned phase_ = 0, parity_ = 0;
  bool is_loose_ = false;
};

}  // namespace linkwise::cuda::msd
