// The pages of a Parquet column chunk, told by their headers alone. Sources: Apache Parquet, parquet.thrift; Apache
// Thrift, thrift-compact-protocol.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace linkwise {

struct ParquetPage {
  enum class Kind : std::uint8_t { data, data_v2, dictionary, other };

  Kind kind = Kind::other;
  std::uint64_t header_bytes = 0, bytes = 0;  // of what follows the header
  std::uint64_t plain_bytes = 0;              // when it is decompressed
  std::int64_t values = 0, encoding = 0;      // of a data page or a dictionary
  std::optional<std::uint32_t> checksum;      // CRC-32 of what follows the header

  bool operator==(const ParquetPage&) const = default;
};

/// The page whose header begins with these bytes; nothing if the header is longer. Throws `Error` if it is damaged.
std::optional<ParquetPage> parquet_page(std::span<const std::uint8_t> header);

/// The pages of the column chunk from `begin` to `end` in an open file. Throws `Error` if they do not fill it.
std::vector<ParquetPage> parquet_pages(int file, std::uint64_t begin, std::uint64_t end);

}  // namespace linkwise
