#include "linkwise/transfer/peer_pieces.hpp"

#include "linkwise/error.hpp"

namespace linkwise {
namespace {

std::vector<MemoryView> views_of(std::span<const StringPiece> strings) {
  std::vector<MemoryView> views;
  for (const StringPiece& piece : strings) views.insert(views.end(), {piece.offsets, piece.bytes});
  return views;
}

}  // namespace

PeerPieces::PeerPieces(Runtime& runtime, std::span<const int> gpus, std::span<const MemoryView> pieces)
    : views_(pieces.begin(), pieces.end()) {
  if (!runtime.reach_each_other(gpus))
    throw UsageError("these GPUs cannot read each other's memory; take the rows in host memory");
  if (gpus.size() == 1) return;
  run_or_abandon(runtime, [&] {
    for (MemoryView& view : views_) {
      if (view.bytes == 0 || !view.place.is_gpu() || runtime.is_mapped_for_peers(view)) continue;
      copies_.push_back(runtime.allocate(view.place, view.bytes, "copy for peers"));
      runtime.copy(runtime.stream(view.place, "compute"), copies_.back().view(), view);
      view = copies_.back().view();
    }
    if (!copies_.empty()) runtime.synchronize();
  });
}

PeerStrings::PeerStrings(Runtime& runtime, std::span<const int> gpus, std::span<const StringPiece> strings)
    : pieces_(runtime, gpus, views_of(strings)) {
  for (std::size_t s = 0; s < strings.size(); ++s)
    strings_.push_back({pieces_.views()[2 * s], pieces_.views()[2 * s + 1]});
}

}  // namespace linkwise
