#include "linkwise/device/cuda/staging.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "linkwise/device/cuda/driver.hpp"
#include "linkwise/primitives/host/stream_copy.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t slot_bytes = 2 << 20;
constexpr std::uint32_t num_slots = 12;
constexpr auto patience = std::chrono::milliseconds(1);  // to look for pieces before sleeping

}  // namespace

std::uint64_t StagingRing::bytes() { return num_slots * slot_bytes + (num_slots + 2) * sizeof(Slot); }

StagingRing::StagingRing(std::byte* memory, int threads) : data_(memory), next_piece_(num_slots) {
  std::byte* flags = memory + num_slots * slot_bytes;
  std::memset(flags, 0, bytes() - num_slots * slot_bytes);
  flags += (alignof(Slot) - reinterpret_cast<std::uintptr_t>(flags) % alignof(Slot)) % alignof(Slot);
  slots_ = reinterpret_cast<Slot*>(flags);
  reached_ = &slots_[num_slots].device;  // one more than there are slots
  // As if a round of pieces had gone by: the next in slot s is s + num_slots.
  for (std::uint32_t s = 0; s < num_slots; ++s) slots_[s].host = slots_[s].device = s;
  for (int t = 0; t < threads; ++t)
    threads_.emplace_back([this] {
      Piece piece{};
      while (take(piece)) move(piece);
    });
}

StagingRing::~StagingRing() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
}

std::byte* StagingRing::data_of(std::uint32_t piece) const { return data_ + piece % num_slots * slot_bytes; }

void StagingRing::copy(cudaStream_t stream, const MemoryView& to, const MemoryView& from) {
  const bool is_inward = to.place.is_gpu();
  std::byte* on_host = is_inward ? from.data : to.data;
  std::byte* on_device = is_inward ? to.data : from.data;
  ++copies_;
  if (is_inward) driver::set_flag(stream, reached_, copies_);
  const std::uint32_t first = next_piece_;
  const auto count = static_cast<std::uint32_t>((to.bytes + slot_bytes - 1) / slot_bytes);
  {
    const std::lock_guard lock(mutex_);
    for (std::uint32_t p = 0; p < count; ++p) {
      const std::uint64_t begin = p * slot_bytes;
      pieces_.push_back({first + p, copies_, is_inward, on_host + begin, std::min(slot_bytes, to.bytes - begin)});
    }
  }
  waiting_.fetch_add(count, std::memory_order_release);
  wake_.notify_all();
  for (std::uint32_t p = 0; p < count; ++p) {
    const std::uint32_t number = first + p;
    Slot& slot = slots_[number % num_slots];
    const std::uint64_t begin = p * slot_bytes, length = std::min(slot_bytes, to.bytes - begin);
    driver::wait_for_flag(stream, &slot.host, is_inward ? number : number - num_slots);
    std::byte *target = on_device + begin, *source = data_of(number);
    if (!is_inward) std::swap(target, source);
    check(cudaMemcpyAsync(target, source, length, cudaMemcpyDefault, stream), "copy through page-locked memory");
    driver::set_flag(stream, &slot.device, number);
  }
  next_piece_ += count;
  // What comes behind an outward copy finds it in the caller's memory.
  if (!is_inward)
    for (std::uint32_t number = next_piece_ - std::min(count, num_slots); number != next_piece_; ++number)
      driver::wait_for_flag(stream, &slots_[number % num_slots].host, number);
}

// Numbers only rise, and wrap around after 2^32 pieces, as the device compares them.
bool StagingRing::wait_for(const std::uint32_t& flag, std::uint32_t value) const {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): atomic_ref to const is C++26
  const std::atomic_ref<std::uint32_t> current(const_cast<std::uint32_t&>(flag));
  while (static_cast<std::int32_t>(current.load(std::memory_order_acquire) - value) < 0) {
    if (ending_.load(std::memory_order_relaxed)) return false;
    std::this_thread::yield();
  }
  return true;
}

void StagingRing::move(const Piece& piece) {
  Slot& slot = slots_[piece.number % num_slots];
  if (piece.is_inward) {
    if (!wait_for(*reached_, piece.copy)) return;
    if (!wait_for(slot.device, piece.number - num_slots) || !wait_for(slot.host, piece.number - num_slots)) return;
    std::memcpy(data_of(piece.number), piece.memory, piece.bytes);
  } else {
    if (!wait_for(slot.device, piece.number)) return;
    stream_copy(piece.memory, data_of(piece.number), piece.bytes);
  }
  std::atomic_ref(slot.host).store(piece.number, std::memory_order_release);
}

bool StagingRing::take(Piece& piece) {
  const auto began = std::chrono::steady_clock::now();
  while (waiting_.load(std::memory_order_acquire) == 0 && !ending_.load(std::memory_order_relaxed) &&
         std::chrono::steady_clock::now() - began < patience)
    std::this_thread::yield();
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return ending_ || !pieces_.empty(); });
  if (ending_) return false;
  piece = pieces_.front();
  pieces_.pop_front();
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

}  // namespace linkwise
