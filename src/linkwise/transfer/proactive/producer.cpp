#include "linkwise/transfer/proactive/producer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <ranges>
#include <tuple>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/transfer/proactive/producer_parts.hpp"

namespace linkwise::proactive {
namespace {

constexpr std::uint64_t dry_run_bytes = 64 << 20;

Chunks chunks_of(const RegionBytes& region, const Mapping& mapping, const AgentPlan& plan) {
  if (plan.agent == Agent::copy_engine) return Chunks::tapered(mapping.all(), plan.chunk_bytes, most_taper);
  if (is_decoupled(plan.agent)) return Chunks::uniform(mapping.all(), plan.chunk_bytes);
  // What is sent after the kernel goes at once; in pages only where not everybody needs everything.
  const std::uint64_t pages = mapping.region_bytes() / page_bytes + 1;
  return Chunks::uniform(mapping.all(), region.is_needed_by_all() ? pages * page_bytes : page_bytes);
}

// Whether each list's elements follow each other.
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
  for (std::uint32_t block = 0; block < of_blocks.count(); ++block) {
    for (const std::uint32_t chunk : of_blocks.of(block)) last_writer[chunk] = block;
    each_block_counts = each_block_counts && !of_blocks.of(block).empty();
  }
  for (std::uint32_t chunk = 0; chunk < chunks.count(); ++chunk) {
    const ByteRange bytes = chunks.of(chunk);
    wanted.push_back(region.wanted(gpu, bytes.first / page_bytes, (bytes.second - 1) / page_bytes));
  }
  order = by_completion();
  if (runtime.simulated() || !is_decoupled(plan.agent)) return;

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
  if (plan.agent == Agent::copy_engine || written == 0) return;
  polling.counters = outbox.counters;
  std::vector<ExpectedChunk> expected;
  for (const std::uint32_t chunk : order) expected.push_back({chunk, writers[chunk], wanted[chunk]});
  polling.expected = put(expected);
  polling.chunks = written;
  polling.chunk_bytes = plan.chunk_bytes;
  polling.patience_ns = static_cast<std::uint64_t>(1e9 * plan.patience);
  polling.begin = chunks.bounds.front();
  polling.end = chunks.bounds.back();
  polling.taken = put(std::vector<std::uint32_t>{0, 0});
  polling.failure = put(std::vector<std::uint32_t>{0});
  failure = buffers.back().view();
  polling.from = region.mirror(gpu).data;
  for (const int peer : peers) polling.to[polling.peers++] = region.mirror(peer).data;
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

ProducerBase::ProducerBase(RegionBytes& region, int gpu, Mapping mapping, AgentPlan plan)
    : region_(region), gpu_(gpu), mapping_(std::make_shared<const Mapping>(std::move(mapping))), plan_(plan) {
  check_plan(plan, region.runtime().simulated());
  region.check_goes_with(plan.agent);
  if (mapping_->region_bytes() != region.bytes())
    throw UsageError("the mapping is of a region of " + std::to_string(mapping_->region_bytes()) +
                     " bytes, this one has " + std::to_string(region.bytes()));
  tables_ = std::make_shared<Tables>(region, gpu, *mapping_, plan_);
  region.watch(tables_);
}

ProducerBase::~ProducerBase() = default;
ProducerBase::ProducerBase(ProducerBase&&) noexcept = default;

void ProducerBase::launch(const std::string& name, const Run& run, std::vector<MemoryView> reads,
                          const KernelPrice& price) {
  ++tables_->epoch;
  if (region_.runtime().simulated()) Simulated(*this, price, std::move(reads)).launch(name, run);
  else launch_on_device(name, run, std::move(reads));
}

void ProducerBase::launch_on_device(const std::string& name, const Run& run, std::vector<MemoryView> reads) {
  Runtime& runtime = region_.runtime();
  const Stream compute = compute_stream(runtime, gpu_);
  const MemoryView& mirror = region_.mirror(gpu_);
  KernelRun how{.outbox = tables_->outbox, .last_block = mapping_->blocks()};
  if (plan_.agent == Agent::inline_ && sends_) how.stores = KernelRun::Stores::peers;
  if (!std::exchange(tables_->is_loaded, true))
    runtime.enqueue(compute, {"load kernels", {}, {}, {}, [run, how](void* stream) mutable {
                                how.only_loads = true;
                                run(stream, how);
                                load_polling_agent();
                                load_dynamic_agent();
                              }});
  const bool has_agent = sends_ && plan_.agent != Agent::inline_ && tables_->written > 0 && !tables_->peers.empty();
  if (has_agent && plan_.agent == Agent::unified) take_pages();
  const Event before = runtime.record(compute);
  if (how.last_block > 0)
    runtime.enqueue(
        compute, {name, std::move(reads), {mirror}, {}, [run, how](void* stream) { run(stream, how); }, {}, is_timed_});
  const bool waits_for_chunks = plan_.agent == Agent::polling || plan_.agent == Agent::dynamic;
  const Stream agent = runtime.stream(Place::gpu(gpu_), "agent");
  if (has_agent && waits_for_chunks) start_kernel_agent(before);
  // Such an agent ends after the last block that counts.
  if (has_agent && waits_for_chunks && tables_->each_block_counts) return region_.add_pending(runtime.record(agent));
  const Event done = runtime.record(compute);
  if (!has_agent) return region_.add_pending(done);
  if (plan_.agent == Agent::unified) replicate_pages(done);
  else if (!waits_for_chunks) start_copies(plan_.agent == Agent::copy_engine ? before : done);
  runtime.wait(agent, done);
  region_.add_pending(runtime.record(agent));
}

// The kernel is launched first, and its agent's blocks, whose stream has the higher priority, come in as soon as some
// of its own end.
void ProducerBase::start_kernel_agent(Event before) {
  Runtime& runtime = region_.runtime();
  const Stream agent = runtime.stream(Place::gpu(gpu_), "agent");
  PollingTask task = tables_->polling;
  task.epoch = tables_->epoch;
  ++task.turn;
  runtime.wait(agent, before);
  const auto start = plan_.agent == Agent::polling ? start_polling : start_dynamic;
  runtime.enqueue(agent, {"agent",
                          {region_.mirror(gpu_)},
                          {},
                          {},
                          [start, task, threads = plan_.threads](void* native) { start(native, task, threads); },
                          {},
                          is_timed_});
  tables_->polling.turn = task.turn;
}

void ProducerBase::start_copies(Event after) {
  Runtime& runtime = region_.runtime();
  const MemoryView& mirror = region_.mirror(gpu_);
  const Stream agent = runtime.stream(Place::gpu(gpu_), "agent");
  const std::vector<std::uint32_t>& order = tables_->order;
  const bool awaits = plan_.agent == Agent::copy_engine;
  for (std::size_t p = 0; p < tables_->peers.size(); ++p) {
    const int peer = tables_->peers[p];
    const MemoryView& to = region_.mirror(peer);
    for (int k = 0; k < (awaits ? copy_streams : 1); ++k) {
      const Stream stream = stream_to(peer, k);
      runtime.wait(stream, after);
      if (awaits) {
        std::vector<AwaitedCopy> copies;
        for (std::size_t at = k; at < order.size(); at += copy_streams) {
          const std::uint32_t chunk = order[at];
          if ((tables_->wanted[chunk] >> p & 1) == 0) continue;
          const auto [first, last] = tables_->chunks.of(chunk);
          copies.push_back({tables_->outbox.counters + chunk, tables_->writers[chunk] * tables_->epoch, to.data + first,
                            mirror.data + first, last - first});
        }
        runtime.enqueue(stream, {"copies", {mirror}, {to}, {}, [copies, from = gpu_, peer](void* native) {
                                   queue_copies(native, copies, from, peer);
                                 }});
      } else {
        for (const auto& [first, last] : tables_->ranges_for(p, order))
          runtime.copy(stream, to.slice(first, last - first), mirror.slice(first, last - first));
      }
      runtime.wait(agent, runtime.record(stream));
    }
  }
}

void ProducerBase::take_pages() {
  region_.runtime().enqueue(
      compute_stream(region_.runtime(), gpu_),
      {"take pages", {}, {}, {}, [data = region_.mirror(gpu_).data, bytes = mapping_->all(), gpu = gpu_](void* native) {
         take_unified(native, data, bytes, gpu);
       }});
}

void ProducerBase::replicate_pages(Event after) {
  Runtime& runtime = region_.runtime();
  const Stream agent = runtime.stream(Place::gpu(gpu_), "agent");
  runtime.wait(agent, after);
  for (std::size_t p = 0; p < tables_->peers.size(); ++p)
    runtime.enqueue(agent,
                    {"replicate pages",
                     {},
                     {},
                     {},
                     [data = region_.mirror(gpu_).data, pages = tables_->ranges_for(p, tables_->order),
                      peer = tables_->peers[p]](void* native) { replicate_unified(native, data, pages, peer); }});
}

Stream ProducerBase::stream_to(int peer, int number) const {
  if (plan_.agent == Agent::memcpy)
    return region_.runtime().stream(Place::gpu(region_.gpus().front()), "copies of all");
  return region_.runtime().stream(Place::gpu(gpu_), "to " + std::to_string(peer) + "." + std::to_string(number));
}

void ProducerBase::check() const { tables_->check(); }

void ProducerBase::Tables::check() {
  if (failure.bytes == 0) return;
  std::uint32_t failed = 0;
  const Stream compute = compute_stream(runtime, gpu);
  runtime.read_back({compute, failure, &failed});
  if (failed == 0) return;
  const Buffer none = runtime.allocate(Place::host(), sizeof failed, "failure");
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
  // Not behind kernels and agents, which may wait.
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

void ProducerBase::compare(const Mapping& found) const {
  for (std::uint32_t block = 0; block < found.blocks(); ++block)
    for (const std::uint32_t page : found.pages(block))
      if (!mapping_->writes(block, page)) throw ProgramError(not_mapped(block, "", page));
}

Mapping ProducerBase::dry_run(RegionBytes& region, int gpu, std::uint32_t blocks, ByteRange all, const Run& run) {
  Runtime& runtime = region.runtime();
  if (runtime.estimating()) throw UsageError("a dry run takes data; an estimate has none, so give it a mapping");
  const std::uint64_t words = (region.bytes() / page_bytes + 2 + 31) / 32;  // and a bit for what lies outside
  const Stream compute = compute_stream(runtime, gpu);
  const std::uint64_t at_once = std::clamp<std::uint64_t>(dry_run_bytes / (4 * words), 1, std::max(blocks, 1U));
  std::vector<std::uint32_t> found(words * at_once);
  Lists pages;
  for (std::uint64_t begin = 0; begin < blocks; begin += at_once) {
    const std::uint64_t count = std::min<std::uint64_t>(at_once, blocks - begin);
    std::ranges::fill(found, 0);
    const Buffer marks = put_on_gpu(runtime, gpu, found.data(), 4 * found.size(), "dry run");
    auto* const marked = reinterpret_cast<std::uint32_t*>(marks.view().data);
    runtime.enqueue(compute, {"dry run", {}, {marks.view()}, {}, [=](void* stream) {
                                for (std::uint64_t b = 0; b < count; ++b) {
                                  KernelRun how{.stores = KernelRun::Stores::marks};
                                  how.first_block = static_cast<std::uint32_t>(begin + b);
                                  how.last_block = how.first_block + 1;
                                  how.marked_pages = marked + b * words;
                                  run(stream, how);
                                }
                              }});
    runtime.read_back({compute, marks.view(), found.data()});
    for (std::uint64_t b = 0; b < count; ++b) {
      for (std::uint64_t w = 0; w < words; ++w)
        for (std::uint32_t bits = found[b * words + w]; bits != 0; bits &= bits - 1)
          pages.values.push_back(static_cast<std::uint32_t>(32 * w + std::countr_zero(bits)));
      pages.first.push_back(static_cast<std::uint32_t>(pages.values.size()));
    }
  }
  return Mapping::from_pages(std::move(pages), region.bytes(), all);
}

}  // namespace linkwise::proactive
