// What a producer consists of, for its own source files.
#pragma once

#include "linkwise/transfer/proactive/cuda/agents.hpp"
#include "linkwise/transfer/proactive/producer.hpp"
#include "linkwise/transfer/proactive/sending_task.hpp"

namespace linkwise::proactive {

struct ProducerBase::Tables : Sender {
  Tables(RegionBytes& region, int gpu, const Mapping& mapping, const AgentPlan& plan);
  ~Tables() override;
  Tables(Tables&&) = delete;
  Tables& operator=(Tables&&) = delete;
  void check() override;
  std::string state() override;
  void let_go_late() override { is_late = true; }

  Runtime& runtime;
  int gpu;

  Chunks chunks;
  Lists of_blocks;                         // the chunks that each block writes
  std::vector<std::uint32_t> writers;      // of each chunk
  std::vector<std::uint32_t> last_writer;  // of each chunk: the highest block
  std::vector<std::uint32_t> wanted;       // of each chunk: the peers that need it, as a bit mask
  std::vector<std::uint32_t> order;        // written chunks, in the grid order of their last writers
  std::vector<int> peers;
  std::uint32_t written = 0;  // number of chunks that any block writes
  std::uint32_t epoch = 0;

  // On a real GPU.
  std::vector<Buffer> buffers;
  Outbox outbox;
  SendingTask sending;
  const SendingTask* sending_on_gpu = nullptr;  // a copy of its initial state
  MemoryView counters, senders, failure;
  bool is_loaded = false;  // kernel and agent have been loaded onto the GPU
  bool is_late = false;    // work may still run when this is destroyed

  /// The byte ranges of these chunks that a peer needs; adjacent ones are merged.
  [[nodiscard]] std::vector<ByteRange> ranges_for(std::size_t peer, std::span<const std::uint32_t> of) const;

 private:
  [[nodiscard]] std::vector<std::uint32_t> by_completion() const;
  void put_on_device(const RegionBytes& region, const AgentPlan& plan);
};

/// A kernel and its agent on the virtual machine: the grid runs in slices, and the chunks that a slice completes are
/// sent after it.
class ProducerBase::Simulated {
 public:
  Simulated(ProducerBase& producer, const KernelPrice& price, std::vector<MemoryView> reads);
  void launch(const std::string& name, const Run& run);

 private:
  void run_slice(const std::string& name, const Run& run, std::uint32_t first, std::uint32_t last);
  void send(std::span<const std::uint32_t> chunks, Event ready);
  [[nodiscard]] Stream to_peer(std::size_t peer) const;
  [[nodiscard]] bool sends() const { return producer_.sends_ != Sends::nothing; }

  ProducerBase& producer_;
  Runtime& runtime_;
  const Tables& tables_;
  KernelPrice price_;
  std::vector<MemoryView> reads_;
  Stream compute_, agent_;
};

}  // namespace linkwise::proactive
