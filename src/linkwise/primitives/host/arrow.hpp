// Key columns from the Arrow C data interface (https://arrow.apache.org/docs/format/CDataInterface.html), through
// which libraries exchange Arrow arrays.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "linkwise/primitives/host/gather_rows.hpp"
#include "linkwise/primitives/host/key_column.hpp"

// These names and members are the interface's own.
extern "C" {
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
struct ArrowDeviceArray {
  struct ArrowArray array;
  std::int64_t device_id;
  std::int32_t device_type;
  void* sync_event;
  std::int64_t reserved[3];
};
}

namespace linkwise {

/// A view of the array, which must outlive the view. @throws UsageError for a type without an order: nested types,
/// intervals, dictionaries and run-end encoded arrays (decode these two first).
KeyColumn key_column_of(const ArrowSchema& schema, const ArrowArray& array, bool descending, bool nulls_first);

/// Whether arrays of that type can be keys.
bool has_order(const ArrowSchema& schema);

/// A view of chunks of one type, which must outlive the view. Empty for a type whose rows are not bits, elements of
/// fixed width or bytes between offsets.
std::optional<ChunkedColumn> chunked_column_of(const ArrowSchema& schema, std::span<const ArrowArray* const> chunks);

}  // namespace linkwise
