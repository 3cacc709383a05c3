// Both sides of a device-resident join: keys, values, and the streams that order the join with the caller's work.
#pragma once

#include <vector>

#include "linkwise/join/device_join_input.hpp"
#include "linkwise/join/in_core/join_splitters.hpp"
#include "linkwise/join/rows_on_gpu.hpp"

namespace linkwise {

struct DeviceSide {
  const DeviceColumns* columns = nullptr;
  RecordType type;
  KeyType key_type = KeyType::u64;        // of the records' keys: codes or native keys
  std::vector<Records> records;           // of each GPU
  std::vector<std::uint64_t> first_rows;  // of each GPU: the index of its first row in the whole side
  std::uint64_t rows = 0;
  std::vector<Buffer> owned;
};

/// Keys as order-preserving codes or, if a join only compares them for equality, as they came.
enum class KeysAs : std::uint8_t { codes, came };

class DeviceJoinSides {
 protected:
  /// With `numbers_rows`, a side without values gets its row numbers as values. Keys of less than 4 bytes are always
  /// encoded.
  /// @throws UsageError if the sides do not match each other or the plan.
  DeviceJoinSides(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input, bool numbers_rows,
                  KeysAs keys_as = KeysAs::codes);
  /// The type of a side's values.
  [[nodiscard]] IntegerType integers_of(bool left) const;
  /// A side's keys where they lie, for samples.
  [[nodiscard]] SampledRelation sampled(const DeviceSide& side) const;
  /// Whether to sort the side by MSD radix sort, in so many parts.
  [[nodiscard]] bool suits_msd_sort(const DeviceSide& side, std::size_t parts) const;
  /// Kind, key types and sizes of the join, without data pointers.
  [[nodiscard]] JoinInput shape() const;
  /// The rows in the form that the caller receives. Blocks until they are ready.
  std::vector<SortedPart> handed_over(std::vector<RowsOnGpu> made);

  Runtime& runtime_;
  const JoinPlan& plan_;
  const DeviceJoinInput& input_;
  std::vector<Stream> streams_, callers_;  // the caller's: two for each GPU, one per side
  DeviceSide left_, right_;

 private:
  void take(DeviceSide& side, bool numbers_rows, KeysAs keys_as);
};

}  // namespace linkwise
