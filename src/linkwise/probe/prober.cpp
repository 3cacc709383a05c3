#include "linkwise/probe/prober.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "linkwise/error.hpp"
#include "linkwise/primitives/dispatch.hpp"
#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/verify.hpp"
#include "linkwise/team.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t relay_chunk = 8 << 20;    // where the transfer specifies none
constexpr std::uint64_t least_window = 16 << 20;  // smaller copies reveal nothing about memory placement
constexpr std::uint64_t small_bytes = 4096;
constexpr RecordType words{KeyWidth::k64, ValueWidth::none};  // the payload: consecutive numbers

// A transfer's index among those of its direction, and how many windows of the pool are used at once: one for each.
struct Turn {
  std::uint64_t index = 0;
  std::uint64_t together = 0;      // 0: no transfer of the pattern has a host end
  std::uint64_t window_bytes = 0;  // the size of the largest transfer
};

// The source and target memory of a transfer, and its payload.
class Ends {
 public:
  Ends(Runtime& runtime, const Transfer& transfer, std::uint64_t first, const HostPool* pool, Turn turn)
      : runtime_(runtime), transfer_(transfer), pool_(pool), turn_(turn), count_(transfer.bytes / 8), first_(first) {
    source_ = end_at(transfer.from);
    target_ = end_at(transfer.to);
    const Place gpu = transfer.from.is_gpu() ? transfer.from : transfer.to;
    stream_ = runtime.stream(gpu, "probe " + transfer.from.name() + " to " + transfer.to.name());
    fill();
  }

  // Uses a new router each time: clearing the timeline discards the events of the previous one.
  void copy(int repetition) {
    take_window(repetition);
    std::vector<Path> paths;
    if (!transfer_.over.empty()) paths.push_back({transfer_.from, transfer_.to, transfer_.over});
    router_.emplace(runtime_, paths, transfer_.relay_bytes > 0 ? transfer_.relay_bytes : relay_chunk);
    router_->copy(stream_, target_, source_);
  }

  // Whether the target holds what the last repetition sent.
  [[nodiscard]] bool is_intact() {
    if (is_small()) return is_intact_small();
    if (!transfer_.to.is_gpu()) {
      const auto* arrived = reinterpret_cast<const std::uint64_t*>(target_.data);
      std::uint64_t wrong = 0;
#pragma omp parallel for reduction(+ : wrong) num_threads(team())
      for (std::uint64_t i = 0; i < count_; ++i) wrong += arrived[i] != first_ + i ? 1 : 0;
      return wrong == 0;
    }
    const Buffer numbers = runtime_.allocate(transfer_.to, sizeof(PartNumbers), "verification");
    const Stream stream = runtime_.stream(transfer_.to, "probe");
    const MemoryView all = target_.slice(0, 8 * count_);
    check_part(runtime_, stream, own_codes(words.key), records_in(all, words, count_), numbers.view());
    PartNumbers found;
    runtime_.read_back({stream, numbers.view(), &found});
    std::uint64_t checksum = 0;
#pragma omp parallel for reduction(+ : checksum) num_threads(team())
    for (std::uint64_t i = 0; i < count_; ++i) checksum += record_hash(first_ + i, NoValue{});
    return found.violations == 0 && found.first_key == first_ && found.last_key == first_ + count_ - 1 &&
           found.checksum == checksum;
  }

 private:
  MemoryView end_at(Place place) {
    if (!place.is_gpu() && pool_ != nullptr) return {};  // take_window provides the memory
    if (place.is_gpu() || !transfer_.pageable)
      return memory_.emplace_back(runtime_.allocate(place, transfer_.bytes, "probe")).view();
    ordinary_.resize(runtime_.estimating() ? 1 : transfer_.bytes);
    return {place, ordinary_.data(), transfer_.bytes, 0, true};
  }

  void take_window(int repetition) {
    if (pool_ == nullptr) return;
    if (!transfer_.from.is_gpu()) {
      source_ =
          pool_->source_window(turn_.window_bytes, turn_.index, turn_.together, repetition).slice(0, transfer_.bytes);
      first_ = pool_->first_number(source_);
    } else if (!transfer_.to.is_gpu()) {
      target_ =
          pool_->target_window(turn_.window_bytes, turn_.index, turn_.together, repetition).slice(0, transfer_.bytes);
    }
  }

  // A GPU might not be able to access a peer's memory, so each GPU fills its own.
  [[nodiscard]] Stream stream_of_target() { return runtime_.stream(transfer_.to, "probe"); }

  // Small transfers send 32-bit numbers instead of 64-bit ones.
  [[nodiscard]] bool is_small() const { return transfer_.bytes < small_bytes; }

  [[nodiscard]] bool is_intact_small() {
    std::vector<std::uint32_t> arrived(transfer_.bytes / sizeof(std::uint32_t));
    if (transfer_.to.is_gpu()) runtime_.read_back({runtime_.stream(transfer_.to, "probe"), target_, arrived.data()});
    else std::memcpy(arrived.data(), target_.data, transfer_.bytes);
    for (std::size_t i = 0; i < arrived.size(); ++i)
      if (arrived[i] != small_first_ + i) return false;
    return true;
  }

  void fill_small() {
    if (transfer_.to.is_gpu() && transfer_.from != transfer_.to)
      iota(runtime_, stream_of_target(), ValueWidth::v4, target_, small_first_ + transfer_.bytes);
    if (transfer_.from.is_gpu()) {
      iota(runtime_, stream_, ValueWidth::v4, source_, small_first_);
    } else if (!runtime_.estimating()) {
      auto* numbers = reinterpret_cast<std::uint32_t*>(source_.data);
      for (std::uint32_t i = 0; i < transfer_.bytes / sizeof(std::uint32_t); ++i) numbers[i] = small_first_ + i;
    }
  }

  // Writes the payload to the source, and something else to a GPU target, so that stale data cannot pass the check.
  void fill() {
    if (is_small()) return fill_small();
    if (transfer_.to.is_gpu() && transfer_.from != transfer_.to)
      iota(runtime_, stream_of_target(), ValueWidth::v8, target_.slice(0, 8 * count_), ~first_ - count_);
    if (transfer_.from.is_gpu()) {
      iota(runtime_, stream_, ValueWidth::v8, source_.slice(0, 8 * count_), first_);
      return;
    }
    if (runtime_.estimating() || pool_ != nullptr) return;
    auto* numbers = reinterpret_cast<std::uint64_t*>(source_.data);
#pragma omp parallel for num_threads(team())
    for (std::uint64_t i = 0; i < count_; ++i) numbers[i] = first_ + i;
  }

  Runtime& runtime_;
  const Transfer& transfer_;
  const HostPool* pool_;
  Turn turn_;
  std::uint64_t count_, first_;
  std::uint32_t small_first_ = static_cast<std::uint32_t>(first_ >> 32) << 16;
  std::vector<Buffer> memory_;
  std::vector<std::byte> ordinary_;
  MemoryView source_, target_;
  Stream stream_;
  std::optional<Router> router_;
};

// One for each transfer. Transfers in use windows of the pool's source memory, and transfers out of its target
// memory.
std::vector<Turn> turns_of(std::span<const Transfer> pattern) {
  std::vector<Turn> turns;
  std::uint64_t in = 0, out = 0;
  for (const Transfer& transfer : pattern) {
    const bool between_gpus = transfer.from.is_gpu() && transfer.to.is_gpu();
    std::uint64_t& same = transfer.from.is_gpu() ? out : in;
    turns.push_back({between_gpus ? 0 : same++});
  }
  const std::uint64_t largest = std::ranges::max(pattern, {}, &Transfer::bytes).bytes;
  for (Turn& turn : turns) {
    turn.together = std::max(in, out);
    turn.window_bytes = largest;
  }
  return turns;
}

// Whether the pool has a window for each host end of a pattern, and they are so large that memory placement matters.
bool fits(const HostPool* pool, const Turn& turn) {
  return pool != nullptr && turn.together > 0 && turn.window_bytes >= least_window &&
         pool->windows(turn.window_bytes) >= turn.together;
}

// Enough repetitions to cover most of the pool, within limits.
int rotations_of(const HostPool& pool, const Turn& turn) {
  return static_cast<int>(std::clamp<std::uint64_t>(pool.windows(turn.window_bytes) / turn.together, 4, 16));
}

}  // namespace

// No enqueued work is still running when this returns or throws.
Measurement Prober::repeat(const std::function<void()>& enqueue, int rotations) {
  Measurement measured;
  run_or_abandon(runtime_, [&] {
    if (!runtime_.simulated()) {  // the simulated clock needs no warm-up and is deterministic
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
    if (runtime_.simulated()) measured = {once(), 0, 0, 1, false};
    else if (rotations > 0) measured = measure_mean(rotations, once);
    else measured = measure_until_calm(patience_, once);
    runtime_.synchronize();
  });
  return measured;
}

Measurement Prober::transfers(std::span<const Transfer> pattern) {
  const std::uint64_t first = ++patterns_ << 32;  // each pattern sends different numbers
  const std::vector<Turn> turns = turns_of(pattern);
  const bool is_pinned = std::ranges::none_of(pattern, &Transfer::pageable);
  const HostPool* pool = is_pinned && fits(pool_, turns.front()) ? pool_ : nullptr;
  const int rotations = pool == nullptr ? 0 : rotations_of(*pool, turns.front());
  std::vector<Ends> ends;
  ends.reserve(pattern.size());
  Measurement measured;
  // Even after an exception, no work still uses the memory of the ends when they are destroyed.
  run_or_abandon(runtime_, [&] {
    double bytes = 0;
    for (std::size_t t = 0; t < pattern.size(); ++t) {
      ends.emplace_back(runtime_, pattern[t], first, pool, turns[t]);
      bytes += static_cast<double>(pattern[t].bytes);
    }
    runtime_.synchronize();
    int repetition = 0;
    measured = repeat(
        [&] {
          for (Ends& each : ends) each.copy(repetition);
          ++repetition;
        },
        rotations);
    measured.gb_per_s = bytes / measured.seconds / 1e9;
    if (runtime_.estimating()) return;
    for (std::size_t t = 0; t < ends.size(); ++t)
      if (!ends[t].is_intact())
        throw CorruptDataError("what was copied from " + pattern[t].from.name() + " to " + pattern[t].to.name() +
                               " is not what arrived: do not trust this link, and have the machine looked after");
    measured.verified = true;
  });
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
