// Rows of columns on the GPUs: ranked where they are in order, hashed, and compared.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

#include "bindings.hpp"
#include "device_arrays.hpp"
#include "device_parts.hpp"
#include "linkwise/error.hpp"
#include "linkwise/transfer/dense_ranks.hpp"
#include "linkwise/transfer/row_hashes.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

using NumbersOrStrings = std::variant<Parts, Strings>;

std::vector<ComparedColumn> compared_columns(const std::vector<NumbersOrStrings>& columns, const Gpus& gpus,
                                             const Runtime& runtime) {
  if (columns.empty()) throw UsageError("rows are compared by at least one column");
  std::vector<ComparedColumn> found;
  for (const NumbersOrStrings& column : columns) {
    if (const auto* strings = std::get_if<Strings>(&column)) {
      found.emplace_back(pieces_of(*strings, gpus));
      continue;
    }
    const DeviceColumn numbers = columns_of({std::get<Parts>(column)}, gpus, runtime).front();
    if (numbers.element_bytes != 4 && numbers.element_bytes != 8)
      throw UsageError("rows are hashed and compared by strings, or elements of 4 or 8 bytes");
    found.emplace_back(numbers);
  }
  return found;
}

bool are_alike(const ComparedColumn& left, const ComparedColumn& right) {
  const auto *one = std::get_if<DeviceColumn>(&left), *other = std::get_if<DeviceColumn>(&right);
  return left.index() == right.index() && (one == nullptr || one->element_bytes == other->element_bytes);
}

// Calls work(runtime, gpus, columns) for columns in the order of their rows.
template <typename Work>
std::vector<ColumnPart> of_rows_in_order(Runtime& runtime, const Gpus& gpus, const std::vector<Parts>& columns,
                                         Work&& work) {
  const std::vector<DeviceColumn> in_order = columns_of(columns, gpus, runtime);
  const nb::gil_scoped_release release;
  return work(runtime, gpus, in_order);
}

Parts ranks_of(const nb::object& runtime, const Gpus& gpus, const std::vector<Parts>& columns) {
  return arrays_of(runtime, of_rows_in_order(nb::cast<Runtime&>(runtime), gpus, columns, dense_ranks),
                   nb::dtype<std::uint32_t>());
}

Parts starts_of(const nb::object& runtime, const Gpus& gpus, const std::vector<Parts>& columns) {
  return arrays_of(runtime, of_rows_in_order(nb::cast<Runtime&>(runtime), gpus, columns, starts_of_runs),
                   nb::dtype<std::int64_t>());
}

Parts ties_of(const nb::object& runtime, const Gpus& gpus, const Parts& ranks, const Parts& words) {
  const auto work = [](Runtime& on, std::span<const int> where, std::span<const DeviceColumn> columns) {
    if (columns[0].element_bytes != 4 || columns[1].element_bytes != 8)
      throw UsageError("ranks have 4 bytes, and words 8");
    return tied_rows(on, where, columns[0], columns[1]);
  };
  return arrays_of(runtime, of_rows_in_order(nb::cast<Runtime&>(runtime), gpus, {ranks, words}, work),
                   nb::dtype<std::int64_t>());
}

Parts refined(const nb::object& runtime_object, const Gpus& gpus, const Parts& ranks, const Parts& positions,
              const Parts& finer) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  const std::vector<DeviceColumn> of_ranks = columns_of({ranks}, gpus, runtime),
                                  of_ties = columns_of({positions, finer}, gpus, runtime);
  if (of_ranks[0].element_bytes != 4 || of_ties[0].element_bytes != 8 || of_ties[1].element_bytes != 4)
    throw UsageError("ranks have 4 bytes, and positions 8");
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = refined_ranks(runtime, gpus, of_ranks[0], of_ties[0], of_ties[1]);
  }
  return arrays_of(runtime_object, std::move(parts), nb::dtype<std::uint64_t>());
}

Parts unequal_groups(const nb::object& runtime_object, const Gpus& gpus, const Parts& groups, const Strings& strings) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  const DeviceColumn of_rows = columns_of({groups}, gpus, runtime).front();
  const std::vector<StringPiece> pieces = pieces_of(strings, gpus);
  if (of_rows.element_bytes != 4 || pieces.size() != gpus.size())
    throw UsageError("there is a group of 4 bytes for each string");
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = rows_of_unequal_groups(runtime, gpus, of_rows, pieces);
  }
  return arrays_of(runtime_object, std::move(parts), nb::dtype<std::int64_t>());
}

Parts hashes_of(const nb::object& runtime_object, const Gpus& gpus, const std::vector<NumbersOrStrings>& columns) {
  auto& runtime = nb::cast<Runtime&>(runtime_object);
  const std::vector<ComparedColumn> there = compared_columns(columns, gpus, runtime);
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = row_hashes(runtime, gpus, there);
  }
  return arrays_of(runtime_object, std::move(parts), nb::dtype<std::uint64_t>());
}

std::uint64_t unequal(Runtime& runtime, const Gpus& gpus, const std::vector<NumbersOrStrings>& left,
                      const Parts& left_rows, const std::vector<NumbersOrStrings>& right, const Parts& right_rows) {
  const std::vector<ComparedColumn> of_left = compared_columns(left, gpus, runtime),
                                    of_right = compared_columns(right, gpus, runtime);
  const std::vector<MemoryView> lefts = views_of(left_rows, gpus, runtime),
                                rights = views_of(right_rows, gpus, runtime);
  const auto have_as_many = [](const MemoryView& one, const MemoryView& other) { return one.bytes == other.bytes; };
  if (!std::ranges::equal(of_left, of_right, are_alike) || !std::ranges::equal(lefts, rights, have_as_many) ||
      left_rows.front().type != right_rows.front().type)
    throw UsageError("the columns and row numbers of both sides are alike");
  const nb::gil_scoped_release release;
  return unequal_pairs(runtime, gpus, of_left, of_right, left_rows.front().type.bits / 8, lefts, rights);
}

}  // namespace

void bind_device_rows(nb::module_& m) {
  m.def("dense_ranks", &ranks_of, nb::arg("runtime"), nb::arg("gpus"), nb::arg("columns"),
        "For rows in order by some columns, the number of different rows before each, of 4 bytes.");
  m.def("starts_of_runs", &starts_of, nb::arg("runtime"), nb::arg("gpus"), nb::arg("columns"),
        "For rows in order by some columns, the positions of those that differ from the one before, the first one "
        "included, and the number of rows, of 8 bytes.");
  m.def("tied_rows", &ties_of, nb::arg("runtime"), nb::arg("gpus"), nb::arg("ranks"), nb::arg("words"),
        "The positions of strings in order that their words, of which these are the last, do not tell apart.");
  m.def("refined_ranks", &refined, nb::arg("runtime"), nb::arg("gpus"), nb::arg("ranks"), nb::arg("positions"),
        nb::arg("finer"), "Ranks of 8 bytes: those of 4 bytes and, at these positions, finer ones.");
  m.def("row_hashes", &hashes_of, nb::arg("runtime"), nb::arg("gpus"), nb::arg("columns"),
        "A hash of 64 bits of each row of columns of strings, or with elements of 4 or 8 bytes.");
  m.def("rows_of_unequal_groups", &unequal_groups, nb::arg("runtime"), nb::arg("gpus"), nb::arg("groups"),
        nb::arg("strings"),
        "The positions of strings in whose group two differ; groups are in order, of 4 bytes, and on several GPUs one "
        "that another may have a part of counts as well.");
  m.def("unequal_pairs", &unequal, nb::arg("runtime"), nb::arg("gpus"), nb::arg("left"), nb::arg("left_rows"),
        nb::arg("right"), nb::arg("right_rows"),
        "In how many pairs of rows the columns differ; a row number with all bits set stands for no row.");
}

}  // namespace linkwise::binding
