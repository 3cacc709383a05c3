// Memory-mapped files that other processes may truncate meanwhile.
//
// Touching a page past the end of a mapped file raises SIGBUS, which would end the process. Here such a page is
// replaced by zeros, and the mapping reports that it is no longer whole: discard what was computed from it. The file
// descriptor does not stay open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace linkwise {

class MappedFile {
 public:
  /// Maps all of a file for reading. @throws std::system_error.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Whether every page that was touched existed. After a truncation the rest of the last page reads as zeros, which
  /// is not detected.
  [[nodiscard]] bool is_whole() const;
  /// Drops the pages of a part from memory; they are read again when they are touched again.
  void forget(std::uint64_t begin, std::uint64_t end) const;

  struct Guarded;  // what the signal handler knows of a mapping

 private:
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  Guarded* guarded_ = nullptr;
};

}  // namespace linkwise
