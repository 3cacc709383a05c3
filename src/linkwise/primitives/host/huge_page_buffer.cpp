#include "linkwise/primitives/host/huge_page_buffer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

#include "linkwise/error.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t page = 4096, huge_page = 2 << 20;
constexpr std::uint64_t worth_keeping = 64 << 10;

// Freed buffers, kept for later requests of nearly the same size: the kernel takes longer to provide new pages than a
// gather takes to fill them.
class Spare {
 public:
  // Returns null if no buffer fits; otherwise sets `bytes` to the buffer's size.
  std::byte* take(std::uint64_t& bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.lower_bound(bytes);
    if (found == blocks_.end() || found->first > bytes + bytes / 4) return nullptr;
    bytes = found->first;
    std::byte* data = found->second;
    held_ -= bytes;
    blocks_.erase(found);
    return data;
  }
  // Returns whether the buffer is kept.
  bool keep(std::byte* data, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes < worth_keeping || held_ + bytes > most_) return false;
    held_ += bytes;
    blocks_.emplace(bytes, data);
    return true;
  }

  void drop() {
    const std::lock_guard lock(mutex_);
    for (const auto& [bytes, data] : blocks_) munmap(data, bytes);
    blocks_.clear();
    held_ = 0;
  }

 private:
  std::mutex mutex_;
  std::multimap<std::uint64_t, std::byte*> blocks_;
  std::uint64_t held_ = 0;
  // A sixteenth of the machine's memory.
  std::uint64_t most_ =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE)) / 16;
};

Spare& spare() {
  static auto* the_spare = new Spare;  // never destroyed: arrays may outlive everything else
  return *the_spare;
}

}  // namespace

bool huge_pages_pay(const std::filesystem::path& balloons) {
  constexpr std::size_t reports_free_pages = 5;  // VIRTIO_BALLOON_F_REPORTING; the file is a string of 0s and 1s
  std::error_code none;
  for (const auto& device : std::filesystem::directory_iterator(balloons, none)) {
    std::string features;
    std::ifstream(device.path() / "features") >> features;
    if (features.size() > reports_free_pages && features[reports_free_pages] == '1') return false;
  }
  return true;
}

void drop_spare_memory() { spare().drop(); }

HugePageBuffer::HugePageBuffer(std::uint64_t bytes) {
  const std::uint64_t unit = bytes >= huge_page ? huge_page : page;
  bytes_ = (std::max<std::uint64_t>(bytes, 1) + unit - 1) / unit * unit;
  data_ = spare().take(bytes_);
  if (data_ != nullptr) return;
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    throw OutOfMemoryError("the host cannot give " + std::to_string(bytes) + " bytes; free memory first");
  data_ = static_cast<std::byte*>(mapped);
  static const bool on_huge_pages = huge_pages_pay();
  if (unit == huge_page && on_huge_pages) (void)madvise(data_, bytes_, MADV_HUGEPAGE);
}

HugePageBuffer::~HugePageBuffer() {
  if (data_ != nullptr && !spare().keep(data_, bytes_)) munmap(data_, bytes_);
}

}  // namespace linkwise
