// Finds the matching rows of two relations with a hash table of one of them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "linkwise/join/host_hash_join.hpp"
#include "rows.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

using Valid = nb::ndarray<const std::uint8_t, nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>;

// The keys of one side, together with the columns that they refer to.
class OwnedKeyWords {
 public:
  // `columns`: the columns whose hashes `words` are, as arrays with __arrow_c_array__; empty if `words` are the keys.
  OwnedKeyWords(Words words, std::optional<Valid> valid, const nb::list& columns, std::uint64_t base)
      : words_(std::move(words)), valid_(std::move(valid)), base_(base) {
    if (valid_ && valid_->size() != words_.size()) throw UsageError("each row is valid or not");
    for (const nb::handle column : columns) {
      owned_.push_back(std::make_unique<ArrowColumn>(nb::borrow<nb::object>(column)));
      columns_.push_back(owned_.back()->key(false, false));
      if (columns_.back().count != words_.size()) throw UsageError("there are not as many words as rows");
    }
  }
  OwnedKeyWords(const OwnedKeyWords&) = delete;
  OwnedKeyWords& operator=(const OwnedKeyWords&) = delete;

  [[nodiscard]] KeyWords keys() const {
    return {width_of(words_), words_.data(), valid_ ? valid_->data() : nullptr, words_.size(), columns_, base_};
  }

 private:
  Words words_;
  std::optional<Valid> valid_;
  std::vector<std::unique_ptr<ArrowColumn>> owned_;
  std::vector<KeyColumn> columns_;
  std::uint64_t base_;
};

struct SharedTable {
  std::shared_ptr<const KeyTable> table;

  explicit SharedTable(const OwnedKeyWords& keys) : table(std::make_shared<const KeyTable>(keys.keys())) {}
};

template <typename Row>
nb::object rows_of(std::optional<HugePageBuffer>&& rows, std::uint64_t count) {
  return rows ? nb::cast(numpy_of<Row>(std::move(*rows), count)) : nb::none();
}

nb::tuple indices_of(HashMatches& self, const std::string& how, std::uint64_t first,
                     const std::optional<std::uint64_t>& at_most, int row_bytes, bool left, bool right) {
  const JoinKind kind = join_kind_from(how);
  const bool is_narrow = to_key_width(row_bytes) == KeyWidth::k32;
  std::uint64_t count = 0;
  std::optional<HugePageBuffer> left_rows, right_rows;
  {
    const nb::gil_scoped_release release;
    const std::uint64_t all = self.count(kind);
    first = std::min(first, all);
    count = std::min(all - first, at_most.value_or(all));
    if (left) left_rows.emplace(count * static_cast<std::uint64_t>(row_bytes));
    if (right && !is_filter(kind)) right_rows.emplace(count * static_cast<std::uint64_t>(row_bytes));
    self.write(kind, first, count,
               {row_bytes, left_rows ? left_rows->data() : nullptr, right_rows ? right_rows->data() : nullptr});
  }
  if (is_narrow)
    return nb::make_tuple(rows_of<std::uint32_t>(std::move(left_rows), count),
                          rows_of<std::uint32_t>(std::move(right_rows), count));
  return nb::make_tuple(rows_of<std::int64_t>(std::move(left_rows), count),
                        rows_of<std::int64_t>(std::move(right_rows), count));
}

}  // namespace

void bind_hash_join(nb::module_& m) {
  m.attr("MOST_ROWS_OF_TABLE") = KeyTable::most_rows;
  nb::class_<OwnedKeyWords>(m, "KeyWords")
      .def(nb::init<Words, std::optional<Valid>, const nb::list&, std::uint64_t>(), nb::arg("words"),
           nb::arg("valid").none(), nb::arg("columns"), nb::arg("base") = 0,
           "The keys of a side: words that are the keys, or hashes of the columns, each in one piece; for each row a "
           "byte that is 0 if its key matches nothing; and the base that is subtracted from the words.");
  nb::class_<SharedTable>(m, "KeyTable", "A hash table of a side's keys, which several lookups can share.")
      .def(nb::init<const OwnedKeyWords&>(), nb::arg("keys"), nb::keep_alive<1, 2>(),
           nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("is_unique", [](const SharedTable& self) { return self.table->is_unique(); });
  nb::class_<FoundRows>(m, "FoundRows", "Which rows of a table's side have been found by any lookup.")
      .def(
          "__init__", [](FoundRows* self, const SharedTable& table) { new (self) FoundRows(table.table); },
          nb::arg("table"), nb::keep_alive<1, 2>())
      .def(
          "add", [](FoundRows& self, const HashMatches& matches) { matches.add_to(self); }, nb::arg("matches"),
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "rows",
          [](const FoundRows& self, bool found) {
            std::optional<HugePageBuffer> numbers;
            std::uint64_t count = 0;
            {
              const nb::gil_scoped_release release;
              const std::vector<std::uint32_t> rows = self.rows(found);
              count = rows.size();
              numbers.emplace(count * sizeof(std::int64_t));
              std::ranges::copy(rows, reinterpret_cast<std::int64_t*>(numbers->data()));
            }
            return rows_of<std::int64_t>(std::move(numbers), count);
          },
          nb::arg("found"), "The row numbers, ascending, of the rows that were found or of the others.");
  nb::class_<HashMatches>(m, "HashMatches")
      .def(
          "__init__",
          [](HashMatches* self, const SharedTable& table, const OwnedKeyWords& others, bool build_left) {
            const nb::gil_scoped_release release;
            new (self) HashMatches(table.table, others.keys(), build_left);
          },
          nb::arg("table"), nb::arg("others"), nb::arg("build_left"), nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
      .def(
          "__init__",
          [](HashMatches* self, const OwnedKeyWords& left, const OwnedKeyWords& right, bool build_left) {
            const nb::gil_scoped_release release;
            new (self) HashMatches(left.keys(), right.keys(), build_left);
          },
          nb::arg("left"), nb::arg("right"), nb::arg("build_left"), nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
      .def(
          "count", [](HashMatches& self, const std::string& how) { return self.count(join_kind_from(how)); },
          nb::arg("how"), nb::call_guard<nb::gil_scoped_release>())
      .def(
          "keeps_each_row",
          [](HashMatches& self, const std::string& how) { return self.keeps_each_row(join_kind_from(how)); },
          nb::arg("how"), nb::call_guard<nb::gil_scoped_release>(),
          "Whether the result has every row of the probe side exactly once, in order, and nothing else.")
      .def("indices", &indices_of, nb::arg("how"), nb::arg("first") = 0, nb::arg("count").none() = nb::none(),
           nb::arg("row_bytes") = 8, nb::arg("left") = true, nb::arg("right") = true,
           "The left and right row numbers of `count` rows of the result from `first` on: 8 bytes each, -1 for no "
           "row, or 4 bytes if no row is missing; None for an unwanted side, and for the right of semi and anti.")
      .def_prop_ro("left_is_unique", &HashMatches::left_is_unique, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("right_is_unique", &HashMatches::right_is_unique, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace linkwise::binding
