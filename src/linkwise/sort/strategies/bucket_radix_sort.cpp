#include "linkwise/sort/strategies/bucket_radix_sort.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "linkwise/transfer/exchange.hpp"

namespace linkwise {
namespace {

constexpr int digit_bits = 8;  // per pass: the paper's m
constexpr std::uint64_t digits = 1 << digit_bits;
constexpr double epsilon = 0.005;  // fraction of a share by which a bucket may extend across its end
constexpr double gamma = 0.01;     // fraction of a chunk up to which neighbouring buckets are sorted together

/// The keys of all GPUs with the same leading bits.
struct Bucket {
  std::uint64_t prefix = 0;
  int passes = 0;            // how many digits the prefix has
  std::uint64_t before = 0;  // records in the buckets before it
  std::uint64_t count = 0;
  std::vector<std::uint64_t> counts;  // for each GPU
};

class BucketSort {
 public:
  BucketSort(Runtime& runtime, Router& router, std::vector<Chunk>& chunks)
      : runtime_(runtime), router_(router), chunks_(chunks), width_(chunks.front().type().key_bits()) {
    Bucket all;
    for (const Chunk& chunk : chunks) {
      all.counts.push_back(chunk.count());
      all.count += chunk.count();
      histograms_.push_back(runtime.allocate(chunk.place(), bucket_bytes(), "histogram"));
    }
    total_ = all.count;
    tolerance_ = static_cast<std::uint64_t>(epsilon * static_cast<double>(total_) / static_cast<double>(gpus()));
    buckets_.push_back(std::move(all));
  }

  void run() {
    runtime_.set_phase("partition");
    refine_all();
    assign();
    exchange();
    runtime_.set_phase("sort");
    for (std::size_t d = 0; d < gpus(); ++d) sort_buckets(d);
  }

 private:
  [[nodiscard]] std::size_t gpus() const { return chunks_.size(); }
  [[nodiscard]] std::uint64_t end_of_share(std::uint64_t d) const { return total_ * (d + 1) / gpus(); }

  // Whether a share ends within the bucket and not close to either end of it.
  [[nodiscard]] bool spans(const Bucket& bucket) const {
    for (std::uint64_t d = 0; d + 1 < gpus(); ++d) {
      const std::uint64_t end = end_of_share(d);
      if (bucket.before + tolerance_ < end && end + tolerance_ < bucket.before + bucket.count) return true;
    }
    return false;
  }
  [[nodiscard]] bool can_be_refined(const Bucket& bucket) const { return bucket.passes * digit_bits < width_; }

  // The first pass partitions the only bucket that there is: all keys.
  void refine_all() {
    bool is_first = true;
    for (bool any = true; any; is_first = false) {
      any = false;
      std::vector<Bucket> refined;
      std::vector<std::uint64_t> firsts(gpus(), 0);  // where the bucket begins in each chunk
      for (const Bucket& bucket : buckets_) {
        if (is_first || (spans(bucket) && can_be_refined(bucket))) {
          for (Bucket& part : partition(bucket, firsts)) refined.push_back(std::move(part));
          any = true;
        } else {
          refined.push_back(bucket);
        }
        for (std::size_t s = 0; s < gpus(); ++s) firsts[s] += bucket.counts[s];
      }
      buckets_ = std::move(refined);
    }
  }

  // Partitions a bucket by its next digit, on each GPU separately.
  std::vector<Bucket> partition(const Bucket& bucket, const std::vector<std::uint64_t>& firsts) {
    const int end = width_ - bucket.passes * digit_bits;
    const BitRange bits{end - digit_bits, end};
    std::vector<std::vector<std::uint64_t>> counts(gpus(), std::vector<std::uint64_t>(digits)), expected = counts;
    std::vector<ReadBack> reads;
    for (std::size_t s = 0; s < gpus(); ++s) {
      Chunk& chunk = chunks_[s];
      const Records here = chunk.records().slice(firsts[s], bucket.counts[s]);
      histogram(runtime_, chunk.stream(), chunk.type().key, here.keys, bits, {}, histograms_[s].view());
      const Records sorted = sort(runtime_, chunk.stream(), here,
                                  chunk.other(chunk.count()).slice(firsts[s], here.count), bits, chunk.scratch());
      if (sorted.keys.data != here.keys.data) {
        if (bucket.passes == 0) chunk.flip(chunk.count());
        else copy(runtime_, chunk.stream(), here, sorted);  // the chunk's other buckets stay where they are
      }
      for (std::uint64_t i = 0; i < digits; ++i)  // uniform keys
        expected[s][i] = here.count * (i + 1) / digits - here.count * i / digits;
      reads.push_back({chunk.stream(), histograms_[s].view(), counts[s].data(), expected[s].data()});
    }
    runtime_.read_back(reads);
    std::vector<Bucket> parts;
    std::uint64_t before = bucket.before;
    for (std::uint64_t digit = 0; digit < digits; ++digit) {
      Bucket part{bucket.prefix << digit_bits | digit, bucket.passes + 1, before, 0, {}};
      for (const auto& of_gpu : counts) {
        part.counts.push_back(of_gpu[digit]);
        part.count += of_gpu[digit];
      }
      before += part.count;
      if (part.count > 0) parts.push_back(std::move(part));
    }
    return parts;
  }

  // Assigns the buckets to GPUs. A bucket across the end of a share goes to the GPU that has more of it. One that
  // still spans has equal keys and is cut at the end of the share, its records being in the order of their source
  // GPUs.
  void assign() {
    of_gpu_.resize(gpus());
    std::size_t d = 0;
    for (Bucket& bucket : buckets_) {
      while (spans(bucket)) {
        while (end_of_share(d) <= bucket.before + tolerance_) ++d;
        of_gpu_[d].push_back(take_first(bucket, end_of_share(d) - bucket.before));
        ++d;
      }
      while (d + 1 < gpus() && end_of_share(d) < bucket.before + bucket.count / 2) ++d;
      if (bucket.count > 0) of_gpu_[d].push_back(bucket);
    }
  }

  static Bucket take_first(Bucket& bucket, std::uint64_t count) {
    Bucket taken = bucket;
    taken.count = count;
    for (std::size_t s = 0; s < bucket.counts.size(); ++s) {
      taken.counts[s] = std::min(bucket.counts[s], count);
      count -= taken.counts[s];
      bucket.counts[s] -= taken.counts[s];
    }
    bucket.before += taken.count;
    bucket.count -= taken.count;
    return taken;
  }

  void exchange() {
    std::vector<Event> ready;
    for (const Chunk& chunk : chunks_) ready.push_back(runtime_.record(chunk.stream()));
    runtime_.set_phase("exchange");
    std::vector<std::uint64_t> received(gpus(), 0), sent(gpus(), 0);
    for (std::size_t d = 0; d < gpus(); ++d)
      for (const Bucket& bucket : of_gpu_[d]) received[d] += bucket.count;
    std::vector<Shipment> shipments;
    for (std::size_t d = 0; d < gpus(); ++d) {
      const Records to = chunks_[d].other(received[d]);
      std::uint64_t at = 0;
      for (const Bucket& bucket : of_gpu_[d])
        for (std::size_t s = 0; s < gpus(); ++s) {
          const std::uint64_t count = bucket.counts[s];
          shipments.push_back({chunks_[s].records().slice(sent[s], count), to.slice(at, count)});
          sent[s] += count;
          at += count;
        }
    }
    const std::vector<Event> moved = exchange_by_copies(runtime_, router_, shipments, ready);
    for (std::size_t d = 0; d < gpus(); ++d) {
      for (const Event event : moved) runtime_.wait(chunks_[d].stream(), event);
      chunks_[d].flip(received[d]);
    }
  }

  // Sorts a GPU's buckets by their remaining bits. All results end in one buffer: the chunk is contiguous again.
  void sort_buckets(std::size_t d) {
    Chunk& chunk = chunks_[d];
    const Records here = chunk.records(), there = chunk.other(chunk.count());
    const auto most = static_cast<std::uint64_t>(gamma * static_cast<double>(chunk.count()));
    const std::vector<Bucket>& buckets = of_gpu_[d];
    std::vector<Chunk::Finished> finished;
    bool lands_there = false;
    for (std::size_t b = 0, first = 0; b < buckets.size();) {
      std::size_t end = b + 1;
      std::uint64_t count = buckets[b].count;
      while (end < buckets.size() && buckets[end].passes == buckets[b].passes && count + buckets[end].count <= most)
        count += buckets[end++].count;
      const int differing = std::bit_width(buckets[b].prefix ^ buckets[end - 1].prefix);
      const BitRange bits{0, width_ - digit_bits * buckets[b].passes + differing};
      const Records group = here.slice(first, count), room = there.slice(first, count);
      const Records sorted = bits.end > 0 ? sort(runtime_, chunk.stream(), group, room, bits, chunk.scratch()) : group;
      const bool is_there = sorted.keys.data != group.keys.data;
      if (finished.empty()) lands_there = is_there;
      if (is_there != lands_there) copy(runtime_, chunk.stream(), lands_there ? room : group, sorted);
      finished.push_back({first, count, runtime_.record(chunk.stream())});
      first += count;
      b = end;
    }
    if (lands_there) chunk.flip(chunk.count());
    chunk.set_finished(std::move(finished));
  }

  Runtime& runtime_;
  Router& router_;
  std::vector<Chunk>& chunks_;
  int width_;
  std::uint64_t total_ = 0, tolerance_ = 0;
  std::vector<Buffer> histograms_;
  std::vector<Bucket> buckets_;              // in the order of their keys
  std::vector<std::vector<Bucket>> of_gpu_;  // likewise
};

}  // namespace

void bucket_radix_sort(Runtime& runtime, Router& router, std::vector<Chunk>& chunks) {
  BucketSort(runtime, router, chunks).run();
}

std::uint64_t bucket_bytes() { return 8 * digits; }

}  // namespace linkwise
