// Columns and keys from Python, together with the objects that keep them alive.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "linkwise/device/cuda/pinned.hpp"
#include "linkwise/join/host_merge_join.hpp"
#include "linkwise/primitives/host/arrow.hpp"
#include "linkwise/primitives/host/huge_page_buffer.hpp"
#include "linkwise/primitives/host/row_keys.hpp"

namespace linkwise::binding {

using Words =
    nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu, nanobind::ndim<1>>;  // of 4 or 8 bytes

/// A NumPy array that takes ownership of the buffer.
template <typename Element>
nanobind::ndarray<nanobind::numpy, Element, nanobind::ndim<1>> numpy_of(HugePageBuffer&& buffer, std::uint64_t count) {
  auto* owned = new HugePageBuffer(std::move(buffer));
  const nanobind::capsule owner(owned, [](void* p) noexcept { delete static_cast<HugePageBuffer*>(p); });
  return {owned->data(), {count}, owner};
}

/// Memory for the ranges of a join's matches, allocated once their sizes are known and then handed to Python.
class NumpyRanges {
 public:
  RangeArrays make(const RangeSizes& sizes) {
    counts_ = {sizes.left_rows, sizes.keys + 1, sizes.right_rows, sizes.keys + 1};
    std::array<std::int64_t*, 4> data{};
    for (std::size_t b = 0; b < data.size(); ++b)
      data[b] = reinterpret_cast<std::int64_t*>(buffers_[b].emplace(counts_[b] * sizeof(std::int64_t)).data());
    return {data[1], data[3], data[0], data[2]};
  }
  /// The row numbers of the left side, the offset of each key's first one and the end of the last; then the same for
  /// the right side.
  nanobind::tuple take() {
    const auto array = [&](std::size_t b) { return numpy_of<std::int64_t>(std::move(*buffers_[b]), counts_[b]); };
    return nanobind::make_tuple(array(0), array(1), array(2), array(3));
  }

 private:
  std::array<std::optional<HugePageBuffer>, 4> buffers_;
  std::array<std::uint64_t, 4> counts_{};
};

inline KeyWidth width_of(const Words& words) { return to_key_width(static_cast<int>(words.itemsize())); }

// An array received through Arrow's C data interface and released by the destructor.
class ArrowColumn {
 public:
  // Takes ownership of the contents of what `__arrow_c_array__` returns: the capsules of a schema and an array.
  explicit ArrowColumn(const nanobind::object& source) {
    const auto capsules = nanobind::cast<nanobind::tuple>(source.attr("__arrow_c_array__")());
    auto* schema = contents<ArrowSchema>(capsules[0], "arrow_schema");
    auto* array = contents<ArrowArray>(capsules[1], "arrow_array");
    schema_ = *schema;
    array_ = *array;
    schema->release = nullptr;
    array->release = nullptr;
  }
  ArrowColumn(const ArrowColumn&) = delete;
  ArrowColumn& operator=(const ArrowColumn&) = delete;
  ~ArrowColumn() {
    if (array_.release != nullptr) array_.release(&array_);
    if (schema_.release != nullptr) schema_.release(&schema_);
  }
  [[nodiscard]] const ArrowSchema& schema() const { return schema_; }
  [[nodiscard]] const ArrowArray& array() const { return array_; }
  [[nodiscard]] KeyColumn key(bool descending, bool nulls_first) const {
    return key_column_of(schema_, array_, descending, nulls_first);
  }

 private:
  template <typename Contents>
  static Contents* contents(nanobind::handle capsule, const char* name) {
    auto* pointer = static_cast<Contents*>(PyCapsule_GetPointer(capsule.ptr(), name));
    if (pointer == nullptr) throw nanobind::python_error();
    return pointer;
  }

  ArrowSchema schema_{};
  ArrowArray array_{};
};

/// A column's chunks, kept alive by this; no column if there are no chunks, or their type is not supported.
class OwnedColumn {
 public:
  enum class For { cores, gpus };  // for GPUs, CUDA is asked which chunks are pinned

  explicit OwnedColumn(const nanobind::list& chunks, For who = For::gpus) {
    std::vector<const ArrowArray*> arrays;
    for (const nanobind::handle chunk : chunks) {
      owned_.push_back(std::make_unique<ArrowColumn>(nanobind::borrow<nanobind::object>(chunk)));
      arrays.push_back(&owned_.back()->array());
    }
    if (owned_.empty()) return;
    column_ = chunked_column_of(owned_.front()->schema(), arrays);
    if (!column_ || who == For::cores) return;
    for (ColumnChunk& chunk : column_->chunks) chunk.pageable = !is_pinned(chunk.values);
  }
  [[nodiscard]] const std::optional<ChunkedColumn>& column() const { return column_; }
  [[nodiscard]] std::vector<KeyColumn> keys() const {
    std::vector<KeyColumn> keys;
    for (const auto& chunk : owned_) keys.push_back(chunk->key(/*descending=*/false, /*nulls_first=*/false));
    return keys;
  }

 private:
  std::vector<std::unique_ptr<ArrowColumn>> owned_;
  std::optional<ChunkedColumn> column_;
};

// Row keys together with the columns that they refer to, which may be split into consecutive parts.
class OwnedRowKeys {
 public:
  // `parts`: the columns of each part, as arrays with __arrow_c_array__.
  OwnedRowKeys(const std::vector<nanobind::list>& parts, const std::vector<bool>& descending,
               const std::vector<bool>& nulls_first) {
    std::vector<std::vector<KeyColumn>> keys;
    for (const nanobind::list& columns : parts) {
      if (columns.size() != descending.size() || columns.size() != nulls_first.size())
        throw UsageError("every column of a key has a direction and an end for its nulls");
      keys.emplace_back();
      for (std::size_t c = 0; c < columns.size(); ++c)
        keys.back().push_back(own(columns[c]).key(descending[c], nulls_first[c]));
    }
    const nanobind::gil_scoped_release release;
    parts_ = RowKeys::of_parts(std::move(keys));
    first_ = parts_.front().shape({});
  }
  // Keys of the same format for some of the same rows, in any order.
  [[nodiscard]] std::unique_ptr<OwnedRowKeys> like_these(const nanobind::list& columns) const {
    const std::vector<KeyColumn>& like = parts_.front().columns();
    if (columns.size() != like.size()) throw UsageError("there are not as many columns as these keys have");
    auto other = std::make_unique<OwnedRowKeys>();
    std::vector<KeyColumn> keys;
    for (std::size_t c = 0; c < columns.size(); ++c)
      keys.push_back(other->own(columns[c]).key(like[c].descending, like[c].nulls_first));
    other->parts_.emplace_back(std::move(keys), parts_.front());
    other->first_ = first_;
    return other;
  }
  OwnedRowKeys() = default;
  OwnedRowKeys(const OwnedRowKeys&) = delete;
  OwnedRowKeys& operator=(const OwnedRowKeys&) = delete;
  // Only if the keys are in one part.
  [[nodiscard]] const RowKeys& keys() const {
    if (parts_.size() != 1) throw UsageError("these keys lie in parts, of which only words can be made");
    return parts_.front();
  }
  [[nodiscard]] std::uint64_t rows() const {
    std::uint64_t sum = 0;
    for (const RowKeys& part : parts_) sum += part.rows();
    return sum;
  }
  void words(KeyWidth width, void* to) const {
    for (const RowKeys& part : parts_) {
      part.words(first_, width, to);
      to = static_cast<std::byte*>(to) + part.rows() * static_cast<std::uint64_t>(width);
    }
  }
  [[nodiscard]] const RowKeys::Shape& first() const { return first_; }

 private:
  const ArrowColumn& own(const nanobind::handle& column) {
    columns_.push_back(std::make_unique<ArrowColumn>(nanobind::borrow<nanobind::object>(column)));
    return *columns_.back();
  }

  std::vector<std::unique_ptr<ArrowColumn>> columns_;
  std::vector<RowKeys> parts_;
  RowKeys::Shape first_;
};

}  // namespace linkwise::binding
