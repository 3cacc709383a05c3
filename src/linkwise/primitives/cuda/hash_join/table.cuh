// A chained hash table of rows of the build side, in a thread block's shared memory.
//
// Chaining instead of open addressing, so that inserting many rows of one key takes linear, not quadratic time.
#pragma once

#include "linkwise/primitives/cuda/launch.cuh"
#include "linkwise/primitives/hash_join_steps.hpp"

namespace linkwise::cuda::hash {

constexpr int match_threads = 512;

template <typename Key>
class Table {
 public:
  static constexpr unsigned nobody = 0;  // rows are numbered from 1

  __device__ Table(unsigned char* memory, const HashTableShape& shape) : shape_(shape) {
    values_ = memory;
    keys_ = reinterpret_cast<Key*>(memory + shape.rows * shape.value_bytes);
    heads_ = reinterpret_cast<unsigned*>(keys_ + shape.rows);
    next_ = reinterpret_cast<unsigned short*>(heads_ + shape.slots);
    met_ = reinterpret_cast<std::uint8_t*>(next_ + shape.rows);
  }

  __device__ __forceinline__ void clear() {
    for (unsigned s = threadIdx.x; s < shape_.slots; s += match_threads) heads_[s] = nobody;
    if (shape_.marks)
      for (unsigned r = threadIdx.x; r < shape_.rows; r += match_threads) met_[r] = 0;
  }
  __device__ __forceinline__ void insert(unsigned row, Key key) {
    keys_[row] = key;
    next_[row] = static_cast<unsigned short>(atomicExch(&heads_[slot(key)], row + 1));
  }
  [[nodiscard]] __device__ __forceinline__ bool keeps_values() const { return shape_.value_bytes > 0; }
  __device__ __forceinline__ void keep(unsigned row, std::uint64_t value) {
    RawHashColumn{values_, shape_.value_bytes}.set(row, value);
  }

  /// The chain that has the key's rows, among others; the first of them, and the one after a row. Rows count from 1.
  __device__ __forceinline__ unsigned chain(Key key) const { return heads_[slot(key)]; }
  __device__ __forceinline__ unsigned first(unsigned chain, Key key) const { return of_key(chain, key); }
  __device__ __forceinline__ unsigned next(unsigned row, Key key) const { return of_key(next_[row - 1], key); }
  __device__ __forceinline__ std::uint64_t value(unsigned row, bool is_signed) const {
    return integer_at(values_, {shape_.value_bytes, is_signed}, row - 1);
  }
  __device__ __forceinline__ void mark(unsigned row) { met_[row - 1] = 1; }
  /// Sets met[r] for those of the first `rows` rows that have been marked.
  __device__ __forceinline__ void tell(std::uint8_t* met, unsigned rows) const {
    for (unsigned r = threadIdx.x; r < rows; r += match_threads)
      if (met_[r] != 0) met[r] = 1;
  }

 private:
  // Hashes of a part agree in the upper bits; the lower ones are as good as random.
  __device__ __forceinline__ unsigned slot(Key key) const { return static_cast<unsigned>(key) & (shape_.slots - 1); }
  __device__ __forceinline__ unsigned of_key(unsigned row, Key key) const {
    while (row != nobody && keys_[row - 1] != key) row = next_[row - 1];
    return row;
  }

  HashTableShape shape_;
  void* values_;
  Key* keys_;
  unsigned* heads_;
  unsigned short* next_;
  std::uint8_t* met_;
};

}  // namespace linkwise::cuda::hash
