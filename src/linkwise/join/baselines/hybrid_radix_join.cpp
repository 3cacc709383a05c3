#include "linkwise/join/baselines/hybrid_radix_join.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "linkwise/error.hpp"
#include "linkwise/primitives/host/partition.hpp"
#include "linkwise/primitives/matching.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {
namespace {

constexpr std::size_t slots_of_gpu = 3;            // one pair is copied in, one is joined, one is spare
constexpr std::uint64_t rows_of_partition = 1024;  // target size on the build side: half of a hash table
constexpr std::uint64_t least_pairs_of_gpu = 3;    // so that there is something to overlap

using Begins = std::array<std::uint64_t, host_partitions + 1>;

/// A relation in host memory, bucket by bucket.
struct Partitioned {
  RecordType type;
  Buffer memory, counted;
  Records records;
  Begins begins{}, expected{};
};

/// Buckets that a GPU joins at once.
struct Pair {
  std::size_t first = 0, end = 0;
};

class HybridRadixJoin {
 public:
  HybridRadixJoin(Runtime& runtime, const JoinPlan& plan, const JoinInput& input)
      : runtime_(runtime),
        plan_(plan),
        input_(input),
        sums_(sums_values(input)),
        left_builds_(input.left.count <= input.right.count) {}

  JoinTotals run() {
    runtime_.set_phase("partition");
    Partitioned left = partitioned(input_.left), right = partitioned(input_.right);
    read_begins(left, right);
    const std::vector<Pair> pairs = pairs_of(left, right);
    make_room(pairs, left, right);
    runtime_.set_phase("join");
    for (std::size_t p = 0; p < pairs.size(); ++p) join(p, pairs[p], left, right);
    return totals(pairs.size());
  }

 private:
  struct Slot {
    Buffer left, left_hashed, left_sorted, right, right_hashed, right_sorted;
    Event free;
  };
  struct Worker {
    Stream in, compute;
    std::array<Slot, slots_of_gpu> slots;
    Buffer scratch, totals;
  };

  // Partitions on the CPU cores, in one pass. An estimate has no data and assumes buckets of equal size.
  Partitioned partitioned(const HostColumns& columns) {
    Partitioned side;
    side.type = {key_width(columns.key_type), sums_ ? columns.value_width : ValueWidth::none};
    const std::uint64_t bytes = record_bytes(side.type, columns.count);
    side.memory = runtime_.allocate(Place::host(), bytes, "buckets");
    side.records = records_in(side.memory.view(), side.type, columns.count);
    side.counted = runtime_.allocate(Place::host(), sizeof(Begins), "where buckets begin");
    Operation operation{"partition", views_of(columns), {side.memory.view(), side.counted.view()}, {}, {}};
    const double read_once_more = static_cast<double>(side.records.keys.bytes) / 2;  // half a copy, which also writes
    operation.work.microseconds =
        (static_cast<double>(bytes) + read_once_more) / (1e3 * runtime_.machine().host.local_copy_gb_per_s);
    operation.run = [&columns, type = side.type, to = side.records.raw(),
                     begins = reinterpret_cast<Begins*>(side.counted.view().data)](void*) {
      *begins = partition_on_host(type, {const_cast<void*>(columns.keys), const_cast<void*>(columns.values)}, to,
                                  columns.count);
    };
    runtime_.enqueue(cores_, std::move(operation));
    for (std::size_t b = 0; b <= host_partitions; ++b) side.expected[b] = columns.count * b / host_partitions;
    return side;
  }

  void read_begins(Partitioned& left, Partitioned& right) {
    std::vector<ReadBack> reads;
    for (Partitioned* side : {&left, &right})
      reads.push_back({cores_, side->counted.view(), &side->begins, &side->expected});
    runtime_.read_back(reads);
  }

  static std::uint64_t rows_of(const Partitioned& side, const Pair& pair) {
    return side.begins[pair.end] - side.begins[pair.first];
  }

  // Groups neighbouring buckets, up to the size that a GPU should join at once.
  [[nodiscard]] std::vector<Pair> pairs_of(const Partitioned& left, const Partitioned& right) const {
    const auto bytes = [&](const Pair& pair) {
      return rows_of(left, pair) * left.type.bytes() + rows_of(right, pair) * right.type.bytes();
    };
    const std::uint64_t all = bytes({0, host_partitions});
    const std::uint64_t most = std::min(plan_.pair_bytes, all / (plan_.sort.gpus.size() * least_pairs_of_gpu) + 1);
    std::vector<Pair> pairs;
    for (std::size_t b = 0; b < host_partitions; ++b) {
      if (!pairs.empty() && bytes({pairs.back().first, b + 1}) <= most) ++pairs.back().end;
      else pairs.push_back({b, b + 1});
    }
    std::erase_if(pairs, [&](const Pair& pair) { return rows_of(left, pair) == 0 || rows_of(right, pair) == 0; });
    return pairs;
  }

  void make_room(const std::vector<Pair>& pairs, const Partitioned& left, const Partitioned& right) {
    std::uint64_t lefts = 0, rights = 0;
    for (const Pair& pair : pairs) {
      lefts = std::max(lefts, rows_of(left, pair));
      rights = std::max(rights, rows_of(right, pair));
    }
    const Kernels& kernels = runtime_.kernels();
    const std::uint64_t scratch =
        std::max(kernels.sort_scratch_bytes(left.type, lefts), kernels.sort_scratch_bytes(right.type, rights));
    for (const int gpu : plan_.sort.gpus) {
      const Place place = Place::gpu(gpu);
      const auto allocate = [&](std::uint64_t bytes, const char* label) {
        return runtime_.allocate(place, bytes, label);
      };
      Worker& worker = workers_.emplace_back();
      worker.in = runtime_.stream(place, "in");
      worker.compute = runtime_.stream(place, "compute");
      worker.scratch = allocate(scratch, "scratch");
      worker.totals = allocate(sizeof(MatchTotals) * (pairs.size() / plan_.sort.gpus.size() + 1), "totals");
      for (Slot& slot : worker.slots) {
        slot.left = allocate(record_bytes(left.type, lefts), "left bucket");
        slot.left_hashed = allocate(lefts * left.type.key_bytes(), "hashed keys");
        slot.left_sorted = allocate(record_bytes(left.type, lefts), "left partitions");
        slot.right = allocate(record_bytes(right.type, rights), "right bucket");
        slot.right_hashed = allocate(rights * right.type.key_bytes(), "hashed keys");
        slot.right_sorted = allocate(record_bytes(right.type, rights), "right partitions");
      }
    }
  }

  void join(std::size_t number, const Pair& pair, const Partitioned& left, const Partitioned& right) {
    Worker& worker = workers_[number % workers_.size()];
    const std::size_t round = number / workers_.size();
    Slot& slot = worker.slots[round % slots_of_gpu];
    const Records lefts = records_in(slot.left.view(), left.type, rows_of(left, pair));
    const Records rights = records_in(slot.right.view(), right.type, rows_of(right, pair));
    runtime_.wait(worker.in, slot.free);
    router_.copy(worker.in, lefts, left.records.slice(left.begins[pair.first], lefts.count));
    router_.copy(worker.in, rights, right.records.slice(right.begins[pair.first], rights.count));
    runtime_.wait(worker.compute, runtime_.record(worker.in));
    const std::uint64_t build_rows = left_builds_ ? lefts.count : rights.count;
    const int bits = std::clamp(static_cast<int>(std::bit_width(build_rows / rows_of_partition)), 1, 24);
    const Records parted_left = part(worker, lefts, slot.left_hashed.view(), slot.left_sorted.view(), bits);
    const Records parted_right = part(worker, rights, slot.right_hashed.view(), slot.right_sorted.view(), bits);
    const Records &build = left_builds_ ? parted_left : parted_right,
                  &probing = left_builds_ ? parted_right : parted_left;
    HashProbe probe{build.type.key, bits, probing.keys, {}, {}, build.keys, {}, {}};
    if (sums_) {
      probe.values = probing.values;
      probe.value_type = integers_of(!left_builds_);
      probe.build_values = build.values;
      probe.build_value_type = integers_of(left_builds_);
    }
    hash_probe(runtime_, worker.compute, probe, worker.totals.slice(sizeof(MatchTotals) * round, sizeof(MatchTotals)));
    slot.free = runtime_.record(worker.compute);
  }

  // Hashes the keys and sorts the records by the top `bits` bits of the hashes, which partitions them.
  Records part(const Worker& worker, const Records& records, const MemoryView& hashed, const MemoryView& sorted,
               int bits) const {
    Records by_hash = records;
    by_hash.keys = hashed.slice(0, records.keys.bytes);
    hash_keys(runtime_, worker.compute, records.type.key, records.keys, by_hash.keys);
    const int key_bits = records.type.key_bits();
    return sort(runtime_, worker.compute, by_hash, records_in(sorted, records.type, records.count),
                {key_bits - bits, key_bits}, worker.scratch.view());
  }

  [[nodiscard]] IntegerType integers_of(bool left) const {
    return {static_cast<int>((left ? input_.left : input_.right).value_width),
            left ? input_.left_values_signed : input_.right_values_signed};
  }

  JoinTotals totals(std::size_t pairs) {
    const MatchTotals expected =
        expected_totals(expected_counts(input_), !left_builds_, std::max<std::size_t>(pairs, 1));
    std::vector<std::vector<MatchTotals>> found(workers_.size()), expectation(workers_.size());
    std::vector<ReadBack> reads;
    for (std::size_t g = 0; g < workers_.size(); ++g) {
      const std::size_t of_gpu = pairs / workers_.size() + (g < pairs % workers_.size() ? 1 : 0);
      found[g].resize(of_gpu);
      expectation[g].assign(of_gpu, expected);
      if (of_gpu == 0) continue;
      reads.push_back({workers_[g].compute, workers_[g].totals.slice(0, sizeof(MatchTotals) * of_gpu), found[g].data(),
                       expectation[g].data()});
    }
    runtime_.read_back(reads);
    JoinTotals sum;
    for (const auto& of_gpu : found)
      for (const MatchTotals& pair : of_gpu) {
        sum.rows += pair.matches;
        sum.left_sum += left_builds_ ? pair.build_sum : pair.probe_sum;
        sum.right_sum += left_builds_ ? pair.probe_sum : pair.build_sum;
      }
    runtime_.synchronize();
    return sum;
  }

  Runtime& runtime_;
  const JoinPlan& plan_;
  const JoinInput& input_;
  bool sums_, left_builds_;
  Router router_{runtime_, {}, plan_.sort.relay_bytes};
  Stream cores_ = runtime_.stream(Place::host(), "cores");
  std::vector<Worker> workers_;
};

bool is_of_integers(KeyType type) {
  return type == KeyType::u32 || type == KeyType::u64 || type == KeyType::i32 || type == KeyType::i64;
}

}  // namespace

JoinTotals hybrid_radix_totals(Runtime& runtime, const JoinPlan& plan, const JoinInput& input) {
  if (input.kind != JoinKind::inner || !is_of_integers(input.left.key_type))
    throw UsageError("the hybrid radix join, which is a baseline, does inner joins of 32-bit and 64-bit integers");
  return HybridRadixJoin(runtime, plan, input).run();
}

}  // namespace linkwise
