#include "linkwise/primitives/ties.hpp"

#include "linkwise/primitives/views.hpp"

namespace linkwise {

void mark_ties(Runtime& runtime, Stream stream, const MemoryView& words, const MemoryView& changes,
               const MemoryView& next, const MemoryView& marks) {
  const std::uint64_t count = words.bytes / 8;
  require(words.bytes % 8 == 0 && changes.bytes == 4 * count && marks.bytes == 4 * count, "mark ties",
          "a change and a mark for each word");
  require(next.bytes == 0 || next.bytes == 4, "mark ties", "one change follows");
  if (count == 0) return;
  const Kernels& kernels = runtime.kernels();
  runtime.enqueue(stream, {"mark ties",
                           without_empty({words, changes, next}),
                           {marks},
                           {"encode", count, 16.0},
                           [=, &kernels](void* native) {
                             kernels.mark_ties(native, pointer<std::uint64_t>(words), pointer<std::uint32_t>(changes),
                                               pointer<std::uint32_t>(next), pointer<std::uint32_t>(marks), count);
                           }});
}

void refine_ranks(Runtime& runtime, Stream stream, const MemoryView& ranks, const MemoryView& positions,
                  std::uint64_t first, const MemoryView& finer, const MemoryView& to) {
  const std::uint64_t count = ranks.bytes / 4, ties = finer.bytes / 4;
  require(to.bytes == 8 * count && ranks.bytes == 4 * count, "refine ranks", "a wide rank for each");
  require(positions.bytes == 8 * ties && finer.bytes == 4 * ties, "refine ranks", "a finer rank at each position");
  const Kernels& kernels = runtime.kernels();
  if (count > 0)
    runtime.enqueue(stream, {"widen ranks", {ranks}, {to}, {"encode", count, 12.0}, [=, &kernels](void* native) {
                               kernels.widen_ranks(native, pointer<std::uint32_t>(ranks), pointer<std::uint64_t>(to),
                                                   count);
                             }});
  if (ties > 0)
    runtime.enqueue(stream,
                    {"refine ranks", {positions, finer, to}, {to}, {"encode", ties, 28.0}, [=, &kernels](void* native) {
                       kernels.refine_ranks(native, pointer<std::uint64_t>(positions), first,
                                            pointer<std::uint32_t>(finer), pointer<std::uint64_t>(to), ties);
                     }});
}

}  // namespace linkwise
