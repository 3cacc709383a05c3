// One GPU's kernel that writes its part of a region, epoch after epoch, and the agent that sends what it has written.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "linkwise/transfer/proactive/agent.hpp"
#include "linkwise/transfer/proactive/block.hpp"
#include "linkwise/transfer/proactive/kernel_run.hpp"
#include "linkwise/transfer/proactive/mapping.hpp"
#include "linkwise/transfer/proactive/region.hpp"
#include "linkwise/transfer/proactive/writers.hpp"

#ifdef __CUDACC__
#include "linkwise/transfer/proactive/cuda/run_blocks.cuh"
#endif

namespace linkwise::proactive {

/// A producer without the types of its region and kernel. Before it is destroyed, everything that it launched must
/// have been waited for. A producer that was moved from can only be destroyed.
class ProducerBase {
 public:
  /// Allocates and fills the tables for tracking. @throws UsageError, OutOfMemoryError.
  ProducerBase(RegionBytes& region, int gpu, Mapping mapping, AgentPlan plan);
  ~ProducerBase();
  ProducerBase(ProducerBase&&) noexcept;

  [[nodiscard]] const Mapping& mapping() const { return *mapping_; }
  [[nodiscard]] const AgentPlan& plan() const { return plan_; }
  /// @throws UsageError for `unordered` on the virtual machine.
  void set_sends(Sends sends);
  /// Whether kernels and agents on GPUs are in the runtime's timeline, and so in `seconds_of_work`. If not, launches
  /// follow each other slightly faster.
  void set_timed(bool is_timed) { is_timed_ = is_timed; }
  /// To be called after the runtime has synchronised. @throws DeviceError if the agent gave up waiting in an epoch
  /// since the last check, so that peers may have stale bytes. RegionBytes::fetch and ::wait check all producers.
  void check() const;
  /// To be called after the runtime has synchronised. The number of threads that stored to the peers in the last
  /// epoch, as counted by the GPU; for a dynamic agent, per chunk. 0 if no agent with threads ran.
  [[nodiscard]] std::uint32_t senders() const;

 protected:
  /// Whether blocks launch the kernels that send their chunks.
  [[nodiscard]] bool launches() const;
  /// @throws ProgramError if `found`, from a dry run, has a page that this producer's mapping lacks.
  void compare(const Mapping& found) const;
  using Run = std::function<void(void* native_stream, const KernelRun& run)>;
  void launch(const std::string& name, const Run& run, std::vector<MemoryView> reads, const KernelPrice& price);
  /// The pages that each block writes, by running it without storing.
  static Mapping dry_run(RegionBytes& region, int gpu, std::uint32_t blocks, ByteRange all, const Run& run);

  RegionBytes& region_;
  int gpu_;
  std::shared_ptr<const Mapping> mapping_;
  AgentPlan plan_;

 private:
  struct Tables;
  class Simulated;
  void launch_on_device(const std::string& name, const Run& run, std::vector<MemoryView> reads);
  void start_polling_agent(Event before);
  void start_copies(Event after);
  const SendingTask& next_turn();
  void take_pages();
  void replicate_pages(Event after);
  [[nodiscard]] Stream stream_to(int peer, int number = 0) const;
  std::shared_ptr<Tables> tables_;
  Sends sends_ = Sends::chunks;
  bool is_timed_ = true;
};

template <typename T>
class Producer : public ProducerBase {
 public:
  Producer(Region<T>& region, int gpu, Mapping mapping, AgentPlan plan)
      : ProducerBase(region, gpu, std::move(mapping), plan) {}

  /// Runs the kernel, one block of threads for each block of the mapping, and has its chunks sent as they are
  /// completed. `reads`: the memory that the kernel reads. The virtual machine checks these views for races, and sees
  /// no other loads. To run on GPUs, compile this with nvcc; for the agent `dynamic`, as relocatable device code
  /// (-rdc=true).
  /// @throws CannotLaunchError if the agent `dynamic` lacks that.
  template <typename Kernel>
  void launch(const Kernel& kernel, std::vector<MemoryView> reads, const KernelPrice& price,
              const std::string& name = "kernel") {
#ifdef __CUDACC__
    if (!can_launch && launches()) throw CannotLaunchError();
#endif
    ProducerBase::launch(name, run_of(region(), gpu_, mapping_, kernel), std::move(reads), price);
  }

  /// Checks the mapping by running the kernel without storing anything, as find_mapping does. For tests on GPUs,
  /// where stores that a mapping does not name otherwise go unnoticed. Blocks. @throws ProgramError naming the block
  /// and the chunk, UsageError naming the block that stores outside of the mapping's `all`.
  template <typename Kernel>
  void check_mapping(const Kernel& kernel) {
    compare(find_mapping(region(), gpu_, mapping().blocks(), mapping().all(), kernel));
  }

  /// Finds the chunks that a kernel's blocks write by running it without storing anything. The kernel must store to
  /// the same positions each time. Blocks.
  template <typename Kernel>
  static Mapping find_mapping(Region<T>& region, int gpu, std::uint32_t blocks, ByteRange all, const Kernel& kernel) {
    return dry_run(region, gpu, blocks, all, run_of(region, gpu, nullptr, kernel));
  }

 private:
  Region<T>& region() { return static_cast<Region<T>&>(region_); }

  template <typename Kernel>
  static Run run_of(Region<T>& region, int gpu, std::shared_ptr<const Mapping> mapping, const Kernel& kernel) {
    PeerWriter<T> to_peers{region.data(gpu), {}, 0, region.interest(gpu)};
    for (const int peer : region.peers(gpu)) to_peers.peers[to_peers.count++] = region.data(peer);
    return
        [kernel, mapping = std::move(mapping), to_peers, count = region.count()](void* native, const KernelRun& run) {
          const LocalWriter<T> local{to_peers.data};
          const PageMarker<T> marker{run.marked_pages, count, run.first_byte, run.last_byte};
          using Stores = KernelRun::Stores;
          if (native == nullptr && !run.only_loads) {
            for (std::uint32_t block = run.first_block; block < run.last_block; ++block) {
              if (run.stores == Stores::marks) kernel(Block(block), marker);
              else if (run.stores == Stores::peers)
                kernel(Block(block), CheckedWriter<T, PeerWriter<T>>{to_peers, count, mapping.get(), block});
              else kernel(Block(block), CheckedWriter<T, LocalWriter<T>>{local, count, mapping.get(), block});
            }
            return;
          }
#ifdef __CUDACC__
          auto* const stream = static_cast<cudaStream_t>(native);
          if (run.stores == Stores::marks) run_on_gpu(stream, run, kernel, marker);
          else if (run.stores == Stores::peers) run_on_gpu(stream, run, kernel, to_peers);
          else run_and_send_on_gpu(stream, run, kernel, local);
#else
          throw UsageError("this kernel was not compiled by nvcc: it runs on the virtual machine only");
#endif
        };
  }
};

}  // namespace linkwise::proactive
