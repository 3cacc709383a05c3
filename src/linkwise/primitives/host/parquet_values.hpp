// Single values of the data pages of a Parquet column, found without decoding the others. Source: Apache Parquet,
// Encodings.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "linkwise/primitives/host/page_bytes.hpp"

namespace linkwise {

/// Values that are appended page by page. Functions throw `Error` for pages that are damaged.
class ParquetValues {
 public:
  static constexpr std::int64_t plain = 0, plain_dictionary = 2, deltas = 5, by_dictionary = 8;  // encodings

  /// `width`: bytes of a value; 0 for strings, which have lengths. Where values `may_be_null`, pages have levels.
  ParquetValues(std::uint32_t width, bool may_be_null) : width_(width), may_be_null_(may_be_null) {}

  /// Sets the dictionary for the pages that follow, from its own page. `plain_bytes`: where the page is
  /// compressed by Snappy, its size without compression; otherwise none.
  void set_dictionary(std::span<const std::uint8_t> page, std::uint64_t values,
                      std::optional<std::uint64_t> plain_bytes = std::nullopt);

  /// Appends the values at these places, in ascending order, of a data page (version 1) of `values` values, nulls
  /// included. What is behind the last of them is not decompressed. For `plain_bytes` see `set_dictionary`.
  void add(std::span<const std::uint8_t> page, std::uint64_t values, std::int64_t encoding,
           std::span<const std::int64_t> places, std::optional<std::uint64_t> plain_bytes = std::nullopt);

  std::uint64_t count() const { return is_valid_.size(); }

  /// Of each value, 1, or 0 for null.
  const std::vector<std::uint8_t>& is_valid() const { return is_valid_; }
  /// Of strings: where each begins, and the end of the last.
  const std::vector<std::int64_t>& offsets() const { return offsets_; }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  using Bytes = std::span<const std::uint8_t>;

  void append(Bytes value);
  void append_null();
  void add_plain(PageInput input, std::span<const std::int64_t> numbers);
  void add_by_deltas(PageInput input, std::span<const std::int64_t> numbers);
  void add_by_dictionary(PageInput input, std::span<const std::int64_t> numbers);

  std::uint32_t width_;
  bool may_be_null_;
  PageBytes page_, dictionary_;
  std::vector<std::uint8_t> dictionary_page_;                     // as it is compressed
  std::uint64_t entries_ = 0;                                     // of the dictionary
  std::vector<std::pair<std::uint64_t, std::uint64_t>> strings_;  // begin and length of entries that are strings
  std::vector<std::uint8_t> is_valid_, bytes_;
  std::vector<std::int64_t> offsets_ = {0};
};

}  // namespace linkwise
