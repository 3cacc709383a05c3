#include "linkwise/join/device_hash/skew.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/exchange/splitters.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t few_samples = 1024, many_samples = 4096, many_rows = 10'000'000;
constexpr std::uint64_t known_rate = 4;  // samples of a key from which its number of rows is estimated

struct Frequent {
  std::uint64_t code = 0;
  double rows = 0;
};

// Codes that lie on the GPUs, and as numbers of 64 bits.
class Samples {
 public:
  Samples(Runtime& runtime, std::span<const Stream> streams, const DeviceSide& side) : side_(side) {
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
    bytes_.resize(width * count_);
  }

  void read(std::vector<ReadBack>& reads) {
    std::uint64_t at = 0;
    for (const auto& [stream, codes] : parts_) {
      reads.push_back({stream, codes, bytes_.data() + at});
      at += codes.bytes;
    }
  }

  /// Keys that were seen often, by code.
  [[nodiscard]] std::vector<Frequent> frequent() const {
    std::vector<std::uint64_t> codes(count_);
    const std::uint64_t width = side_.type.key_bytes();
    for (std::uint64_t i = 0; i < count_; ++i) std::memcpy(&codes[i], bytes_.data() + i * width, width);
    std::ranges::sort(codes);
    std::vector<Frequent> found;
    const double rate = static_cast<double>(side_.rows) / static_cast<double>(std::max<std::uint64_t>(count_, 1));
    for (std::uint64_t i = 0, end = 0; i < count_; i = end) {
      while (end < count_ && codes[end] == codes[i]) ++end;
      if (end - i >= known_rate) found.push_back({codes[i], static_cast<double>(end - i) * rate});
    }
    return found;
  }

 private:
  const DeviceSide& side_;
  std::vector<Buffer> memory_;
  std::vector<std::pair<Stream, MemoryView>> parts_;
  std::vector<std::byte> bytes_;
  std::uint64_t count_ = 0;
};

}  // namespace

JoinSkew sample_skew(Runtime& runtime, std::span<const Stream> streams, const DeviceSide& build,
                     const DeviceSide& probe) {
  runtime.set_phase("sample");
  Samples of_build(runtime, streams, build), of_probe(runtime, streams, probe);
  std::vector<ReadBack> reads;
  of_build.read(reads);
  of_probe.read(reads);
  JoinSkew skew;
  if (reads.empty()) return skew;
  runtime.read_back(reads);
  const std::vector<Frequent> built = of_build.frequent(), probed = of_probe.frequent();
  for (const Frequent& key : built) skew.build_rows = std::max(skew.build_rows, key.rows);
  for (const Frequent& key : probed) {
    skew.probe_share = std::max(skew.probe_share, key.rows / static_cast<double>(probe.rows));
    const auto other = std::ranges::lower_bound(built, key.code, {}, &Frequent::code);
    if (other != built.end() && other->code == key.code) skew.pairs += key.rows * other->rows;
  }
  return skew;
}

}  // namespace linkwise
