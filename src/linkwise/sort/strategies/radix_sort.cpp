#include "linkwise/sort/strategies/radix_sort.hpp"

#include "linkwise/sort/exchange/radix_exchange.hpp"

namespace linkwise {

void radix_sort(Runtime& runtime, Router& router, const SortPlan& plan, std::vector<Chunk>& chunks) {
  std::vector<ExchangeInput> sources;
  std::uint64_t total = 0;
  for (const Chunk& chunk : chunks) {
    sources.push_back({chunk.stream(), chunk.records(), chunk.scratch(), chunk.counters()});
    total += chunk.count();
  }
  if (total == 0) return;
  runtime.set_phase("partition");
  const auto gpus = static_cast<int>(chunks.size());
  const bool by_msd = chunks_suit_msd_sort(runtime, chunks);
  RadixExchange exchange(runtime, plan, std::move(sources), gpus);

  std::vector<Event> sent;
  std::vector<Records> parts;
  if (plan.exchange == Exchange::fused) {
    for (int d = 0; d < gpus; ++d) parts.push_back(chunks[d].other(exchange.received(d)));
    runtime.set_phase("exchange");
    sent = exchange.store(parts);
  } else {
    // Partition into the other buffers, and copy from there into the destinations' current ones.
    std::vector<Records> partitioned;
    for (Chunk& chunk : chunks) {
      partitioned.push_back(chunk.other(chunk.count()));
      chunk.flip(chunk.count());
    }
    for (int d = 0; d < gpus; ++d) parts.push_back(chunks[d].other(exchange.received(d)));
    sent = exchange.partition_and_copy(router, partitioned, parts);
  }
  for (int d = 0; d < gpus; ++d) {
    for (const Event event : sent) runtime.wait(chunks[d].stream(), event);
    chunks[d].flip(exchange.received(d));
  }
  runtime.set_phase("sort");
  for (int d = 0; d < gpus; ++d) sort_locally(runtime, chunks[d], exchange.bits(d), by_msd);
}

}  // namespace linkwise
