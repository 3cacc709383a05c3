// Materialises a join whose sides lie sorted on the GPUs: counts the rows of each GPU, then makes them window by
// window, and sends one window out while the next is made.
#pragma once

#include <vector>

#include "linkwise/join/join_plan.hpp"
#include "linkwise/join/rows_on_gpu.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

class JoinOutput {
 public:
  /// Works on the given stream of each GPU.
  JoinOutput(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, std::span<const Stream> streams,
             Router& router);

  /// Finds the matches on each GPU between the sorted records of both sides, which must not change until `write` has
  /// finished. The left side may be unsorted (`lefts_rise` false) if the right one emits no unmatched rows; the
  /// result then has the left side's order.
  /// Blocks until the number of rows is known. @throws UsageError if a GPU has too many rows of a side.
  std::uint64_t count(std::vector<Records> lefts, std::vector<Records> rights, bool lefts_rise = true);
  /// Enqueues writing all rows to host memory; does not block.
  void write(const JoinOutputs& outputs);
  /// Leaves the rows on the GPUs, in memory of their own. Temporary memory is freed with this object.
  std::vector<RowsOnGpu> write_on_gpus();

  /// Bytes that this takes on a GPU beside the records.
  static std::uint64_t bytes_per_gpu(const Kernels& kernels, const JoinPlan& plan, const JoinInput& input,
                                     std::uint64_t left_rows, std::uint64_t right_rows);

 private:
  /// The matches of one side on a GPU, and the rows that it emits.
  struct Side {
    Buffer first, emitted, offsets, scratch;
    MemoryView totals;
    [[nodiscard]] Emitting emitting() const { return {first.view(), offsets.view()}; }
  };
  /// A window of rows that is made and sent out.
  struct Window {
    Buffer positions, rows;
    Event sent;
  };
  struct Worker {
    Stream compute, out;
    Records left, right;
    Side of_left, of_right;
    Buffer totals;
    std::uint64_t rows = 0, first_row = 0;
    Window windows[2];
  };

  void emit(Worker& worker, Side& side, const Records& own, const Records& other, Emission emission, bool keys_rise);
  void write_window(Worker& worker, std::uint64_t number, const JoinOutputs& outputs);
  /// Finds the positions of a window's rows on both sides.
  void find_rows(Worker& worker, std::uint64_t begin, const MemoryView& left, const MemoryView& right);
  void fetch(Worker& worker, const Records& side, const MemoryView& positions, const MemoryView& to);

  Runtime& runtime_;
  const JoinPlan& plan_;
  const JoinInput& input_;
  Router& router_;
  std::vector<Worker> workers_;
};

}  // namespace linkwise
