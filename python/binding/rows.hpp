// Columns and keys that came from Python, with what keeps them alive.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <utility>
#include <vector>

#include "linkwise/primitives/host/arrow.hpp"
#include "linkwise/primitives/host/huge_buffer.hpp"
#include "linkwise/primitives/host/row_keys.hpp"

namespace linkwise::binding {

using Words =
    nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu, nanobind::ndim<1>>;  // of 4 or 8 bytes

/// A NumPy array of the buffer's memory, which lives as long as it.
template <typename Element>
nanobind::ndarray<nanobind::numpy, Element, nanobind::ndim<1>> numpy_of(HugeBuffer&& buffer, std::uint64_t count) {
  auto* owned = new HugeBuffer(std::move(buffer));
  const nanobind::capsule owner(owned, [](void* p) noexcept { delete static_cast<HugeBuffer*>(p); });
  return {owned->data(), {count}, owner};
}

inline KeyWidth width_of(const Words& words) { return to_key_width(static_cast<int>(words.itemsize())); }

// An array that came through the C data interface, and is released with this.
class ArrowColumn {
 public:
  // What __arrow_c_array__ returns: the capsules of a schema and an array, whose contents are taken over.
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

// Row keys with the columns that they look into.
class OwnedRowKeys {
 public:
  OwnedRowKeys(const nanobind::list& columns, const std::vector<bool>& descending,
               const std::vector<bool>& nulls_first) {
    if (columns.size() != descending.size() || columns.size() != nulls_first.size())
      throw UsageError("every column of a key has a direction and an end for its nulls");
    std::vector<KeyColumn> keys;
    for (std::size_t c = 0; c < columns.size(); ++c) keys.push_back(own(columns[c]).key(descending[c], nulls_first[c]));
    const nanobind::gil_scoped_release release;
    keys_ = std::make_unique<RowKeys>(std::move(keys));
    first_ = keys_->shape({});
  }
  [[nodiscard]] std::unique_ptr<OwnedRowKeys> like_these(const nanobind::list& columns) const {
    if (columns.size() != columns_.size()) throw UsageError("there are not as many columns as these keys have");
    auto other = std::make_unique<OwnedRowKeys>();
    std::vector<KeyColumn> keys;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const KeyColumn& like = keys_->columns()[c];
      keys.push_back(other->own(columns[c]).key(like.descending, like.nulls_first));
    }
    other->keys_ = std::make_unique<RowKeys>(std::move(keys), *keys_);
    other->first_ = first_;
    return other;
  }
  OwnedRowKeys() = default;
  [[nodiscard]] const RowKeys& keys() const { return *keys_; }
  [[nodiscard]] const RowKeys::Shape& first() const { return first_; }

 private:
  const ArrowColumn& own(const nanobind::handle& column) {
    columns_.push_back(std::make_unique<ArrowColumn>(nanobind::borrow<nanobind::object>(column)));
    return *columns_.back();
  }

  std::vector<std::unique_ptr<ArrowColumn>> columns_;
  std::unique_ptr<RowKeys> keys_;
  RowKeys::Shape first_;
};

}  // namespace linkwise::binding
