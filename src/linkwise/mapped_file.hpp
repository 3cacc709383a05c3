// Files in memory that others may shorten meanwhile.
//
// Whoever touches a page behind the end of a mapped file is ended by SIGBUS. Here such a page becomes one of zeros, and
// the mapping says that it is no longer whole: what was made of it is to be thrown away. No file stays open.
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
  /// Whether every page that was touched was there. The rest of a page behind a new end is zeros, and tells nothing.
  [[nodiscard]] bool is_whole() const;
  /// Gives the memory of a part back; it is read again if it is touched again.
  void forget(std::uint64_t begin, std::uint64_t end) const;

  struct Guarded;  // what the signal handler knows of a mapping

 private:
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  Guarded* guarded_ = nullptr;
};

}  // namespace linkwise
