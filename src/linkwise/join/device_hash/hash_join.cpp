#include "linkwise/join/device_hash/hash_join.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/join/device_hash/hash_parts.hpp"
#include "linkwise/join/device_hash/probed_sides.hpp"
#include "linkwise/join/device_hash/skew.hpp"
#include "linkwise/primitives/matching.hpp"

namespace linkwise {
namespace {

constexpr double most_tables = 64;                   // tables that one key may fill, or one block is the bottleneck
constexpr double most_pairs_a_row = 8;               // that counting may enumerate, for frequent keys
constexpr double few_pairs = 1e8;                    // enumerating them takes about as long as sampling
constexpr std::uint32_t most_rows_asked_for = 8192;  // table rows that fit with 8-byte keys and values
constexpr std::uint64_t most_written = std::numeric_limits<std::uint32_t>::max();
constexpr double most_of_a_gpu = 1.5;  // most rows of one key, relative to a GPU's share of a side

class HashJoin : ProbedSides {
 public:
  HashJoin(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input, bool wants_rows)
      : ProbedSides(runtime, plan, input, wants_rows),
        block_bytes_(runtime.kernels().block_memory_bytes()),
        layout_(layout()),
        parts_(runtime, streams_, router_, layout_, input.verify) {}

  /// Partitions both sides; returns false if a sort-merge join is the better choice.
  bool prepare() {
    if (input_.hash_table_rows > most_rows_asked_for) throw UsageError("a table takes at most 8192 rows");
    check_row_numbers();
    if (block_bytes_ < least_hash_block_bytes) {
      if (is_chosen()) return false;
      throw UsageError(
          "a GPU has too little memory for a thread block, of which a hash join takes 112 KiB; join by sorting");
    }
    std::optional<SkewSamples> samples;
    if (is_chosen() && asks_samples()) samples.emplace(runtime_, streams_, build_, probe_);
    parts_.start_dividing(input_of(build_), input_of(probe_));
    if (parts_.bring_together([&] { return !samples || suits(samples->skew()); })) return true;
    if (!is_chosen())
      throw UsageError(
          "a GPU would get much more than its share of the hashed keys, of which a hash join keeps the rows together; "
          "join by sorting, which spreads them");
    runtime_.synchronize();
    return false;
  }

  JoinTotals totals() {
    count();
    std::uint64_t rows = 0;
    std::vector<MatchTotals> found;
    for (const OnGpu& gpu : gpus_) {
      rows += rows_of(gpu);
      found.push_back(gpu.found.totals);
    }
    check();
    runtime_.synchronize();
    return totals_of(found, rows);
  }

  std::optional<std::vector<SortedPart>> rows() {
    count();
    // Blocks count the rows that they write in 32 bits, which a key that is frequent on both sides may overflow.
    if (std::ranges::any_of(gpus_, [&](const OnGpu& gpu) { return probed_rows(gpu) > most_written; })) {
      if (is_chosen()) return {};
      throw UsageError("a GPU would write more than 2^32 rows, which a hash join does not; join by sorting");
    }
    runtime_.set_phase("materialise");
    std::vector<RowsOnGpu> made;
    for (std::size_t g = 0; g < gpus_.size(); ++g) made.push_back(write(g));
    check();
    return handed_over(std::move(made));
  }

 private:
  struct Found {  // read back from a GPU
    MatchTotals totals;
    std::uint64_t rest = 0;
    HashParts::Checksums seen;
  };
  struct OnGpu {
    HashMatch match;
    MemoryView numbers, emitted;  // a Found; the rows that each task emits
    Found found;
    [[nodiscard]] MemoryView totals() const { return numbers.slice(offsetof(Found, totals), sizeof(MatchTotals)); }
    [[nodiscard]] MemoryView rest() const { return numbers.slice(offsetof(Found, rest), 8); }
    [[nodiscard]] MemoryView seen() const { return numbers.slice(offsetof(Found, seen), sizeof Found::seen); }
  };

  [[nodiscard]] bool enumerates() const {  // whether counting enumerates pairs that are not written
    return !wants_rows_ || !emissions_.writes_probe;
  }
  [[nodiscard]] double rows_of_one_key() const { return most_tables * static_cast<double>(layout_.table_rows); }

  // Samples are needed only if skew could make hashing slow.
  [[nodiscard]] bool asks_samples() const {
    const double most = static_cast<double>(left_.rows) * static_cast<double>(right_.rows);
    return static_cast<double>(build_.rows) > rows_of_one_key() || (streams_.size() > 1 && !layout_.replicates) ||
           (enumerates() && most > few_pairs);
  }

  [[nodiscard]] bool suits(const JoinSkew& skew) const {
    const auto rows = static_cast<double>(left_.rows + right_.rows);
    const auto gpus = static_cast<double>(streams_.size());
    return skew.build_rows <= rows_of_one_key() && (!enumerates() || skew.pairs <= most_pairs_a_row * rows) &&
           (layout_.replicates || skew.probe_share * gpus <= most_of_a_gpu || gpus == 1);
  }

  [[nodiscard]] bool verifies() const { return input_.verify && parts_.has_moved(); }

  void count() {
    runtime_.set_phase("probe");
    std::vector<ReadBack> reads;
    gpus_.resize(streams_.size());
    for (std::size_t g = 0; g < streams_.size(); ++g) {
      OnGpu& gpu = gpus_[g];
      const HashParts::OnGpu& parts = parts_.on_gpus()[g];
      HashMatch& match = gpu.match;
      match = {parts.probe,
               parts.build,
               parts.parts,
               layout_.table_rows,
               emissions_.probe,
               {},
               {},
               input_of(probe_).value,
               input_of(build_).value,
               {},
               parts.first_part,
               parts_.part_bits()};
      gpu.numbers = allocate(g, sizeof(Found));
      match.tasks = allocate(g, match.task_bytes());
      gpu.emitted = allocate(g, 8 * match.most_tasks());
      if (verifies()) match.checksums = gpu.seen();
      list_hash_tasks(runtime_, streams_[g], match);
      HashMatch counted = match;
      if (writes()) counted.checksums = {};
      if (emissions_.takes_rest && match.build.rows() > 0) counted.met = match.met = allocate(g, match.build.rows());
      count_hash_matches(runtime_, streams_[g], counted, sums_, gpu.totals(), gpu.emitted);
      if (match.met.bytes > 0)
        take_hash_rest(runtime_, streams_[g], match.build, match.met, emissions_.rest_has_met, 0, {}, {}, gpu.rest());
      reads.push_back({streams_[g], gpu.totals(), &gpu.found.totals});
      if (match.met.bytes > 0) reads.push_back({streams_[g], gpu.rest(), &gpu.found.rest});
      if (verifies() && !writes()) reads.push_back({streams_[g], gpu.seen(), &gpu.found.seen});
    }
    if (input_.verify) parts_.read_came_in(reads);
    runtime_.read_back(reads);
    runtime_.synchronize();  // so that the memory of the partitioning passes can be reused
  }

  [[nodiscard]] std::uint64_t rows_of(const OnGpu& gpu) const { return probed_rows(gpu) + gpu.found.rest; }
  using ProbedSides::probed_rows;
  [[nodiscard]] std::uint64_t probed_rows(const OnGpu& gpu) const {
    return probed_rows(gpu.found.totals, gpu.match.probe.rows());
  }

  RowsOnGpu write(std::size_t g) {
    OnGpu& gpu = gpus_[g];
    RowsOnGpu made = room_for(g, rows_of(gpu));
    const auto [of_probe, of_build] = columns_in(made);
    if (writes()) {
      const std::uint64_t tasks = gpu.match.most_tasks();
      const MemoryView offsets = allocate(g, 8 * (tasks + 1));
      const MemoryView scratch = allocate(g, runtime_.kernels().running_sums_scratch_bytes(tasks));
      running_sums(runtime_, streams_[g], {8, false}, gpu.emitted, offsets, scratch);
      HashMatch written = gpu.match;
      written.met = {};
      write_hash_matches(runtime_, streams_[g], written, offsets, of_probe, of_build);
    }
    if (gpu.match.met.bytes > 0)
      take_hash_rest(runtime_, streams_[g], gpu.match.build, gpu.match.met, emissions_.rest_has_met, probed_rows(gpu),
                     of_probe, of_build, gpu.rest());
    return made;
  }

  // Checks that all copies agree with their originals, and that every input row was joined.
  void check() {
    if (input_.verify && !parts_.copies_agree()) throw_changed("a copy of the shorter side is not what came in");
    if (verifies()) {
      runtime_.set_phase("verify");
      std::vector<ReadBack> reads;
      for (std::size_t g = 0; writes() && g < gpus_.size(); ++g)
        reads.push_back({streams_[g], gpus_[g].seen(), &gpus_[g].found.seen});
      if (!reads.empty()) runtime_.read_back(reads);
      HashParts::Checksums seen;
      for (const OnGpu& gpu : gpus_) seen += gpu.found.seen;
      if (seen != parts_.came_in()) throw_changed("the rows that were joined are not those that came in");
    }
  }

  std::uint64_t block_bytes_;
  HashLayout layout_;
  HashParts parts_;
  std::vector<OnGpu> gpus_;
};

}  // namespace

std::optional<JoinTotals> hash_join_totals(Runtime& runtime, const JoinPlan& plan, const DeviceJoinInput& input) {
  HashJoin join(runtime, plan, input, /*wants_rows=*/false);
  if (!join.prepare()) return {};
  return join.totals();
}

std::optional<std::vector<SortedPart>> hash_join_rows(Runtime& runtime, const JoinPlan& plan,
                                                      const DeviceJoinInput& input) {
  HashJoin join(runtime, plan, input, /*wants_rows=*/true);
  if (!join.prepare()) return {};
  return join.rows();
}

}  // namespace linkwise
