#include "linkwise/probe/prober.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "linkwise/error.hpp"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/verify.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t relay_chunk = 8 << 20;                // where the transfer names none
constexpr RecordType words{KeyWidth::k64, ValueWidth::none};  // what is sent: consecutive numbers

// The two ends of a transfer, and what is sent.
class Ends {
 public:
  Ends(Runtime& runtime, const Transfer& transfer, std::uint64_t first)
      : runtime_(runtime), transfer_(transfer), count_(transfer.bytes / 8), first_(first) {
    source_ = end_at(transfer.from);
    target_ = end_at(transfer.to);
    const Place gpu = transfer.from.is_gpu() ? transfer.from : transfer.to;
    stream_ = runtime.stream(gpu, "probe " + transfer.from.name() + " to " + transfer.to.name());
    fill();
  }

  // By a new router each time: clearing the timeline forgets the events of the last.
  void copy() {
    std::vector<Path> paths;
    if (!transfer_.over.empty()) paths.push_back({transfer_.from, transfer_.to, transfer_.over});
    router_.emplace(runtime_, paths, transfer_.relay_bytes > 0 ? transfer_.relay_bytes : relay_chunk);
    router_->copy(stream_, target_, source_);
  }

  // Whether what arrived is what was sent.
  [[nodiscard]] bool is_intact() {
    if (count_ == 0) return true;
    if (!transfer_.to.is_gpu()) {
      const auto* arrived = reinterpret_cast<const std::uint64_t*>(target_.data);
      std::uint64_t wrong = 0;
#pragma omp parallel for reduction(+ : wrong)
      for (std::uint64_t i = 0; i < count_; ++i) wrong += arrived[i] != first_ + i ? 1 : 0;
      return wrong == 0;
    }
    const Buffer numbers = runtime_.allocate(transfer_.to, sizeof(PartNumbers), "verification");
    const Stream stream = runtime_.stream(transfer_.to, "probe");
    const MemoryView all = target_.slice(0, 8 * count_);
    note_part(runtime_, stream, records_in(all, words, count_), numbers.view());
    PartNumbers found;
    runtime_.read_back({stream, numbers.view(), &found});
    std::uint64_t checksum = 0;
#pragma omp parallel for reduction(+ : checksum)
    for (std::uint64_t i = 0; i < count_; ++i) checksum += record_hash(first_ + i, NoValue{});
    return found.violations == 0 && found.first_key == first_ && found.last_key == first_ + count_ - 1 &&
           found.checksum == checksum;
  }

 private:
  MemoryView end_at(Place place) {
    if (place.is_gpu() || !transfer_.pageable)
      return memory_.emplace_back(runtime_.allocate(place, transfer_.bytes, "probe")).view();
    ordinary_.resize(runtime_.estimating() ? 1 : transfer_.bytes);
    return {place, ordinary_.data(), transfer_.bytes, 0, true};
  }

  void fill() {
    if (transfer_.from.is_gpu()) {
      iota(runtime_, stream_, ValueWidth::v8, source_.slice(0, 8 * count_), first_);
      return;
    }
    if (runtime_.estimating()) return;
    auto* numbers = reinterpret_cast<std::uint64_t*>(source_.data);
#pragma omp parallel for
    for (std::uint64_t i = 0; i < count_; ++i) numbers[i] = first_ + i;
  }

  Runtime& runtime_;
  const Transfer& transfer_;
  std::uint64_t count_, first_;
  std::vector<Buffer> memory_;
  std::vector<std::byte> ordinary_;
  MemoryView source_, target_;
  Stream stream_;
  std::optional<Router> router_;
};

}  // namespace

// Whatever happens, nothing runs any more when this is over.
Measurement Prober::repeat(const std::function<void()>& enqueue) {
  Measurement measured;
  run_or_abandon(runtime_, [&] {
    measured = repeat_until_calm(enqueue);
    runtime_.synchronize();
  });
  return measured;
}

Measurement Prober::repeat_until_calm(const std::function<void()>& enqueue) {
  if (!runtime_.simulated()) {  // the simulated clock needs no warming up, and says the same every time
    enqueue();
    runtime_.synchronize();
  }
  const auto once = [&] {
    runtime_.clear_timeline();
    enqueue();
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
    for (const TimelineEntry& entry : runtime_.timeline()) {
      first = std::min(first, entry.start_ps);
      last = std::max(last, entry.end_ps);
    }
    return static_cast<double>(last - first) * 1e-12;
  };
  if (!runtime_.simulated()) return measure_until_calm(patience_, once);
  Measurement measured;
  measured.seconds = once();
  measured.repetitions = 1;
  return measured;
}

Measurement Prober::transfers(std::span<const Transfer> pattern) {
  const std::uint64_t first = ++patterns_ << 32;  // no two patterns send the same
  std::vector<Ends> ends;
  ends.reserve(pattern.size());
  double bytes = 0;
  for (const Transfer& transfer : pattern) {
    ends.emplace_back(runtime_, transfer, first);
    bytes += static_cast<double>(transfer.bytes);
  }
  runtime_.synchronize();
  Measurement measured = repeat([&] {
    for (Ends& each : ends) each.copy();
  });
  measured.gb_per_s = bytes / measured.seconds / 1e9;
  if (runtime_.estimating()) return measured;
  for (std::size_t t = 0; t < ends.size(); ++t)
    if (!ends[t].is_intact())
      throw CorruptDataError("what was copied from " + pattern[t].from.name() + " to " + pattern[t].to.name() +
                             " is not what arrived: do not trust this link, and have the machine looked after");
  measured.verified = true;
  return measured;
}

Measurement Prober::smallest_copy(Place from, Place to) {
  constexpr int in_a_row = 32;
  constexpr std::uint64_t smallest = 4;
  const Buffer source = runtime_.allocate(from, smallest, "probe"), target = runtime_.allocate(to, smallest, "probe");
  const Stream stream = runtime_.stream(from.is_gpu() ? from : to, "probe");
  Measurement measured = repeat([&] {
    for (int i = 0; i < in_a_row; ++i) runtime_.copy(stream, target.view(), source.view());
  });
  measured.seconds /= in_a_row;
  return measured;
}

Measurement Prober::work(Place place, const std::function<void(Stream)>& enqueue) {
  const Stream stream = runtime_.stream(place, "probe");
  return repeat([&] { enqueue(stream); });
}

}  // namespace linkwise
