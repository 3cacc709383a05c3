// Families of call costs: launches, events, waits, allocations.
#include "linkwise/probe/cuda/kernels.hpp"
#include "linkwise/probe/cuda/measuring.hpp"

namespace linkwise::cuda {
namespace {

constexpr int in_a_row = 256;

}  // namespace

void launch_costs(FamilyContext& context) {
  GpuStream stream(0), other(0);
  const CurrentDevice current(0);
  const auto submit = [&](const std::string& what, const std::function<void()>& one) {
    add_cost(
        context, what,
        [&] {
          const double seconds = wall_seconds([&] {
            for (int i = 0; i < in_a_row; ++i) one();
          });
          stream.wait();
          other.wait();
          return seconds;
        },
        in_a_row);
  };
  submit("kernel launch, the host's time", [&] { do_nothing(stream.get()); });
  add_cost(
      context, "kernel launch, the GPU's time of one after another",
      [&] {
        return stream.seconds([&](cudaStream_t native) {
          for (int i = 0; i < in_a_row; ++i) do_nothing(native);
        });
      },
      in_a_row);
  add_cost(context, "kernel launch until the host knows of its end", [&] {
    return wall_seconds([&] {
      do_nothing(stream.get());
      stream.wait();
    });
  });
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "create an event");
  submit("event record", [&] { check(cudaEventRecord(event, stream.get()), "record an event"); });
  submit("stream wait for an event", [&] { check(cudaStreamWaitEvent(other.get(), event, 0), "wait for an event"); });
  // Ping-pong: each kernel waits for the previous one on the other stream.
  add_cost(
      context, "from one stream to another and back",
      [&] {
        return stream.seconds([&](cudaStream_t native) {
          for (int i = 0; i < in_a_row; ++i) {
            do_nothing(native);
            check(cudaEventRecord(event, native), "record an event");
            check(cudaStreamWaitEvent(other.get(), event, 0), "wait for an event");
            do_nothing(other.get());
            check(cudaEventRecord(event, other.get()), "record an event");
            check(cudaStreamWaitEvent(native, event, 0), "wait for an event");
          }
        });
      },
      in_a_row);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "capture a graph");
  for (int i = 0; i < in_a_row; ++i) do_nothing(stream.get());
  check(cudaStreamEndCapture(stream.get(), &graph), "capture a graph");
  check(cudaGraphInstantiate(&executable, graph, 0), "instantiate a graph");
  add_cost(
      context, "graph launch of 256 kernels, the GPU's time for each",
      [&] {
        return stream.seconds(
            [&](cudaStream_t native) { check(cudaGraphLaunch(executable, native), "launch a graph"); });
      },
      in_a_row);
  // Only a few at a time: a full launch queue would block the host.
  constexpr int few = 4;
  add_cost(
      context, "graph launch of 256 kernels, the host's time",
      [&] {
        const double seconds = wall_seconds([&] {
          for (int i = 0; i < few; ++i) check(cudaGraphLaunch(executable, stream.get()), "launch a graph");
        });
        stream.wait();
        return seconds;
      },
      few);
  check(cudaGraphExecDestroy(executable), "destroy a graph");
  check(cudaGraphDestroy(graph), "destroy a graph");
  check(cudaEventDestroy(event), "destroy an event");
}

void allocation_costs(FamilyContext& context) {
  const CurrentDevice current(0);
  GpuStream stream(0);
  for (const std::uint64_t bytes : {4096ULL, 1ULL << 20, 64ULL << 20}) {
    const std::string size = ", " + std::to_string(bytes >> 10) + " KiB";
    const auto allocate = [&](const std::string& what, const std::function<void()>& once) {
      add_cost(context, what + size, [&] { return wall_seconds(once); });
    };
    allocate("device, allocated and freed", [&] { const GpuMemory memory(0, bytes); });
    allocate("device from a stream's pool, allocated and freed", [&] {
      void* data = nullptr;
      check(cudaMallocAsync(&data, bytes, stream.get()), "allocate");
      check(cudaFreeAsync(data, stream.get()), "free");
      stream.wait();
    });
    allocate("pinned, allocated and freed", [&] { const HostMemory memory(HostKind::pinned, bytes); });
    allocate("managed, allocated and freed", [&] { const GpuMemory memory(0, bytes, true); });
    const HostMemory ordinary(HostKind::pageable, bytes);
    allocate("ordinary memory, pinned and unpinned", [&] {
      check(cudaHostRegister(ordinary.data(), bytes, cudaHostRegisterPortable), "register memory");
      check(cudaHostUnregister(ordinary.data()), "unregister memory");
    });
  }
}

}  // namespace linkwise::cuda
