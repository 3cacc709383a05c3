// Strings in order that their first words do not tell apart, and ranks in which the rest of them does.
#pragma once

#include "linkwise/primitives/primitives.hpp"

namespace linkwise {

/// Marks, of 32 bits, the strings whose word is that of one beside them as well, and which go on after it. `words`, in
/// order, are the last of those that were compared, and `changes`, of 32 bits, tell where any of these differs from the
/// one before. `next`: the change of what follows the last word, which this device can read; empty if nothing does.
void mark_ties(Runtime& runtime, Stream stream, const MemoryView& words, const MemoryView& changes,
               const MemoryView& next, const MemoryView& marks);

/// Ranks of 64 bits: those of 32 bits and, for equal ones, `finer`, of 32 bits, at positions of 64 bits that are
/// counted from `first` on. What is at no position has 0.
void refine_ranks(Runtime& runtime, Stream stream, const MemoryView& ranks, const MemoryView& positions,
                  std::uint64_t first, const MemoryView& finer, const MemoryView& to);

}  // namespace linkwise
