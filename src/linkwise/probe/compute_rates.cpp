#include "linkwise/probe/compute_rates.hpp"

#include <algorithm>
#include <cmath>

#include "linkwise/primitives/encoding.hpp"
#include "linkwise/primitives/host/gather_rows.hpp"
#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/merge/run_merge.hpp"
#include "linkwise/sort/sort_plan.hpp"
#include "linkwise/sort/strategies/cpu_sort.hpp"
#include "linkwise/team.hpp"

namespace linkwise {
namespace {

constexpr std::uint64_t few = 1024;  // records: so few that start-up takes nearly all of the time
constexpr RecordType narrow{KeyWidth::k32, ValueWidth::none}, wide_keys{KeyWidth::k64, ValueWidth::none},
    wide{KeyWidth::k64, ValueWidth::v8};
constexpr int destinations = 8;
constexpr std::uint64_t most_runs = 16, usual_runs = 4;  // of the host's merges

// Enqueues work on `n` records of a type.
using Enqueue = std::function<void(Stream, RecordType, std::uint64_t)>;

// Fills memory with random numbers, made on the host: the input of sorts, merges and partitions.
void randomize(Runtime& runtime, const MemoryView& to) {
  const Buffer pinned = runtime.allocate(Place::host(), to.bytes, "probe");
  if (!runtime.estimating()) {
    auto* numbers = reinterpret_cast<std::uint64_t*>(pinned.view().data);
    const std::uint64_t count = to.bytes / 8;
#pragma omp parallel for num_threads(team())
    for (std::uint64_t i = 0; i < count; ++i) numbers[i] = mix64(i);
  }
  runtime.copy(runtime.stream(to.place, "probe"), to, pinned.view());
  runtime.synchronize();
}

class GpuRates {
 public:
  GpuRates(Runtime& runtime, Prober& prober, std::uint64_t records)
      : runtime_(runtime), prober_(prober), records_(records) {
    const Kernels& kernels = runtime.kernels();
    std::uint64_t scratch = 0;
    for (const RecordType type : {narrow, wide})
      scratch = std::max({scratch, kernels.sort_scratch_bytes(type, records),
                          kernels.merge_scratch_bytes(type, records / 2, records - records / 2),
                          kernels.partition_scratch_bytes(type, records, destinations)});
    for (const RecordType type : {narrow, wide_keys})
      scratch = std::max(scratch, kernels.msd_sort_scratch_bytes(type, records));
    const auto allocate = [&](std::uint64_t bytes) { return runtime.allocate(place_, bytes, "probe"); };
    first_ = allocate(record_bytes(wide, records));
    second_ = allocate(record_bytes(wide, records));
    scratch_ = allocate(scratch);
    counters_ = allocate(8 * 256);
    spread_ = allocate(sizeof(KeySpread));
    randomize(runtime, first_.view());
  }

  void measure(std::map<std::string, Rate>& rates) {
    const Enqueue sort_all = [&](Stream stream, RecordType type, std::uint64_t n) {
      const Records records = in(first_, type, n);
      const Records sorted =
          sort(runtime_, stream, records, in(second_, type, n), {0, type.key_bits()}, scratch_.view());
      if (sorted.keys.data != records.keys.data) copy(runtime_, stream, records, sorted);
    };
    rates["sort"] = fit(narrow, wide_keys, sort_all, {}, /*passes_a_byte=*/true);
    rates["sort with values"] = fit({KeyWidth::k32, ValueWidth::v4}, wide, sort_all, {}, /*passes_a_byte=*/true);
    const Enqueue sort_by_leading_digits = [&](Stream stream, RecordType type, std::uint64_t n) {
      // The result goes to one half of the second buffer, with the other half as spare room: the input stays random.
      const std::uint64_t half = record_bytes(wide_keys, records_);
      const Records records = in(first_, type, n), result = records_in(second_.slice(0, half), type, n);
      const Records room = records_in(second_.slice(half, half), type, n);
      const KeyCoding coding = own_codes(type.key);
      look_at_keys(runtime_, stream, coding, records, SortBuffers::three, ExpectedKeys::wide, scratch_.view(),
                   spread_.view());
      msd_sort(runtime_, stream, coding, records, result, room, ExpectedKeys::wide, scratch_.view(), {});
    };
    if (runtime_.kernels().msd_sort_scratch_bytes(narrow, records_) > 0) {
      randomize(runtime_, first_.view());
      rates["sort with levels"] = fit(narrow, wide_keys, sort_by_leading_digits);
    }
    const Enqueue merge_halves = [&](Stream stream, RecordType type, std::uint64_t n) {
      const Records all = in(first_, type, n);
      merge(runtime_, stream, all.slice(0, n / 2), all.slice(n / 2, n - n / 2), in(second_, type, n), scratch_.view());
    };
    rates["merge"] = fit(narrow, wide, merge_halves, sort_all);
    rates["checksum"] = fit(narrow, wide, [&](Stream stream, RecordType type, std::uint64_t n) {
      checksum(runtime_, stream, in(first_, type, n), counters_.slice(0, 8));
    });
    rates["histogram"] = fit(narrow, wide_keys, [&](Stream stream, RecordType type, std::uint64_t n) {
      histogram(runtime_, stream, type.key, in(first_, type, n).keys, {0, 8}, {}, counters_.view());
    });
    rates["encode"] = fit(narrow, wide_keys, [&](Stream stream, RecordType type, std::uint64_t n) {
      const MemoryView keys = in(first_, type, n).keys;
      encode(runtime_, stream, type.key == KeyWidth::k32 ? KeyType::i32 : KeyType::i64, false, keys, keys);
    });
    randomize(runtime_, first_.view());
    std::vector<Records> parts;
    Splitters splitters;
    const Enqueue count = [&](Stream stream, RecordType type, std::uint64_t n) {
      splitters = even_splitters(type.key);
      parts = count_parts(stream, in(first_, type, n), in(second_, type, n), splitters);
    };
    const Enqueue partition_them = [&](Stream stream, RecordType type, std::uint64_t n) {
      partition(runtime_, stream, in(first_, type, n), splitters, scratch_.view(), parts);
    };
    rates["partition"] = fit(narrow, wide, partition_them, count);
  }

 private:
  static Records in(const Buffer& buffer, RecordType type, std::uint64_t n) {
    return records_in(buffer.view(), type, n);
  }

  // Fits three parameters to three measurements: the start-up time, and the times per record and per byte of a pass.
  Rate fit(RecordType narrower, RecordType wider, const Enqueue& work, const Enqueue& prepare = {},
           bool passes_a_byte = false) {
    const auto seconds = [&](RecordType type, std::uint64_t n) {
      if (prepare) prepare(runtime_.stream(place_, "probe"), type, n);
      return prober_.work(place_, [&](Stream stream) { work(stream, type, n); }).seconds;
    };
    const auto passes = [&](RecordType type) { return passes_a_byte ? static_cast<double>(type.key_bytes()) : 1.0; };
    const double start = seconds(narrower, few), more = static_cast<double>(records_ - few);
    const auto picoseconds_each = [&](RecordType type) {
      return std::max(0.0, seconds(type, records_) - start) * 1e12 / (more * passes(type));
    };
    const double by_narrow = picoseconds_each(narrower), by_wide = std::max(by_narrow, picoseconds_each(wider));
    const auto narrow_bytes = static_cast<double>(narrower.bytes()), wide_bytes = static_cast<double>(wider.bytes());
    Rate rate;
    rate.ps_per_byte = std::min((by_wide - by_narrow) / (wide_bytes - narrow_bytes), by_narrow / narrow_bytes);
    rate.ps_per_record = by_narrow - narrow_bytes * rate.ps_per_byte;
    rate.fixed_us = std::max(0.0, start * 1e6 - passes(narrower) * static_cast<double>(few) * by_narrow * 1e-6);
    return rate;
  }

  static Splitters even_splitters(KeyWidth width) {
    Splitters splitters;
    for (std::uint64_t d = 1; d < destinations; ++d)
      splitters.key[splitters.count++] = d << (8 * static_cast<int>(width) - 3);
    return splitters;
  }

  std::vector<Records> count_parts(Stream stream, const Records& from, const Records& to, const Splitters& splitters) {
    const MemoryView totals = counters_.slice(0, 8 * destinations);
    partition_count(runtime_, stream, from, splitters, scratch_.view(), totals);
    std::vector<std::uint64_t> counts(destinations), expected(destinations, from.count / destinations);
    expected.back() += from.count % destinations;
    runtime_.read_back({stream, totals, counts.data(), expected.data()});
    std::vector<Records> parts;
    std::uint64_t first = 0;
    for (const std::uint64_t count : counts) {
      parts.push_back(to.slice(first, count));
      first += count;
    }
    return parts;
  }

  Runtime& runtime_;
  Prober& prober_;
  std::uint64_t records_;
  Place place_ = Place::gpu(0);
  Buffer first_, second_, scratch_, counters_, spread_;
};

// Measures the host's rates. Those of merges and of the sort are linear in the output bytes, and keep their start-up
// time, which is not measured; that of the gather is per row.
void measure_host(Runtime& runtime, Prober& prober, std::uint64_t records, std::map<std::string, Rate>& rates) {
  // Twice the GPU's records: more than any cache holds.
  const std::uint64_t n = 2 * records / most_runs * most_runs, bytes = narrow.bytes() * n;
  const Buffer from = runtime.allocate(Place::host(), bytes, "probe");
  const Buffer to = runtime.allocate(Place::host(), bytes, "probe");
  const auto fill = [&](auto&& key_of) {
    auto* keys = reinterpret_cast<std::uint32_t*>(from.view().data);
    const std::uint64_t count = runtime.estimating() ? 0 : n;
#pragma omp parallel for num_threads(team())
    for (std::uint64_t i = 0; i < count; ++i) keys[i] = static_cast<std::uint32_t>(key_of(i));
  };
  const auto set = [&](const std::string& name, const Measurement& measured, double passes) {
    Rate& rate = rates[name];
    const double picoseconds = std::max(0.0, measured.seconds * 1e12 - rate.fixed_us * 1e6);
    rate = {rate.fixed_us, 0, picoseconds / (passes * static_cast<double>(bytes))};
  };
  const Records all = records_in(from.view(), narrow, n), merged = records_in(to.view(), narrow, n);
  for (std::uint64_t runs = 2; runs <= most_runs; runs *= 2) {
    // Each run ascends in random steps, so that the order in which the runs are consumed is unpredictable.
    const std::uint64_t step = (1ULL << 32) / (n / runs);
    fill([&](std::uint64_t i) { return i % (n / runs) * step + mix64(i) % step; });
    std::vector<Records> sorted;
    for (std::uint64_t r = 0; r < runs; ++r) sorted.push_back(all.slice(n / runs * r, n / runs));
    const Measurement measured = prober.work(Place::host(), [&](Stream) { enqueue_merge(runtime, sorted, merged); });
    rates.try_emplace(merge_rate_of(runs), rates["multiway_merge"]);
    set(merge_rate_of(runs), measured, 1);
    if (runs == usual_runs) set("multiway_merge", measured, 1 + std::log2(runs));
  }
  // Gathers random rows of a column, eight bytes each, which is mostly bound by memory latency.
  const std::uint64_t rows = n / 2;
  fill([&](std::uint64_t i) { return mix64(i) % rows; });
  ColumnChunk chunk;
  chunk.count = rows;
  chunk.values = from.view().data;
  const ChunkedColumn column{ChunkedColumn::Layout::fixed, 8, {chunk}};
  const Rate described = runtime.machine().host_gather_rate();
  Work work;
  work.microseconds = static_cast<double>(rows) * (described.ps_per_record + 8 * described.ps_per_byte) * 1e-6;
  const Measurement gathered = prober.work(Place::host(), [&](Stream stream) {
    runtime.enqueue(stream, {"gather", {from.view()}, {}, work, [&](void*) {
                               (void)gather_rows(column, from.view().data, 4, rows);
                             }});
  });
  rates["gather"] = {0, gathered.seconds * 1e12 / static_cast<double>(rows), 0};
  fill([](std::uint64_t i) { return mix64(i); });
  SortPlan plan;
  plan.strategy = SortStrategy::cpu;
  const HostColumns input{KeyType::u32, n, from.view().data, ValueWidth::none, nullptr};
  const HostOutputs output{to.view().data, nullptr};
  set("cpu_sort", prober.work(Place::host(), [&](Stream) { cpu_sort(runtime, plan, input, output, {}); }),
      4);  // one pass per key byte
}

}  // namespace

void measure_rates(Runtime& runtime, Prober& prober, std::uint64_t records, Processor& gpu, Processor& host) {
  records = std::max(records, 4 * few);
  GpuRates(runtime, prober, records).measure(gpu.rates);
  measure_host(runtime, prober, records, host.rates);
}

}  // namespace linkwise
