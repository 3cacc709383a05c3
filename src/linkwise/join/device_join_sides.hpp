// Both sides of a join as they lie on the GPUs: codes, values, and the streams to work behind and before.
#pragma once

#include <vector>

#include "linkwise/join/device_join_input.hpp"
#include "linkwise/join/rows_on_gpu.hpp"

namespace linkwise {

struct DeviceSide {
  const DeviceColumns* columns = nullptr;
  RecordType type;
  KeyType key_type = KeyType::u64;        // of the records' keys, which are codes or as they came
  std::vector<Records> records;           // of each GPU
  std::vector<std::uint64_t> first_rows;  // of each GPU, in the whole
  std::uint64_t rows = 0;
  std::vector<Buffer> owned;
};

/// What a join asks of its sides: their order, or only whether keys are equal.
enum class KeysAs : std::uint8_t { codes, came };

class DeviceJoinSides {
 protected:
  /// With `numbers_rows`, the values of a side that came without any are the numbers of its rows. Keys of less than 4
  /// bytes are codes in any case.
  /// @throws UsageError for parts that are not the plan's.
  DeviceJoinSides(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input, bool numbers_rows,
                  KeysAs keys_as = KeysAs::codes);
  /// The type of a side's values.
  [[nodiscard]] IntegerType integers_of(bool left) const;
  /// What is joined, without where it lies.
  [[nodiscard]] JoinInput shape() const;
  /// Rows as the callers get them, whose streams wait until they are there. Blocks until then.
  std::vector<SortedPart> handed_over(std::vector<RowsOnGpu> made);

  Runtime& runtime_;
  const JoinPlan& plan_;
  const DeviceJoinInput& input_;
  std::vector<Stream> streams_, callers_;  // of the callers', two for each GPU
  DeviceSide left_, right_;

 private:
  void take(DeviceSide& side, bool numbers_rows, KeysAs keys_as);
};

}  // namespace linkwise
