#include "samples.hpp"

#include <algorithm>
#include <set>

#include "linkwise/error.hpp"
#include "linkwise/transfer/proactive/producer.hpp"

namespace linkwise::apps {
namespace {

using namespace proactive;

constexpr std::uint32_t stores_of_block = 64;

// A pseudo-random position in the array for a block's n-th store.
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

constexpr std::uint64_t page_floats = page_bytes / sizeof(float);

// Block b writes page b; block 3 writes `shift` elements too far, and after a delay of `nanoseconds`.
struct PagesKernel {
  static constexpr int threads = 256;
  std::uint64_t shift = 0, nanoseconds = 0;
  float of_each = 1;

  template <typename Out>
  LINKWISE_HOST_DEVICE void operator()(const Block& block, Out out) const {
    const std::uint64_t begin = block.index() * page_floats;
    const std::uint64_t moved = block.index() == 3 ? shift : 0;
#ifdef __CUDA_ARCH__
    if (block.index() == 3)
      for (std::uint64_t waited = 0; waited < nanoseconds; waited += 1'000'000) __nanosleep(1'000'000);
#endif
    block.for_each(begin, begin + page_floats,
                   [&](std::uint64_t i) { out.store(i + moved, of_each * static_cast<float>(i)); });
  }
};

struct Triple {
  float of[3];
};

struct TriplesKernel {
  static constexpr int threads = 128;
  static constexpr std::uint64_t of_block = 300;
  std::uint64_t count;

  template <typename Out>
  LINKWISE_HOST_DEVICE void operator()(const Block& block, Out out) const {
    const auto [begin, end] = block.rows(0, count, of_block);
    block.for_each(begin, end, [&](std::uint64_t i) {
      const auto number = static_cast<float>(3 * i);
      out.store(i, Triple{{number, number + 1, number + 2}});
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

std::vector<float> run_scatter(Runtime& runtime, Agent agent, std::uint32_t blocks, std::uint64_t count) {
  Region<float> region(runtime, {0, 1}, count, "scatter");
  region.fill_each([](std::uint64_t) { return 0.0F; });
  const ScatterKernel kernel{count};
  Producer<float> producer(region, 0, Producer<float>::find_mapping(region, 0, blocks, {0, region.bytes()}, kernel),
                           {agent, page_bytes, 512});
  for (int epoch = 0; epoch < 2; ++epoch) {
    producer.launch(kernel, {}, {});
    region.flush();
  }
  std::vector<float> found(count);
  region.fetch(1, found.data(), region.bytes());
  return found;
}

std::vector<float> run_triples(Runtime& runtime, Agent agent, std::uint64_t count) {
  Region<Triple> region(runtime, {0, 1}, count, "triples");
  region.fill_each([](std::uint64_t) { return Triple{}; });
  region.need(1, {page_bytes, region.bytes()});
  const auto blocks = static_cast<std::uint32_t>((count + TriplesKernel::of_block - 1) / TriplesKernel::of_block);
  const ByteRange parts[] = {{0, region.bytes()}, {region.bytes(), region.bytes()}};
  for (const int gpu : {0, 1}) {
    Producer<Triple> producer(region, gpu,
                              Mapping::contiguous(gpu == 0 ? blocks : 0, region.bytes(),
                                                  TriplesKernel::of_block * sizeof(Triple), parts[gpu]),
                              {agent, page_bytes, 512});
    producer.launch(TriplesKernel{count}, {}, {});
    region.flush();
    runtime.synchronize();
  }
  std::vector<float> found(3 * count);
  region.fetch(1, found.data(), region.bytes());
  return found;
}

void run_wrong_producer(Runtime& runtime, const std::string& what, Agent agent) {
  constexpr std::uint64_t pages = 16, count = pages * page_floats;
  Region<float> region(runtime, {0, 1}, count, "array");
  Producer<float> producer(region, 0, Mapping::contiguous(pages, region.bytes(), page_bytes, {0, region.bytes()}),
                           {agent, page_bytes, 512});
  const PagesKernel kernel{what == "mapping" || what == "checked" ? 512U : what == "far" ? count : 0U};
  if (what == "checked") return producer.check_mapping(kernel);
  for (int epoch = 0; epoch < 2; ++epoch) {
    producer.launch(kernel, {}, {});
    if (what != "flush") region.flush();
    runtime.enqueue(compute_stream(runtime, 1), {"reader", {region.mirror(1)}, {}, {}, [](void*) {}});
    if (what == "consumed") continue;
    region.consumed(1);
    region.flush();
  }
  runtime.synchronize();
}

std::uint32_t senders_of(Runtime& runtime, const AgentPlan& plan) {
  constexpr std::uint64_t pages = 512, count = pages * page_floats;
  Region<float> region(runtime, {0, 1}, count, "array");
  Producer<float> producer(region, 0, Mapping::contiguous(pages, region.bytes(), page_bytes, {0, region.bytes()}),
                           plan);
  for (int epoch = 0; epoch < 3; ++epoch) {
    producer.launch(PagesKernel{}, {}, {});
    region.flush();
    region.wait();
  }
  return producer.senders();
}

std::string run_slow_producer(Runtime& runtime, Agent agent, double seconds, double patience) {
  constexpr std::uint64_t pages = 16, count = pages * page_floats;
  Region<float> region(runtime, {0, 1}, count, "array");
  Producer<float> producer(region, 0, Mapping::contiguous(pages, region.bytes(), page_bytes, {0, region.bytes()}),
                           {agent, page_bytes, 512, agent == Agent::polling ? patience : 10 * seconds});
  const auto found = [&] {
    std::vector<float> values(count);
    region.fetch(1, values.data(), region.bytes());
    return values.back();
  };
  std::string told;
  producer.launch(PagesKernel{.nanoseconds = static_cast<std::uint64_t>(1e9 * seconds)}, {}, {});
  region.flush();
  try {
    if (agent == Agent::polling) (void)found();  // its agent gives up
    else region.wait(patience);
  } catch (const DeviceError& error) {
    told = error.what();
  }
  runtime.synchronize();
  if (told.empty()) throw ProgramError("nobody says that a chunk did not come");
  producer.launch(PagesKernel{.of_each = 2}, {}, {});
  region.flush();
  region.wait();
  if (found() != 2 * static_cast<float>(count - 1)) throw ProgramError("the epoch after is wrong");
  return told;
}

}  // namespace linkwise::apps
