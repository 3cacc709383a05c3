// Memory-mapped files.
#include "linkwise/mapped_file.hpp"
#include "linkwise/mapped_output.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cerrno>
#include <span>
#include <system_error>

#include "bindings.hpp"

namespace nb = nanobind;

namespace linkwise::binding {
namespace {

MappedFile* map_file(const std::string& path) {
  try {
    return new MappedFile(path);
  } catch (const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, path.c_str());
    throw nb::python_error();
  }
}

// Calls a function without the GIL; its errors become Python's OSError.
template <typename Function>
auto without_gil(Function&& function) {
  try {
    const nb::gil_scoped_release release;
    return function();
  } catch (const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
  }
}

bool allocate_in(int file, std::uint64_t offset, std::uint64_t bytes) {
  return without_gil([&] { return allocate(file, offset, bytes); });
}

void write_array_at(int file, std::uint64_t offset,
                    const nb::ndarray<const std::uint8_t, nb::ro, nb::c_contig, nb::device::cpu, nb::ndim<1>>& bytes,
                    bool is_allocated) {
  without_gil([&] { write_at(file, offset, std::as_bytes(std::span(bytes.data(), bytes.size())), is_allocated); });
}

}  // namespace

void bind_mapped_file(nb::module_& m) {
  m.def("allocate", &allocate_in, nb::arg("file"), nb::arg("offset"), nb::arg("bytes"),
        "Allocates space in a regular file by its descriptor, and returns whether its file system supports this. "
        "Raises OSError. Releases the GIL.");
  m.def("write_at", &write_array_at, nb::arg("file"), nb::arg("offset"), nb::arg("bytes"), nb::arg("is_allocated"),
        "Writes bytes to a regular file by its descriptor; other threads may write other parts of it concurrently. "
        "Raises OSError. Releases the GIL.");
  nb::class_<MappedFile>(m, "MappedFile", "A memory-mapped file; truncation by others does not crash this process.")
      .def(nb::new_(&map_file), nb::arg("path"), "Maps all of a file for reading. Raises OSError.")
      .def_prop_ro(
          "bytes",
          [](const MappedFile& self) {
            const auto bytes = self.bytes();
            return nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(bytes.data(), {bytes.size()},
                                                                           nb::find(self));
          },
          nb::rv_policy::reference, "The whole file, as an array that keeps the mapping alive.")
      .def("is_whole", &MappedFile::is_whole, "Whether every page that was read was there.")
      .def("forget", &MappedFile::forget, nb::arg("begin"), nb::arg("end"),
           "Frees the memory of a range; it is read again on the next access.");
}

}  // namespace linkwise::binding
