// What proactive regions promise to a program in C++, and what they refuse; run by tests/test_programs.py.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "expecting.hpp"
#include "linkwise/error.hpp"
#include "linkwise/transfer/proactive/open.hpp"
#include "linkwise/transfer/proactive/producer.hpp"
#include "linkwise/transfer/proactive/tuned_plans.hpp"

using linkwise::ProgramError;
using linkwise::Runtime;
using linkwise::UsageError;
using namespace linkwise::proactive;

namespace {

constexpr Agent all_agents[] = {Agent::bulk,    Agent::memcpy,      Agent::inline_,  Agent::polling,
                                Agent::dynamic, Agent::copy_engine, Agent::hardware, Agent::infinite};

struct Wide {
  double of[3];
};

// Elements [first, last), each made from its number.
template <typename T>
struct Fill {
  static constexpr int threads = 64;
  std::uint64_t first, last, of_block;

  static T value(std::uint64_t i) {
    if constexpr (std::is_same_v<T, Wide>) return {{1.0 * i, 2.0 * i, 3.0 * i}};
    else return static_cast<T>(i + 1);
  }
  template <typename Out>
  void operator()(const Block& block, Out out) const {
    const auto [begin, end] = block.rows(first, last, of_block);
    block.for_each(begin, end, [&](std::uint64_t i) { out.store(i, value(i)); });
  }
};

template <typename T>
Mapping contiguous(const Region<T>& region, std::uint64_t first, std::uint64_t last, std::uint64_t of_block) {
  return Mapping::contiguous(static_cast<std::uint32_t>((last - first + of_block - 1) / of_block), region.bytes(),
                             of_block * sizeof(T), {first * sizeof(T), last * sizeof(T)});
}

template <typename T>
std::vector<T> fetched(Region<T>& region, int gpu) {
  std::vector<T> found(region.count());
  region.fetch(gpu, found.data(), region.bytes());
  return found;
}

void mappings() {
  const auto pages = [](const Mapping& mapping, std::uint32_t block) {
    const auto of = mapping.pages(block);
    return std::vector<std::uint32_t>(of.begin(), of.end());
  };
  using Pages = std::vector<std::uint32_t>;
  constexpr std::uint64_t page = page_bytes;
  const Mapping stencil = Mapping::stencil(4, 16 * page, 2 * page, {4 * page, 12 * page}, page);
  expect(pages(stencil, 0) == Pages{4, 5, 6} && pages(stencil, 1) == Pages{5, 6, 7, 8} &&
             pages(stencil, 3) == Pages{9, 10, 11},
         "a stencil's blocks write their neighbours' pages on both sides, of their part");
  const Mapping strided = Mapping::strided(2, 8 * page, page, 3, 3 * page);
  expect(pages(strided, 0) == Pages{0, 3, 6} && pages(strided, 1) == Pages{1, 4, 7},
         "strided blocks write all their rows");
  expect(stencil.writes(3, 11) && !stencil.writes(3, 12) && !stencil.writes(0, 3), "a mapping knows its pages");
  for (const ByteRange& beyond : {ByteRange{0, page}, ByteRange{2 * page, 3 * page + 1}})
    expect_error<UsageError>("which are not in bytes 4096 to 12288", [&] {
      (void)Mapping::of(1, 4 * page, {page, 3 * page}, [&](std::uint32_t) { return std::vector{beyond}; });
    });
  expect_error<UsageError>("are not in a region of 4096", [] { (void)Mapping::contiguous(1, 4096, 8, {0, 4097}); });
}

void needs() {
  for (const Agent agent : all_agents) {
    const auto runtime = open_virtual_gpus(3);
    Region<Wide> region(*runtime, {0, 1, 2}, 1000);
    region.fill_each([](std::uint64_t) { return Wide{}; });
    // Element 170 lies in both pages, and GPU 1 needs the second one alone.
    region.need(1, {4096, 8192});
    region.need(2, {0, 0});
    Producer<Wide> producer(region, 0, contiguous(region, 0, 1000, 100), {agent, page_bytes, 512});
    expect_error<UsageError>("before the region's first producer", [&] { region.need(1, {0, 1}); });
    producer.launch(Fill<Wide>{0, 1000, 100}, {}, {});
    const auto found = fetched(region, 1), nothing = fetched(region, 2);
    expect(found[170].of[2] == 3.0 * 170 && found[300].of[1] == 600, "what is needed arrives by " + to_string(agent));
    for (const Wide& element : nothing) expect(element.of[0] == 0, "nothing else arrives by " + to_string(agent));
  }
}

// Nobody flushes before the result is fetched.
void fetching() {
  for (const Agent agent : all_agents)
    for (int seed = 0; seed < 20; ++seed) {
      const auto runtime = open_virtual_gpus(2, seed);
      Region<int> region(*runtime, {0, 1}, 5000);
      region.fill_each([](std::uint64_t) { return 0; });
      Producer<int> producer(region, 0, contiguous(region, 0, 5000, 256), {agent, page_bytes, 512});
      producer.launch(Fill<int>{0, 5000, 256}, {}, {});
      const auto found = fetched(region, 1);
      expect(found[0] == 1 && found[4999] == 5000, "what is fetched has arrived by " + to_string(agent));
      region.fill_each([](std::uint64_t) { return -1; });
      expect(fetched(region, 1)[4999] == -1, "what is filled is not overwritten by " + to_string(agent));
    }
}

// 499 elements in each part: a page is shared, and the last GPU has nothing to do.
void parts() {
  for (const Agent agent : all_agents) {
    const auto runtime = open_virtual_gpus(3);
    Region<double> region(*runtime, {0, 1, 2}, 998);
    std::vector<Producer<double>> producers;
    for (std::uint64_t g = 0; g < 3; ++g) {
      const std::uint64_t first = std::min<std::uint64_t>(499 * g, 998),
                          last = std::min<std::uint64_t>(first + 499, 998);
      producers.emplace_back(region, static_cast<int>(g), contiguous(region, first, last, 64),
                             AgentPlan{agent, page_bytes, 512});
      producers.back().launch(Fill<double>{first, last, 64}, {}, {});
    }
    region.flush();
    for (int gpu = 0; gpu < 3; ++gpu) {
      const auto found = fetched(region, gpu);
      for (std::uint64_t i = 0; i < 998; ++i) expect(found[i] == i + 1.0, "all parts arrive by " + to_string(agent));
    }
    // One more than its part, in a page of its own.
    expect_error<ProgramError>("stores element 499, outside of bytes 0 to 3992", [&] {
      Producer<double> greedy(region, 0, contiguous(region, 0, 499, 512), {agent, page_bytes, 512});
      greedy.launch(Fill<double>{0, 500, 512}, {}, {});
      region.wait();
    });
  }
  const auto runtime = open_virtual_gpus(2);
  Region<double> region(*runtime, {0, 1}, 998);
  Producer<double> producer(region, 0, contiguous(region, 0, 499, 512), {});
  expect_error<UsageError>("block 0 stores outside of bytes 0 to 3992",
                           [&] { producer.check_mapping(Fill<double>{0, 500, 512}); });
  // The mapping has the page in which element 170 begins.
  Region<Wide> wide(*runtime, {0, 1}, 340);
  Producer<Wide> first_page(
      wide, 0,
      Mapping::of(1, wide.bytes(), {0, wide.bytes()}, [](std::uint32_t) { return std::vector<ByteRange>{{0, 4096}}; }),
      {Agent::polling, page_bytes, 512});
  expect_error<ProgramError>("stores element 170, in the chunk of 4 KiB number 1", [&] {
    first_page.launch(Fill<Wide>{0, 171, 171}, {}, {});
    wide.wait();
  });
}

void what_is_refused() {
  const auto runtime = open_virtual_gpus(3);
  expect_error<UsageError>("more than any memory has", [&] { Region<double>(*runtime, {0}, (1ULL << 61) + 1); });
  Region<bool> region(*runtime, {0, 1}, 10);
  region.fill_each([](std::uint64_t i) { return i % 2 == 1; });
  bool found[11] = {};
  region.fetch(1, found, 10);
  expect(found[9] && !found[8], "regions of bool are filled");
  expect_error<UsageError>("a region of 10 bytes has not got 11", [&] { region.fetch(1, found, 11); });
  expect_error<UsageError>("a region of 10 bytes is filled with 9", [&] { region.fill(found, 9); });
  expect_error<UsageError>("does not lie on GPU 2", [&] { region.consumed(2); });
  expect_error<UsageError>("does not lie on GPU 2",
                           [&] { Producer<bool>(region, 2, contiguous(region, 0, 10, 10), {}); });
  Producer<bool> producer(region, 0, contiguous(region, 0, 10, 10), {});
  for (const KernelPrice& price :
       {KernelPrice{.memory_bytes = -1}, KernelPrice{.seconds = NAN}, KernelPrice{.store_bytes = 0}})
    expect_error<UsageError>("a kernel's price", [&] { producer.launch(Fill<bool>{0, 10, 10}, {}, price); });
  for (const AgentPlan& plan : {AgentPlan{Agent::polling, 1 << 30, 1 << 16}, AgentPlan{Agent::polling, 4096, 32}})
    check_plan(plan, true);
  for (const AgentPlan& plan : {AgentPlan{Agent::polling, (1 << 30) + 4096}, AgentPlan{Agent::polling, 4096, 65537},
                                AgentPlan{Agent::polling, 4096, 31}, AgentPlan{Agent::polling, 0}})
    expect_error<UsageError>("", [&] { check_plan(plan, true); });
}

void tuning() {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("linkwise-plans-" + std::to_string(getpid()));
  const TunedPlans kept(file);
  int tried = 0;
  const TuningSpace simulated{.agents = {Agent::bulk, Agent::hardware}};
  for (int run = 0; run < 2; ++run) {
    const AgentPlan best = tuned_plan(
        "k", [&](const AgentPlan& plan) { return ++tried, plan.agent == Agent::bulk ? 2.0 : 1.0; }, simulated, kept);
    expect(best.agent == Agent::hardware, "the fastest plan is kept");
  }
  const int once = tried;
  (void)tuned_plan("k", [&](const AgentPlan&) { return ++tried, 1.0; }, simulated, kept);
  expect(tried == once, "a kept plan is found again");
  std::filesystem::remove(file);
  for (const double wrong : {-1.0, std::numeric_limits<double>::quiet_NaN()})
    expect_error<UsageError>("'bulk' is said to take",
                             [&] { (void)tune({}, [&](const AgentPlan&) { return wrong; }); });
  const double never = std::numeric_limits<double>::infinity();
  const auto best = tune({}, [&](const AgentPlan& plan) { return plan.agent == Agent::inline_ ? 1 : never; }).front();
  expect(best.plan.agent == Agent::inline_, "what cannot be used is infinitely slow");
  // One plan was lucky once; of all others, 16 KiB is the best.
  std::map<std::string, int> times;
  const auto lucky = tune({}, [&](const AgentPlan& plan) {
    if (plan.agent != Agent::copy_engine) return 3.0;
    if (plan.chunk_bytes == 1 << 20 && times[plan.to_string()]++ == 0) return 0.98;
    return plan.chunk_bytes == 16 << 10 ? 1.0 : 1.04;
  });
  expect(lucky.front().plan.chunk_bytes == 16 << 10 && lucky.front().seconds == 1, "the best are tried again");
  const TuningSpace polling{.agents = {Agent::polling}};
  const auto equal = tune(polling, [](const AgentPlan& plan) { return plan.chunk_bytes == 4096 ? 1.0 : 1.05; });
  expect(equal.front().plan.chunk_bytes == 4096 && equal.front().plan.threads == 32,
         "the fewest threads of equally good plans");
}

}  // namespace

int main() {
  mappings();
  needs();
  fetching();
  parts();
  what_is_refused();
  tuning();
  tell_failures();
  return failures == 0 ? 0 : 1;
}
