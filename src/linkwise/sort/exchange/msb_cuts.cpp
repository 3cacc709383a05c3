#include "linkwise/sort/exchange/msb_cuts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linkwise {
namespace {

constexpr int digit_bits = 8;  // per pass: the paper's m
constexpr std::uint64_t digits = 1 << digit_bits;
constexpr double epsilon = 0.005;  // fraction of a part by which a cut may miss its position

// A pass refines at most one bucket for each cut.
std::uint64_t counter_bytes(int parts) { return 8 * digits * static_cast<std::uint64_t>(parts - 1); }

/// The keys with the same leading bits.
struct Bucket {
  std::uint64_t prefix = 0;
  std::uint64_t before = 0;  // number of smaller keys
  std::uint64_t count = 0;
};

class MsbCuts {
 public:
  MsbCuts(Runtime& runtime, KeyWidth width, std::span<const KeySource> sources, int parts)
      : runtime_(runtime), width_(width), sources_(sources), parts_(static_cast<std::uint64_t>(parts)) {
    for (const KeySource& source : sources) {
      counters_.push_back(runtime.allocate(source.stream.place, counter_bytes(parts), "histogram"));
      total_ += source.keys.bytes / static_cast<std::uint64_t>(width);
    }
    tolerance_ = static_cast<std::uint64_t>(epsilon * static_cast<double>(total_) / parts);
  }

  std::optional<std::vector<Cut>> run() {
    std::vector<Cut> cuts(parts_ - 1);
    std::vector<std::uint64_t> open;  // cuts without a position yet
    for (std::uint64_t cut = 1; cut < parts_; ++cut) open.push_back(cut);
    std::vector<Bucket> spanning{{0, 0, total_}};
    for (int begin = 8 * static_cast<int>(width_) - digit_bits; begin >= 0; begin -= digit_bits) {
      const std::vector<std::uint64_t> counts = histogram_of(spanning, begin);
      std::vector<std::uint64_t> still_open;
      std::vector<Bucket> refined;
      for (const std::uint64_t cut : open) {
        const std::uint64_t wanted = total_ * cut / parts_;
        const Bucket bucket = bucket_at(wanted, spanning, counts);
        if (wanted - bucket.before <= tolerance_) {
          cuts[cut - 1] = {bucket.prefix << begin, 0};
        } else if (bucket.before + bucket.count - wanted <= tolerance_) {
          cuts[cut - 1] = cut_behind(bucket.prefix, begin);
        } else {
          still_open.push_back(cut);
          if (refined.empty() || refined.back().prefix != bucket.prefix) refined.push_back(bucket);
        }
      }
      if (still_open.empty()) return cuts;
      open = std::move(still_open);
      spanning = std::move(refined);
    }
    return std::nullopt;
  }

 private:
  // For each bucket, the histogram of its keys' digits at bit `begin`, summed over all sources.
  std::vector<std::uint64_t> histogram_of(const std::vector<Bucket>& buckets, int begin) {
    const bool is_first = begin + digit_bits == 8 * static_cast<int>(width_);
    Prefixes prefixes;
    if (!is_first)
      for (const Bucket& bucket : buckets) prefixes.value[prefixes.count++] = bucket.prefix;
    const std::uint64_t length = buckets.size() * digits;
    std::vector<std::vector<std::uint64_t>> of_source(sources_.size(), std::vector<std::uint64_t>(length));
    std::vector<std::vector<std::uint64_t>> expected = of_source;
    std::vector<ReadBack> reads;
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      const MemoryView counters = counters_[s].slice(0, 8 * length);
      histogram(runtime_, sources_[s].stream, width_, sources_[s].keys, {begin, begin + digit_bits}, prefixes,
                counters);
      for (std::uint64_t i = 0; i < length; ++i) {  // uniform keys
        const std::uint64_t share = buckets[i / digits].count / sources_.size();
        expected[s][i] = share * (i % digits + 1) / digits - share * (i % digits) / digits;
      }
      reads.push_back({sources_[s].stream, counters, of_source[s].data(), expected[s].data()});
    }
    runtime_.read_back(reads);
    std::vector<std::uint64_t> sums(length, 0);
    for (const auto& counts : of_source)
      for (std::uint64_t i = 0; i < length; ++i) sums[i] += counts[i];
    return sums;
  }

  // The refined bucket that contains the key of that rank.
  static Bucket bucket_at(std::uint64_t rank, const std::vector<Bucket>& spanning,
                          const std::vector<std::uint64_t>& counts) {
    Bucket found;
    for (std::size_t b = 0; b < spanning.size() && spanning[b].before <= rank; ++b) {
      found = {spanning[b].prefix << digit_bits, spanning[b].before, counts[b * digits]};
      for (std::uint64_t d = 1; d < digits && found.before + found.count <= rank; ++d)
        found = {found.prefix + 1, found.before + found.count, counts[b * digits + d]};
    }
    return found;
  }

  // A cut after all keys that begin with the prefix.
  [[nodiscard]] Cut cut_behind(std::uint64_t prefix, int begin) const {
    constexpr std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t greatest = all >> (64 - 8 * static_cast<int>(width_));
    if (prefix == greatest >> begin) return {greatest, all};
    return {(prefix + 1) << begin, 0};
  }

  Runtime& runtime_;
  KeyWidth width_;
  std::span<const KeySource> sources_;
  std::uint64_t parts_;
  std::uint64_t total_ = 0;
  std::uint64_t tolerance_ = 0;
  std::vector<Buffer> counters_;
};

}  // namespace

std::optional<std::vector<Cut>> msb_cuts(Runtime& runtime, KeyWidth width, std::span<const KeySource> sources,
                                         int parts) {
  return MsbCuts(runtime, width, sources, parts).run();
}

std::uint64_t msb_bytes(const SortPlan& plan, int parts) {
  return plan.splitting == Splitting::msb && parts > 1 ? counter_bytes(parts) : 0;
}

}  // namespace linkwise
