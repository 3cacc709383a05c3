#include "linkwise/join/device_hash/skew.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/exchange/splitters.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t few_samples = 1024, many_samples = 16000, many_rows = 10'000'000;
constexpr std::uint64_t known_rate = 4;   // samples of a key from which its number of rows is estimated
constexpr std::uint64_t known_pairs = 3;  // of samples of both sides from which the pairs are: one may be chance

// How often codes were seen, by 32 bits of their hashes, in a small hash table: the GPUs wait for it soon. So it lies
// in memory that the runtime keeps: fresh pages would take longer to be faulted in than samples to be counted.
class SeenCodes {
 public:
  SeenCodes(Runtime& runtime, std::uint64_t most)
      : memory_(runtime.allocate(Place::host(), sizeof(Seen) * slots_for(most), "samples seen")),
        slots_(reinterpret_cast<Seen*>(memory_.view().data), slots_for(most)) {
    runtime.host_writes(memory_.view(), "counts samples");
    std::ranges::fill(slots_, Seen{0, 0});
  }

  void add(std::uint64_t code) {
    const std::uint32_t tag = tag_of(code);
    Seen& seen = slots_[slot_of(tag)];
    seen.tag = tag;
    most_ = std::max<std::uint64_t>(most_, ++seen.times);
  }
  [[nodiscard]] std::uint64_t times(std::uint64_t code) const { return slots_[slot_of(tag_of(code))].times; }
  [[nodiscard]] std::uint64_t most() const { return most_; }  ///< times of the most frequent

 private:
  struct Seen {
    std::uint32_t tag, times;
  };

  static std::uint64_t slots_for(std::uint64_t most) { return std::bit_ceil(2 * most + 1); }
  static std::uint32_t tag_of(std::uint64_t code) { return static_cast<std::uint32_t>(mix64(code)); }
  [[nodiscard]] std::size_t slot_of(std::uint32_t tag) const {
    std::size_t at = tag & (slots_.size() - 1);
    while (slots_[at].times > 0 && slots_[at].tag != tag) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  Buffer memory_;
  std::span<Seen> slots_;
  std::uint64_t most_ = 0;
};

}  // namespace

class SkewSamples::OfSide {
 public:
  OfSide(Runtime& runtime, std::span<const Stream> streams, const DeviceSide& side) : side_(side) {
    const std::uint64_t wanted = side.rows > many_rows ? many_samples : few_samples;
    const std::uint64_t width = side.type.key_bytes();
    for (std::size_t g = 0; g < streams.size(); ++g) {
      const std::uint64_t samples = samples_of(side.records[g].count, side.rows, wanted);
      if (samples == 0) continue;
      const RecordType type{side.type.key, ValueWidth::v8};  // a code, and a tag that nobody asks for
      memory_.push_back(runtime.allocate(streams[g].place, record_bytes(type, samples), "samples"));
      const Records taken = records_in(memory_.back().view(), type, samples);
      sample(runtime, streams[g], side.key_type, /*descending=*/false, side.records[g].keys, /*seed=*/g, 0, taken.keys,
             taken.values);
      parts_.push_back({streams[g], taken.keys});
      count_ += samples;
    }
    codes_ = runtime.allocate(Place::host(), std::max<std::uint64_t>(width * count_, 1), "samples");
  }

  void read(std::vector<ReadBack>& reads) {
    std::byte* at = codes_.view().data;
    for (const auto& [stream, codes] : parts_) {
      reads.push_back({stream, codes, at});
      at += codes.bytes;
    }
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Of a sample, equal for keys that are compared as equal.
  [[nodiscard]] std::uint64_t code(std::uint64_t i) const {
    const std::uint64_t width = side_.type.key_bytes();
    std::uint64_t code = 0;
    std::memcpy(&code, codes_.view().data + i * width, width);
    return unified(code);
  }
  [[nodiscard]] double rows() const { return static_cast<double>(side_.rows); }
  [[nodiscard]] double rows_of(std::uint64_t samples) const {
    return static_cast<double>(samples) * rows() / static_cast<double>(std::max<std::uint64_t>(count_, 1));
  }

 private:
  [[nodiscard]] std::uint64_t unified(std::uint64_t code) const {
    if (key_class(side_.key_type) != KeyClass::floating) return code;
    return side_.type.key == KeyWidth::k32 ? unified_float<std::uint32_t>(static_cast<std::uint32_t>(code))
                                           : unified_float<std::uint64_t>(code);
  }

  const DeviceSide& side_;
  std::vector<Buffer> memory_;
  std::vector<std::pair<Stream, MemoryView>> parts_;
  Buffer codes_;
  std::uint64_t count_ = 0;
};

SkewSamples::SkewSamples(Runtime& runtime, std::span<const Stream> streams, const DeviceSide& build,
                         const DeviceSide& probe)
    : runtime_(runtime) {
  runtime.set_phase("sample");
  std::vector<Stream> samplers;
  for (const Stream stream : streams) {
    samplers.push_back(runtime.stream(stream.place, "samples"));
    runtime.wait(samplers.back(), runtime.record(stream));
  }
  build_ = std::make_unique<OfSide>(runtime, samplers, build);
  probe_ = std::make_unique<OfSide>(runtime, samplers, probe);
}

SkewSamples::~SkewSamples() = default;

JoinSkew SkewSamples::skew() {
  std::vector<ReadBack> reads;
  build_->read(reads);
  probe_->read(reads);
  JoinSkew skew;
  if (reads.empty()) return skew;
  runtime_.read_back(reads);
  if (runtime_.estimating()) return skew;
  SeenCodes built(runtime_, build_->count()), probed(runtime_, probe_->count());
  for (std::uint64_t i = 0; i < build_->count(); ++i) built.add(build_->code(i));
  std::uint64_t pairs = 0;
  for (std::uint64_t i = 0; i < probe_->count(); ++i) {
    const std::uint64_t code = probe_->code(i);
    probed.add(code);
    pairs += built.times(code);
  }
  if (built.most() >= known_rate) skew.build_rows = build_->rows_of(built.most());
  if (probed.most() >= known_rate) skew.probe_share = probe_->rows_of(probed.most()) / probe_->rows();
  if (pairs >= known_pairs) skew.pairs = build_->rows_of(pairs) * probe_->rows_of(1);
  return skew;
}

}  // namespace linkwise
