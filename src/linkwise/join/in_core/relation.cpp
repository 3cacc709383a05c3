#include "linkwise/join/in_core/relation.hpp"

#include <cstring>

#include "linkwise/primitives/matching.hpp"
#include "linkwise/sort/local_sort.hpp"

namespace linkwise {
namespace {

// Rounded up to whole memory lines, so that the received rows begin at a line boundary.
std::uint64_t front_rows(const PartRoom& room) { return (room.borrowed + 31) / 32 * 32; }

}  // namespace

Relation::Relation(Runtime& runtime, std::span<const Stream> streams, RecordType type, std::span<const PartRoom> room,
                   bool by_msd)
    : runtime_(runtime), type_(type), by_msd_(by_msd), borrowed_(streams.size(), 0) {
  for (std::size_t g = 0; g < streams.size(); ++g) {
    const std::uint64_t front = front_rows(room[g]), rows = most_rows(room[g]);
    memory_.push_back(runtime.allocate(streams[g].place, record_bytes(type, rows), "relation"));
    whole_.push_back(records_in(memory_[g].view(), type, rows));
    front_.push_back(front);
    parts_.room.push_back(whole_[g].slice(front, room[g].rows));
  }
  clear();
}

std::uint64_t Relation::most_rows(const PartRoom& room) { return front_rows(room) + room.rows; }

void Relation::clear() { parts_.received.assign(parts_.room.size(), 0); }

Records Relation::all(std::size_t gpu) const {
  return whole_[gpu].slice(front_[gpu] - borrowed_[gpu], borrowed_[gpu] + received(gpu));
}

void Relation::sort(std::size_t gpu, Stream stream, BitRange bits, const MemoryView& spare, const MemoryView& scratch) {
  const Records records = own(gpu);
  sort_locally(runtime_, stream, records, records_in(spare, type_, records.count),
               {bits, by_msd_, LocalSort::Into::first}, scratch);
}

// For each part that borrows: how many rows of the borrowed key its owner has. They are the owner's last rows.
std::vector<std::uint64_t> Relation::lengths_of_runs(const JoinSplitters& cuts, std::span<const Stream> streams) const {
  std::vector<MatchTotals> totals(streams.size());
  std::vector<Buffer> memory;
  std::vector<ReadBack> reads;
  for (std::size_t part = 0; part < streams.size(); ++part) {
    if (!cuts.borrows(part)) continue;
    const std::size_t owner = cuts.owner(part);
    const Stream stream = streams[owner];
    const std::uint64_t scratch = probe_scratch_bytes(runtime_.kernels(), 1);
    const auto allocate = [&](Place place, std::uint64_t bytes) -> MemoryView {
      return memory.emplace_back(runtime_.allocate(place, bytes, "key")).view();
    };
    const MemoryView key = allocate(Place::host(), 8), small = allocate(stream.place, 64 + scratch);
    runtime_.host_writes(key, "says which key is borrowed");
    if (!runtime_.estimating()) std::memcpy(key.data, &cuts.cuts[part - 1].code, 8);
    runtime_.copy(stream, small.slice(0, 8), key);
    const MemoryView found = small.slice(16, sizeof(MatchTotals));
    Probe of_key;
    of_key.width = type_.key;
    of_key.keys = small.slice(0, type_.key_bytes());
    of_key.build_keys = own(owner).keys;
    probe(runtime_, stream, of_key, small.slice(64, scratch), found);
    reads.push_back({stream, found, &totals[part]});
  }
  if (!reads.empty()) runtime_.read_back(reads);
  std::vector<std::uint64_t> lengths;
  for (const MatchTotals& of_part : totals) lengths.push_back(of_part.matches);
  return lengths;
}

void Relation::borrow(const JoinSplitters& cuts, std::span<const Stream> streams, Router& router) {
  const std::vector<std::uint64_t> lengths = lengths_of_runs(cuts, streams);
  for (std::size_t part = 0; part < streams.size(); ++part) {
    borrowed_[part] = lengths[part];
    if (borrowed_[part] > front_[part]) throw_samples_misjudged();
    if (borrowed_[part] == 0) continue;
    const std::size_t owner = cuts.owner(part);
    const Records run = own(owner).slice(received(owner) - borrowed_[part], borrowed_[part]);
    router.copy(streams[owner], whole_[part].slice(front_[part] - borrowed_[part], borrowed_[part]), run);
    runtime_.wait(streams[part], runtime_.record(streams[owner]));
  }
}

}  // namespace linkwise
