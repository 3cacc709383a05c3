#include "linkwise/primitives/host/parquet_pages.hpp"

#include <unistd.h>

#include <algorithm>

#include "linkwise/error.hpp"

namespace linkwise {
namespace {

constexpr std::size_t short_header = 1 << 8, longest_header = 1 << 24;  // they may hold the least and greatest value
constexpr int deepest_field = 64;                                       // nested structs and lists; Parquet has a few

/// Of Thrift's compact protocol.
enum class Thrift : std::uint8_t {
  is_true = 1,
  is_false,
  byte,
  i16,
  i32,
  i64,
  float64,
  binary,
  list,
  set,
  map,
  structure,
  uuid
};

struct EndOfBytes {};

/// Reads Thrift's compact protocol.
class CompactInput {
 public:
  explicit CompactInput(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::size_t at() const { return at_; }

  std::int64_t whole() {
    const std::uint64_t value = varint();
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }

  /// Calls `read(number, type)` for each field of a struct, which reads or skips its value.
  template <typename Read>
  void fields(Read read) {
    std::int64_t number = 0;
    while (const std::uint8_t head = next()) {
      number = head >> 4 != 0 ? number + (head >> 4) : whole();
      read(number, static_cast<Thrift>(head & 15));
    }
  }

  void skip(Thrift type, int depth = 0) {
    using enum Thrift;
    if (depth > deepest_field) throw Error("a page header is nested too deeply");
    switch (type) {
      case is_true:
      case is_false: return;
      case byte: return pass(1);
      case i16:
      case i32:
      case i64: return static_cast<void>(varint());
      case float64: return pass(8);
      case uuid: return pass(16);
      case binary: return pass(varint());
      case structure: return fields([&](std::int64_t, Thrift inner) { skip(inner, depth + 1); });
      case list:
      case set: {
        const std::uint8_t head = next();
        const auto inner = static_cast<Thrift>(head & 15);
        const std::uint64_t size = head >> 4 == 15 ? varint() : head >> 4;
        if (inner == is_true || inner == is_false) return pass(size);
        for (std::uint64_t i = 0; i < size; ++i) skip(inner, depth + 1);
        return;
      }
      default: throw Error("a page header has a field of an unknown type");
    }
  }

 private:
  std::uint8_t next() {
    if (at_ == bytes_.size()) throw EndOfBytes();
    return bytes_[at_++];
  }

  void pass(std::uint64_t bytes) {
    if (bytes > bytes_.size() - at_) throw EndOfBytes();
    at_ += bytes;
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint8_t part = next();
      value |= std::uint64_t{part & 0x7Fu} << shift;
      if (part < 0x80) return value;
    }
    throw Error("a page header has a number of more than 64 bits");
  }

  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

/// Reads a DataPageHeader, DataPageHeaderV2 or DictionaryPageHeader; the encoding has different numbers in them.
void read_values(CompactInput& compact, ParquetPage::Kind kind, std::int64_t encoding, ParquetPage& page) {
  page.kind = kind;
  compact.fields([&](std::int64_t number, Thrift type) {
    if (number == 1 && type == Thrift::i32) page.values = compact.whole();
    else if (number == encoding && type == Thrift::i32) page.encoding = compact.whole();
    else compact.skip(type);
  });
}

}  // namespace

std::optional<ParquetPage> parquet_page(std::span<const std::uint8_t> header) {
  CompactInput compact(header);
  ParquetPage page;
  std::int64_t bytes = -1, plain_bytes = 0;
  try {
    compact.fields([&](std::int64_t number, Thrift type) {
      using enum ParquetPage::Kind;
      if (number == 2 && type == Thrift::i32) plain_bytes = compact.whole();
      else if (number == 3 && type == Thrift::i32) bytes = compact.whole();
      else if (number == 4 && type == Thrift::i32) page.checksum = static_cast<std::uint32_t>(compact.whole());
      else if (number == 5 && type == Thrift::structure) read_values(compact, data, 2, page);
      else if (number == 7 && type == Thrift::structure) read_values(compact, dictionary, 2, page);
      else if (number == 8 && type == Thrift::structure) read_values(compact, data_v2, 4, page);
      else compact.skip(type);
    });
  } catch (const EndOfBytes&) {
    return std::nullopt;
  }
  if (bytes < 0 || plain_bytes < 0 || page.values < 0) throw Error("a page header without a size");
  page.plain_bytes = static_cast<std::uint64_t>(plain_bytes);
  page.header_bytes = compact.at();
  page.bytes = static_cast<std::uint64_t>(bytes);
  return page;
}

std::vector<ParquetPage> parquet_pages(int file, std::uint64_t begin, std::uint64_t end) {
  std::vector<ParquetPage> pages;
  std::vector<std::uint8_t> header(short_header);
  while (begin < end) {
    const std::uint64_t wanted = std::min<std::uint64_t>(header.size(), end - begin);
    const ssize_t got = pread(file, header.data(), wanted, static_cast<off_t>(begin));
    if (got <= 0) throw Error("a column chunk that ends early");
    const auto page = parquet_page({header.data(), static_cast<std::size_t>(got)});
    if (!page) {
      if (header.size() >= longest_header || static_cast<std::size_t>(got) < header.size())
        throw Error("a page header that does not end");
      header.resize(8 * header.size());
      continue;
    }
    if (page->header_bytes + page->bytes > end - begin) throw Error("a page that does not end in its column chunk");
    begin += page->header_bytes + page->bytes;
    pages.push_back(*page);
  }
  return pages;
}

}  // namespace linkwise
