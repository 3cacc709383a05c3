// Pages of Parquet files, and single values of them.
#include "linkwise/primitives/host/parquet_pages.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings.hpp"
#include "linkwise/primitives/host/parquet_values.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

using PageArray = nb::ndarray<const std::uint8_t, nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>;
using Places = nb::ndarray<const std::int64_t, nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>;

std::span<const std::uint8_t> bytes_of(const PageArray& page) { return {page.data(), page.size()}; }

template <typename Element>
nb::object array_of(const std::vector<Element>& elements) {
  auto* const copy = new Element[elements.size()];
  std::ranges::copy(elements, copy);
  const nb::capsule owner(copy, [](void* p) noexcept { delete[] static_cast<Element*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, Element, nb::ndim<1>>(copy, {elements.size()}, owner));
}

}  // namespace

void bind_parquet(nb::module_& m) {
  m.def(
      "parquet_pages",
      [](int file, std::uint64_t begin, std::uint64_t end) {
        std::vector<ParquetPage> pages;
        {
          const nb::gil_scoped_release release;
          pages = parquet_pages(file, begin, end);
        }
        constexpr std::size_t told_of_each = 8;
        auto* const told = new std::int64_t[told_of_each * pages.size()];
        const nb::capsule owner(told, [](void* p) noexcept { delete[] static_cast<std::int64_t*>(p); });
        auto* next = told;
        const auto tell = [&](auto value) { *next++ = static_cast<std::int64_t>(value); };
        for (const ParquetPage& page : pages) {
          tell(begin), tell(page.header_bytes), tell(page.bytes), tell(page.plain_bytes);
          tell(page.kind), tell(page.values), tell(page.encoding);
          tell(page.checksum ? std::int64_t{*page.checksum} : -1);
          begin += page.header_bytes + page.bytes;
        }
        return nb::ndarray<nb::numpy, std::int64_t, nb::shape<-1, told_of_each>>(told, {pages.size(), told_of_each},
                                                                                 owner);
      },
      nb::arg("file"), nb::arg("begin"), nb::arg("end"),
      "Of each page of a column chunk in an open file: where it begins; the bytes of its header, of its data, and of "
      "these without compression; its kind (0 and 1: data in either version; 2: a dictionary; 3: something else); its "
      "values and their encoding; the CRC-32 of its data, or -1. Raises ``Error`` if the pages do not fill the chunk.");
  nb::class_<ParquetValues>(m, "ParquetValues", "Single values of the data pages of a Parquet column. Not thread-safe.")
      .def(nb::init<std::uint32_t, bool>(), nb::arg("width"), nb::arg("may_be_null"),
           "For values of ``width`` bytes, or with lengths where it is 0; pages have levels where values may be null.")
      .def(
          "set_dictionary",
          [](ParquetValues& self, const PageArray& page, std::uint64_t values,
             std::optional<std::uint64_t> plain_bytes) {
            const nb::gil_scoped_release release;
            self.set_dictionary(bytes_of(page), values, plain_bytes);
          },
          nb::arg("page"), nb::arg("values"), nb::arg("plain_bytes") = nb::none(),
          "Sets the dictionary of the pages that follow. ``plain_bytes``: where the page is compressed by Snappy, "
          "its size without compression. Raises ``Error``.")
      .def(
          "add",
          [](ParquetValues& self, const PageArray& page, std::uint64_t values, std::int64_t encoding,
             const Places& places, std::optional<std::uint64_t> plain_bytes) {
            const nb::gil_scoped_release release;
            self.add(bytes_of(page), values, encoding, {places.data(), places.size()}, plain_bytes);
          },
          nb::arg("page"), nb::arg("values"), nb::arg("encoding"), nb::arg("places"),
          nb::arg("plain_bytes") = nb::none(),
          "Appends the values at these places, in ascending order, of a data page. Raises ``Error`` for encodings "
          "other than plain, by dictionary and by differences, and where the page is damaged before the last of them.")
      .def(
          "parts",
          [](const ParquetValues& self) {
            return nb::make_tuple(array_of(self.is_valid()), array_of(self.offsets()), array_of(self.bytes()));
          },
          "Of each value whether it is not null; where each string begins and the last ends; their bytes.");
}

}  // namespace linkwise::binding
