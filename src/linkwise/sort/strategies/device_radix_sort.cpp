#include "linkwise/sort/strategies/device_radix_sort.hpp"

#include <algorithm>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/sort/exchange/msb_cuts.hpp"
#include "linkwise/sort/exchange/radix_exchange.hpp"
#include "linkwise/sort/local_sort.hpp"

namespace linkwise {
namespace {

constexpr std::size_t max_lanes = 2;          // streams that sort one GPU's buckets: each fills the other's gaps
constexpr std::size_t max_buckets = 16;       // per GPU; with more, the spare room hardly shrinks further
constexpr std::uint64_t worth_two = 1 << 24;  // from this share size on, two buckets cost no more than one
constexpr std::uint64_t small_things = 64 << 10;

struct Bucket {
  std::uint64_t first, count;  // in the sorted records
  BitRange bits;
};

// What one GPU receives, and where it is sorted.
struct Share {
  std::vector<Bucket> buckets;
  bool is_odd = false;  // the sorts end in their second buffers
  std::uint64_t count = 0;
  std::uint64_t largest = 0;  // records of the largest bucket
  std::size_t lanes = 1;
  std::uint64_t room = 0;  // spare records in `memory`
  bool spare_in_input = false;
  Buffer memory;

  [[nodiscard]] Records all(RecordType type) const { return records_in(memory.view(), type, count + room); }
  // Where the bucket is received.
  [[nodiscard]] Records arriving(RecordType type, const Bucket& bucket) const {
    return all(type).slice((is_odd ? room : 0) + bucket.first, bucket.count);
  }
};

class DeviceRadixSort {
 public:
  DeviceRadixSort(Runtime& runtime, const SortPlan& plan, std::span<const Stream> streams,
                  std::span<const Records> input, bool overwrites)
      : runtime_(runtime),
        plan_(plan),
        streams_(streams),
        input_(input),
        overwrites_(overwrites),
        type_(input.front().type),
        shares_(input.size()) {
    for (const Records& records : input) total_ += records.count;
    choose_buckets();
  }

  std::vector<SortedRecords> run() {
    runtime_.set_phase("partition");
    by_msd_ = suits_msd();
    const std::vector<Event> arrived = input_.size() * buckets_ == 1 || total_ == 0 ? stay() : exchange();
    runtime_.set_phase("sort");
    std::vector<SortedRecords> sorted;
    for (std::size_t g = 0; g < shares_.size(); ++g) {
      sort_buckets(g, arrived);
      const Records records = shares_[g].all(type_).slice(0, shares_[g].count);
      sorted.push_back({std::move(shares_[g].memory), records});
    }
    return sorted;
  }

 private:
  // No exchange: each GPU has one bucket, its own input. For one GPU with one bucket, or if there are no records.
  std::vector<Event> stay() {
    std::vector<Event> arrived;
    runtime_.set_phase("exchange");
    for (std::size_t g = 0; g < shares_.size(); ++g) {
      shares_[g].buckets = {{0, input_[g].count, {0, type_.key_bits()}}};
      lay_out(g);
      copy(runtime_, streams_[g], shares_[g].arriving(type_, shares_[g].buckets.front()), input_[g]);
      arrived.push_back(runtime_.record(streams_[g]));
    }
    return arrived;
  }

  std::vector<Event> exchange() {
    const auto parts = static_cast<int>(input_.size() * buckets_);
    std::vector<Buffer> scratch;
    std::vector<ExchangeInput> sources;
    for (std::size_t g = 0; g < input_.size(); ++g) {
      const Place place = streams_[g].place;
      const std::uint64_t bytes = runtime_.kernels().partition_scratch_bytes(type_, input_[g].count, parts);
      scratch.push_back(runtime_.allocate(place, bytes, "partition scratch"));
      scratch.push_back(runtime_.allocate(place, 8 * static_cast<std::uint64_t>(parts), "counters"));
      sources.push_back({streams_[g], input_[g], scratch[2 * g].view(), scratch[2 * g + 1].view()});
    }
    RadixExchange exchange(runtime_, plan_, std::move(sources), parts);
    std::vector<Records> to;
    for (std::size_t g = 0; g < shares_.size(); ++g) {
      std::uint64_t first = 0;
      for (std::size_t b = 0; b < buckets_; ++b) {
        const auto part = static_cast<int>(g * buckets_ + b);
        shares_[g].buckets.push_back({first, exchange.received(part), exchange.bits(part)});
        first += exchange.received(part);
      }
      lay_out(g);
      for (const Bucket& bucket : shares_[g].buckets) to.push_back(shares_[g].arriving(type_, bucket));
    }
    runtime_.set_phase("exchange");
    std::vector<Event> arrived = exchange.store(to);
    for (Buffer& buffer : scratch) runtime_.retire(std::move(buffer));
    return arrived;
  }

  // Whether the buckets are sorted by MSD radix sort. A single GPU's records have already been considered for it
  // (one_gpu_sort.hpp).
  [[nodiscard]] bool suits_msd() const {
    if (!has_room_for_msd_) return false;
    std::vector<SampleSource> sources;
    for (std::size_t g = 0; g < input_.size(); ++g) sources.push_back({streams_[g], input_[g].keys});
    bool suits = false;
    try {
      run_or_abandon(runtime_, [&] {
        suits = keys_suit_msd_sort(runtime_, code_type(type_.key), /*descending=*/false, std::move(sources), type_,
                                   total_ / (input_.size() * buckets_));
      });
    } catch (const OutOfMemoryError&) {  // NOLINT(bugprone-empty-catch): then not
    }
    return suits;
  }

  // Uses the plan's number of buckets or, if it has none, the fewest that fit into memory, as each costs time.
  // Prefers two for large shares if the input can be the spare room: a GPU may receive slightly more records than its
  // input has room for, but a half of them fits.
  void choose_buckets() {
    const std::size_t most = std::max<std::size_t>(max_destinations / input_.size(), 1);
    const bool prefers_two = overwrites_ && input_.size() > 1 && total_ / input_.size() >= worth_two;
    const auto wanted = static_cast<std::size_t>(plan_.device_buckets > 0 ? plan_.device_buckets : prefers_two ? 2 : 1);
    if (plan_.device_buckets > 0 && wanted > most)
      throw UsageError("device_buckets is " + std::to_string(wanted) + ", and each of " +
                       std::to_string(input_.size()) + " GPUs can have " + std::to_string(most) +
                       "; make it less, or leave it out");
    buckets_ = std::min(wanted, most);
    has_room_for_msd_ = input_.size() > 1;
    while (true) {
      try {
        for (std::size_t g = 0; g < input_.size(); ++g) reserve(g);
        return;
      } catch (const OutOfMemoryError&) {
        if (std::exchange(has_room_for_msd_, false)) continue;
        if (plan_.device_buckets > 0 || 2 * buckets_ > std::min(most, max_buckets)) throw;
        buckets_ *= 2;
      }
    }
  }

  // Reserves, in one allocation, about what the sort will need.
  void reserve(std::size_t g) {
    const std::uint64_t even = total_ / input_.size() + 1;
    const auto share = even + static_cast<std::uint64_t>(static_cast<double>(even) * plan_.slack) + 64;
    const std::uint64_t per_bucket = share / buckets_ + 1;
    const std::uint64_t room =
        overwrites_ && per_bucket <= input_[g].count ? 0 : std::min(max_lanes, buckets_) * per_bucket;
    const Kernels& kernels = runtime_.kernels();
    const auto parts = static_cast<int>(input_.size() * buckets_);
    runtime_.reserve(streams_[g].place, record_bytes(type_, share + room) + max_lanes * scratch_bytes(per_bucket) +
                                            kernels.partition_scratch_bytes(type_, input_[g].count, parts) +
                                            sample_bytes(kernels, type_.key, std::min(plan_.samples, total_)) +
                                            msb_bytes(plan_, parts) + small_things);
  }

  [[nodiscard]] std::uint64_t scratch_bytes(std::uint64_t most) const {
    return has_room_for_msd_ ? local_sort_scratch_bytes(runtime_.kernels(), type_, most)
                             : runtime_.kernels().sort_scratch_bytes(type_, most);
  }

  // Decides where the share's buckets are received and sorted, and allocates.
  void lay_out(std::size_t g) {
    Share& share = shares_[g];
    int bits = 0;
    for (const Bucket& bucket : share.buckets) {
      share.count += bucket.count;
      share.largest = std::max(share.largest, bucket.count);
      bits = std::max(bits, bucket.bits.end);
    }
    // All buckets must end in the same buffer: that in which the one with the most bits does.
    share.is_odd = runtime_.kernels().sort_lands_in_secondary(type_, share.buckets.front().count, {0, bits});
    share.spare_in_input = overwrites_ && !share.is_odd && share.largest <= input_[g].count;
    share.lanes = std::min(max_lanes, buckets_);
    if (share.spare_in_input && share.lanes * share.largest > input_[g].count) share.lanes = 1;
    share.room = share.spare_in_input ? 0 : share.lanes * share.largest;
    share.memory =
        runtime_.allocate(streams_[g].place, record_bytes(type_, share.count + share.room), "sorted records");
  }

  void sort_buckets(std::size_t g, std::span<const Event> arrived) {
    const Share& share = shares_[g];
    std::vector<Stream> streams{streams_[g]};
    if (share.lanes > 1) streams.push_back(runtime_.stream(streams_[g].place, "compute 2"));
    std::vector<Buffer> scratch;
    for (const Stream stream : streams) {
      for (const Event event : arrived) runtime_.wait(stream, event);
      scratch.push_back(runtime_.allocate(stream.place, scratch_bytes(share.largest), "sort scratch"));
    }
    std::vector<Event> done;
    for (std::size_t b = 0; b < share.buckets.size(); ++b) {
      const Bucket& bucket = share.buckets[b];
      const std::size_t lane = b % share.lanes;
      // The spare room of two lanes is two buckets long: an odd sort may overwrite any bucket before its predecessor.
      // It is ordered after those on its own lane, and waits for the last such one on the other lane.
      if (share.is_odd && b > share.lanes) runtime_.wait(streams[lane], done[b - share.lanes - 1]);
      sort_locally(runtime_, streams[lane], share.arriving(type_, bucket),
                   other_buffer(g, bucket, lane * share.largest),
                   {bucket.bits, by_msd_, share.is_odd ? LocalSort::Into::second : LocalSort::Into::first},
                   scratch[lane].view());
      done.push_back(runtime_.record(streams[lane]));
    }
    for (std::size_t lane = 1; lane < share.lanes; ++lane) runtime_.wait(streams_[g], runtime_.record(streams[lane]));
    for (Buffer& buffer : scratch) runtime_.retire(std::move(buffer));
  }

  // An odd sort's result goes to its place among the sorted records; an even sort's second buffer is just spare room.
  [[nodiscard]] Records other_buffer(std::size_t g, const Bucket& bucket, std::uint64_t at) const {
    const Share& share = shares_[g];
    if (share.spare_in_input) return input_[g].slice(at, bucket.count);
    return share.all(type_).slice(share.is_odd ? bucket.first : share.count + at, bucket.count);
  }

  Runtime& runtime_;
  const SortPlan& plan_;
  std::span<const Stream> streams_;
  std::span<const Records> input_;
  bool overwrites_;
  RecordType type_;
  std::uint64_t total_ = 0;
  std::size_t buckets_ = 1;                         // per GPU
  bool has_room_for_msd_ = false, by_msd_ = false;  // for MSD radix sort
  std::vector<Share> shares_;
};

}  // namespace

std::vector<SortedRecords> device_radix_sort(Runtime& runtime, const SortPlan& plan, std::span<const Stream> streams,
                                             std::span<const Records> input, bool overwrites) {
  return DeviceRadixSort(runtime, plan, streams, input, overwrites).run();
}

}  // namespace linkwise
