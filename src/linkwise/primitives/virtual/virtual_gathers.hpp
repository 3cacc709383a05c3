// Gathers of rows on the CPU, for virtual devices: plain loops that serve as a reference for the CUDA kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/host/gather_rows.hpp"
#include "linkwise/primitives/kernels.hpp"

namespace linkwise {

inline std::uint64_t unsigned_at(int bytes, const void* data, std::uint64_t i) {
  return bytes == 4 ? static_cast<const std::uint32_t*>(data)[i] : static_cast<const std::uint64_t*>(data)[i];
}

// Calls body(i, row) for each index; `row` is no_row for an index with all bits set.
template <typename Body>
void for_rows(int index_bytes, const void* indices, std::uint64_t count, Body&& body) {
  const std::uint64_t nobody = index_bytes == 4 ? 0xffffffff : ~0ULL;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t row = unsigned_at(index_bytes, indices, i);
    body(i, row == nobody ? no_row : row);
  }
}

class VirtualGathers : public Kernels {
 public:
  void gather(void*, int element_bytes, int index_bytes, const RawPieces& from, const void* indices, void* to,
              std::uint64_t count) const override {
    for_rows(index_bytes, indices, count, [&](std::uint64_t i, std::uint64_t row) {
      const auto width = static_cast<std::size_t>(element_bytes);
      auto* element = static_cast<std::byte*>(to) + i * width;
      if (row == no_row) {
        std::memset(element, 0xff, width);
        return;
      }
      const int p = piece_of(from, row);
      std::memcpy(element, static_cast<const std::byte*>(from.data[p]) + (row - from.begin[p]) * width, width);
    });
  }

  void coalesce_rows(void*, int index_bytes, const void* first, const void* second, std::uint64_t offset, void* to,
                     std::uint64_t count) const override {
    with_key(to_key_width(index_bytes), [&](auto tag) {
      using Index = typename decltype(tag)::type;
      for (std::uint64_t i = 0; i < count; ++i)
        static_cast<Index*>(to)[i] =
            coalesced(static_cast<const Index*>(first)[i], static_cast<const Index*>(second)[i], offset);
    });
  }

  void pack_rows(void*, const RawFields& from, int record_bytes, void* records, std::uint64_t rows) const override {
    with_record_bytes(record_bytes, [&](auto row) {
      using Row = decltype(row);
      for (std::uint64_t i = 0; i < rows; ++i) {
        Row packed;
        for (int f = 0; f < from.count; ++f) packed.set(from, f, i);
        static_cast<Row*>(records)[i] = packed;
      }
    });
  }

  void gather_packed(void*, int index_bytes, const RawPieces& from, int record_bytes, const void* indices,
                     const RawFields& to, std::uint64_t count) const override {
    with_record_bytes(record_bytes, [&](auto row) {
      using Row = decltype(row);
      with_bits(index_bytes, [&](auto tag) {
        using Index = typename decltype(tag)::type;
        Row nobody;
        std::ranges::fill(nobody.word, ~std::uint64_t{0});
        for (std::uint64_t i = 0; i < count; ++i) {
          const Index index = static_cast<const Index*>(indices)[i];
          const Row found = index == static_cast<Index>(~Index{0}) ? nobody : element_of<Row>(from, index);
          for (int f = 0; f < to.count; ++f) found.get(to, f, i);
        }
      });
    });
  }

  void gather_bits(void*, int index_bytes, const std::uint32_t* bits, const void* indices, std::uint32_t* to,
                   std::uint64_t count) const override {
    std::fill_n(to, (count + 31) / 32, 0);
    for_rows(index_bytes, indices, count, [&](std::uint64_t i, std::uint64_t row) {
      const bool bit = row != no_row && (bits == nullptr || is_set(bits, row));
      to[i / 32] |= static_cast<std::uint32_t>(bit) << (i % 32);
    });
  }

  void shift_offsets(void*, int from_bytes, const void* from, int to_bytes, void* to, std::uint64_t count,
                     std::uint64_t delta) const override {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t shifted = unsigned_at(from_bytes, from, i) + delta;
      if (to_bytes == 4) static_cast<std::uint32_t*>(to)[i] = static_cast<std::uint32_t>(shifted);
      else static_cast<std::uint64_t*>(to)[i] = shifted;
    }
  }

  void gather_lengths(void*, int index_bytes, const RawStrings& from, const void* indices, std::uint64_t* lengths,
                      std::uint64_t count) const override {
    for_rows(index_bytes, indices, count,
             [&](std::uint64_t i, std::uint64_t row) { lengths[i] = row == no_row ? 0 : string_of(from, row).length; });
  }

  void gather_strings(void*, int index_bytes, const RawStrings& from, const void* indices, const std::uint64_t* sums,
                      void* to, std::uint64_t count) const override {
    for_rows(index_bytes, indices, count, [&](std::uint64_t i, std::uint64_t row) {
      if (row == no_row) return;
      const RawString string = string_of(from, row);
      std::copy_n(string.data, string.length, static_cast<std::uint8_t*>(to) + (sums[i] - sums[0]));
    });
  }

  void string_words(void*, const RawStrings& from, const std::uint8_t* nulls, const RawStringWords& to,
                    std::uint64_t count) const override {
    for (std::uint64_t i = 0; i < count; ++i)
      for (int w = 0; w < to.count; ++w)
        to.word[w][i] =
            nulls != nullptr && nulls[i] != 0 ? ~std::uint64_t{0} : string_word(string_of(from, i), to.begin_of(w));
  }

  void shared_lengths(void*, const RawStrings& from, const std::uint8_t* nulls, const RawStrings& other,
                      std::uint64_t* lengths, std::uint64_t count) const override {
    const RawString first = string_of(other, 0);
    for (std::uint64_t i = 0; i < count; ++i)
      lengths[i] = nulls != nullptr && nulls[i] != 0 ? first.length : shared_length(string_of(from, i), first);
  }

  void mix_strings_into_hashes(void*, const RawStrings& from, std::uint64_t* hashes,
                               std::uint64_t count) const override {
    for (std::uint64_t i = 0; i < count; ++i) hashes[i] = string_hash_with(hashes[i], string_of(from, i));
  }

  void count_unequal_strings(void*, int index_bytes, const RawStrings& left, const void* left_rows,
                             const RawStrings& right, const void* right_rows, std::uint64_t count,
                             std::uint64_t* unequal) const override {
    with_key(to_key_width(index_bytes), [&](auto index) {
      using Index = typename decltype(index)::type;
      const auto *lefts = static_cast<const Index*>(left_rows), *rights = static_cast<const Index*>(right_rows);
      for (std::uint64_t i = 0; i < count; ++i) *unequal += strings_differ(left, lefts[i], right, rights[i]) ? 1 : 0;
    });
  }

  void mark_unequal_strings(void*, const RawStrings& from, const std::uint32_t* groups, std::uint32_t* marks,
                            std::uint64_t count) const override {
    for (std::uint64_t i = 1; i < count; ++i)
      if (groups[i] == groups[i - 1] && !are_equal(string_of(from, i), string_of(from, i - 1))) marks[groups[i]] = 1;
  }

  void expand_bits(void*, const std::uint32_t* bits, std::uint64_t first, BytesOfBits bytes, std::uint8_t* to,
                   std::uint64_t count) const override {
    for (std::uint64_t i = 0; i < count; ++i) to[i] = is_set(bits, first + i) ? bytes.set : bytes.clear;
  }

  void pack_bits(void*, const std::uint8_t* bytes, std::uint8_t set, std::uint32_t* bits, std::uint64_t count,
                 std::uint64_t* num_set) const override {
    std::fill_n(bits, (count + 31) / 32, 0);
    for (std::uint64_t i = 0; i < count; ++i) {
      bits[i / 32] |= std::uint32_t{bytes[i] == set} << (i % 32);
      *num_set += bytes[i] == set ? 1 : 0;
    }
  }

  void mix_into_hashes(void*, KeyWidth width, const void* elements, std::uint64_t* hashes,
                       std::uint64_t count) const override {
    with_key(width, [&](auto key) {
      const auto* values = static_cast<const typename decltype(key)::type*>(elements);
      for (std::uint64_t i = 0; i < count; ++i) hashes[i] = row_hash_with(hashes[i], values[i]);
    });
  }

  void count_unequal(void*, KeyWidth width, int index_bytes, const RawPieces& left, const void* left_rows,
                     const RawPieces& right, const void* right_rows, std::uint64_t count,
                     std::uint64_t* unequal) const override {
    with_key(width, [&](auto key) {
      with_key(to_key_width(index_bytes), [&](auto index) {
        using Element = typename decltype(key)::type;
        using Index = typename decltype(index)::type;
        const auto *lefts = static_cast<const Index*>(left_rows), *rights = static_cast<const Index*>(right_rows);
        for (std::uint64_t i = 0; i < count; ++i)
          *unequal += differs<Element>(left, lefts[i], right, rights[i]) ? 1 : 0;
      });
    });
  }

  void fill_nulls(void*, int element_bytes, const std::uint8_t* nulls, void* elements,
                  std::uint64_t count) const override {
    const auto width = static_cast<std::size_t>(element_bytes);
    for (std::uint64_t i = 0; i < count; ++i)
      if (nulls[i] != 0) std::memset(static_cast<std::byte*>(elements) + i * width, 0xff, width);
  }
};

}  // namespace linkwise
