#include "linkwise/join/join_cuts.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace linkwise {
namespace {

constexpr std::uint64_t whole_bit = 1ULL << 63;  // of a sample's tag: it is of the relation that is not split
constexpr double heavy = 0.25;                   // of a part: a key that weighs more may be cut
constexpr std::uint64_t known_rate = 4;          // samples of a key from which its number of rows is estimated
constexpr std::uint64_t spare_rows = 64;

// Rows of one key, in samples.
struct Key {
  std::uint64_t code = 0;
  std::uint64_t first = 0;             // of its samples of the split relation
  std::uint64_t split = 0, whole = 0;  // samples
  double weight = 0;
};

std::uint64_t with_error(double samples, double rows_of_sample, std::uint64_t all) {
  const double rows = (samples + 6 * std::sqrt(samples + 1)) * rows_of_sample;
  return std::min(all, static_cast<std::uint64_t>(std::ceil(rows)) + spare_rows);
}

class Cutting {
 public:
  Cutting(std::span<const SampledKey> samples, std::uint64_t split_rows, std::uint64_t whole_rows, std::size_t parts,
          double weight_of_match)
      : split_rows_(split_rows), whole_rows_(whole_rows), parts_(parts) {
    for (const SampledKey& sample : samples)
      if (sample.is_split) rows_.push_back(sample.row);
    const auto rate = [](std::uint64_t rows, std::uint64_t taken) {
      return taken == 0 ? 0.0 : static_cast<double>(rows) / static_cast<double>(taken);
    };
    split_rate_ = rate(split_rows, rows_.size());
    whole_rate_ = rate(whole_rows, samples.size() - rows_.size());
    std::uint64_t first = 0;
    for (std::size_t i = 0; i < samples.size();) {
      Key key{samples[i].code, first};
      for (; i < samples.size() && samples[i].code == key.code; ++i) ++(samples[i].is_split ? key.split : key.whole);
      first += key.split;
      const double split = split_rate_ * static_cast<double>(key.split);
      const double whole = whole_rate_ * static_cast<double>(key.whole);
      key.weight = split + whole;
      if (key.split >= known_rate && key.whole >= known_rate) key.weight += weight_of_match * split * whole;
      keys_.push_back(key);
      total_ += key.weight;
    }
  }

  JoinCuts run() {
    std::size_t k = 0;
    double before = 0;  // the weight of the keys in front of k
    for (std::size_t cut = 1; cut < parts_; ++cut) {
      const double wanted = total_ * static_cast<double>(cut) / static_cast<double>(parts_);
      while (k < keys_.size() && before + keys_[k].weight <= wanted) before += keys_[k++].weight;
      result_.cuts.push_back(k == keys_.size() ? Cut{std::numeric_limits<std::uint64_t>::max(), 0}
                                               : cut_near(keys_[k], (wanted - before) / keys_[k].weight));
    }
    measure_parts();
    return std::move(result_);
  }

 private:
  // A heavy key is cut where it should be; another one goes to the part behind the cut.
  [[nodiscard]] Cut cut_near(const Key& key, double fraction) const {
    if (key.weight < heavy * total_ / static_cast<double>(parts_)) return {key.code, 0};
    const auto behind = static_cast<std::uint64_t>(fraction * static_cast<double>(key.split));
    if (behind == 0) return {key.code, 0};
    return {key.code, rows_[key.first + behind]};
  }

  // What each relation puts into each part.
  void measure_parts() {
    std::vector<double> split(parts_), whole(parts_), borrowed(parts_);
    std::size_t part = 0;  // that the key's first rows go to
    for (const Key& key : keys_) {
      while (part + 1 < parts_ && (result_.cuts[part].code < key.code ||
                                   (result_.cuts[part].code == key.code && result_.cuts[part].tag == 0)))
        ++part;
      whole[part] += static_cast<double>(key.whole);
      std::uint64_t begin = 0;
      std::size_t at = part;
      for (; at + 1 < parts_ && result_.cuts[at].code == key.code; ++at) {
        const auto* first = rows_.data() + key.first;
        const auto end =
            static_cast<std::uint64_t>(std::lower_bound(first, first + key.split, result_.cuts[at].tag) - first);
        split[at] += static_cast<double>(end - begin);
        begin = end;
        borrowed[at + 1] += static_cast<double>(key.whole);
      }
      split[at] += static_cast<double>(key.split - begin);
    }
    for (std::size_t p = 0; p < parts_; ++p) {
      const bool borrows = result_.borrows(p);
      result_.split_room.push_back({room(split[p], split_rate_, split_rows_), 0});
      result_.whole_room.push_back(
          {room(whole[p], whole_rate_, whole_rows_), borrows ? room(borrowed[p], whole_rate_, whole_rows_) : 0});
    }
  }

  [[nodiscard]] std::uint64_t room(double samples, double rate, std::uint64_t all) const {
    if (parts_ == 1) return all;
    return rate == 1.0 ? static_cast<std::uint64_t>(samples) : with_error(samples, rate, all);
  }

  std::uint64_t split_rows_, whole_rows_;
  std::size_t parts_;
  std::vector<std::uint64_t> rows_;  // of the split relation's samples
  double split_rate_ = 0, whole_rate_ = 0;
  std::vector<Key> keys_;
  double total_ = 0;
  JoinCuts result_;
};

// What an estimate takes: keys spread evenly over all codes.
JoinCuts even_cuts(int code_bits, std::uint64_t split_rows, std::uint64_t whole_rows, std::size_t parts) {
  JoinCuts even;
  for (std::size_t part = 0; part < parts; ++part) {
    if (part > 0)
      even.cuts.push_back(
          {static_cast<std::uint64_t>(std::ldexp(static_cast<double>(part) / static_cast<double>(parts), code_bits)),
           0});
    even.split_room.push_back({split_rows / parts + split_rows / parts / 50 + spare_rows, 0});
    even.whole_room.push_back({whole_rows / parts + whole_rows / parts / 50 + spare_rows, 0});
  }
  return even;
}

}  // namespace

Splitters JoinCuts::splitters_for(bool is_split, const RowRange& rows) const {
  Splitters splitters;
  for (const Cut& cut : cuts) {
    splitters.key[splitters.count] = cut.code;
    std::uint64_t position = 0;
    if (cut.tag != 0)
      position = !is_split              ? std::numeric_limits<std::uint64_t>::max()
                 : cut.tag > rows.begin ? cut.tag - rows.begin
                                        : 0;
    splitters.position[splitters.count++] = position;
  }
  return splitters;
}

bool JoinCuts::borrows(std::size_t part) const {
  if (part == 0 || cuts[part - 1].tag == 0) return false;
  // Between two cuts at the same row there is nothing.
  return part == cuts.size() || cuts[part].code != cuts[part - 1].code || cuts[part].tag != cuts[part - 1].tag;
}

std::size_t JoinCuts::owner(std::size_t part) const {
  const std::uint64_t key = cuts[part - 1].code;
  while (part > 0 && cuts[part - 1].tag != 0 && cuts[part - 1].code == key) --part;
  return part;
}

JoinCuts cut_samples(std::span<const SampledKey> samples, std::uint64_t split_rows, std::uint64_t whole_rows,
                     std::size_t parts, double weight_of_match) {
  return Cutting(samples, split_rows, whole_rows, parts, weight_of_match).run();
}

JoinCuts choose_join_cuts(Runtime& runtime, std::span<const Stream> streams, const HostIo& split, const HostIo& whole,
                          std::uint64_t samples, double weight_of_match) {
  const std::uint64_t gpus = streams.size();
  const KeyType type = split.key_type();
  if (gpus == 1) return cut_samples({}, split.rows(), whole.rows(), 1, weight_of_match);
  runtime.set_phase("sample");
  std::vector<SampleSource> sources;
  for (const HostIo* io : {&split, &whole})
    for (std::uint64_t g = 0; g < gpus; ++g) {
      const std::uint64_t begin = io->rows() * g / gpus, end = io->rows() * (g + 1) / gpus;
      sources.push_back({streams[g], io->host_keys(begin, end - begin), samples_of(end - begin, io->rows(), samples),
                         begin | (io == &whole ? whole_bit : 0)});
    }
  const SortedSamples sorted = sort_samples(runtime, type, /*descending=*/false, sources);
  const std::uint64_t count = sorted.records.count, key_bytes = sorted.records.type.key_bytes();
  // Into page-locked memory: they are many.
  const Buffer fetched = runtime.allocate(Place::host(), record_bytes(sorted.records.type, count), "samples");
  const Records on_host = records_in(fetched.view(), sorted.records.type, count);
  copy(runtime, sorted.stream, on_host, sorted.records);
  runtime.wait(runtime.record(sorted.stream));
  if (runtime.estimating()) return even_cuts(sorted.records.type.key_bits(), split.rows(), whole.rows(), gpus);
  std::vector<SampledKey> keys(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t tag = 0;
    std::memcpy(&keys[i].code, on_host.keys.data + i * key_bytes, key_bytes);
    std::memcpy(&tag, on_host.values.data + i * 8, 8);
    keys[i].is_split = (tag & whole_bit) == 0;
    keys[i].row = tag & ~whole_bit;
  }
  return cut_samples(keys, split.rows(), whole.rows(), gpus, weight_of_match);
}

}  // namespace linkwise
