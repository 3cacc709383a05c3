#include "linkwise/mapped_output.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>

namespace linkwise {
namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

void write_as_usual(int file, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

}  // namespace

bool allocate(int file, std::uint64_t offset, std::uint64_t bytes) {
  static std::mutex one_by_one;  // on the kernel's lock of the file, threads that wait would spin
  const std::lock_guard lock(one_by_one);
  while (fallocate(file, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno == EINTR) continue;
    if (errno == EOPNOTSUPP || errno == ENOSYS) return false;
    fail("write");
  }
  return true;
}

void write_at(int file, std::uint64_t offset, std::span<const std::byte> bytes, bool is_allocated) {
  if (bytes.empty()) return;
  if (!is_allocated && !allocate(file, offset, bytes.size())) return write_as_usual(file, offset, bytes);
  const std::uint64_t before = offset % static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));  // in the first page
  void* pages = mmap(nullptr, before + bytes.size(), PROT_READ | PROT_WRITE, MAP_SHARED, file,
                     static_cast<off_t>(offset - before));
  if (pages == MAP_FAILED) return write_as_usual(file, offset, bytes);
  std::memcpy(static_cast<std::byte*>(pages) + before, bytes.data(), bytes.size());
  munmap(pages, before + bytes.size());
}

}  // namespace linkwise
