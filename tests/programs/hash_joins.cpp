// What the layout of a hash join and its checksums promise; run by tests/test_programs.py.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "expecting.hpp"
#include "linkwise/join/device_hash/hash_parts.hpp"
#include "linkwise/primitives/host/reference_hash_join.hpp"
#include "linkwise/transfer/proactive/open.hpp"
#include "linkwise/transfer/proactive/region.hpp"

using namespace linkwise;

namespace {

// Tables fit the memory that a block can have, of GPUs with little of it and much, and are no smaller than they must
// be.
void try_tables() {
  for (const std::uint64_t block_kib : {112, 163, 227})
    for (const KeyWidth key : {KeyWidth::k32, KeyWidth::k64})
      for (const ValueWidth value : {ValueWidth::none, ValueWidth::v4, ValueWidth::v8})
        for (const bool emits : {false, true})
          for (const std::uint64_t rows : {100, 10'000, 14'000, 100'000'000})
            for (const std::uint32_t asked : {0, 8, 8192}) {
              const HashedSides sides{{key, value}, rows, 10 * rows, emits, asked};
              const HashLayout layout = layout_hash_join(sides, 2, block_kib << 10);
              const HashTableShape shape(layout.table_rows, static_cast<int>(value), emits);
              const std::uint64_t bytes = shape.table_bytes(static_cast<std::uint32_t>(key)) + usual_task_rows / 8;
              const std::string of = std::to_string(block_kib) + " KiB, " + std::to_string(rows) + " rows";
              expect(bytes < block_kib << 10, "a table fits " + of);
              expect(layout.table_rows == asked || 2 * bytes > 112 << 10 || asked == 8, "a table uses " + of);
            }
}

// A row in a wrong part, and one that is not there, change the sum.
void try_checksums() {
  constexpr std::uint32_t parts = 4;
  std::vector<std::uint32_t> hashes;
  for (std::uint32_t part = 0; part < parts; ++part)
    for (std::uint32_t row = 0; row < 8; ++row) hashes.push_back((parts + part) << 29 | row * 977);
  std::vector<std::uint64_t> begin{0, 8, 16, 24, 32};
  const auto sum_of = [&] {
    std::vector<HashTask> tasks(2 * parts);
    std::uint32_t count = 0;
    const RawHashSide side{hashes.data(), nullptr, {4, false}, hashes.size(), 0, true, false, begin.data()};
    list_hash_tasks_on_host({side, side, parts, usual_task_rows, true, true, tasks.data(), &count});
    std::uint64_t checksums[2] = {};
    MatchTotals totals;
    std::vector<std::uint64_t> emitted(tasks.size());
    RawHashMatch match{KeyWidth::k32, side, side, tasks.data(), &count, tasks.size(), 8};
    match.checksums = checksums;
    match.first_part = parts;
    match.part_bits = 3;
    count_hash_matches_on_host(match, {&totals, emitted.data(), false});
    return std::pair{checksums[0], checksums[1]};
  };
  const auto right = sum_of();
  expect(right.first == right.second, "both sides' sums are alike");
  std::swap(hashes[3], hashes[20]);
  expect(sum_of().first != right.first && sum_of().second != right.second, "rows that change places are seen");
  std::swap(hashes[3], hashes[20]);
  begin[1] = 9;
  expect(sum_of().first != right.first, "a part that begins elsewhere is seen");
  begin[1] = 8;
  begin[4] = 31;
  expect(sum_of().first != right.first, "a row that is left out is seen");
}

// What samples have in common, beside what a map counts of them.
template <typename Key>
void try_samples(Runtime& runtime, KeyType type, std::uint64_t count, std::uint64_t distinct) {
  std::vector<Key> build, probe;
  std::map<Key, std::uint64_t> of_build, of_probe;
  SeenKeys expected, found;
  const auto draw = [&](std::uint64_t i) { return static_cast<Key>(mix64(i) % distinct * 2654435761U); };
  for (std::uint64_t i = 0; i < count; ++i)
    expected.build_most = std::max(expected.build_most, ++of_build[build.emplace_back(draw(i))]);
  for (std::uint64_t i = 0; i < count / 2; ++i) {
    expected.probe_most = std::max(expected.probe_most, ++of_probe[probe.emplace_back(draw(count + i))]);
    expected.pairs += of_build[probe.back()];
  }
  const Stream stream = runtime.stream(Place::gpu(0), "samples");
  const Buffer on_gpu[] = {proactive::put_on_gpu(runtime, 0, build.data(), sizeof(Key) * build.size(), "build"),
                           proactive::put_on_gpu(runtime, 0, probe.data(), sizeof(Key) * probe.size(), "probe")};
  const SampledSides samples{type, on_gpu[0].view(), on_gpu[1].view()};
  const Buffer scratch = runtime.allocate(Place::gpu(0), samples.scratch_bytes(), "tables");
  const Buffer seen = runtime.allocate(Place::gpu(0), sizeof(SeenKeys), "seen");
  compare_samples(runtime, stream, samples, scratch.view(), seen.view());
  runtime.read_back({stream, seen.view(), &found});
  const std::string of = std::to_string(count) + " samples of " + std::to_string(distinct) + " keys";
  expect(found.build_most == expected.build_most && found.probe_most == expected.probe_most,
         "the most frequent of " + of);
  expect(found.pairs == expected.pairs, "pairs of " + of);
}

void try_samples(Runtime& runtime) {
  for (const std::uint64_t distinct : {1, 3, 1000, 1 << 30})
    for (const std::uint64_t count : {2, 33, 16'000}) {
      try_samples<std::uint32_t>(runtime, KeyType::u32, count, distinct);
      try_samples<std::uint64_t>(runtime, KeyType::i64, count, distinct);
    }
}

}  // namespace

int main() {
  try_samples(*proactive::open_virtual_gpus(1));
  try {
    try_samples(*proactive::open_gpus());
  } catch (const DeviceError&) {  // there are none
  }
  try_tables();
  try_checksums();
  tell_failures();
}
