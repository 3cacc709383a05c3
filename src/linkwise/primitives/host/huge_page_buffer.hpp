// Large host buffers on huge pages: random access seldom misses the TLB, and page faults take little time. Some freed
// buffers are kept for later requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <utility>

namespace linkwise {

/// Whether allocating huge pages is faster than as many bytes of small ones. It is not in a virtual machine that
/// reports its free memory to its host (virtio's balloon): the host takes back free huge pages, never small ones, and
/// provides each anew as small ones.
bool huge_pages_pay(const std::filesystem::path& balloons = "/sys/bus/virtio/drivers/virtio_balloon");

class HugePageBuffer {
 public:
  /// Uninitialised. @throws OutOfMemoryError.
  explicit HugePageBuffer(std::uint64_t bytes);
  HugePageBuffer(HugePageBuffer&& other) noexcept { *this = std::move(other); }
  HugePageBuffer& operator=(HugePageBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  HugePageBuffer(const HugePageBuffer&) = delete;
  HugePageBuffer& operator=(const HugePageBuffer&) = delete;
  ~HugePageBuffer();

  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;  // mapped
};

/// Returns the buffers that are kept for later requests to the operating system.
void drop_spare_memory();

}  // namespace linkwise
