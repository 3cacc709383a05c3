#include "linkwise/join/device_hash/prices.hpp"

#include <algorithm>
#include <string>

namespace linkwise {
namespace {

// What launching, allocating and waiting take beside the kernels, measured on an H200: of a join with one table, of
// asking for the range of its keys, of a partitioned join, and of its second step, in which rows are written.
constexpr double one_table = 80e-6, asking = 60e-6, partitioned = 150e-6, writing = 150e-6;
constexpr std::uint64_t hot_bytes = 512 << 10;  // of a table that the keys take which a sample has repeatedly
constexpr double crowded_block = 1.9;           // relative time of blocks whose table leaves no room for a second block
constexpr double written_share = 0.75;          // of a partition's time per byte, where rows are written in order

// Seconds of a step over so many records, without its start-up.
double seconds_of(const Machine& machine, const std::string& name, double records, double bytes) {
  constexpr double usual_ps_per_byte = 0.6;  // of an H200, for a model without the rate
  const auto found = machine.gpu.rates.find(name);
  const Rate rate = found == machine.gpu.rates.end() ? Rate{0, 0, usual_ps_per_byte} : found->second;
  return 1e-12 * records * (rate.ps_per_record + rate.ps_per_byte * bytes);
}

// Seconds in which a GPU receives so many bytes from the others, over its widest link.
double seconds_to_receive(const Machine& machine, double bytes) {
  double gb_per_s = 0;
  for (const Link& link : machine.links)
    if (!link.forward.empty()) gb_per_s = std::max(gb_per_s, link.forward.front().gb_per_s);
  return gb_per_s > 0 ? bytes / (1e9 * gb_per_s) : 0;
}

}  // namespace

double seconds_of_partitioned(const Machine& machine, const JoinToPrice& join, const HashLayout& layout) {
  const auto gpus = static_cast<double>(join.gpus), key = static_cast<double>(join.width);
  const auto build = static_cast<double>(join.build_rows), probe = static_cast<double>(join.probe_rows);
  const double rows = layout.replicates ? build + probe / gpus : (build + probe) / gpus;
  const double row_bytes = key + static_cast<double>(join.carried_bytes);
  const int passes = (layout.first_bits > 0 ? 1 : 0) + (layout.second_bits > 0 ? 1 : 0);
  double seconds = partitioned + passes * (seconds_of(machine, "checksum", rows, key) +
                                           seconds_of(machine, "partition", rows, row_bytes));
  const double crowding = passes == 0 && layout.table_rows > usual_table_rows(join.width) ? crowded_block : 1;
  seconds += crowding * seconds_of(machine, "partition", rows, key);
  if (join.written_bytes > 0) {
    const double written = written_share * static_cast<double>(join.written_bytes);
    seconds += writing + crowding * seconds_of(machine, "partition", rows, key + written);
  }
  if (join.gpus == 1) return seconds;
  const double received = (layout.replicates ? build : rows) * row_bytes * (gpus - 1) / gpus;
  return seconds + seconds_to_receive(machine, received);
}

double seconds_of_unpartitioned(const Runtime& runtime, const JoinToPrice& join, TableKind kind, std::uint64_t places) {
  const auto gpus = static_cast<double>(join.gpus), key = static_cast<double>(join.width);
  const std::uint64_t bytes = table_bytes(kind, join.width, places);
  const double row_bytes = key + static_cast<double>(join.written_bytes);
  const std::uint64_t probed = join.probe_rows / join.gpus;
  const auto hot = static_cast<std::uint64_t>(join.hot_share * static_cast<double>(probed));
  double seconds = one_table + (kind == TableKind::hashed ? 0 : asking) +
                   seconds_to_fill_table(runtime, kind, join.build_rows, bytes) +
                   seconds_of_lookups(runtime, kind, hot, std::min(bytes, hot_bytes), row_bytes) +
                   seconds_of_lookups(runtime, kind, probed - hot, bytes, row_bytes);
  if (join.verify) seconds += seconds_of_lookups(runtime, kind, join.build_rows, bytes, key);
  if (join.gpus == 1) return seconds;
  return seconds +
         seconds_to_receive(runtime.machine(), static_cast<double>(join.build_rows) * key * (gpus - 1) / gpus);
}

}  // namespace linkwise
