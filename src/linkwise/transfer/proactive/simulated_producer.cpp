// A kernel and its agent on the virtual machine.
//
// The grid runs in slices of blocks, one after the other, and the chunks that a slice completes are sent after it.
// This uses ordinary operations and copies, so that the virtual machine models their order, races and shared links as
// usual. Slices become small towards the end, since the last chunks are sent after the kernel.
#include <algorithm>
#include <cstring>
#include <utility>

#include "linkwise/transfer/proactive/producer_parts.hpp"

namespace linkwise::proactive {
namespace {

constexpr std::uint32_t slices = 24, smallest_part = 1024;
constexpr double launch_us = 3;  // from one kernel to the next: 2.9 on an H200

/// Where slices of a grid end.
std::vector<std::uint32_t> slice_ends(std::uint32_t blocks) {
  std::vector<std::uint32_t> ends;
  const auto add = [&](std::uint64_t end) {
    if (end > (ends.empty() ? 0 : ends.back())) ends.push_back(static_cast<std::uint32_t>(end));
  };
  for (std::uint64_t s = 1; s < slices; ++s) add(blocks * s / slices);
  for (std::uint64_t part = 2 * slices; part <= smallest_part; part *= 2) add(blocks - blocks / part);
  add(blocks);
  return ends;
}

}  // namespace

ProducerBase::Simulated::Simulated(ProducerBase& producer, const KernelPrice& price, std::vector<MemoryView> reads)
    : producer_(producer),
      runtime_(producer.region_.runtime()),
      tables_(*producer.tables_),
      price_(price),
      reads_(std::move(reads)),
      compute_(compute_stream(runtime_, producer.gpu_)),
      agent_(runtime_.stream(Place::gpu(producer.gpu_), "agent")) {}

Stream ProducerBase::Simulated::to_peer(std::size_t peer) const { return producer_.stream_to(tables_.peers[peer]); }

void ProducerBase::Simulated::launch(const std::string& name, const Run& run) {
  const Agent agent = producer_.plan_.agent;
  std::vector<std::vector<std::uint32_t>> completed_by;
  const std::vector<std::uint32_t> ends = slice_ends(producer_.mapping_->blocks());
  completed_by.resize(ends.size());
  for (const std::uint32_t chunk : tables_.order)
    completed_by[std::ranges::upper_bound(ends, tables_.last_writer[chunk]) - ends.begin()].push_back(chunk);

  // A send waits for its slice and for earlier work on its streams, such as the previous epoch's; for nothing else.
  std::uint32_t first = 0;
  for (std::size_t s = 0; s < ends.size(); first = ends[s++]) {
    run_slice(name, run, first, ends[s]);
    if (is_decoupled(agent) && sends()) send(completed_by[s], runtime_.record(compute_));
  }
  const Event done = runtime_.record(compute_);
  producer_.region_.add_pending(done);
  if (agent == Agent::inline_ || !sends()) return;
  if (!is_decoupled(agent)) send(tables_.order, done);
  for (std::size_t p = 0; p < tables_.peers.size(); ++p) producer_.region_.add_pending(runtime_.record(to_peer(p)));
}

void ProducerBase::Simulated::run_slice(const std::string& name, const Run& run, std::uint32_t first,
                                        std::uint32_t last) {
  const AgentCosts& costs = runtime_.machine().agents;
  const Mapping& mapping = *producer_.mapping_;
  const Agent agent = producer_.plan_.agent;
  const double share = static_cast<double>(last - first) / mapping.blocks();
  KernelRun how{.first_block = first, .last_block = last};

  Operation operation{name, reads_, {}, {}, {}};
  if (first == 0) operation.work.fixed_us = launch_us;
  operation.work.microseconds = 1e6 * share * price_.seconds_on(runtime_.machine().gpu);
  // A polling agent's resident blocks slow the kernel down the whole time: by polling counters and, in proportion to
  // their threads, by occupying the SMs.
  const double threads = static_cast<double>(producer_.plan_.threads) / costs.saturating_threads;
  if (agent == Agent::polling) operation.work.microseconds *= 1 + costs.polling_share * (1 + threads) / 2;
  if (agent == Agent::dynamic && sends()) operation.work.microseconds *= 1 + costs.dynamic_share;
  if (is_decoupled(agent) && agent != Agent::hardware) {
    if (price_.memory_bytes > 0) operation.work.microseconds *= 1 + costs.memory_share;
    const std::uint32_t counted = tables_.of_blocks.first[last] - tables_.of_blocks.first[first];
    operation.work.microseconds += 1e-3 * costs.tracking_ns * counted;
  }
  // What the slice writes: the pages of its blocks, where adjacent ones that the same peers need are merged.
  std::vector<std::uint32_t> pages;
  for (std::uint32_t block = first; block < last; ++block)
    pages.insert(pages.end(), mapping.pages(block).begin(), mapping.pages(block).end());
  std::ranges::sort(pages);
  const bool is_inline = agent == Agent::inline_ && sends();
  std::vector<MemoryView> of_peers;
  const auto wanted_of = [&](std::uint32_t page) { return producer_.region_.wanted(producer_.gpu_, page, page); };
  for (std::size_t p = 0; p < pages.size();) {
    const std::uint32_t wanted = wanted_of(pages[p]);
    std::size_t end = p + 1;
    while (end < pages.size() && pages[end] <= pages[end - 1] + 1 && wanted_of(pages[end]) == wanted) ++end;
    const std::uint64_t begin = std::max(pages[p] * page_bytes, mapping.all().first);
    const std::uint64_t length =
        std::min((pages[end - 1] + std::uint64_t{1}) * page_bytes, mapping.all().second) - begin;
    operation.writes.push_back(producer_.region_.mirror(producer_.gpu_).slice(begin, length));
    for (std::size_t peer = 0; peer < tables_.peers.size(); ++peer)
      if ((wanted >> peer & 1) != 0)
        of_peers.push_back(producer_.region_.mirror(tables_.peers[peer]).slice(begin, length));
    p = end;
  }
  if (is_inline) {
    how.stores = KernelRun::Stores::peers;
    operation.writes.insert(operation.writes.end(), of_peers.begin(), of_peers.end());
    operation.work.goodput = runtime_.machine().goodput_of_stores(price_.store_bytes);
  }
  operation.run = [run, how](void*) { run(nullptr, how); };
  Operation stall{"wait for stores", {}, {}, {}, {}};
  stall.work.only_transfers = true;
  stall.work.goodput = operation.work.goodput / std::max(costs.inline_stall, 1e-9);
  runtime_.enqueue(compute_, std::move(operation));
  if (!is_inline || of_peers.empty()) return;
  stall.writes = std::move(of_peers);
  runtime_.enqueue(compute_, std::move(stall));
}

void ProducerBase::Simulated::send(std::span<const std::uint32_t> chunks, Event ready) {
  if (chunks.empty()) return;
  const AgentCosts& costs = runtime_.machine().agents;
  const Agent agent = producer_.plan_.agent;
  const MemoryView& from = producer_.region_.mirror(producer_.gpu_);
  Event begun = ready;
  if (has_threads(agent)) {
    // An agent starts one chunk after the other, whatever the links do meanwhile.
    runtime_.wait(agent_, ready);
    Operation start{"start sending", {}, {}, {}, {}};
    const auto count = static_cast<double>(chunks.size());
    start.work.fixed_us = count * (agent == Agent::polling ? costs.polling_us : costs.dynamic_us);
    runtime_.enqueue(agent_, std::move(start));
    begun = runtime_.record(agent_);
  }
  for (std::size_t p = 0; p < tables_.peers.size(); ++p) {
    const MemoryView& to = producer_.region_.mirror(tables_.peers[p]);
    const Stream stream = to_peer(p);
    runtime_.wait(stream, begun);
    for (const auto& [first, last] : tables_.ranges_for(p, chunks)) {
      const MemoryView source = from.slice(first, last - first), target = to.slice(first, last - first);
      if (agent == Agent::bulk || agent == Agent::memcpy) {
        runtime_.copy(stream, target, source);
        continue;
      }
      Operation transfer{"send chunks", {source}, {target}, {}, {}};
      transfer.run = [source, target](void*) { std::memcpy(target.data, source.data, source.bytes); };
      transfer.work.only_transfers = agent != Agent::infinite;
      if (agent == Agent::polling) transfer.work.goodput = costs.polling_goodput;
      if (has_threads(agent)) {
        const double at_once = agent == Agent::dynamic ? static_cast<double>(chunks.size()) : 1;  // launches
        transfer.work.goodput *= std::min(1.0, at_once * producer_.plan_.threads / costs.saturating_threads);
      }
      if (agent == Agent::copy_engine) {
        // Copies alternate between two streams: one waits while the other's copy runs.
        const auto& bounds = tables_.chunks.bounds;
        const auto copies = std::ranges::lower_bound(bounds, last) - std::ranges::lower_bound(bounds, first);
        transfer.work.fixed_us = static_cast<double>(copies) * costs.copy_engine_us / copy_streams;
      }
      runtime_.enqueue(stream, std::move(transfer));
    }
  }
}

}  // namespace linkwise::proactive
