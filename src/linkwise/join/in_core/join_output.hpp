// The rows of a join whose two sides lie sorted on the GPUs: how many each GPU has, and then the rows themselves, made
// window by window and sent out while the next window is made.
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

  /// Finds what matches on each GPU: sorted records of both sides, which stay as they are until `write` has ended. The
  /// left side need not be sorted if the right one emits no rows by itself; then rows stand in its order.
  /// Blocks until the number of rows is known. @throws UsageError if a GPU has too many rows of a side.
  std::uint64_t count(std::vector<Records> lefts, std::vector<Records> rights, bool lefts_rise = true);
  /// Writes them all to host memory; the host is not waited for.
  void write(const JoinOutputs& outputs);
  /// Leaves them on the GPUs, in memory of their own. What is allocated here meanwhile goes with this object.
  std::vector<RowsOnGpu> write_on_gpus();

  /// Bytes that this takes on a GPU beside the records.
  static std::uint64_t bytes_per_gpu(const Kernels& kernels, const JoinPlan& plan, const JoinInput& input,
                                     std::uint64_t left_rows, std::uint64_t right_rows);

 private:
  /// A side's part on a GPU, and what it emits.
  struct Side {
    Buffer first, emitted, offsets, scratch;
    MemoryView totals;
    [[nodiscard]] Emitting emitting() const { return {first.view(), offsets.view()}; }
  };
  /// Rows on their way out.
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
  /// Positions of the window's rows on both sides.
  void find_rows(Worker& worker, std::uint64_t begin, const MemoryView& left, const MemoryView& right);
  void fetch(Worker& worker, const Records& side, const MemoryView& positions, const MemoryView& to);

  Runtime& runtime_;
  const JoinPlan& plan_;
  const JoinInput& input_;
  Router& router_;
  std::vector<Worker> workers_;
};

}  // namespace linkwise
