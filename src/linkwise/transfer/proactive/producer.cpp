#include "linkwise/transfer/proactive/producer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/transfer/proactive/cuda/agents.hpp"
#include "linkwise/transfer/proactive/producer_parts.hpp"

namespace linkwise::proactive {
namespace {

constexpr std::uint64_t most_of_taper = 16;  // see cuda/agents.hpp
constexpr std::uint64_t dry_run_bytes = 64 << 20;

Chunks chunks_of(const RegionBytes& region, const Mapping& mapping, const AgentPlan& plan) {
  if (plan.agent == Agent::copy_engine) return Chunks::tapered(mapping.all(), plan.chunk_bytes, most_of_taper);
  if (is_decoupled(plan.agent)) return Chunks::uniform(mapping.all(), plan.chunk_bytes);
  // What is sent after the kernel goes at once; in pages only where not everybody needs everything.
  const std::uint64_t pages = mapping.region_bytes() / page_bytes + 1;
  return Chunks::uniform(mapping.all(), region.is_needed_by_all() ? pages * page_bytes : page_bytes);
}

}  // namespace

ProducerBase::Tables::Tables(RegionBytes& region, int gpu, const Mapping& mapping, const AgentPlan& plan)
    : chunks(chunks_of(region, mapping, plan)),
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
  Runtime& runtime = region.runtime();
  if (runtime.simulated() || !is_decoupled(plan.agent)) return;

  const auto put = [&](const std::vector<std::uint32_t>& values) {
    buffers.push_back(put_on_gpu(runtime, gpu, values.data(), values.size() * sizeof values[0], "outbox"));
    return reinterpret_cast<std::uint32_t*>(buffers.back().view().data);
  };
  const std::vector<std::uint32_t> zeros(chunks.count(), 0);
  outbox.first = put(of_blocks.first);
  outbox.chunks = put(of_blocks.values);
  outbox.writers = put(writers);
  outbox.counters = put(zeros);
  counters = buffers.back().view();
  outbox.flags = put(zeros);
  outbox.tail = put({0});
  head = put({0});
  put({0, 0});
  failure = buffers.back().view();
  device_wanted = put(wanted);
  outbox.capacity = written;
  if (plan.agent == Agent::polling)
    outbox.queue = reinterpret_cast<std::uint64_t*>(put(std::vector<std::uint32_t>(2 * chunks.count(), 0)));
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
    : region_(region), gpu_(gpu), mapping_(std::move(mapping)), plan_(plan) {
  check_plan(plan, region.runtime().simulated());
  if (mapping_.region_bytes() != region.bytes())
    throw UsageError("the mapping is of a region of " + std::to_string(mapping_.region_bytes()) + " bytes, this one has " +
                     std::to_string(region.bytes()));
  tables_ = std::make_unique<Tables>(region, gpu, mapping_, plan_);
}

ProducerBase::~ProducerBase() = default;
ProducerBase::ProducerBase(ProducerBase&&) noexcept = default;

void ProducerBase::launch(const std::string& name, Run run, std::vector<MemoryView> reads, const KernelPrice& price) {
  ++tables_->epoch;
  if (region_.runtime().simulated()) Simulated(*this, price, std::move(reads)).launch(name, run);
  else launch_on_device(name, run, std::move(reads), price);
}

void ProducerBase::launch_on_device(const std::string& name, const Run& run, std::vector<MemoryView> reads,
                                    const KernelPrice&) {
  Runtime& runtime = region_.runtime();
  const Stream compute = compute_stream(runtime, gpu_), agent = runtime.stream(Place::gpu(gpu_), "agent");
  const MemoryView& mirror = region_.mirror(gpu_);
  const Event before = runtime.record(compute);

  KernelRun how{.last_block = mapping_.blocks()};
  how.outbox = tables_->outbox;
  how.outbox.epoch = tables_->epoch;
  if (plan_.agent == Agent::inline_ && sends_) how.stores = KernelRun::Stores::peers;
  const auto start_kernel = [&] {
    if (how.last_block == 0) return;
    runtime.enqueue(compute, {name, reads, {mirror}, {}, [run, how](void* stream) { run(stream, how); }});
  };
  if (plan_.agent == Agent::polling && sends_ && tables_->written > 0) {
    PollingTask task;
    task.outbox = how.outbox;
    task.head = tables_->head;
    task.failure = reinterpret_cast<std::uint32_t*>(tables_->failure.data);
    task.chunk_bytes = plan_.chunk_bytes;
    task.begin = tables_->chunks.bounds.front();
    task.end = tables_->chunks.bounds.back();
    task.wanted = tables_->device_wanted;
    task.from = mirror.data;
    for (const int peer : tables_->peers) task.to[task.peers++] = region_.mirror(peer).data;
    runtime.wait(agent, before);
    runtime.enqueue(agent, {"agent", {mirror}, {}, {}, [run, how, task, threads = plan_.threads](void* stream) mutable {
                              how.only_loads = true;  // the first launch of a kernel waits for kernels that run
                              run(stream, how);
                              start_polling(stream, task, threads);
                            }});
  }
  start_kernel();
  const Event done = runtime.record(compute);
  region_.add_pending(done);
  if (!sends_) return;

  std::vector<Stream> sending;
  if (plan_.agent == Agent::polling) sending.push_back(agent);
  if (plan_.agent == Agent::bulk || plan_.agent == Agent::copy_engine) {
    const std::vector<std::uint32_t> order = tables_->by_completion();
    for (std::size_t p = 0; p < tables_->peers.size(); ++p) {
      const MemoryView& to = region_.mirror(tables_->peers[p]);
      for (int k = 0; k < (plan_.agent == Agent::bulk ? 1 : copy_streams); ++k) {
        const Stream stream = runtime.stream(Place::gpu(gpu_), "to " + std::to_string(tables_->peers[p]) + "." +
                                                                   std::to_string(k));
        sending.push_back(stream);
        if (plan_.agent == Agent::bulk) {
          runtime.wait(stream, done);
          for (const auto& [first, last] : tables_->ranges_for(p, order))
            runtime.copy(stream, to.slice(first, last - first), mirror.slice(first, last - first));
          continue;
        }
        std::vector<FlaggedCopy> copies;
        for (std::size_t at = k; at < order.size(); at += copy_streams) {
          const auto [first, last] = tables_->chunks.of(order[at]);
          if ((tables_->wanted[order[at]] >> p & 1) != 0)
            copies.push_back({how.outbox.flags + order[at], to.data + first, mirror.data + first, last - first});
        }
        runtime.wait(stream, before);
        runtime.enqueue(stream, {"copies", {mirror}, {to}, {},
                                 [copies, epoch = tables_->epoch, from = gpu_, peer = tables_->peers[p]](void* native) {
                                   queue_copies(native, copies, epoch, from, peer);
                                 }});
      }
    }
  }
  for (const Stream stream : sending) {
    const Event sent = runtime.record(stream);
    if (stream.id != agent.id) runtime.wait(agent, sent);
  }
  if (!sending.empty()) region_.add_pending(runtime.record(agent));
}

void ProducerBase::wait() {
  Runtime& runtime = region_.runtime();
  runtime.synchronize();
  if (runtime.simulated() || tables_->failure.bytes == 0) return;
  std::vector<std::uint32_t> failure(2), counted(tables_->chunks.count());
  const Stream compute = compute_stream(runtime, gpu_);
  runtime.read_back({compute, tables_->failure, failure.data()});
  if (failure[0] == 0) return;
  runtime.read_back({compute, tables_->counters, counted.data()});
  for (std::uint32_t chunk = 0; chunk < counted.size(); ++chunk) {
    const std::uint32_t missing = tables_->writers[chunk] * tables_->epoch - counted[chunk];
    if (missing > 0)
      throw DeviceError("chunk " + std::to_string(chunk) + " of " + std::to_string(counted.size()) + " on GPU " +
                        std::to_string(gpu_) + " never became ready: " + std::to_string(missing) + " of its " +
                        std::to_string(tables_->writers[chunk]) + " blocks did not end; is the mapping that of the kernel?");
  }
  throw DeviceError("an agent on GPU " + std::to_string(gpu_) +
                    " gave up waiting: the kernel took longer than its time-out; make the work of a launch smaller");
}

Mapping ProducerBase::dry_run(RegionBytes& region, int gpu, std::uint32_t blocks, ByteRange all, const Run& run) {
  Runtime& runtime = region.runtime();
  if (runtime.estimating()) throw UsageError("a dry run takes data; an estimate has none, so give it a mapping");
  const std::uint64_t words = (region.bytes() / page_bytes + 32) / 32;
  const Stream compute = compute_stream(runtime, gpu);
  const std::uint64_t at_once = std::clamp<std::uint64_t>(dry_run_bytes / (4 * words), 1, std::max(blocks, 1U));
  std::vector<std::uint32_t> found(words * at_once);
  Lists pages;
  for (std::uint64_t begin = 0; begin < blocks; begin += at_once) {
    const std::uint64_t count = std::min<std::uint64_t>(at_once, blocks - begin);
    std::ranges::fill(found, 0);
    const Buffer marks = put_on_gpu(runtime, gpu, found.data(), 4 * found.size(), "dry run");
    runtime.enqueue(compute, {"dry run", {}, {marks.view()}, {}, [&](void* stream) {
                                for (std::uint64_t b = 0; b < count; ++b) {
                                  KernelRun how{.stores = KernelRun::Stores::marks};
                                  how.first_block = static_cast<std::uint32_t>(begin + b);
                                  how.last_block = how.first_block + 1;
                                  how.marked_pages = reinterpret_cast<std::uint32_t*>(marks.view().data) + b * words;
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
