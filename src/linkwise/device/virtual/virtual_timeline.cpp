// The virtual runtime's timeline: the recorded operations, simulated.
#include "linkwise/device/virtual/virtual_runtime_parts.hpp"

#include <algorithm>
#include <cmath>

#include "linkwise/error.hpp"

namespace linkwise {

int VirtualRuntime::engine_of(Place from, Place to) const {
  if (from == to || (!from.is_gpu() && !to.is_gpu())) return -1;
  if (!from.is_gpu()) return 3 * to.index;
  return 3 * from.index + (to.is_gpu() ? 2 : 1);
}

Task VirtualRuntime::task_of(const Node& node) {
  Task task;
  for (const std::int64_t before : node.after) task.after.push_back(static_cast<int>(before));
  if (!node.done && node.awaited >= 0) task.after.push_back(static_cast<int>(node.awaited));
  if (node.is_copy) {
    if (node.to.bytes == 0) return task;
    const Route& route = topology_.route(node.from.place, node.to.place, node.from.pageable || node.to.pageable);
    task.fixed_ps = static_cast<std::int64_t>(route.latency_us * 1e6);
    task.work = static_cast<double>(node.to.bytes);
    task.uses = route.uses;
    task.engine = engine_of(node.from.place, node.to.place);
  } else if (node.lane >= 0) {
    const Place place = lanes_[node.lane].place;
    const Work& work = node.operation.work;
    task.fixed_ps = static_cast<std::int64_t>(work.fixed_us * 1e6);
    if (work.only_transfers) {
      for (const Passage& passage : passages_of(topology_, place, node.operation)) {
        task.work += static_cast<double>(passage.bytes) / work.goodput;
        const auto& uses = topology_.route(passage.from, passage.to).uses;
        task.uses.insert(task.uses.end(), uses.begin(), uses.end());
      }
      return task;
    }
    task.work = work.microseconds * 1e3;
    if (!work.rate.empty()) {
      const Processor& processor = place.is_gpu() ? machine().gpu : machine().host;
      auto rate = processor.rates.find(work.rate);
      double passes = work.passes;
      if (rate == processor.rates.end() && !work.other_rate.empty()) {
        rate = processor.rates.find(work.other_rate);
        passes = work.other_passes;
      }
      if (rate == processor.rates.end()) rate = processor.rates.find(work.rate.substr(0, work.rate.find(" with ")));
      if (rate == processor.rates.end())
        throw UsageError("machine '" + machine().name + "': no rate for '" + work.rate + "' on its " +
                         (place.is_gpu() ? "GPUs" : "host"));
      task.fixed_ps = static_cast<std::int64_t>(rate->second.fixed_us * 1e6);
      task.work = passes * static_cast<double>(work.records) *
                  (rate->second.ps_per_record + rate->second.ps_per_byte * work.bytes_per_record) * 1e-3;
    }
    if (task.work <= 0) return task;
    task.uses = {{topology_.processor_of(place), 1}};
    // A kernel with peer transfers also uses the links: when it runs at full speed, at its bytes per stand-alone
    // time.
    for (const Passage& passage : passages_of(topology_, place, node.operation))
      for (const Use& use : topology_.route(passage.from, passage.to).uses)
        task.uses.push_back(
            {use.resource, use.weight * static_cast<double>(passage.bytes) / work.goodput / std::max(task.work, 1.0)});
  }
  return task;
}

std::vector<TimelineEntry> VirtualRuntime::timeline() {
  finish_own_streams();
  std::vector<Task> tasks;
  tasks.reserve(nodes_.size());
  for (const auto& node : nodes_) tasks.push_back(task_of(*node));
  std::vector<int> slots;
  for (int g = 0; g < machine().num_gpus(); ++g) {
    slots.push_back(machine().copy_engines.host_to_device);
    slots.push_back(machine().copy_engines.device_to_host);
    slots.push_back(machine().copy_engines.peer);
  }
  const std::vector<Interval> intervals = simulate(topology_.resources(), tasks, slots);
  std::vector<TimelineEntry> entries;
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = *nodes_[n];
    if (!node.shown) continue;
    TimelineEntry entry;
    entry.name = node.name;
    entry.phase = node.phase;
    entry.stream = lanes_[node.lane].name;
    entry.place = entry.from = entry.to = lanes_[node.lane].place;
    entry.is_copy = node.is_copy;
    if (node.is_copy) {
      entry.from = node.from.place;
      entry.to = node.to.place;
      entry.bytes = node.to.bytes;
      entry.passages = {passage_of(topology_, node.from, node.to)};
    } else {
      for (const MemoryView& view : node.operation.reads) entry.bytes += view.bytes;
      entry.passages = passages_of(topology_, lanes_[node.lane].place, node.operation);
    }
    entry.start_ps = intervals[n].start_ps;
    entry.end_ps = intervals[n].end_ps;
    entries.push_back(std::move(entry));
  }
  std::ranges::stable_sort(entries, {}, &TimelineEntry::start_ps);
  return entries;
}

void VirtualRuntime::clear_timeline() {
  finish_own_streams();
  enqueued_ = finished_ = 0;
  run_waits_of_others();
  const auto is_pending = [](const Lane& lane) { return lane.next < lane.nodes.size(); };
  if (std::ranges::any_of(lanes_, is_pending)) {  // other software's work, which nobody waits for
    for (const auto& node : nodes_) {
      if (!node->done) continue;
      node->is_copy = node->shown = false;
      node->operation.work = {};
    }
    return;
  }
  nodes_.clear();
  events_.clear();
  ++past_;
  for (Lane& lane : lanes_) {
    lane.nodes.clear();
    lane.next = lane.flushed = 0;
  }
  for (FlagState& flag : flags_) flag.sets.clear();
  // Everything that ran happened before everything to come, so the past needs no traces.
  races_ = {};
  freed_.clear();
  host_clock_.clear();
  host_accesses_ = 0;
  host_fence_ = -1;
}

}  // namespace linkwise
