// Copies equal shares of a column of host memory to the GPUs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/transfer/column_share.hpp"

namespace linkwise {

/// What a GPU does for its share of a column.
struct ShareOnGpu {
  std::size_t gpu = 0;  // its position among the GPUs
  Share rows;
  Stream stream;
};

/// Lets every GPU bring its share: `bring` gets that, and a function that copies from host memory.
template <typename Bring>
void bring_shares(Runtime& runtime, std::span<const int> gpus, std::uint64_t count, const Bring& bring) {
  runtime.clear_timeline();
  run_or_abandon(runtime, [&] {
    std::vector<MemoryView> lent;
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      const ShareOnGpu share{g, share_of(count, g, gpus.size()), runtime.stream(Place::gpu(gpus[g]), "compute")};
      runtime.set_phase("HtoD");
      bring(share, [&](const MemoryView& to, const void* from, std::uint64_t offset, bool pageable) {
        if (to.bytes > 0)
          runtime.copy(share.stream, to, lent.emplace_back(host_view(from, offset, to.bytes, pageable)));
      });
    }
    runtime.synchronize();
    hand_back(runtime, lent);
  });
}

}  // namespace linkwise
