#include "linkwise/transfer/proactive/producer.hpp"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/transfer/proactive/producer_parts.hpp"

namespace linkwise::proactive {
namespace {

constexpr std::uint64_t dry_run_bytes = 64 << 20;

}  // namespace

ProducerBase::ProducerBase(RegionBytes& region, int gpu, Mapping mapping, AgentPlan plan)
    : region_(region), gpu_(gpu), mapping_(std::make_shared<const Mapping>(std::move(mapping))), plan_(plan) {
  (void)region.mirror(gpu);
  region.check_goes_with(plan);
  if (mapping_->region_bytes() != region.bytes())
    throw UsageError("the mapping is of a region of " + std::to_string(mapping_->region_bytes()) +
                     " bytes, this one has " + std::to_string(region.bytes()));
  tables_ = std::make_shared<Tables>(region, gpu, *mapping_, plan_);
  region.watch(tables_);
}

ProducerBase::~ProducerBase() = default;
ProducerBase::ProducerBase(ProducerBase&&) noexcept = default;

void ProducerBase::set_sends(Sends sends) {
  if (sends == Sends::unordered && region_.runtime().simulated())
    throw UsageError("copies in no order are a race, which the virtual machine finds; measure them on real GPUs");
  sends_ = sends;
  tables_->is_loaded = false;  // another kernel may run
}

void ProducerBase::launch(const std::string& name, const Run& run, std::vector<MemoryView> reads,
                          const KernelPrice& price) {
  if (!(price.memory_bytes >= 0 && price.seconds >= 0 && price.store_bytes > 0))
    throw UsageError("a kernel's price is of no less than 0 bytes and seconds, and of stores of 1 byte at least");
  ++tables_->epoch;
  if (region_.runtime().simulated()) Simulated(*this, price, std::move(reads)).launch(name, run);
  else launch_on_device(name, run, std::move(reads));
}

void ProducerBase::launch_on_device(const std::string& name, const Run& run, std::vector<MemoryView> reads) {
  Runtime& runtime = region_.runtime();
  const Stream compute = compute_stream(runtime, gpu_);
  const MemoryView& mirror = region_.mirror(gpu_);
  KernelRun how{.outbox = tables_->outbox, .last_block = mapping_->blocks()};
  if (plan_.agent == Agent::inline_ && sends_ != Sends::nothing) how.stores = KernelRun::Stores::peers;
  const bool has_agent =
      sends_ != Sends::nothing && plan_.agent != Agent::inline_ && tables_->written > 0 && !tables_->peers.empty();
  if (launches()) {
    how.senders = plan_.threads;
    const SendingTask& task = next_turn();
    how.sending = {tables_->sending_on_gpu, task.epoch, task.turn};
    how.chunks = task.chunks;
  }
  if (!std::exchange(tables_->is_loaded, true))
    runtime.enqueue(compute, {"load kernels", {}, {}, {}, [run, how](void* stream) mutable {
                                how.only_loads = true;
                                run(stream, how);
                                load_polling_agent();
                              }});
  if (has_agent && plan_.agent == Agent::unified) take_pages();
  const Event before = runtime.record(compute);
  if (how.last_block > 0)
    runtime.enqueue(
        compute, {name, std::move(reads), {mirror}, {}, [run, how](void* stream) { run(stream, how); }, {}, is_timed_});
  const Event done = runtime.record(compute);
  // A kernel completes only after the kernels that its blocks have launched.
  if (!has_agent || plan_.agent == Agent::dynamic) return region_.add_pending(done);
  if (plan_.agent == Agent::polling) start_polling_agent(before);
  else if (plan_.agent == Agent::unified) replicate_pages(done);
  else start_copies(plan_.agent == Agent::copy_engine || sends_ == Sends::unordered ? before : done);
  const Stream agent = runtime.stream(Place::gpu(gpu_), "agent");
  runtime.wait(agent, done);
  region_.add_pending(runtime.record(agent));
}

// The kernel is launched first. The agent's blocks, whose stream has the higher priority, start as soon as some of
// the kernel's blocks have ended.
void ProducerBase::start_polling_agent(Event before) {
  Runtime& runtime = region_.runtime();
  const Stream agent = runtime.stream(Place::gpu(gpu_), "agent");
  runtime.wait(agent, before);
  runtime.enqueue(
      agent, {"agent",
              {region_.mirror(gpu_)},
              {},
              {},
              [task = next_turn(), threads = plan_.threads](void* native) { start_polling(native, task, threads); },
              {},
              is_timed_});
}

const SendingTask& ProducerBase::next_turn() {
  SendingTask& task = tables_->sending;
  task.epoch = tables_->epoch;
  ++task.turn;
  return task;
}

std::uint32_t ProducerBase::senders() const {
  if (tables_->senders.bytes == 0) return 0;
  std::uint32_t counted[2];
  Runtime& runtime = region_.runtime();
  runtime.read_back({compute_stream(runtime, gpu_), tables_->senders, counted});
  return counted[tables_->sending.turn % 2];
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
      std::vector<AwaitedCopy> copies;
      const auto add = [&](const ByteRange& bytes, const std::uint32_t* counter, std::uint32_t ready) {
        const auto [first, last] = bytes;
        copies.push_back({counter, ready, to.data + first, mirror.data + first, last - first});
      };
      if (!awaits)
        for (const ByteRange& bytes : tables_->ranges_for(p, order)) add(bytes, nullptr, 0);
      for (std::size_t at = k; awaits && at < order.size(); at += copy_streams) {
        const std::uint32_t chunk = order[at];
        if ((tables_->wanted[chunk] >> p & 1) != 0)
          add(tables_->chunks.of(chunk), tables_->outbox.counters + chunk, tables_->writers[chunk] * tables_->epoch);
      }
      runtime.enqueue(stream, {"copies",
                               {mirror},
                               {to},
                               {},
                               [copies, from = gpu_, peer](void* native) { queue_copies(native, copies, from, peer); },
                               {},
                               is_timed_});
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

bool ProducerBase::launches() const {
  return plan_.agent == Agent::dynamic && sends_ != Sends::nothing && tables_->written > 0 && !tables_->peers.empty() &&
         !region_.runtime().simulated();
}

void ProducerBase::check() const { tables_->check(); }

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
                                  std::tie(how.first_byte, how.last_byte) = all;
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
