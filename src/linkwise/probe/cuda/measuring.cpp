#include "linkwise/probe/cuda/measuring.hpp"

#include <emmintrin.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "linkwise/device/cuda/pinned.hpp"
#include "linkwise/team.hpp"

namespace linkwise::cuda {
namespace {

constexpr std::uint64_t cache_line = 64;

// Binds this thread's allocations to a NUMA node, unless it is -1; the destructor restores the previous policy.
class NumaBinding {
 public:
  explicit NumaBinding(int node) : is_bound_(node >= 0) {
    if (!is_bound_) return;
    const unsigned long mask = 1UL << node;
    if (syscall(SYS_get_mempolicy, &mode_, &mask_, 8 * sizeof mask_, nullptr, 0) != 0 ||
        syscall(SYS_set_mempolicy, MPOL_BIND, &mask, 8 * sizeof mask) != 0)
      throw DeviceError("memory cannot be bound to NUMA node " + std::to_string(node) + ": " + std::strerror(errno));
  }
  ~NumaBinding() {
    if (is_bound_) syscall(SYS_set_mempolicy, mode_, mode_ == MPOL_DEFAULT ? nullptr : &mask_, 8 * sizeof mask_);
  }
  NumaBinding(const NumaBinding&) = delete;
  NumaBinding& operator=(const NumaBinding&) = delete;

 private:
  bool is_bound_;
  int mode_ = MPOL_DEFAULT;
  unsigned long mask_ = 0;
};

std::byte* mapped(std::uint64_t bytes, int node) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw OutOfMemoryError("the host has no room for " + std::to_string(bytes) + " bytes");
  if (node >= 0 && !bind_to_node(static_cast<std::byte*>(data), bytes, node)) {
    const std::string why = std::strerror(errno);
    munmap(data, bytes);
    throw DeviceError("memory cannot be bound to NUMA node " + std::to_string(node) + ": " + why);
  }
  std::memset(data, 0, bytes);
  return static_cast<std::byte*>(data);
}

}  // namespace

HostMemory::HostMemory(HostKind kind, std::uint64_t bytes, int node) : kind_(kind), bytes_(bytes) {
  if (kind == HostKind::pinned || kind == HostKind::write_combined) {
    const NumaBinding binding(node);
    void* data = nullptr;
    const unsigned flags = cudaHostAllocPortable | (kind == HostKind::write_combined ? cudaHostAllocWriteCombined : 0u);
    check(cudaHostAlloc(&data, bytes, flags), "allocate pinned memory");
    data_ = static_cast<std::byte*>(data);
    return;
  }
  data_ = mapped(bytes, node);
  if (kind == HostKind::pageable) return;
  const cudaError_t status = cudaHostRegister(data_, bytes, cudaHostRegisterPortable);
  if (status == cudaSuccess) return;
  munmap(data_, bytes);
  check(status, "register memory");
}

HostMemory::~HostMemory() {
  if (kind_ == HostKind::pinned || kind_ == HostKind::write_combined) {
    (void)cudaFreeHost(data_);
    return;
  }
  if (kind_ == HostKind::registered) (void)cudaHostUnregister(data_);
  munmap(data_, bytes_);
}

GpuMemory::GpuMemory(int gpu, std::uint64_t bytes, bool managed) {
  const CurrentDevice current(gpu);
  void* data = nullptr;
  check(managed ? cudaMallocManaged(&data, bytes) : cudaMalloc(&data, bytes), "allocate GPU memory");
  data_ = static_cast<std::byte*>(data);
}

GpuMemory::~GpuMemory() { (void)cudaFree(data_); }

void GpuMemory::clear(std::uint64_t bytes) const {
  check(cudaMemset(data_, 0xA5, bytes), "clear");
  check(cudaDeviceSynchronize(), "clear");
}

GpuStream::GpuStream(int gpu) : gpu_(gpu) {
  const CurrentDevice current(gpu);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create a stream");
  check(cudaEventCreate(&began_), "create an event");
  check(cudaEventCreate(&ended_), "create an event");
}

GpuStream::~GpuStream() {
  (void)cudaStreamSynchronize(stream_);
  (void)cudaEventDestroy(began_);
  (void)cudaEventDestroy(ended_);
  (void)cudaStreamDestroy(stream_);
}

double GpuStream::seconds(const std::function<void(cudaStream_t)>& enqueue) {
  const CurrentDevice current(gpu_);
  check(cudaEventRecord(began_, stream_), "record an event");
  enqueue(stream_);
  check(cudaEventRecord(ended_, stream_), "record an event");
  check(cudaEventSynchronize(ended_), "wait for an event");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, began_, ended_), "read an event");
  return 1e-3 * milliseconds;
}

double wall_seconds(const std::function<void()>& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

std::vector<int> numa_nodes() {
  unsigned long allowed = 0;
  if (syscall(SYS_get_mempolicy, nullptr, &allowed, 8 * sizeof allowed, nullptr, MPOL_F_MEMS_ALLOWED) != 0) return {-1};
  std::vector<int> nodes;
  for (int node = 0; node < 64; ++node)
    if ((allowed >> node & 1) != 0) nodes.push_back(node);
  return nodes.size() > 1 ? nodes : std::vector<int>{-1};
}

std::string node_name(int node) { return node < 0 ? "host" : "node " + std::to_string(node); }

ThreadOnNode::ThreadOnNode(int node) {
  if (node < 0) return;
  std::ifstream list("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist");
  cpu_set_t processors;
  CPU_ZERO(&processors);
  // For example "0-15,64-79".
  for (std::string range; std::getline(list, range, ',');) {
    int first = 0, last = 0;
    const int found = std::sscanf(range.c_str(), "%d-%d", &first, &last);
    for (int processor = first; found > 0 && processor <= (found > 1 ? last : first); ++processor)
      CPU_SET(processor, &processors);
  }
  is_bound_ = CPU_COUNT(&processors) > 0 && sched_getaffinity(0, sizeof before_, &before_) == 0 &&
              sched_setaffinity(0, sizeof processors, &processors) == 0;
}

ThreadOnNode::~ThreadOnNode() {
  if (is_bound_) (void)sched_setaffinity(0, sizeof before_, &before_);
}

std::uint64_t system_page() { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }

double touch_by_host(std::byte* data, std::uint64_t bytes, int threads, std::uint32_t seed) {
  const std::uint64_t page = system_page();
  auto* const first = reinterpret_cast<volatile std::uint8_t*>(data);
  return wall_seconds([&] {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::uint64_t at = 0; at < bytes; at += page) first[at] = static_cast<std::uint8_t>(at / 4 + seed);
  });
}

void flush_caches(const std::byte* data, std::uint64_t bytes) {
#pragma omp parallel for num_threads(team())
  for (std::uint64_t at = 0; at < bytes; at += cache_line) _mm_clflush(data + at);
  _mm_mfence();
}

bool none_wrong(const GpuStream& stream, const std::function<void(unsigned long long*)>& count) {
  const CurrentDevice current(stream.gpu());
  const HostMemory counter(HostKind::pinned, sizeof(unsigned long long));
  auto* wrong = reinterpret_cast<unsigned long long*>(counter.data());
  *wrong = 0;
  count(wrong);
  stream.wait();
  return *wrong == 0;
}

bool is_filled(const std::byte* data, std::uint64_t bytes, std::uint32_t seed) {
  const auto* words = reinterpret_cast<const std::uint32_t*>(data);
  std::uint64_t wrong = 0;
#pragma omp parallel for reduction(+ : wrong) num_threads(team())
  for (std::uint64_t i = 0; i < bytes / 4; ++i) wrong += words[i] != static_cast<std::uint32_t>(i) + seed ? 1 : 0;
  return wrong == 0;
}

void fill(std::byte* data, std::uint64_t bytes, std::uint32_t seed) {
  auto* words = reinterpret_cast<std::uint32_t*>(data);
#pragma omp parallel for num_threads(team())
  for (std::uint64_t i = 0; i < bytes / 4; ++i) words[i] = static_cast<std::uint32_t>(i) + seed;
}

void add_rate(FamilyContext& context, const std::string& what, std::uint64_t bytes, const std::function<double()>& once,
              const std::function<bool()>& is_intact) {
  once();
  Measurement measured = measure_until_calm(context.options.patience_seconds, once);
  measured.gb_per_s = static_cast<double>(bytes) / measured.seconds / 1e9;
  if (!is_intact())
    throw CorruptDataError(context.family + ", " + what +
                           ": what arrived is not what was sent: do not trust this link, and have the machine looked "
                           "after");
  measured.verified = true;
  context.add(what, bytes, measured);
}

void add_cost(FamilyContext& context, const std::string& what, const std::function<double()>& once, int in_a_row) {
  once();
  Measurement measured = measure_until_calm(context.options.patience_seconds, [&] { return once() / in_a_row; });
  context.add(what, 0, measured);
}

}  // namespace linkwise::cuda
