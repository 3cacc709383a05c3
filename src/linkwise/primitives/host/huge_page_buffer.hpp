// Large host memory on huge pages: random access to it seldom misses the TLB, and little time goes into faults. Some of
// what is given back is kept for the next one who asks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <utility>

namespace linkwise {

/// Whether huge pages are handed out sooner than as many bytes of small ones. Not by a virtual machine that reports its
/// free memory to its host (virtio's balloon): that takes back free huge pages, never small ones, and gives each anew
/// in small ones.
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

/// Gives back to the kernel what is kept for the next buffers.
void drop_spare_memory();

}  // namespace linkwise
