#include "linkwise/device/cuda/staging.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "linkwise/device/cuda/driver.hpp"
#include "linkwise/device/nontemporal_copy.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t slot_bytes = 2 << 20;
constexpr std::uint32_t num_slots = 16;
static_assert(std::has_single_bit(num_slots));  // pieces stay in turn when their numbers wrap around
constexpr std::chrono::microseconds patience{2000}, doze{20};

}  // namespace

std::uint64_t StagingRing::bytes() { return num_slots * slot_bytes + (num_slots + 2) * sizeof(Slot); }

StagingRing::StagingRing(std::byte* memory, int threads) : data_(memory), next_piece_(num_slots) {
  std::byte* flags = memory + num_slots * slot_bytes;
  std::memset(flags, 0, bytes() - num_slots * slot_bytes);
  flags += (alignof(Slot) - reinterpret_cast<std::uintptr_t>(flags) % alignof(Slot)) % alignof(Slot);
  slots_ = reinterpret_cast<Slot*>(flags);
  reached_ = &slots_[num_slots].device;  // in the extra slot after the ring's
  // As if one round of pieces had passed through the ring: the next piece in slot s is s + num_slots.
  for (std::uint32_t s = 0; s < num_slots; ++s) slots_[s].host = slots_[s].device = s;
  for (int t = 0; t < threads; ++t)
    threads_.emplace_back([this] {
      while (const std::optional<Piece> piece = pieces_.pop()) move(*piece);
    });
}

StagingRing::~StagingRing() {
  ending_ = true;
  pieces_.end();
}

std::byte* StagingRing::data_of(std::uint32_t piece) const { return data_ + piece % num_slots * slot_bytes; }

void StagingRing::copy(cudaStream_t stream, const MemoryView& to, const MemoryView& from) {
  const bool is_inward = to.place.is_gpu();
  std::byte* on_host = is_inward ? from.data : to.data;
  std::byte* on_device = is_inward ? to.data : from.data;
  ++copies_;
  if (is_inward) driver::set_flag(stream, reached_, copies_);
  std::vector<Piece> pieces;
  for (std::uint64_t begin = 0; begin < to.bytes; begin += slot_bytes)
    pieces.push_back({next_piece_++, copies_, is_inward, on_host + begin, std::min(slot_bytes, to.bytes - begin)});
  pieces_.push_all(pieces);
  for (const Piece& piece : pieces) {
    Slot& slot = slots_[piece.number % num_slots];
    driver::wait_for_flag(stream, &slot.host, is_inward ? piece.number : piece.number - num_slots);
    std::byte *target = on_device + (piece.memory - on_host), *source = data_of(piece.number);
    if (!is_inward) std::swap(target, source);
    check(cudaMemcpyAsync(target, source, piece.bytes, cudaMemcpyDefault, stream), "copy through pinned memory");
    driver::set_flag(stream, &slot.device, piece.number);
  }
  // Later work of the stream finds an outward copy complete in the caller's memory.
  const auto in_slots = static_cast<std::uint32_t>(std::min<std::size_t>(pieces.size(), num_slots));
  if (!is_inward)
    for (std::uint32_t number = next_piece_ - in_slots; number != next_piece_; ++number)
      driver::wait_for_flag(stream, &slots_[number % num_slots].host, number);
}

// Compares as the device does: numbers only rise, and wrap around after 2^32 pieces.
bool StagingRing::wait_for(const std::uint32_t& flag, std::uint32_t value) const {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): atomic_ref to const is C++26
  const std::atomic_ref<std::uint32_t> current(const_cast<std::uint32_t&>(flag));
  const auto began = std::chrono::steady_clock::now();
  while (static_cast<std::int32_t>(current.load(std::memory_order_acquire) - value) < 0) {
    if (ending_.load(std::memory_order_relaxed)) return false;
    // A round of the ring takes less than that: this copy's turn comes later, and other threads need the core.
    if (std::chrono::steady_clock::now() - began > patience) std::this_thread::sleep_for(doze);
    else std::this_thread::yield();
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

}  // namespace linkwise
