// What hash joins of device-resident data share: which side probes, what each side emits, and the rows of the result.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "linkwise/join/device_hash/hash_parts.hpp"
#include "linkwise/join/device_hash/prices.hpp"
#include "linkwise/join/device_join_sides.hpp"
#include "linkwise/primitives/hash_join.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {

/// Which rows the probe side and the build side emit.
struct Emissions {
  Emission probe = Emission::pairs;
  bool writes_probe = true;  ///< otherwise its matches only mark the wanted build rows
  bool takes_rest = false, rest_has_met = false;
};

/// The longer side probes. Keys are compared as they came, for equality alone.
class ProbedSides : protected DeviceJoinSides {
 protected:
  ProbedSides(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input, bool wants_rows);

  /// A side with what is carried along with its keys: the caller's values, row numbers of 4 or 8 bytes, or nothing.
  [[nodiscard]] HashParts::Input input_of(const DeviceSide& side) const;
  /// @throws UsageError if row numbers of the asked-for width are too short for a side.
  void check_row_numbers() const;
  /// How a partitioned join divides the sides.
  [[nodiscard]] HashLayout layout() const;
  [[nodiscard]] JoinToPrice to_price() const;
  [[noreturn]] static void throw_changed(const std::string& what);
  MemoryView allocate(std::size_t gpu, std::uint64_t bytes);
  /// Whether the probe side writes rows of the result.
  [[nodiscard]] bool writes() const { return wants_rows_ && emissions_.writes_probe; }
  [[nodiscard]] bool is_chosen() const { return input_.way == DeviceJoinWay::chosen; }
  /// The rows of the result that so many probe rows make.
  [[nodiscard]] std::uint64_t probed_rows(const MatchTotals& found, std::uint64_t probing) const;
  RowsOnGpu room_for(std::size_t gpu, std::uint64_t rows);
  /// The columns of the result that have the probe side's and the build side's values.
  [[nodiscard]] std::pair<HashColumn, HashColumn> columns_in(const RowsOnGpu& made) const;
  /// The join's totals, from those of each GPU's probing and its number of rows.
  [[nodiscard]] JoinTotals totals_of(const std::vector<MatchTotals>& found, std::uint64_t rows) const;

  Router router_;
  bool wants_rows_, left_probes_;
  const DeviceSide &build_, &probe_;
  Emissions emissions_;
  bool sums_;
  std::vector<Buffer> memory_;

 private:
  // Bytes that a side contributes to each result row.
  [[nodiscard]] int shown_bytes(const DeviceSide& side) const;
};

}  // namespace linkwise
