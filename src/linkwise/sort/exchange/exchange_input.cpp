#include "linkwise/sort/exchange/exchange_input.hpp"

namespace linkwise {

std::vector<std::vector<std::uint64_t>> count_parts(Runtime& runtime, std::span<const ExchangeInput> inputs,
                                                    std::size_t parts) {
  std::vector<std::vector<std::uint64_t>> counts(inputs.size(), std::vector<std::uint64_t>(parts));
  auto expected = counts;
  std::vector<ReadBack> reads;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ExchangeInput& input = inputs[i];
    const MemoryView totals = input.totals.slice(0, 8 * parts);
    partition_count(runtime, input.stream, input.records, input.splitters, input.scratch, totals);
    const std::uint64_t count = input.records.count;
    for (std::size_t part = 0; part < parts; ++part)
      expected[i][part] = count * (part + 1) / parts - count * part / parts;
    reads.push_back({input.stream, totals, counts[i].data(), expected[i].data()});
  }
  runtime.read_back(reads);
  return counts;
}

}  // namespace linkwise
