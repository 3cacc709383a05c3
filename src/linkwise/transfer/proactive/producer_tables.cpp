#include <algorithm>
#include <cstring>
#include <ranges>
#include <tuple>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/transfer/proactive/producer_parts.hpp"

namespace linkwise::proactive {
namespace {

Chunks chunks_of(const RegionBytes& region, const Mapping& mapping, const AgentPlan& plan) {
  if (plan.agent == Agent::copy_engine) return Chunks::growing(mapping.all(), plan.chunk_bytes);
  if (is_decoupled(plan.agent)) return Chunks::uniform(mapping.all(), plan.chunk_bytes);
  // Other agents need no tracking: one chunk for everything, or pages if some GPUs do not need everything.
  const std::uint64_t pages = mapping.region_bytes() / page_bytes + 1;
  return Chunks::uniform(mapping.all(), region.is_needed_by_all() ? pages * page_bytes : page_bytes);
}

// Whether the elements of each list are consecutive numbers.
bool have_neighbours(const Lists& lists) {
  for (std::uint32_t i = 0; i < lists.count(); ++i) {
    const std::span<const std::uint32_t> list = lists.of(i);
    if (!list.empty() && (!std::ranges::is_sorted(list) || list.back() - list.front() != list.size() - 1)) return false;
  }
  return true;
}

}  // namespace

ProducerBase::Tables::Tables(RegionBytes& region, int gpu, const Mapping& mapping, const AgentPlan& plan)
    : runtime(region.runtime()),
      gpu(gpu),
      chunks(chunks_of(region, mapping, plan)),
      of_blocks(mapping.chunks_of_blocks(chunks)),
      writers(writers_of_chunks(of_blocks, chunks.count())),
      last_writer(chunks.count(), 0),
      peers(region.peers(gpu)),
      written(static_cast<std::uint32_t>(std::ranges::count_if(writers, [](auto n) { return n > 0; }))) {
  for (std::uint32_t block = 0; block < of_blocks.count(); ++block)
    for (const std::uint32_t chunk : of_blocks.of(block)) last_writer[chunk] = block;
  for (std::uint32_t chunk = 0; chunk < chunks.count(); ++chunk) {
    const ByteRange bytes = chunks.of(chunk);
    wanted.push_back(region.wanted(gpu, bytes.first / page_bytes, (bytes.second - 1) / page_bytes));
  }
  order = by_completion();
  if (!runtime.simulated() && is_decoupled(plan.agent) && written > 0) put_on_device(region, plan);
}

// Copies the tables for the kernel's blocks and the agent to the GPU.
void ProducerBase::Tables::put_on_device(const RegionBytes& region, const AgentPlan& plan) {
  const auto put = [&]<typename Element>(const std::vector<Element>& values) {
    buffers.push_back(put_on_gpu(runtime, gpu, values.data(), values.size() * sizeof(Element), "outbox"));
    return reinterpret_cast<Element*>(buffers.back().view().data);
  };
  const bool follow_each_other = have_neighbours(of_blocks);
  std::vector<ChunksOfBlock> of_each;
  for (std::uint32_t block = 0; block < of_blocks.count(); ++block) {
    const std::span<const std::uint32_t> own = of_blocks.of(block);
    const std::uint32_t first = own.empty() || !follow_each_other ? of_blocks.first[block] : own.front();
    of_each.push_back({first, static_cast<std::uint32_t>(own.size())});
  }
  outbox.blocks = put(of_each);
  if (!follow_each_other) outbox.chunks = put(of_blocks.values);
  outbox.counters = put(std::vector<std::uint32_t>(chunks.count(), 0));
  outbox.for_streams = plan.agent == Agent::copy_engine;
  counters = buffers.back().view();
  if (plan.agent == Agent::copy_engine) return;
  sending.counters = outbox.counters;
  std::vector<ExpectedChunk> expected;
  const auto expect = [&](std::uint32_t chunk) { expected.push_back({chunk, writers[chunk], wanted[chunk]}); };
  if (plan.agent == Agent::dynamic)
    for (std::uint32_t chunk = 0; chunk < chunks.count(); ++chunk) expect(chunk);
  else std::ranges::for_each(order, expect);
  sending.expected = put(expected);
  sending.chunks = written;
  sending.chunk_bytes = plan.chunk_bytes;
  sending.patience_ns = static_cast<std::uint64_t>(1e9 * plan.patience);
  sending.begin = chunks.bounds.front();
  sending.end = chunks.bounds.back();
  sending.taken = put(std::vector<std::uint32_t>{0, 0});
  sending.senders = put(std::vector<std::uint32_t>{0, 0});
  senders = buffers.back().view();
  sending.failure = put(std::vector<std::uint32_t>{0});
  failure = buffers.back().view();
  sending.from = region.mirror(gpu).data;
  for (const int peer : peers) sending.to[sending.peers++] = region.mirror(peer).data;
  sending_on_gpu = put(std::vector{sending});
}

ProducerBase::Tables::~Tables() {
  if (is_late)
    for (Buffer& buffer : buffers) runtime.retire(std::move(buffer));
}

std::vector<ByteRange> ProducerBase::Tables::ranges_for(std::size_t peer, std::span<const std::uint32_t> of) const {
  std::vector<ByteRange> ranges;
  for (const std::uint32_t chunk : of) {
    if ((wanted[chunk] >> peer & 1) == 0) continue;
    const ByteRange bytes = chunks.of(chunk);
    if (!ranges.empty() && ranges.back().second == bytes.first) ranges.back().second = bytes.second;
    else ranges.push_back(bytes);
  }
  return ranges;
}

std::vector<std::uint32_t> ProducerBase::Tables::by_completion() const {
  std::vector<std::uint32_t> order;
  for (std::uint32_t chunk = 0; chunk < chunks.count(); ++chunk)
    if (writers[chunk] > 0) order.push_back(chunk);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t chunk) { return last_writer[chunk]; });
  return order;
}

void ProducerBase::Tables::check() {
  if (failure.bytes == 0) return;
  std::uint32_t failed = 0;
  const Stream compute = compute_stream(runtime, gpu);
  runtime.read_back({compute, failure, &failed});
  if (failed == 0) return;
  const Buffer none = runtime.allocate(Place::host(), sizeof failed, "failure");
  runtime.host_writes(none.view(), "takes a failure back");
  std::memset(none.view().data, 0, sizeof failed);
  runtime.copy(compute, failure, none.view());
  runtime.wait(runtime.record(compute));
  throw DeviceError("an agent on GPU " + std::to_string(gpu) + " gave up waiting for chunk " +
                    std::to_string(failed - 1) + " of " + std::to_string(chunks.count()) +
                    ", and peers have old bytes (" + state() +
                    "): the kernel takes longer over it than AgentPlan::patience");
}

std::string ProducerBase::Tables::state() {
  std::string text = "epoch " + std::to_string(epoch) + " on GPU " + std::to_string(gpu);
  if (counters.bytes == 0) return text;
  std::vector<std::uint32_t> counted(chunks.count());
  // On a stream of its own, since kernels and agents may still be waiting.
  runtime.read_back({runtime.stream(Place::gpu(gpu), "look"), counters, counted.data()});
  std::uint32_t ready = 0, first = 0, missing = 0;
  for (const std::uint32_t chunk : order | std::views::reverse) {
    const std::uint32_t lacks = writers[chunk] * epoch - counted[chunk];
    if (lacks == 0) ++ready;
    else std::tie(first, missing) = std::pair(chunk, lacks);
  }
  text += ": " + std::to_string(ready) + " of " + std::to_string(written) + " chunks are ready";
  if (missing > 0)
    text += ", chunk " + std::to_string(first) + " lacks " + std::to_string(missing) + " of its " +
            std::to_string(writers[first]) + " blocks";
  return text;
}

}  // namespace linkwise::proactive
