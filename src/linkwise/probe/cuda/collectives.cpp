// NCCL's collectives, where NCCL is installed: loaded when needed, never linked.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "linkwise/probe/cuda/kernels.hpp"
#include "linkwise/probe/cuda/measuring.hpp"

namespace linkwise::cuda {
namespace {

// The part of NCCL's interface that is used; the constants are part of its ABI.
using Communicator = void*;
constexpr int float32 = 7, sum = 0, success = 0;

class Nccl {
 public:
  explicit Nccl(const std::string& path) {
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw DeviceError("NCCL is not installed (pip install nvidia-nccl-cu13 brings it)");
    load(init_all, "ncclCommInitAll");
    load(destroy, "ncclCommDestroy");
    load(group_start, "ncclGroupStart");
    load(group_end, "ncclGroupEnd");
    load(broadcast, "ncclBroadcast");
    load(all_gather, "ncclAllGather");
    load(reduce, "ncclReduce");
    load(all_reduce, "ncclAllReduce");
    load(reduce_scatter, "ncclReduceScatter");
    load(send, "ncclSend");
    load(receive, "ncclRecv");
    load(error_string, "ncclGetErrorString");
    // Multicast over NVLink needs a fabric that virtual machines often lack, and hangs without it.
    sets_ = getenv("NCCL_NVLS_ENABLE") == nullptr;  // NOLINT(concurrency-mt-unsafe): before any communicator
    if (sets_) setenv("NCCL_NVLS_ENABLE", "0", 0);  // NOLINT(concurrency-mt-unsafe)
  }

  ~Nccl() {
    if (sets_) unsetenv("NCCL_NVLS_ENABLE");  // NOLINT(concurrency-mt-unsafe)
  }
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  void check(int status) const {
    if (status != success) throw DeviceError(std::string("NCCL: ") + error_string(status));
  }

  int (*init_all)(Communicator*, int, const int*) = nullptr;
  int (*destroy)(Communicator) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*broadcast)(const void*, void*, size_t, int, int, Communicator, cudaStream_t) = nullptr;
  int (*all_gather)(const void*, void*, size_t, int, Communicator, cudaStream_t) = nullptr;
  int (*reduce)(const void*, void*, size_t, int, int, int, Communicator, cudaStream_t) = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int, int, Communicator, cudaStream_t) = nullptr;
  int (*reduce_scatter)(const void*, void*, size_t, int, int, Communicator, cudaStream_t) = nullptr;
  int (*send)(const void*, size_t, int, int, Communicator, cudaStream_t) = nullptr;
  int (*receive)(void*, size_t, int, int, Communicator, cudaStream_t) = nullptr;
  const char* (*error_string)(int) = nullptr;

 private:
  template <typename Function>
  void load(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
    if (function == nullptr) throw DeviceError(std::string("this NCCL has no ") + name);
  }

  bool sets_ = false;
  void* library_ = nullptr;  // stays loaded: NCCL's threads may still be ending
};

// The GPUs 0 … n-1, each with as much memory as the largest collective needs.
class Group {
 public:
  Group(const Nccl& nccl, int gpus, std::uint64_t bytes) : nccl_(nccl) {
    std::vector<int> devices;
    for (int gpu = 0; gpu < gpus; ++gpu) {
      devices.push_back(gpu);
      streams_.push_back(std::make_unique<GpuStream>(gpu));
      sent_.push_back(std::make_unique<GpuMemory>(gpu, bytes));
      received_.push_back(std::make_unique<GpuMemory>(gpu, bytes));
      const CurrentDevice current(gpu);
      linkwise::check(cudaMemset(sent_.back()->data(), 0, bytes), "clear");
      linkwise::check(cudaDeviceSynchronize(), "clear");
    }
    communicators_.resize(static_cast<std::size_t>(gpus));
    nccl.check(nccl.init_all(communicators_.data(), gpus, devices.data()));
  }
  ~Group() {
    for (Communicator communicator : communicators_) nccl_.destroy(communicator);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(streams_.size()); }

  // Seconds until every GPU has done its part.
  template <typename Part>
  double run(const Part& part) {
    return wall_seconds([&] {
      nccl_.check(nccl_.group_start());
      int status = success;
      for (std::size_t g = 0; g < streams_.size() && status == success; ++g)
        status = part(sent_[g]->data(), received_[g]->data(), communicators_[g], streams_[g]->get());
      const int ended = nccl_.group_end();  // even if a part failed: later NCCL calls must not join this group
      nccl_.check(status != success ? status : ended);
      for (const auto& stream : streams_) stream->wait();
    });
  }

  void clear_received(std::uint64_t bytes) const {
    for (const auto& memory : received_) memory->clear(bytes);
  }

  // Fills each GPU's send buffer with its index plus 1, as floats.
  void number(std::uint64_t bytes) {
    for (int g = 0; g < size(); ++g) {
      const std::vector<float> numbers(bytes / 4, static_cast<float>(g + 1));
      linkwise::check(cudaMemcpy(sent_[static_cast<std::size_t>(g)]->data(), numbers.data(), bytes, cudaMemcpyDefault),
                      "number");
    }
  }

  [[nodiscard]] std::vector<float> received(int gpu, std::uint64_t bytes) const {
    std::vector<float> numbers(bytes / 4);
    linkwise::check(
        cudaMemcpy(numbers.data(), received_[static_cast<std::size_t>(gpu)]->data(), bytes, cudaMemcpyDefault), "read");
    return numbers;
  }

 private:
  const Nccl& nccl_;
  std::vector<std::unique_ptr<GpuStream>> streams_;
  std::vector<std::unique_ptr<GpuMemory>> sent_, received_;
  std::vector<Communicator> communicators_;
};

struct Collective {
  std::string name;
  // The size is the bytes of the whole array. The bus bandwidth, as NCCL's own tests define it, is
  // size / time · factor.
  double (*factor)(int gpus);
  std::function<int(void* sent, void* received, std::uint64_t words, int gpus, Communicator, cudaStream_t)> part;
  // What the checked GPU must have received at position `word` of `words`; negative if that word is not checked.
  std::function<float(std::uint64_t word, std::uint64_t words, int gpus)> expected;
  int checked_gpu = -1;  // -1: the last one
};

std::vector<Collective> all_collectives(const Nccl& n) {
  const auto one = [](int) { return 1.0; };
  const auto shared = [](int gpus) { return (gpus - 1.0) / gpus; };
  const auto twice = [](int gpus) { return 2.0 * (gpus - 1) / gpus; };
  const auto total = [](std::uint64_t, std::uint64_t, int gpus) {
    const int sum = gpus * (gpus + 1) / 2;
    return static_cast<float>(sum);
  };
  const auto by_source = [](std::uint64_t word, std::uint64_t words, int gpus) {
    const std::uint64_t source = word / (words / static_cast<std::uint64_t>(gpus));
    return static_cast<float>(source + 1);
  };
  return {
      {"broadcast", one,
       [&n](void* s, void* r, std::uint64_t words, int, Communicator c, cudaStream_t stream) {
         return n.broadcast(s, r, words, float32, 0, c, stream);
       },
       [](std::uint64_t, std::uint64_t, int) { return 1.0F; }},
      {"all-gather", shared,
       [&n](void* s, void* r, std::uint64_t words, int gpus, Communicator c, cudaStream_t stream) {
         return n.all_gather(s, r, words / static_cast<std::uint64_t>(gpus), float32, c, stream);
       },
       by_source},
      {"reduce", one,
       [&n](void* s, void* r, std::uint64_t words, int, Communicator c, cudaStream_t stream) {
         return n.reduce(s, r, words, float32, sum, 0, c, stream);
       },
       total, 0},
      {"all-reduce", twice,
       [&n](void* s, void* r, std::uint64_t words, int, Communicator c, cudaStream_t stream) {
         return n.all_reduce(s, r, words, float32, sum, c, stream);
       },
       total},
      {"reduce-scatter", shared,
       [&n](void* s, void* r, std::uint64_t words, int gpus, Communicator c, cudaStream_t stream) {
         return n.reduce_scatter(s, r, words / static_cast<std::uint64_t>(gpus), float32, sum, c, stream);
       },
       [total](std::uint64_t word, std::uint64_t words, int gpus) {
         // Each GPU receives only its share, at the beginning of its buffer.
         return word < words / static_cast<std::uint64_t>(gpus) ? total(word, words, gpus) : -1.0F;
       }},
      {"all-to-all", shared,
       [&n](void* s, void* r, std::uint64_t words, int gpus, Communicator c, cudaStream_t stream) {
         const std::uint64_t each = words / static_cast<std::uint64_t>(gpus);
         for (int peer = 0; peer < gpus; ++peer) {
           const std::uint64_t at = 4 * each * static_cast<std::uint64_t>(peer);
           int status = n.send(static_cast<std::byte*>(s) + at, each, float32, peer, c, stream);
           if (status == success) status = n.receive(static_cast<std::byte*>(r) + at, each, float32, peer, c, stream);
           if (status != success) return status;
         }
         return success;
       },
       by_source},
  };
}

bool is_right(const Collective& collective, const Group& group, std::uint64_t bytes) {
  const int gpus = group.size();
  const std::vector<float> found =
      group.received(collective.checked_gpu < 0 ? gpus - 1 : collective.checked_gpu, bytes);
  for (std::uint64_t word = 0; word < found.size(); ++word) {
    const float expected = collective.expected(word, found.size(), gpus);
    if (expected >= 0 && found[word] != expected) return false;
  }
  return true;
}

}  // namespace

void collectives(FamilyContext& context) {
  if (context.num_gpus() < 2) return context.cannot("all", "it takes two GPUs");
  const Nccl nccl(context.options.nccl.empty() ? "libnccl.so.2" : context.options.nccl);
  const std::uint64_t most = std::min<std::uint64_t>(context.options.largest, 256 << 20);
  for (int gpus = 2; gpus <= context.num_gpus(); ++gpus) {
    Group group(nccl, gpus, most);
    group.number(most);
    const auto parts = 4 * static_cast<std::uint64_t>(gpus);
    for (const Collective& collective : all_collectives(nccl)) {
      // All sizes with all GPUs; with fewer GPUs, only the smallest and the largest.
      for (std::uint64_t size = 64; size <= most;
           size *= gpus == context.num_gpus() ? 8 : std::max<std::uint64_t>(most / 64, 2)) {
        const std::uint64_t bytes = std::max(size / parts, std::uint64_t{1}) * parts;
        group.clear_received(most);
        const auto once = [&] {
          return group.run([&](void* sent, void* received, Communicator communicator, cudaStream_t stream) {
            return collective.part(sent, received, bytes / 4, gpus, communicator, stream);
          });
        };
        once();
        Measurement measured = measure_until_calm(context.options.patience_seconds / 4, once);
        const std::string what = collective.name + ", " + std::to_string(gpus) + " GPUs";
        if (!is_right(collective, group, bytes))
          throw CorruptDataError("NCCL's " + what + ": the result is wrong: do not trust these links");
        measured.gb_per_s = static_cast<double>(bytes) * collective.factor(gpus) / measured.seconds / 1e9;
        measured.verified = true;
        context.add(what, bytes, measured);
      }
    }
  }
}

}  // namespace linkwise::cuda
