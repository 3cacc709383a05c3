#include "linkwise/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <system_error>

namespace linkwise {

// One per mapping that exists at the same time. Reused but never deleted, since the signal handler may be reading
// any.
struct MappedFile::Guarded {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;  // 0: free for the next mapping
  std::atomic<bool> is_whole = true;
  Guarded* next = nullptr;
};

namespace {

std::atomic<MappedFile::Guarded*> all_guarded = nullptr;
std::mutex changing;  // guards changes of the list and of the signal handler; the handler itself only reads
struct sigaction handler_before = {};
const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));

// Makes only async-signal-safe calls; mmap is a plain system call.
void put_zeros(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (MappedFile::Guarded* each = all_guarded.load(std::memory_order_acquire); each != nullptr; each = each->next) {
    const std::uintptr_t end = each->end.load(std::memory_order_acquire);
    if (address < each->begin.load(std::memory_order_acquire) || address >= end) continue;
    each->is_whole.store(false);
    void* at = reinterpret_cast<void*>(address / page * page);  // NOLINT(performance-no-int-to-ptr)
    if (mmap(at, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) return;
  }
  sigaction(SIGBUS, &handler_before, nullptr);  // not ours: the access faults again, and the previous handler gets it
}

// Repeated for every mapping: other software may have replaced our handler since the last one, as Ray does when it
// starts.
void guard_against_sigbus() {
  struct sigaction now = {};
  sigaction(SIGBUS, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == put_zeros) return;
  handler_before = now;
  struct sigaction action = {};
  action.sa_sigaction = put_zeros;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

MappedFile::Guarded* guard(std::uintptr_t begin, std::uintptr_t end) {
  const std::lock_guard lock(changing);
  guard_against_sigbus();
  MappedFile::Guarded* each = all_guarded.load();
  while (each != nullptr && each->end.load() != 0) each = each->next;
  const bool is_new = each == nullptr;
  if (is_new) each = new MappedFile::Guarded;  // NOLINT(cppcoreguidelines-owning-memory): see above
  each->is_whole = true;
  each->begin = begin;
  each->end.store(end, std::memory_order_release);
  if (is_new) {
    each->next = all_guarded.load();
    all_guarded.store(each, std::memory_order_release);
  }
  return each;
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  struct stat told = {};
  void* data = nullptr;
  if (file >= 0 && fstat(file, &told) == 0) {
    size_ = static_cast<std::uint64_t>(told.st_size);
    if (size_ > 0) data = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
  } else {
    data = MAP_FAILED;
  }
  const int error = errno;
  if (file >= 0) close(file);
  if (data == MAP_FAILED) throw std::system_error(error, std::generic_category(), path);
  if (size_ == 0) return;
  data_ = static_cast<std::byte*>(data);
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  guarded_ = guard(begin, begin + (size_ + page - 1) / page * page);
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  guarded_->end.store(0);
  munmap(data_, size_);
}

bool MappedFile::is_whole() const { return guarded_ == nullptr || guarded_->is_whole; }

void MappedFile::forget(std::uint64_t begin, std::uint64_t end) const {
  const std::uint64_t first = (begin + page - 1) / page * page, last = std::min(end, size_) / page * page;
  // Pages that the signal handler has replaced may be included: they are anonymous, and read as zeros again.
  if (first < last) madvise(data_ + first, last - first, MADV_DONTNEED);
}

}  // namespace linkwise
