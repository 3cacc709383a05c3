#include "alternating.hpp"
#include "linkwise/error.hpp"
#include "synthetic.cuh"

namespace linkwise::apps {
namespace {

constexpr std::uint64_t words_of_block = 256;  // of 16 bytes: 4 KiB

using Words = SyntheticWords;

struct SyntheticKernel {
  static constexpr int threads = words_of_block;
  std::uint32_t iteration;
  int steps;

  template <typename Out>
  LINKWISE_HOST_DEVICE void operator()(const Block& block, Out out) const {
    const std::uint64_t begin = block.index() * words_of_block;
    block.for_each(begin, begin + words_of_block,
                   [&](std::uint64_t i) { out.store(i, synthetic_words(i, iteration, steps)); });
  }
};

class SyntheticApp final : public App {
 public:
  SyntheticApp(Team team, const Synthetic& synthetic)
      : team_(std::move(team)),
        synthetic_(synthetic),
        region_(team_.runtime, team_.gpus, synthetic.bytes / sizeof(Words), "synthetic", team_.plan.agent),
        producer_(std::make_unique<Producer<Words>>(make_producer())) {}

  void run(int iterations) override {
    for (int i = 0; i < iterations; ++i) {
      producer_->launch(SyntheticKernel{++iteration_, synthetic_.steps}, {},
                        KernelPrice{.seconds = synthetic_.seconds, .store_bytes = 256}, "synthetic");
      region_.flush();
    }
  }
  void fetch(int gpu, void* to, std::uint64_t bytes) override { region_.fetch(gpu, to, bytes); }
  void set_plan(const AgentPlan& plan) override {
    region_.check_goes_with(plan);
    team_.plan = plan;
    team_.runtime.synchronize();
    producer_ = std::make_unique<Producer<Words>>(make_producer());
  }
  void set_sends(Sends sends) override {
    sends_ = sends;
    producer_->set_sends(sends);
  }
  void wait() override {
    team_.runtime.synchronize();
    region_.check_when_done();
  }

 private:
  Producer<Words> make_producer() {
    Producer<Words> producer =
        producer_of_rows(region_, team_.gpus.front(), 0, region_.count(), words_of_block, team_.plan);
    producer.set_sends(sends_);
    producer.set_timed(false);  // iterations run back to back, and are timed together
    return producer;
  }

  Team team_;
  Synthetic synthetic_;
  Sends sends_ = Sends::chunks;
  Region<Words> region_;
  std::unique_ptr<Producer<Words>> producer_;
  std::uint32_t iteration_ = 0;
  QuietEnd quiet_{team_.runtime};
};

}  // namespace

std::uint32_t synthetic_word(std::uint64_t i, std::uint32_t iteration, int steps) {
  return synthetic_words(i / 4, iteration, steps).word[i % 4];
}

std::unique_ptr<App> make_synthetic(Team team, const Synthetic& synthetic) {
  if (synthetic.bytes == 0 || synthetic.bytes % 4096 != 0)
    throw UsageError("the microbenchmark makes whole pages of 4096 bytes, not " + std::to_string(synthetic.bytes));
  return std::make_unique<SyntheticApp>(std::move(team), synthetic);
}

}  // namespace linkwise::apps
