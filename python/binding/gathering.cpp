// Gathers rows of Arrow columns by row number, on the CPU and on the GPUs.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>

#include "bindings.hpp"
#include "linkwise/device/cuda/pinned.hpp"
#include "linkwise/plan/gather_planner.hpp"
#include "linkwise/primitives/host/arrow.hpp"
#include "linkwise/primitives/host/gather_rows.hpp"
#include "linkwise/primitives/host/packed_rows.hpp"
#include "linkwise/primitives/host/row_hash.hpp"
#include "linkwise/transfer/column_gather.hpp"
#include "rows.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

nb::object bytes_of(std::optional<HugePageBuffer>&& buffer, std::uint64_t bytes) {
  return buffer ? nb::cast(numpy_of<std::uint8_t>(std::move(*buffer), bytes)) : nb::none();
}

// (number of nulls, validity, offsets, values), the last three as bytes or None.
nb::object parts_of(GatheredColumn&& gathered, ChunkedColumn::Layout layout) {
  const std::uint64_t count = gathered.count;
  const std::uint64_t offset_bytes = (count + 1) * (layout == ChunkedColumn::Layout::strings32 ? 4 : 8);
  return nb::make_tuple(gathered.nulls, bytes_of(std::move(gathered.validity), (count + 7) / 8),
                        bytes_of(std::move(gathered.offsets), offset_bytes),
                        bytes_of(std::move(gathered.values), gathered.value_bytes));
}

nb::object gather_column(const nb::list& chunks, const std::optional<Words>& rows) {
  const OwnedColumn owned(chunks, OwnedColumn::For::cores);
  const std::optional<ChunkedColumn>& column = owned.column();
  if (!column) return nb::none();
  GatheredColumn gathered;
  const std::uint64_t count = rows ? rows->size() : column->count();
  {
    const nb::gil_scoped_release release;
    gathered =
        gather_rows(*column, rows ? rows->data() : nullptr, rows ? static_cast<int>(rows->itemsize()) : 0, count);
  }
  return parts_of(std::move(gathered), column->layout);
}

using Hashes = nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<1>, nb::c_contig>;

bool mix_into_hashes(const nb::list& chunks, const Hashes& hashes) {
  const OwnedColumn owned(chunks, OwnedColumn::For::cores);
  if (!owned.column()) return false;
  const nb::gil_scoped_release release;
  hash_rows(*owned.column(), {hashes.data(), hashes.size()});
  return true;
}

std::vector<std::unique_ptr<OwnedColumn>> owned_columns(const nb::list& columns, OwnedColumn::For who) {
  std::vector<std::unique_ptr<OwnedColumn>> owned;
  for (const nb::handle chunks : columns)
    owned.push_back(std::make_unique<OwnedColumn>(nb::cast<nb::list>(chunks), who));
  return owned;
}

// Columns, each a list of Arrow arrays. Their chunks are inspected once, however often rows are gathered.
class OwnedColumns {
 public:
  explicit OwnedColumns(const nb::list& columns) : owned_(owned_columns(columns, OwnedColumn::For::cores)) {}
  OwnedColumns(const OwnedColumns&) = delete;
  OwnedColumns& operator=(const OwnedColumns&) = delete;

  // What gather_column returns for each column and its own row numbers, of which all columns have equally many. Can
  // be called by any thread.
  [[nodiscard]] std::vector<nb::object> gather(const std::vector<Words>& rows) const {
    if (owned_.size() != rows.size()) throw UsageError("the columns have row numbers each");
    std::vector<RowsOfColumn> known;
    std::vector<std::size_t> number_of_known;
    for (std::size_t c = 0; c < rows.size(); ++c) {
      if (rows[c].size() != rows.front().size()) throw UsageError("of all columns, as many rows are gathered");
      const std::optional<ChunkedColumn>& column = owned_[c]->column();
      if (!column) continue;
      known.push_back({*column, rows[c].data(), static_cast<int>(rows[c].itemsize())});
      number_of_known.push_back(c);
    }
    std::vector<std::optional<GatheredColumn>> gathered;
    {
      const nb::gil_scoped_release release;
      gathered = gather_rows(known, rows.empty() ? 0 : rows.front().size());
    }
    std::vector<nb::object> results(owned_.size(), nb::none());
    for (std::size_t k = 0; k < known.size(); ++k) {
      std::optional<GatheredColumn>& found = gathered[k];
      if (found) results[number_of_known[k]] = parts_of(std::move(*found), known[k].column.layout);
    }
    return results;
  }

  // The sum of the hashes of all rows; nothing if a column is empty or of a type that is not supported.
  [[nodiscard]] std::optional<std::uint64_t> sum_of_hashes() const {
    std::vector<ChunkedColumn> known;
    for (const auto& column : owned_) {
      if (!column->column()) return std::nullopt;
      known.push_back(*column->column());
    }
    const nb::gil_scoped_release release;
    return sum_of_row_hashes(known);
  }

 private:
  std::vector<std::unique_ptr<OwnedColumn>> owned_;
};

std::vector<ChunkedColumn> known_columns(const std::vector<std::unique_ptr<OwnedColumn>>& owned) {
  std::vector<ChunkedColumn> known;
  for (const auto& column : owned) {
    if (!column->column()) throw UsageError("a column is empty, or of a type that is not gathered");
    known.push_back(*column->column());
  }
  return known;
}

// The records of all rows, as bytes; see PackedLayout for the widths.
nb::object pack_columns(std::vector<int> widths, const nb::list& columns) {
  const PackedLayout layout(std::move(widths));
  const std::vector<std::unique_ptr<OwnedColumn>> owned = owned_columns(columns, OwnedColumn::For::cores);
  const std::vector<ChunkedColumn> known = known_columns(owned);
  const std::uint64_t bytes = known.empty() ? 0 : known.front().count() * layout.bytes();
  std::optional<HugePageBuffer> records;
  {
    const nb::gil_scoped_release release;
    pack_rows(layout, known, records.emplace(bytes).data());
  }
  return bytes_of(std::move(records), bytes);
}

// Columns packed into records, which are chunks of one Arrow column of fixed width.
class OwnedRecords {
 public:
  OwnedRecords(std::vector<int> widths, const nb::list& records)
      : layout_(std::move(widths)), owned_(records, OwnedColumn::For::cores) {
    const std::optional<ChunkedColumn>& column = owned_.column();
    if (!column) throw UsageError("there are no records");
    records_ = *column;
  }
  OwnedRecords(const OwnedRecords&) = delete;
  OwnedRecords& operator=(const OwnedRecords&) = delete;

  // What gather_column returns for each column. Can be called by any thread.
  [[nodiscard]] std::vector<nb::object> gather(const Words& rows, const std::vector<bool>& may_have_nulls) const {
    std::vector<GatheredColumn> gathered;
    {
      const nb::gil_scoped_release release;
      gathered = gather_packed_rows(layout_, records_, may_have_nulls, rows.data(), static_cast<int>(rows.itemsize()),
                                    rows.size());
    }
    std::vector<nb::object> results;
    for (GatheredColumn& column : gathered)
      results.push_back(parts_of(std::move(column), ChunkedColumn::Layout::fixed));
    return results;
  }

 private:
  const PackedLayout layout_;
  const OwnedColumn owned_;
  ChunkedColumn records_;
};

// Whether GPUs can gather columns of an Arrow type, an object with __arrow_c_schema__.
bool type_gathers_on_gpus(const nb::object& type) {
  const auto capsule = type.attr("__arrow_c_schema__")();
  auto* schema = static_cast<ArrowSchema*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_schema"));
  if (schema == nullptr) throw nb::python_error();
  const std::optional<ChunkedColumn> column = chunked_column_of(*schema, {});
  return column && gathers_on_gpus(*column);
}

nb::object gather_columns_on_gpus(Runtime& runtime, const std::vector<int>& gpus, const nb::list& columns,
                                  const Words& rows) {
  const std::vector<std::unique_ptr<OwnedColumn>> owned = owned_columns(columns, OwnedColumn::For::gpus);
  const std::vector<ChunkedColumn> known = known_columns(owned);
  for (const ChunkedColumn& column : known)
    if (column.count() != known.front().count()) throw UsageError("the columns differ in length");
  if (gpus.empty()) throw UsageError("gpus is empty; name at least one GPU");
  for (const int gpu : gpus)
    if (gpu < 0 || gpu >= runtime.machine().num_gpus()) throw UsageError("there is no GPU " + std::to_string(gpu));
  std::vector<GatheredColumn> gathered;
  {
    const nb::gil_scoped_release release;
    gathered = gather_on_gpus(runtime, gpus, known,
                              {rows.data(), static_cast<int>(rows.itemsize()), rows.size(), !is_pinned(rows.data())});
  }
  nb::list results;
  for (std::size_t c = 0; c < known.size(); ++c) results.append(parts_of(std::move(gathered[c]), known[c].layout));
  return results;
}

// Estimated seconds on the GPUs and on the CPU.
nb::tuple price_of_gather(const Machine& machine, const std::vector<int>& gpus, std::uint64_t memory_limit,
                          const nb::list& columns, const Words& rows) {
  GatherWorkload workload;
  workload.rows = rows.size();
  workload.row_bytes = static_cast<int>(rows.itemsize());
  for (const nb::handle chunks : columns) {
    const OwnedColumn owned(nb::cast<nb::list>(chunks));
    if (!owned.column()) throw UsageError("a column is empty, or of a type that is not gathered");
    const ChunkedColumn& column = *owned.column();
    const bool pageable = column.chunks.front().pageable;
    workload.add(column.layout, static_cast<int>(column.mean_width()), column.count(), pageable);
  }
  GatherPrice price;
  {
    const nb::gil_scoped_release release;
    price = price_gather(machine, workload, gpus, memory_limit);
  }
  return nb::make_tuple(price.on_gpus, price.on_cores);
}

}  // namespace

void bind_gathering(nb::module_& m) {
  m.def("gather_column", &gather_column, nb::arg("chunks"), nb::arg("rows").none() = nb::none(),
        "(nulls, validity, offsets, values) of these rows of Arrow arrays, or of all; None for nested types and the "
        "like. Raises OverflowError if the strings take more bytes than their offsets count. Releases the GIL.");
  m.def("hash_rows", &mix_into_hashes, nb::arg("chunks"), nb::arg("hashes"),
        "Mixes the elements of Arrow arrays into the hashes of their rows. Does nothing and returns False for types "
        "for which gather_column returns None, or if there are no arrays. Releases the GIL.");
  nb::class_<OwnedColumns>(m, "Columns")
      .def(nb::init<const nb::list&>(), nb::arg("columns"),
           "Columns, each a list of Arrow arrays, which are inspected once.")
      .def("gather", &OwnedColumns::gather, nb::arg("rows"),
           "What gather_column returns for each column and its own row numbers, all columns at once; also None for "
           "columns whose strings overflow their offsets. Can be called by any thread. Releases the GIL.")
      .def("sum_of_hashes", &OwnedColumns::sum_of_hashes,
           "The sum modulo 2**64 of the hashes of all rows, as hash_rows makes them of one column after the other; "
           "None if gather_column returns None for one. Releases the GIL.");
  m.def("pack_rows", &pack_columns, nb::arg("widths"), nb::arg("columns"),
        "The rows of columns, each a list of Arrow arrays, as records of bytes: a bit for each column, set where there "
        "is no null, then the values. Widths are bytes, or 0 for bools. Releases the GIL.");
  nb::class_<OwnedRecords>(m, "PackedRows")
      .def(nb::init<std::vector<int>, const nb::list&>(), nb::arg("widths"), nb::arg("records"),
           "Records that pack_rows made, as Arrow arrays of fixed-size binaries.")
      .def("gather", &OwnedRecords::gather, nb::arg("rows"), nb::arg("may_have_nulls"),
           "What gather_column returns for each column; may_have_nulls says which columns' nulls are looked for. Can "
           "be called by any thread. Releases the GIL.");
  m.def("gathers_on_gpus", &type_gathers_on_gpus, nb::arg("type"),
        "Whether GPUs can gather columns of an Arrow type; others are gathered on the CPU.");
  m.def("gather_columns_on_gpus", &gather_columns_on_gpus, nb::arg("runtime"), nb::arg("gpus"), nb::arg("columns"),
        nb::arg("rows"),
        "Like gather_column, for several columns on GPUs, each a list of Arrow arrays. None may be of a type for "
        "which gather_column returns None.");
  m.def("price_of_gather", &price_of_gather, nb::arg("machine"), nb::arg("gpus"), nb::arg("memory_limit"),
        nb::arg("columns"), nb::arg("rows"), "Estimated seconds of the gather on the GPUs, and on the CPU.");
}

}  // namespace linkwise::binding
