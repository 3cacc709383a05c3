// Columns of strings on the GPUs.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "device_arrays.hpp"
#include "device_parts.hpp"
#include "linkwise/error.hpp"
#include "linkwise/primitives/host/key_column.hpp"
#include "linkwise/primitives/string_steps.hpp"
#include "linkwise/transfer/device_strings.hpp"
#include "rows.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

std::vector<MemoryView> views_of(const Parts& parts) {
  std::vector<MemoryView> views;
  for (const DeviceArray& part : parts) views.push_back(part.view);
  return views;
}

Strings arrays_of_strings(const nb::object& runtime, DeviceStrings strings) {
  return {arrays_of(runtime, std::move(strings.offsets), nb::dtype<std::int64_t>()),
          arrays_of(runtime, std::move(strings.bytes), nb::dtype<std::uint8_t>())};
}

std::pair<std::uint64_t, std::uint64_t> extent_of(const nb::list& chunks) {
  const OwnedColumn owned(chunks, OwnedColumn::For::cores);
  const std::vector<KeyColumn> keys = owned.keys();
  std::vector<const KeyColumn*> parts;
  for (const KeyColumn& key : keys) parts.push_back(&key);
  const nb::gil_scoped_release release;
  const BytesExtent extent = bytes_extent(parts);
  return {extent.prefix, extent.longest};
}

Strings bring(const nb::object& runtime, const Gpus& gpus, const nb::list& chunks) {
  const OwnedColumn owned(chunks);
  if (!owned.column() || !owned.column()->has_strings()) throw UsageError("this column has no strings, or no rows");
  DeviceStrings strings;
  {
    const nb::gil_scoped_release release;
    strings = bring_strings(nb::cast<Runtime&>(runtime), gpus, *owned.column());
  }
  return arrays_of_strings(runtime, std::move(strings));
}

Parts resized(const nb::object& runtime, const Gpus& gpus, const Parts& offsets, const std::vector<std::uint64_t>& rows,
              int width) {
  if (offsets.size() != gpus.size() || rows.size() != gpus.size() || (width != 4 && width != 8))
    throw UsageError("there must be offsets of 4 or 8 bytes on each GPU");
  const int from = offsets.front().type.bits / 8;
  for (std::size_t g = 0; g < gpus.size(); ++g)
    if (offsets[g].type != offsets.front().type || (rows[g] > 0 && offsets[g].size() != rows[g] + 1))
      throw UsageError("there is one more offset than strings");
  std::vector<ColumnPart> parts;
  {
    const nb::gil_scoped_release release;
    parts = resized_offsets(nb::cast<Runtime&>(runtime), gpus, from, views_of(offsets), rows, width);
  }
  return arrays_of(runtime, std::move(parts), width == 4 ? nb::dtype<std::int32_t>() : nb::dtype<std::int64_t>());
}

std::vector<std::uint64_t> last(const nb::object& runtime, const Parts& offsets) {
  if (std::ranges::any_of(offsets, [](const DeviceArray& part) { return part.type.bits != 64 || part.size() == 0; }))
    throw UsageError("offsets have 64 bits, and there is one");
  const std::vector<MemoryView> views = views_of(offsets);
  const nb::gil_scoped_release release;
  return last_offsets(nb::cast<Runtime&>(runtime), views);
}

std::pair<std::vector<StringPiece>, std::vector<MemoryView>> pieces_with_nulls(const Strings& strings,
                                                                               const Parts& nulls, const Gpus& gpus) {
  std::vector<StringPiece> pieces = pieces_of(strings, gpus);
  if (pieces.size() != gpus.size() || (!nulls.empty() && nulls.size() != gpus.size()))
    throw UsageError("there must be one part, and its bytes of nulls, on each GPU");
  return {std::move(pieces), views_of(nulls)};
}

std::pair<std::uint64_t, std::uint64_t> extent_on_gpus(const nb::object& runtime, const Gpus& gpus,
                                                       const Strings& strings, const Parts& nulls) {
  const auto [pieces, is_null] = pieces_with_nulls(strings, nulls, gpus);
  const nb::gil_scoped_release release;
  const StringExtent extent = extent_of_strings(nb::cast<Runtime&>(runtime), gpus, pieces, is_null);
  return {extent.shared, extent.longest};
}

Strings take(const nb::object& runtime, const Gpus& gpus, const Strings& strings, const Parts& numbers) {
  const std::vector<StringPiece> pieces = pieces_of(strings, gpus);
  if (numbers.size() != gpus.size()) throw UsageError("there must be row numbers on each GPU");
  const std::vector<MemoryView> rows = views_of(numbers);
  DeviceStrings taken;
  {
    const nb::gil_scoped_release release;
    taken = take_strings(nb::cast<Runtime&>(runtime), gpus, pieces, numbers.front().type.bits / 8, rows);
  }
  return arrays_of_strings(runtime, std::move(taken));
}

std::vector<Parts> words(const nb::object& runtime, const Gpus& gpus, const Strings& strings, std::uint64_t begin,
                         std::size_t count, const Parts& nulls) {
  const auto [pieces, is_null] = pieces_with_nulls(strings, nulls, gpus);
  std::vector<std::vector<ColumnPart>> made;
  {
    const nb::gil_scoped_release release;
    made = words_of_strings(nb::cast<Runtime&>(runtime), gpus, pieces, begin, count, is_null);
  }
  std::vector<Parts> arrays;
  for (std::vector<ColumnPart>& word : made)
    arrays.push_back(arrays_of(runtime, std::move(word), nb::dtype<std::uint64_t>()));
  return arrays;
}

}  // namespace

void bind_device_strings(nb::module_& m) {
  m.attr("BYTES_OF_WORD") = bytes_of_word;
  m.def("extent_of_strings", &extent_of, nb::arg("chunks"),
        "Of a column of strings in host memory, how many bytes all share, and how many the longest one has.");
  m.def(
      "bring_strings", &bring, nb::arg("runtime"), nb::arg("gpus"), nb::arg("chunks"),
      "Copies a column of strings to the GPUs, an equal share to each: offsets of 64 bits, one more than strings, and "
      "bytes.");
  m.def("resized_offsets", &resized, nb::arg("runtime"), nb::arg("gpus"), nb::arg("offsets"), nb::arg("rows"),
        nb::arg("width"), "Offsets of so many strings on each GPU, with 4 or 8 bytes each.");
  m.def("last_offsets", &last, nb::arg("runtime"), nb::arg("offsets"), "The last offset on each GPU.");
  m.def("extent_on_gpus", &extent_on_gpus, nb::arg("runtime"), nb::arg("gpus"), nb::arg("strings"), nb::arg("nulls"),
        "How many bytes all strings share that are not null, and how many the longest one has.");
  m.def("take_strings", &take, nb::arg("runtime"), nb::arg("gpus"), nb::arg("strings"), nb::arg("numbers"),
        "Strings by their row numbers in the whole; each on the GPU of its number. Of no row, an empty one.");
  m.def("words_of_strings", &words, nb::arg("runtime"), nb::arg("gpus"), nb::arg("strings"), nb::arg("begin"),
        nb::arg("words"), nb::arg("nulls"),
        "Columns of uint64 that compare, one after the other, as the strings from byte `begin` on do. nulls: what "
        "bring_nulls returns, or empty.");
}

}  // namespace linkwise::binding
