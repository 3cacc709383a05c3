#include "linkwise/join/in_core/join_output.hpp"

#include <algorithm>
#include <array>

#include "linkwise/device/arena.hpp"
#include "linkwise/error.hpp"
#include "linkwise/primitives/gathering.hpp"
#include "linkwise/primitives/hash_join_steps.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/sort/host_io.hpp"

namespace linkwise {
namespace {

std::uint64_t rows_of(Emission emission, const MatchTotals& totals, std::uint64_t rows) {
  return rows_of_task(emission, rows, totals.matches, totals.matched_rows);
}

// A window's rows: keys, and values of both sides.
struct Columns {
  MemoryView codes, keys, left, right;

  Columns(const MemoryView& memory, const JoinInput& input, std::uint64_t rows) {
    std::uint64_t at = 0;
    const auto take = [&](std::uint64_t width) {
      const MemoryView view = memory.slice(at, rows * width);
      at = align_up(at + rows * width, device_alignment);
      return view;
    };
    codes = take(static_cast<std::uint64_t>(key_width(input.left.key_type)));
    keys = take(static_cast<std::uint64_t>(native_bytes(input.left.key_type)));
    left = take(static_cast<std::uint64_t>(input.left.value_width));
    right = take(static_cast<std::uint64_t>(input.right.value_width));
  }

  static std::uint64_t bytes(const JoinInput& input, std::uint64_t rows) {
    const std::uint64_t width = static_cast<std::uint64_t>(key_width(input.left.key_type)) +
                                static_cast<std::uint64_t>(native_bytes(input.left.key_type)) +
                                static_cast<std::uint64_t>(input.left.value_width) +
                                static_cast<std::uint64_t>(input.right.value_width);
    return rows * width + 4 * device_alignment;
  }
};

}  // namespace

JoinOutput::JoinOutput(Runtime& runtime, const JoinPlan& plan, const JoinInput& input, std::span<const Stream> streams,
                       Router& router)
    : runtime_(runtime), plan_(plan), input_(input), router_(router) {
  for (const Stream stream : streams) {
    Worker worker;
    worker.compute = stream;
    worker.out = runtime.stream(stream.place, "out");
    workers_.push_back(std::move(worker));
  }
}

std::uint64_t JoinOutput::bytes_per_gpu(const Kernels& kernels, const JoinPlan& plan, const JoinInput& input,
                                        std::uint64_t left_rows, std::uint64_t right_rows) {
  const auto side = [&](std::uint64_t rows) { return 16 * rows + matching_scratch_bytes(kernels, rows) + 2048; };
  return side(left_rows) + (right_emits(input.kind) ? side(right_rows) : 0) +
         2 * (8 * plan.window_rows + Columns::bytes(input, plan.window_rows) + 1024);
}

void JoinOutput::emit(Worker& worker, Side& side, const Records& own, const Records& other, Emission emission,
                      bool keys_rise) {
  if (other.count > max_build_rows || own.count > max_build_rows)
    throw UsageError("a GPU would join more than 2^31 rows of one side; use more GPUs");
  const auto allocate = [&](std::uint64_t bytes, const char* label) {
    return runtime_.allocate(worker.compute.place, bytes, label);
  };
  side.first = allocate(4 * own.count, "matches");
  side.emitted = allocate(4 * own.count, "emitted rows");
  side.offsets = allocate(8 * (own.count + 1), "offsets");
  side.scratch = allocate(matching_scratch_bytes(runtime_.kernels(), own.count), "scratch");
  Probe of_side = probe_of(own, other);
  of_side.emission = emission;
  of_side.keys_rise = keys_rise;
  of_side.first = side.first.view();
  of_side.emitted = side.emitted.view();
  probe(runtime_, worker.compute, of_side, side.scratch.view(), side.totals);
  running_sums(runtime_, worker.compute, {4, false}, side.emitted.view(), side.offsets.view(), side.scratch.view());
}

std::uint64_t JoinOutput::count(std::vector<Records> lefts, std::vector<Records> rights, bool lefts_rise) {
  runtime_.set_phase("probe");
  const Emission of_left = emission_of_left(input_.kind);
  const bool both = right_emits(input_.kind);
  const JoinCounts expected = expected_counts(input_);
  std::vector<std::array<MatchTotals, 2>> totals(workers_.size()), expectation(workers_.size());
  std::vector<ReadBack> reads;
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    Worker& worker = workers_[g];
    worker.left = lefts[g];
    worker.right = rights[g];
    worker.totals = runtime_.allocate(worker.compute.place, 2 * sizeof(MatchTotals), "totals");
    worker.of_left.totals = worker.totals.slice(0, sizeof(MatchTotals));
    worker.of_right.totals = worker.totals.slice(sizeof(MatchTotals), sizeof(MatchTotals));
    emit(worker, worker.of_left, worker.left, worker.right, of_left, lefts_rise);
    if (both) emit(worker, worker.of_right, worker.right, worker.left, Emission::one_if_unmatched, /*keys_rise=*/true);
    // A GPU's part may have fewer rows than the even share that an estimate assumes.
    expectation[g] = {expected_totals(expected, /*left_probes=*/true, workers_.size()),
                      expected_totals(expected, /*left_probes=*/false, workers_.size())};
    expectation[g][0].matched_rows = std::min(expectation[g][0].matched_rows, worker.left.count);
    expectation[g][1].matched_rows = std::min(expectation[g][1].matched_rows, worker.right.count);
    reads.push_back({worker.compute, worker.totals.slice(0, (both ? 2 : 1) * sizeof(MatchTotals)), totals[g].data(),
                     expectation[g].data()});
  }
  runtime_.read_back(reads);
  std::uint64_t rows = 0;
  for (std::size_t g = 0; g < workers_.size(); ++g) {
    Worker& worker = workers_[g];
    worker.first_row = rows;
    worker.rows = rows_of(of_left, totals[g][0], worker.left.count);
    if (both) worker.rows += rows_of(Emission::one_if_unmatched, totals[g][1], worker.right.count);
    rows += worker.rows;
  }
  return rows;
}

void JoinOutput::write(const JoinOutputs& outputs) {
  if (outputs.keys != nullptr && right_emits(input_.kind))
    throw UsageError("a right or full join has rows without a left key; ask for row numbers instead");
  std::uint64_t windows = 0;
  for (Worker& worker : workers_) {
    windows = std::max(windows, (worker.rows + plan_.window_rows - 1) / plan_.window_rows);
    const std::uint64_t rows = std::min(worker.rows, plan_.window_rows);
    for (Window& window : worker.windows) {
      window.positions = runtime_.allocate(worker.compute.place, 8 * rows, "positions");
      window.rows = runtime_.allocate(worker.compute.place, Columns::bytes(input_, rows), "joined rows");
    }
  }
  for (std::uint64_t number = 0; number < windows; ++number)
    for (Worker& worker : workers_) write_window(worker, number, outputs);
}

void JoinOutput::find_rows(Worker& worker, std::uint64_t begin, const MemoryView& left, const MemoryView& right) {
  const bool both = right_emits(input_.kind);
  const Emitting of_right = both ? worker.of_right.emitting() : Emitting();
  expand(runtime_, worker.compute, worker.of_left.emitting(), of_right, begin, left, right);
  if (both) expand_unmatched(runtime_, worker.compute, worker.of_left.emitting(), of_right, begin, left, right);
}

void JoinOutput::fetch(Worker& worker, const Records& side, const MemoryView& positions, const MemoryView& to) {
  gather(runtime_, worker.compute, static_cast<int>(side.type.value_bytes()), 4, side.values, positions, to);
}

std::vector<RowsOnGpu> JoinOutput::write_on_gpus() {
  runtime_.set_phase("materialise");
  std::vector<RowsOnGpu> all;
  for (Worker& worker : workers_) {
    const std::uint64_t left_width = worker.left.type.value_bytes(), right_width = worker.right.type.value_bytes();
    RowsOnGpu made(runtime_, worker.compute.place, worker.rows, left_width, right_width);
    const std::uint64_t at_once = std::min(worker.rows, plan_.window_rows);
    worker.windows[0].positions = runtime_.allocate(worker.compute.place, 8 * at_once, "positions");
    for (std::uint64_t begin = 0; begin < worker.rows; begin += at_once) {
      const std::uint64_t rows = std::min(at_once, worker.rows - begin);
      const MemoryView& positions = worker.windows[0].positions.view();
      const MemoryView left = positions.slice(0, 4 * rows), right = positions.slice(4 * rows, 4 * rows);
      find_rows(worker, begin, left, right);
      fetch(worker, worker.left, left, made.left.slice(begin * left_width, rows * left_width));
      fetch(worker, worker.right, right, made.right.slice(begin * right_width, rows * right_width));
    }
    all.push_back(std::move(made));
  }
  return all;
}

void JoinOutput::write_window(Worker& worker, std::uint64_t number, const JoinOutputs& outputs) {
  const std::uint64_t begin = number * plan_.window_rows;
  if (begin >= worker.rows) return;
  const std::uint64_t rows = std::min(plan_.window_rows, worker.rows - begin);
  Window& window = worker.windows[number % 2];
  const MemoryView left = window.positions.slice(0, 4 * rows), right = window.positions.slice(4 * rows, 4 * rows);
  const Columns columns(window.rows.view(), input_, rows);
  runtime_.set_phase("materialise");
  runtime_.wait(worker.compute, window.sent);
  find_rows(worker, begin, left, right);
  const KeyType key_type = input_.left.key_type;
  const bool decodes = !is_own_code(key_type, /*descending=*/false);
  if (outputs.keys != nullptr) {
    gather(runtime_, worker.compute, static_cast<int>(worker.left.type.key_bytes()), 4, worker.left.keys, left,
           decodes ? columns.codes : columns.keys);
    if (decodes) decode(runtime_, worker.compute, key_type, /*descending=*/false, columns.codes, columns.keys);
  }
  if (outputs.left_values != nullptr) fetch(worker, worker.left, left, columns.left);
  if (outputs.right_values != nullptr) fetch(worker, worker.right, right, columns.right);
  runtime_.set_phase("DtoH");
  runtime_.wait(worker.out, runtime_.record(worker.compute));
  const auto send = [&](void* to, const MemoryView& from) {
    if (to == nullptr) return;
    const std::uint64_t width = from.bytes / rows, at = (worker.first_row + begin) * width;
    router_.copy(worker.out, host_view(to, at, from.bytes, outputs.pageable), from);
  };
  send(outputs.keys, columns.keys);
  send(outputs.left_values, columns.left);
  send(outputs.right_values, columns.right);
  window.sent = runtime_.record(worker.out);
}

}  // namespace linkwise
