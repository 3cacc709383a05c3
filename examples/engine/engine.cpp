// Orders and customers lie on the GPUs, as an engine's columns do. The customers' keys are joined with the orders'
// where they lie, and the orders' keys sorted there; only totals and what is checked come to the host.
//
// Without GPUs, two are simulated: the CPU executes, and races are errors.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <random>
#include <unordered_set>
#include <vector>

#include "linkwise/join.hpp"
#include "linkwise/sort.hpp"
#include "linkwise/transfer/proactive/region.hpp"

namespace {

using Column = std::vector<std::uint64_t>;

// A column in equal parts on GPUs. An engine has it there already, in memory of its own; `stream` of a part is then the
// cudaStream_t on which it was made.
struct OnGpus {
  linkwise::DeviceColumns columns;
  std::vector<linkwise::Buffer> memory;

  OnGpus(linkwise::Runtime& runtime, const std::vector<int>& gpus, const Column& values) {
    columns.key_type = linkwise::KeyType::u64;
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      const std::size_t begin = values.size() * g / gpus.size(), end = values.size() * (g + 1) / gpus.size();
      memory.push_back(linkwise::proactive::put_on_gpu(runtime, gpus[g], &values[begin],
                                                       (end - begin) * sizeof values[0], "column"));
      columns.parts.push_back({end - begin, memory.back().view().data});
    }
  }
};

// What an engine has its GPUs' memory from. Here GPUs are simulated, and the host's memory stands in for theirs.
class Pool {
 public:
  [[nodiscard]] linkwise::GpuMemory functions() {
    return {[this](int, std::uint64_t bytes) {
              if (bytes > left_) throw linkwise::OutOfMemoryError("the engine's pool is empty");
              left_ -= bytes;
              return static_cast<std::byte*>(::operator new(bytes, alignment));
            },
            [this](int, std::byte* data, std::uint64_t bytes) {
              left_ += bytes;
              ::operator delete(data, alignment);
            },
            [this](int) { return left_; }};
  }
  [[nodiscard]] std::uint64_t taken() const { return size - left_; }

 private:
  static constexpr std::uint64_t size = 1 << 28;
  static constexpr std::align_val_t alignment{4096};
  std::uint64_t left_ = size;
};

std::unique_ptr<linkwise::Runtime> open() {
  try {
    return linkwise::proactive::open_gpus();
  } catch (const linkwise::DeviceError&) {
    return linkwise::proactive::open_virtual_gpus(2);
  }
}

}  // namespace

int main() {
  std::mt19937_64 random(1);
  Column customers(10'000), orders(200'000);
  for (auto& key : customers) key = random() % 100'000;
  std::ranges::sort(customers);
  customers.erase(std::ranges::unique(customers).begin(), customers.end());
  std::ranges::shuffle(customers, random);
  for (auto& key : orders) key = random() % 100'000;

  Pool pool;
  try {
    const std::unique_ptr<linkwise::Runtime> runtime = open();
    if (runtime->simulated()) runtime->use_memory(pool.functions());
    std::vector<int> gpus;
    for (int gpu = 0; gpu < std::min(runtime->machine().num_gpus(), 2); ++gpu) gpus.push_back(gpu);
    OnGpus left(*runtime, gpus, customers), right(*runtime, gpus, orders);

    linkwise::JoinPlan join;
    join.sort.gpus = gpus;
    const linkwise::JoinTotals totals =
        linkwise::join_device_totals(*runtime, join, {left.columns, right.columns, linkwise::JoinKind::inner});
    const std::unordered_set<std::uint64_t> known(customers.begin(), customers.end());
    const auto expected = std::ranges::count_if(orders, [&](std::uint64_t key) { return known.contains(key); });
    std::printf("%llu of %zu orders are of a customer\n", static_cast<unsigned long long>(totals.rows), orders.size());

    linkwise::SortPlan sort;
    sort.gpus = gpus;
    Column in_order;
    for (linkwise::SortedPart& part : linkwise::sort_device(*runtime, sort, right.columns, {})) {
      in_order.resize(in_order.size() + part.count);
      runtime->fetch(&in_order[in_order.size() - part.count], part.keys, *part.ready);
      runtime->retire(std::move(part.memory), {part.ready});
    }
    std::ranges::sort(orders);
    const bool is_right = totals.rows == static_cast<std::uint64_t>(expected) && in_order == orders;
    std::printf("%s on %zu %s GPUs, version %d.%d\n", is_right ? "right" : "WRONG", gpus.size(),
                runtime->simulated() ? "simulated" : "real", LINKWISE_VERSION_MAJOR, LINKWISE_VERSION_MINOR);
    if (pool.taken() > 0) std::printf("%.0f MiB of the engine's pool were taken\n", double(pool.taken()) / (1 << 20));
    return is_right ? 0 : 1;
  } catch (const linkwise::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
