#include "linkwise/join/device_hash/prices.hpp"

#include <algorithm>
#include <string>

#include "linkwise/primitives/join_table.hpp"

namespace linkwise {
namespace {

// Seconds of a step over so many records, which does not include its start-up.
double seconds_of(const Machine& machine, const std::string& name, double records, double bytes) {
  constexpr double usual_ps_per_byte = 0.6;  // of an H200, for a model without the rate
  const auto found = machine.gpu.rates.find(name);
  const Rate rate = found == machine.gpu.rates.end() ? Rate{0, 0, usual_ps_per_byte} : found->second;
  return 1e-12 * records * (rate.ps_per_record + rate.ps_per_byte * bytes);
}

// Seconds in which a GPU receives so many bytes from the others, which all receive as much at once.
double seconds_to_receive(const Machine& machine, double bytes) {
  double gb_per_s = 0;
  for (const Link& link : machine.links)
    if (!link.forward.empty()) gb_per_s = std::max(gb_per_s, link.forward.front().gb_per_s);
  return gb_per_s > 0 ? bytes / (1e9 * gb_per_s) : 0;
}

}  // namespace

double seconds_of_partitioned(const Machine& machine, const JoinToPrice& join, const HashLayout& layout) {
  const auto gpus = static_cast<double>(join.gpus), key = static_cast<double>(join.width);
  const double build = static_cast<double>(join.build_rows), probe = static_cast<double>(join.probe_rows);
  const double rows = (layout.replicates ? build + probe / gpus : (build + probe) / gpus);
  const double row_bytes = key + static_cast<double>(join.carried_bytes);
  const int passes = (layout.first_bits > 0 ? 1 : 0) + (layout.second_bits > 0 ? 1 : 0);
  double seconds =
      passes * (seconds_of(machine, "checksum", rows, key) + seconds_of(machine, "partition", rows, row_bytes));
  seconds += seconds_of(machine, "partition", rows, key);
  if (join.written_bytes > 0)
    seconds += seconds_of(machine, "partition", rows, key + static_cast<double>(join.written_bytes));
  if (join.gpus == 1) return seconds;
  return seconds +
         seconds_to_receive(machine, (layout.replicates ? build * row_bytes : rows * row_bytes) * (gpus - 1) / gpus);
}

double seconds_of_unpartitioned(const Runtime& runtime, const JoinToPrice& join, std::uint64_t table_bytes) {
  const auto gpus = static_cast<double>(join.gpus);
  const std::uint64_t probe = join.probe_rows / join.gpus;
  const double row_bytes = static_cast<double>(join.width) + static_cast<double>(join.written_bytes);
  double seconds = seconds_to_fill_table(runtime, join.build_rows, table_bytes) +
                   seconds_of_lookups(runtime, probe, table_bytes, row_bytes);
  if (join.verify)
    seconds += seconds_of_lookups(runtime, join.build_rows, table_bytes, static_cast<double>(join.width));
  if (join.gpus > 1)
    seconds += seconds_to_receive(
        runtime.machine(), static_cast<double>(join.build_rows) * static_cast<double>(join.width) * (gpus - 1) / gpus);
  return seconds;
}

}  // namespace linkwise
