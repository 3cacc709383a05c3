// Columns of other software that all GPUs read.
#pragma once

#include <span>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/primitives/string_views.hpp"

namespace linkwise {

/// Pieces that kernels on all of some GPUs can read. Pieces that are not mapped for peers are copied, by their own GPU.
class PeerPieces {
 public:
  /// Blocks until the copies are there. @throws UsageError if the GPUs cannot reach each other's memory.
  PeerPieces(Runtime& runtime, std::span<const int> gpus, std::span<const MemoryView> pieces);

  [[nodiscard]] const std::vector<MemoryView>& views() const { return views_; }

 private:
  std::vector<MemoryView> views_;
  std::vector<Buffer> copies_;
};

/// The same of strings.
class PeerStrings {
 public:
  PeerStrings(Runtime& runtime, std::span<const int> gpus, std::span<const StringPiece> strings);

  [[nodiscard]] const std::vector<StringPiece>& strings() const { return strings_; }

 private:
  PeerPieces pieces_;
  std::vector<StringPiece> strings_;
};

}  // namespace linkwise
