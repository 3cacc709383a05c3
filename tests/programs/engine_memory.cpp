// What an engine's own memory promises; run by tests/test_programs.py.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "expecting.hpp"
#include "linkwise/sort.hpp"
#include "linkwise/transfer/proactive/region.hpp"

using namespace linkwise;

namespace {

constexpr std::align_val_t alignment{256};

struct Pool {
  std::map<int, std::uint64_t> left, most;
  explicit Pool(std::uint64_t bytes) {
    for (int gpu = 0; gpu < 2; ++gpu) left[gpu] = most[gpu] = bytes;
  }

  [[nodiscard]] GpuMemory functions() {
    return {[this](int gpu, std::uint64_t bytes) {
              if (bytes > left.at(gpu)) throw OutOfMemoryError("the pool is empty");
              left[gpu] -= bytes;
              return static_cast<std::byte*>(::operator new(bytes, alignment));
            },
            [this](int gpu, std::byte* data, std::uint64_t bytes) {
              left[gpu] += bytes;
              ::operator delete(data, alignment);
            },
            [this](int gpu) { return left.at(gpu); }};
  }
  [[nodiscard]] bool is_full() const { return left == most; }
};

// Sorts as many keys, which lie on two GPUs, and says whether they are in order.
bool sorts(Runtime& runtime, std::uint64_t count) {
  std::vector<std::uint32_t> keys(count), found;
  for (std::uint64_t i = 0; i < count; ++i) keys[i] = static_cast<std::uint32_t>(i * 2654435761U);
  DeviceColumns columns;
  columns.key_type = KeyType::u32;
  std::vector<Buffer> memory;
  for (int gpu = 0; gpu < 2; ++gpu) {
    memory.push_back(proactive::put_on_gpu(runtime, gpu, &keys[count / 2 * gpu], count / 2 * 4, "keys"));
    columns.parts.push_back({count / 2, memory.back().view().data});
  }
  SortPlan plan;
  plan.gpus = {0, 1};
  for (SortedPart& part : sort_device(runtime, plan, columns, {})) {
    found.resize(found.size() + part.count);
    runtime.fetch(&found[found.size() - part.count], part.keys, *part.ready);
    runtime.retire(std::move(part.memory), {part.ready});
  }
  return found.size() == count && std::ranges::is_sorted(found);
}

}  // namespace

int main() {
  Pool pool(1 << 26), small(1 << 23);
  {
    const auto runtime = proactive::open_virtual_gpus(2);
    runtime->use_memory(pool.functions());
    expect(runtime->available(Place::gpu(0)) == 1 << 26, "what the pool has can be had");
    expect(sorts(*runtime, 100'000), "keys in an engine's memory are sorted");
    expect(pool.left.at(0) < 1 << 26 && pool.left.at(1) < 1 << 26, "memory came from the pool");
    expect(runtime->reserved(Place::gpu(1)) == (1 << 26) - pool.left.at(1), "and no more than that");
    expect_error<Error>("has memory from elsewhere already", [&] { runtime->use_memory(small.functions()); });
    runtime->trim();
    expect(pool.is_full(), "trim gives it back");
    expect(sorts(*runtime, 1000), "and more can be had again");
  }
  expect(pool.is_full(), "a runtime that goes gives all back");
  const auto runtime = proactive::open_virtual_gpus(2);
  expect_error<Error>("memory of GPUs takes three functions", [&] { runtime->use_memory({}); });
  runtime->use_memory(small.functions());
  expect_error<Error>("the pool is empty", [&] { (void)sorts(*runtime, 8'000'000); });
  runtime->trim();
  expect(small.is_full(), "an error leaves nothing behind");
  expect(sorts(*runtime, 1000), "a pool that was too small can be used on");
  tell_failures();
}
