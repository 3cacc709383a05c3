// The GPUs that gather columns together: what each holds of them, and the copies in and out.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/primitives/host/gather_rows.hpp"
#include "linkwise/transfer/column_share.hpp"
#include "linkwise/transfer/row_numbers.hpp"

namespace linkwise {

/// A column's share on a GPU, and the share of the result that is made from the column there.
struct ColumnOnGpu {
  MemoryView source, offsets, raw_offsets, made, lengths, sums, scratch, strings;
  MemoryView valid, made_valid;  ///< bits: of the whole column, and of the share of the result
  Event offsets_there, there;
  std::uint64_t strings_begin = 0;  ///< in the whole result
};

/// One GPU: its streams, its shares of the rows, and their memory.
struct GatherWorker {
  Stream in, compute, out;
  Share source, made;  ///< rows: of the columns, and of the result
  Buffer rows, memory, strings;
  std::vector<std::pair<std::size_t, ColumnOnGpu>> columns;  ///< of this turn, by number

  ColumnOnGpu& column(std::size_t c);
};

/// Hands out consecutive slices of device memory.
class Carver {
 public:
  explicit Carver(MemoryView memory) : memory_(memory) {}
  MemoryView take(std::uint64_t bytes) {
    const MemoryView view = memory_.slice(at_, bytes);
    at_ += rounded(bytes);
    return view;
  }

 private:
  MemoryView memory_;
  std::uint64_t at_ = 0;
};

class GatherWorkers {
 public:
  /// Starts copying the row numbers in. `nullable[c]`: column c of the result may have nulls.
  GatherWorkers(Runtime& runtime, std::span<const int> gpus, std::span<const ChunkedColumn> columns,
                std::vector<bool> nullable, const RowNumbers& rows, std::vector<GatheredColumn>& results);

  Runtime& runtime;
  std::span<const ChunkedColumn> columns;
  std::vector<bool> nullable;
  const RowNumbers& rows;
  std::vector<GatheredColumn>& results;
  std::vector<GatherWorker> each;

  [[nodiscard]] GatherBytes need_of(std::size_t c, const GatherWorker& worker) const;
  void make_room(const std::vector<std::size_t>& turn);
  /// Frees the memory of this turn, after all enqueued work has run. Blocks.
  void give_room_back();

  /// Copies in, on the worker's stream `in`.
  void copy_in(const GatherWorker& worker, const MemoryView& to, const void* from, std::uint64_t offset, bool pageable);
  /// Copies what `compute` has made to an offset in host memory, on the worker's stream `out`.
  void send(const GatherWorker& worker, std::byte* to, std::uint64_t offset, const MemoryView& from);
  /// Makes the stream wait for this event of column c on all GPUs, whose shares it then can read.
  void wait_for_all(Stream stream, std::size_t c, Event ColumnOnGpu::* event);

 private:
  std::vector<MemoryView> lent_;  // host memory that copies read and write
};

}  // namespace linkwise
