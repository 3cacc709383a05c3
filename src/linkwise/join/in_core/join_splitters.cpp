#include "linkwise/join/in_core/join_splitters.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "linkwise/error.hpp"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/sort/local_sort.hpp"

namespace linkwise {
namespace {

constexpr double heavy = 0.25;           // of a part's weight: a heavier key may be split
constexpr std::uint64_t known_rate = 4;  // samples of a key that suffice to estimate its number of rows
constexpr std::uint64_t spare_rows = 64;

// Samples of one key: those of the split relation come first.
struct Group {
  std::uint64_t begin = 0, middle = 0, end = 0;
  double weight = 0;

  [[nodiscard]] std::uint64_t split() const { return middle - begin; }
  [[nodiscard]] std::uint64_t whole() const { return end - middle; }
};

// The number of samples in each part.
struct Shares {
  std::vector<double> split, whole, borrowed;
  explicit Shares(std::size_t parts) : split(parts), whole(parts), borrowed(parts) {}
};

template <typename Key>
class Cutting {
 public:
  Cutting(const SortedKeys& samples, std::uint64_t split_rows, std::uint64_t whole_rows, std::size_t parts,
          double weight_of_match)
      : samples_(samples),
        codes_(static_cast<const Key*>(samples.codes)),
        split_rows_(split_rows),
        whole_rows_(whole_rows),
        parts_(parts),
        weight_of_match_(weight_of_match),
        shares_(parts) {
    std::uint64_t of_split = 0;
    for (std::uint64_t i = 0; i < samples.count; ++i) of_split += is_split(i) ? 1 : 0;
    const auto rate = [](std::uint64_t rows, std::uint64_t taken) {
      return taken == 0 ? 0.0 : static_cast<double>(rows) / static_cast<double>(taken);
    };
    split_rate_ = rate(split_rows, of_split);
    whole_rate_ = rate(whole_rows, samples.count - of_split);
    for_each_group([&](const Group& group) { total_ += group.weight; });
  }

  JoinSplitters run() {
    double before = 0;
    for_each_group([&](const Group& group) {
      place(group, before);
      before += group.weight;
    });
    while (result_.cuts.size() + 1 < parts_) result_.cuts.push_back({std::numeric_limits<std::uint64_t>::max(), 0});
    for (std::size_t p = 0; p < parts_; ++p) {
      const std::uint64_t split = room(shares_.split[p], split_rate_, split_rows_);
      const std::uint64_t whole = room(shares_.whole[p], whole_rate_, whole_rows_);
      const bool borrows = result_.borrows(p);
      result_.split_room.push_back({split, 0});
      result_.whole_room.push_back({whole, borrows ? room(shares_.borrowed[p], whole_rate_, whole_rows_) : 0});
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_split(std::uint64_t sample) const { return (samples_.tags[sample] & whole_bit) == 0; }

  template <typename Body>
  void for_each_group(const Body& body) const {
    for (std::uint64_t i = 0; i < samples_.count;) {
      Group group{i, i, i};
      while (group.end < samples_.count && codes_[group.end] == codes_[i])
        group.middle += is_split(group.end++) ? 1 : 0;
      const double split = split_rate_ * static_cast<double>(group.split());
      const double whole = whole_rate_ * static_cast<double>(group.whole());
      group.weight = split + whole;
      if (group.split() >= known_rate && group.whole() >= known_rate) group.weight += weight_of_match_ * split * whole;
      body(group);
      i = group.end;
    }
  }

  // Places the cuts that fall into a key, and assigns its samples to parts. A heavy key is split exactly where the
  // cut should be; any other key goes entirely to the part after the cut.
  void place(const Group& group, double before) {
    const double part_weight = total_ / static_cast<double>(parts_);
    const std::uint64_t code = codes_[group.begin];
    std::uint64_t given = 0;  // samples of the split relation assigned to earlier parts
    bool is_cut = false;
    std::size_t owner = result_.cuts.size();
    while (result_.cuts.size() + 1 < parts_) {
      const double wanted = part_weight * static_cast<double>(result_.cuts.size() + 1);
      if (before + group.weight <= wanted) break;
      const double fraction = std::max(0.0, (wanted - before) / group.weight);
      const auto behind = static_cast<std::uint64_t>(fraction * static_cast<double>(group.split()));
      if (group.weight < heavy * part_weight || behind == 0) {
        result_.cuts.push_back({code, 0});
        owner = result_.cuts.size();
        continue;
      }
      is_cut = true;
      shares_.split[result_.cuts.size()] += static_cast<double>(behind - given);
      given = behind;
      result_.cuts.push_back({code, samples_.tags[group.begin + behind]});
      shares_.borrowed[result_.cuts.size()] += static_cast<double>(group.whole());
    }
    shares_.split[result_.cuts.size()] += static_cast<double>(group.split() - given);
    shares_.whole[is_cut ? owner : result_.cuts.size()] += static_cast<double>(group.whole());
  }

  [[nodiscard]] std::uint64_t room(double samples, double rate, std::uint64_t all) const {
    if (parts_ == 1) return all;
    if (rate == 1.0) return static_cast<std::uint64_t>(samples);
    const double rows = (samples + 6 * std::sqrt(samples + 1)) * rate;
    return std::min(all, static_cast<std::uint64_t>(std::ceil(rows)) + spare_rows);
  }

  const SortedKeys& samples_;
  const Key* codes_;
  std::uint64_t split_rows_, whole_rows_;
  std::size_t parts_;
  double weight_of_match_;
  double split_rate_ = 0, whole_rate_ = 0;  // rows that a sample stands for
  double total_ = 0;
  Shares shares_;
  JoinSplitters result_;
};

// The cuts of an estimate, which assumes keys spread evenly over all codes.
JoinSplitters even_cuts(int code_bits, std::uint64_t split_rows, std::uint64_t whole_rows, std::size_t parts) {
  JoinSplitters even;
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

Splitters JoinSplitters::splitters_for(bool is_split, const RowRange& rows) const {
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

bool JoinSplitters::borrows(std::size_t part) const {
  if (part == 0 || cuts[part - 1].tag == 0) return false;
  // The part between two cuts at the same row is empty.
  return part == cuts.size() || cuts[part].code != cuts[part - 1].code || cuts[part].tag != cuts[part - 1].tag;
}

std::size_t JoinSplitters::owner(std::size_t part) const {
  const std::uint64_t key = cuts[part - 1].code;
  while (part > 0 && cuts[part - 1].tag != 0 && cuts[part - 1].code == key) --part;
  return part;
}

void throw_samples_misjudged() {
  throw OutOfMemoryError("samples misjudged how the keys are spread over the GPUs; raise the plan's samples");
}

JoinSplitters cut_samples(const SortedKeys& samples, std::uint64_t split_rows, std::uint64_t whole_rows,
                          std::size_t parts, double weight_of_match) {
  JoinSplitters cuts;
  with_key(samples.width, [&](auto tag) {
    cuts = Cutting<typename decltype(tag)::type>(samples, split_rows, whole_rows, parts, weight_of_match).run();
  });
  return cuts;
}

SampledRelation sampled(const HostIo& io, std::span<const Stream> streams) {
  SampledRelation relation{{}, io.rows()};
  for (std::uint64_t g = 0; g < streams.size(); ++g) {
    const std::uint64_t begin = io.rows() * g / streams.size(), end = io.rows() * (g + 1) / streams.size();
    relation.sources.push_back({streams[g], io.host_keys(begin, end - begin), 0, begin});
  }
  return relation;
}

bool suits_msd_sort(Runtime& runtime, KeyType type, const SampledRelation& relation, RecordType record,
                    std::size_t parts) {
  return keys_suit_msd_sort(runtime, type, /*descending=*/false, relation.sources, record, relation.rows / parts);
}

JoinSplitters choose_join_cuts(Runtime& runtime, KeyType type, SampledRelation split, SampledRelation whole,
                               std::size_t parts, std::uint64_t samples, double weight_of_match) {
  if (parts == 1) return {{}, {{split.rows, 0}}, {{whole.rows, 0}}};
  runtime.set_phase("sample");
  std::vector<SampleSource> sources;
  for (SampledRelation* relation : {&split, &whole})
    for (SampleSource& source : relation->sources) {
      const std::uint64_t keys = source.keys.bytes / static_cast<std::uint64_t>(native_bytes(type));
      source.samples = samples_of(keys, relation->rows, samples);
      if (relation == &whole) source.tag_base |= whole_bit;
      sources.push_back(source);
    }
  const Samples sorted = sort_samples(runtime, type, /*descending=*/false, sources);
  const std::uint64_t count = sorted.records.count;
  // Into pinned memory, since there are many samples.
  const Buffer fetched = runtime.allocate(Place::host(), record_bytes(sorted.records.type, count), "samples");
  const Records on_host = records_in(fetched.view(), sorted.records.type, count);
  copy(runtime, sorted.stream, on_host, sorted.records);
  runtime.wait(runtime.record(sorted.stream));
  runtime.host_reads(fetched.view(), "cuts samples");
  if (runtime.estimating()) return even_cuts(sorted.records.type.key_bits(), split.rows, whole.rows, parts);
  return cut_samples(
      {sorted.records.type.key, count, on_host.keys.data, reinterpret_cast<const std::uint64_t*>(on_host.values.data)},
      split.rows, whole.rows, parts, weight_of_match);
}

}  // namespace linkwise
