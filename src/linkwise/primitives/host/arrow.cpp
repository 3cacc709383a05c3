#include "linkwise/primitives/host/arrow.hpp"

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "linkwise/error.hpp"

namespace linkwise {
namespace {

using Layout = KeyColumn::Layout;

struct Storage {
  Layout layout = Layout::nothing;
  KeyType type = KeyType::u32;
  int width = 0;
};

Storage number(KeyType type) { return {Layout::number, type}; }

int last_number(std::string_view format) {
  const std::string_view digits = format.substr(format.find_last_of(":,") + 1);
  int value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// Decimals are "d:digits,scale", of 128 bits, or "d:digits,scale,bits".
Storage decimal(std::string_view format) {
  const bool names_bits = format.find(',') != format.rfind(',');
  const int bits = names_bits ? last_number(format) : 128;
  if (bits == 32) return number(KeyType::i32);
  if (bits == 64) return number(KeyType::i64);
  return {Layout::wide_integer, KeyType::i64, bits / 8};
}

std::optional<Storage> letter(char format) {
  switch (format) {
    case 'n': return Storage{};
    case 'b': return Storage{Layout::boolean};
    case 'c': return number(KeyType::i8);
    case 'C': return number(KeyType::u8);
    case 's': return number(KeyType::i16);
    case 'S': return number(KeyType::u16);
    case 'i': return number(KeyType::i32);
    case 'I': return number(KeyType::u32);
    case 'l': return number(KeyType::i64);
    case 'L': return number(KeyType::u64);
    case 'e': return number(KeyType::f16);
    case 'f': return number(KeyType::f32);
    case 'g': return number(KeyType::f64);
    case 'u':
    case 'z': return Storage{Layout::bytes32};
    case 'U':
    case 'Z': return Storage{Layout::bytes64};
    default: return std::nullopt;
  }
}

std::optional<Storage> storage_of(std::string_view format) {
  if (format.size() == 1) return letter(format[0]);
  if (format == "vu" || format == "vz") return Storage{Layout::views};
  if (format.starts_with("d:")) return decimal(format);
  if (format.starts_with("w:")) return Storage{Layout::fixed_bytes, KeyType::u8, last_number(format)};
  if (format == "tdD" || format == "tts" || format == "ttm") return number(KeyType::i32);
  if (format == "tdm" || format == "ttu" || format == "ttn") return number(KeyType::i64);
  if (format.starts_with("ts") || format.starts_with("tD")) return number(KeyType::i64);
  return std::nullopt;
}

// Bytes of the interval types, which cannot be keys: months; days and milliseconds; months, days and nanoseconds.
int interval_bytes(std::string_view format) {
  return format == "tiM" ? 4 : format == "tiD" ? 8 : format == "tin" ? 16 : 0;
}

std::optional<ChunkedColumn> empty_column(std::string_view format) {
  if (const int bytes = interval_bytes(format); bytes > 0)
    return ChunkedColumn{ChunkedColumn::Layout::fixed, bytes, {}};
  const std::optional<Storage> storage = storage_of(format);
  if (!storage) return std::nullopt;
  switch (storage->layout) {
    case Layout::boolean: return ChunkedColumn{ChunkedColumn::Layout::bits, 0, {}};
    case Layout::number: return ChunkedColumn{ChunkedColumn::Layout::fixed, native_bytes(storage->type), {}};
    case Layout::wide_integer:
    case Layout::fixed_bytes: return ChunkedColumn{ChunkedColumn::Layout::fixed, storage->width, {}};
    case Layout::bytes32: return ChunkedColumn{ChunkedColumn::Layout::strings32, 0, {}};
    case Layout::bytes64: return ChunkedColumn{ChunkedColumn::Layout::strings64, 0, {}};
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<ChunkedColumn> chunked_column_of(const ArrowSchema& schema, std::span<const ArrowArray* const> chunks) {
  if (schema.dictionary != nullptr) return std::nullopt;
  std::optional<ChunkedColumn> column = empty_column(schema.format);
  if (!column) return std::nullopt;
  for (const ArrowArray* chunk : chunks) {
    ColumnChunk part;
    part.count = static_cast<std::uint64_t>(chunk->length);
    part.offset = static_cast<std::uint64_t>(chunk->offset);
    if (chunk->null_count != 0) part.validity = static_cast<const std::uint8_t*>(chunk->buffers[0]);
    part.values = static_cast<const std::byte*>(chunk->buffers[column->has_strings() ? 2 : 1]);
    if (column->has_strings()) part.offsets = chunk->buffers[1];
    column->chunks.push_back(part);
  }
  return column;
}

bool has_order(const ArrowSchema& schema) {
  return schema.dictionary == nullptr && storage_of(schema.format).has_value();
}

KeyColumn key_column_of(const ArrowSchema& schema, const ArrowArray& array, bool descending, bool nulls_first) {
  const std::optional<Storage> known = storage_of(schema.format);
  if (schema.dictionary != nullptr || !known)
    throw UsageError("keys of Arrow format '" + std::string(schema.format) + "' have no order; decode or cast them");
  const Storage& storage = *known;
  KeyColumn column;
  column.layout = storage.layout;
  column.type = storage.type;
  column.width = storage.width;
  column.descending = descending;
  column.nulls_first = nulls_first;
  column.count = static_cast<std::uint64_t>(array.length);
  column.offset = static_cast<std::uint64_t>(array.offset);
  if (storage.layout == Layout::nothing || array.length == 0) return column;
  if (array.null_count != 0) column.validity = static_cast<const std::uint8_t*>(array.buffers[0]);
  const bool between_offsets = storage.layout == Layout::bytes32 || storage.layout == Layout::bytes64;
  column.values = static_cast<const std::byte*>(array.buffers[between_offsets ? 2 : 1]);
  if (between_offsets) column.offsets = array.buffers[1];
  if (storage.layout == Layout::views) column.buffers = reinterpret_cast<const std::byte* const*>(array.buffers + 2);
  return column;
}

}  // namespace linkwise
