#include "linkwise/device/cuda/staging.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "linkwise/device/cuda/check.hpp"

namespace linkwise {

void copy_through(std::byte* buffer, cudaStream_t stream, const MemoryView& to, const MemoryView& from) {
  struct Move {
    void *to, *from;
    std::size_t bytes;
  };
  const auto move_on_host = [&](void* target, void* source, std::size_t bytes) {
    auto move = std::make_unique<Move>(Move{target, source, bytes});
    const auto run = [](void* argument) {
      const std::unique_ptr<Move> mine(static_cast<Move*>(argument));
      std::memcpy(mine->to, mine->from, mine->bytes);
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
