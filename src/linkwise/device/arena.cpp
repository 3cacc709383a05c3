#include "linkwise/device/arena.hpp"

#include <algorithm>
#include <string>

#include "linkwise/error.hpp"

namespace linkwise {

std::uint64_t StackArena::allocate(std::uint64_t bytes) {
  const std::uint64_t size = align_up(std::max<std::uint64_t>(bytes, 1), alignment_);
  if (size > capacity_ - top_) return none;
  live_.push_back({top_, size});
  top_ += size;
  return live_.back().offset;
}

void StackArena::release(std::uint64_t offset) {
  // Most releases are of something recent: search from the top, as the paper does.
  const auto found =
      std::find_if(live_.rbegin(), live_.rend(), [&](const Allocation& a) { return a.offset == offset; });
  if (found == live_.rend()) throw ProgramError("arena: nothing alive starts at offset " + std::to_string(offset));
  live_.erase(std::next(found).base());
  top_ = live_.empty() ? 0 : live_.back().offset + live_.back().bytes;
}

void GpuMemory::check() const {
  if (!allocate || !release || !available)
    throw UsageError("memory of GPUs takes three functions: to allocate, to release, and to say what is available");
}

PhysicalMemory GpuMemory::of(int gpu) const {
  return {[allocate = allocate, gpu](std::uint64_t bytes) { return allocate(gpu, bytes); },
          [release = release, gpu](std::byte* data, std::uint64_t bytes) { release(gpu, data, bytes); }};
}

Arena::Arena(std::string name, PhysicalMemory memory, std::uint64_t alignment, std::uint64_t limit)
    : name_(std::move(name)), memory_(std::move(memory)), alignment_(alignment), limit_(limit) {}

Arena::~Arena() {
  for (const Block& block : blocks_) memory_.release(block.data, block.arena.capacity());
}

void Arena::add_block(std::uint64_t bytes) {
  const std::uint64_t size = align_up(std::max<std::uint64_t>(bytes, 1), alignment_);
  if (reserved() + size > limit_) trim();  // empty blocks that were too small must not stand in the way
  if (reserved() + size > limit_)
    throw OutOfMemoryError(name_ + ": " + std::to_string(size) + " bytes do not fit; " + std::to_string(reserved()) +
                           " of the limit of " + std::to_string(limit_) +
                           " bytes are taken. Raise memory_limit, use more GPUs, or free GPU memory");
  blocks_.push_back({allocate_physical(size), StackArena(size, alignment_)});
}

// Without a limit, only the device can tell that its memory is full: then, too, free the empty blocks and try again.
std::byte* Arena::allocate_physical(std::uint64_t bytes) {
  try {
    return memory_.allocate(bytes);
  } catch (const OutOfMemoryError&) {
    const std::uint64_t before = reserved();
    trim();
    if (reserved() == before) throw;
    return memory_.allocate(bytes);
  }
}

void Arena::reserve(std::uint64_t bytes) {
  const bool fits = std::ranges::any_of(
      blocks_, [&](const Block& b) { return b.arena.capacity() - b.arena.top() >= align_up(bytes, alignment_); });
  if (!fits) add_block(bytes);
}

std::byte* Arena::allocate(std::uint64_t bytes) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (Block& block : blocks_) {
      const std::uint64_t offset = block.arena.allocate(bytes);
      if (offset != StackArena::none) return block.data + offset;
    }
    add_block(bytes);
  }
  throw OutOfMemoryError(name_ + ": " + std::to_string(bytes) + " bytes do not fit");
}

void Arena::release(std::byte* data) {
  for (Block& block : blocks_)
    if (data >= block.data && data < block.data + block.arena.capacity()) {
      block.arena.release(static_cast<std::uint64_t>(data - block.data));
      return;
    }
  throw ProgramError(name_ + ": released memory that is not its own");
}

void Arena::trim() {
  std::erase_if(blocks_, [&](const Block& block) {
    if (!block.arena.empty()) return false;
    memory_.release(block.data, block.arena.capacity());
    return true;
  });
}

std::uint64_t Arena::reserved() const {
  std::uint64_t sum = 0;
  for (const Block& block : blocks_) sum += block.arena.capacity();
  return sum;
}

std::uint64_t Arena::largest_allocation(std::uint64_t available) const {
  std::uint64_t on_top = 0, empty = 0;
  for (const Block& block : blocks_) {
    on_top = std::max(on_top, block.arena.capacity() - block.arena.top());
    if (block.arena.empty()) empty += block.arena.capacity();
  }
  const std::uint64_t kept = reserved() - empty;
  return std::max(on_top, std::min(available + empty, limit_ - std::min(limit_, kept)) / alignment_ * alignment_);
}

}  // namespace linkwise
