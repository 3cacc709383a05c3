#include "linkwise/device/cuda/staging.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "linkwise/device/cuda/check.hpp"

namespace linkwise {

namespace {

constexpr int copying_threads = 4;  // for each stream that copies

// One core copies slower than a link: a few share a piece.
void copy_in_parallel(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t slice = 256 << 10;
  const auto slices = static_cast<std::int64_t>((bytes + slice - 1) / slice);
#pragma omp parallel for num_threads(copying_threads) if (slices > 1)
  for (std::int64_t s = 0; s < slices; ++s) {
    const std::size_t first = static_cast<std::size_t>(s) * slice;
    std::memcpy(to + first, from + first, std::min(slice, bytes - first));
  }
}

}  // namespace

void copy_through(std::byte* buffer, cudaStream_t stream, const MemoryView& to, const MemoryView& from) {
  struct Move {
    void *to, *from;
    std::size_t bytes;
  };
  const auto move_on_host = [&](void* target, void* source, std::size_t bytes) {
    auto move = std::make_unique<Move>(Move{target, source, bytes});
    const auto run = [](void* argument) {
      const std::unique_ptr<Move> mine(static_cast<Move*>(argument));
      copy_in_parallel(static_cast<std::byte*>(mine->to), static_cast<const std::byte*>(mine->from), mine->bytes);
    };
    check(cudaLaunchHostFunc(stream, run, move.get()), "copy through pinned memory");
    (void)move.release();  // NOLINT(bugprone-unused-return-value): the stream owns it now
  };
  for (std::uint64_t done = 0; done < to.bytes; done += staging_bytes) {
    const std::uint64_t bytes = std::min(staging_bytes, to.bytes - done);
    if (to.place.is_gpu()) move_on_host(buffer, from.data + done, bytes);
    check(cudaMemcpyAsync(to.place.is_gpu() ? to.data + done : buffer, to.place.is_gpu() ? buffer : from.data + done,
                          bytes, cudaMemcpyDefault, stream),
          "copy through pinned memory");
    if (!to.place.is_gpu()) move_on_host(to.data + done, buffer, bytes);
  }
}

}  // namespace linkwise
