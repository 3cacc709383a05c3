#include "samples.hpp"

#include <algorithm>
#include <set>

#include "linkwise/error.hpp"
#include "linkwise/transfer/proactive/producer.hpp"

namespace linkwise::apps {
namespace {

using namespace proactive;

constexpr std::uint32_t stores_of_block = 64;

// Any place of the array for a block's n-th store.
LINKWISE_HOST_DEVICE inline std::uint64_t place_of(std::uint32_t block, std::uint64_t n, std::uint64_t count) {
  const std::uint64_t mixed = (block * std::uint64_t{stores_of_block} + n) * 0x9E3779B97F4A7C15ULL;
  return (mixed >> 20) % count;
}

struct ScatterKernel {
  static constexpr int threads = 64;
  std::uint64_t count;

  template <typename Out>
  LINKWISE_HOST_DEVICE void operator()(const Block& block, Out out) const {
    block.for_each(0, stores_of_block, [&](std::uint64_t n) { out.store(place_of(block.index(), n, count), 1.0F); });
  }
};

// Block b writes elements [b · 1024, (b + 1) · 1024), a page of floats, and `shift` more behind them.
struct PagesKernel {
  static constexpr int threads = 256;
  std::uint64_t count, shift;

  template <typename Out>
  LINKWISE_HOST_DEVICE void operator()(const Block& block, Out out) const {
    const std::uint64_t begin = block.index() * std::uint64_t{1024} + (block.index() == 3 ? shift : 0);
    block.for_each(begin, begin + 1024, [&](std::uint64_t i) {
      if (i < count) out.store(i, static_cast<float>(i));
    });
  }
};

}  // namespace

std::vector<std::vector<std::uint32_t>> dry_run_of_scatter(Runtime& runtime, std::uint32_t blocks, std::uint64_t count,
                                                           std::uint64_t said) {
  Region<float> region(runtime, {0}, count, "scatter");
  const Mapping mapping =
      Producer<float>::find_mapping(region, 0, blocks, {0, said * sizeof(float)}, ScatterKernel{count});
  std::vector<std::vector<std::uint32_t>> pages;
  for (std::uint32_t block = 0; block < blocks; ++block)
    pages.emplace_back(mapping.pages(block).begin(), mapping.pages(block).end());
  return pages;
}

std::vector<std::vector<std::uint32_t>> pages_of_scatter(std::uint32_t blocks, std::uint64_t count) {
  std::vector<std::vector<std::uint32_t>> pages;
  for (std::uint32_t block = 0; block < blocks; ++block) {
    std::set<std::uint32_t> of_block;
    for (std::uint64_t n = 0; n < stores_of_block; ++n)
      of_block.insert(static_cast<std::uint32_t>(place_of(block, n, count) * sizeof(float) / page_bytes));
    pages.emplace_back(of_block.begin(), of_block.end());
  }
  return pages;
}

void run_wrong_producer(Runtime& runtime, const std::string& what) {
  constexpr std::uint64_t count = 16 * 1024;
  Region<float> region(runtime, {0, 1}, count, "array");
  Producer<float> producer(region, 0, Mapping::contiguous(16, region.bytes(), page_bytes, {0, region.bytes()}),
                           {Agent::polling, page_bytes, 512});
  producer.launch(PagesKernel{count, what == "mapping" ? 512U : 0U}, {}, {});
  if (what != "flush") region.flush();
  runtime.enqueue(compute_stream(runtime, 1), {"reader", {region.mirror(1)}, {}, {}, [](void*) {}});
  runtime.synchronize();
}

}  // namespace linkwise::apps
