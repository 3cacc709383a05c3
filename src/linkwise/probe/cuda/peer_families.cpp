// Families of transfers between GPUs, with and without peer access, by copies and by kernels; and latencies.
#include <cstring>

#include "linkwise/probe/cuda/kernels.hpp"
#include "linkwise/probe/cuda/measuring.hpp"
#include "linkwise/probe/cuda/peer_access.hpp"

namespace linkwise::cuda {
namespace {

constexpr std::uint32_t seed = 29;

std::string pair_name(int a, int b) { return std::to_string(a) + "→" + std::to_string(b); }

template <typename Measure>
void for_each_pair(FamilyContext& context, const Measure& measure) {
  if (context.num_gpus() < 2) return context.cannot("all", "it takes two GPUs");
  for (int a = 0; a < context.num_gpus(); ++a)
    for (int b = 0; b < context.num_gpus(); ++b)
      if (a != b) measure(a, b);
}

bool is_intact_on(GpuStream& stream, const GpuMemory& memory, std::uint64_t bytes) {
  return none_wrong(stream, [&](auto* wrong) { count_wrong_words(stream.get(), memory.data(), bytes, seed, wrong); });
}

void fill_on(GpuStream& stream, const GpuMemory& memory, std::uint64_t bytes) {
  const CurrentDevice current(stream.gpu());
  fill_words(stream.get(), memory.data(), bytes, seed);
  stream.wait();
}

}  // namespace

void peer_access(FamilyContext& context) {
  const std::uint64_t bytes = context.options.bytes;
  for_each_pair(context, [&](int a, int b) {
    const GpuMemory source(a, bytes), target(b, bytes);
    GpuStream stream(a), check_stream(b);
    fill_on(stream, source, bytes);
    for (const bool on : {true, false}) {
      if (on && !can_access(a, b)) {
        context.cannot(pair_name(a, b) + ", on", "CUDA allows no peer access between them");
        continue;
      }
      const auto measure = [&] {
        target.clear(bytes);
        add_rate(
            context, pair_name(a, b) + (on ? ", on" : ", off"), bytes,
            [&] {
              return stream.seconds([&](cudaStream_t native) {
                check(cudaMemcpyPeerAsync(target.data(), b, source.data(), a, bytes, native), "copy to a peer");
              });
            },
            [&] { return is_intact_on(check_stream, target, bytes); });
      };
      if (!can_access(a, b)) {
        measure();
        continue;
      }
      const PeerAccess there(a, b, on), back(b, a, on);
      measure();
    }
  });
}

void peer_kernels(FamilyContext& context) {
  const std::uint64_t bytes = context.options.bytes;
  for_each_pair(context, [&](int a, int b) {
    if (!can_access(a, b)) return context.cannot(pair_name(a, b), "CUDA allows no peer access between them");
    const PeerAccess access(a, b, true);
    const GpuMemory own(a, bytes), peer(b, bytes);
    GpuStream stream(a), peer_stream(b);
    using Copy = void (*)(cudaStream_t, void*, const void*, std::uint64_t);
    const auto measure = [&](const std::string& what, Copy copy, const GpuMemory& to, const GpuMemory& from) {
      GpuStream& checks = &to == &own ? stream : peer_stream;
      to.clear(bytes);
      add_rate(
          context, what, bytes,
          [&] { return stream.seconds([&](cudaStream_t native) { copy(native, to.data(), from.data(), bytes); }); },
          [&] { return is_intact_on(checks, to, bytes); });
    };
    fill_on(stream, own, bytes);
    measure(pair_name(a, b) + ", stores", copy_words, peer, own);
    const CurrentDevice current(a);
    if (can_copy_in_bulk()) measure(pair_name(a, b) + ", bulk stores", copy_in_bulk, peer, own);
    else context.cannot(pair_name(a, b) + ", bulk stores", "it takes compute capability 9.0, and a build for that");
    measure(pair_name(b, a) + ", loads", copy_words, own, peer);
  });
}

// proact21 figure 2: the link's goodput for small stores.
void store_sizes(FamilyContext& context) {
  if (context.num_gpus() < 2) return context.cannot("all", "it takes two GPUs");
  if (!can_access(0, 1)) return context.cannot("0→1", "CUDA allows no peer access between them");
  constexpr std::uint64_t count = 1 << 19;
  const PeerAccess access(0, 1, true);
  const GpuMemory peer(1, count * 512);
  GpuStream stream(0), check_stream(1);
  for (int piece = 4; piece <= 256; piece *= 2)
    add_rate(
        context, "0→1, " + std::to_string(piece) + " bytes", count * static_cast<std::uint64_t>(piece),
        [&] {
          return stream.seconds(
              [&](cudaStream_t native) { store_pieces(native, peer.data(), count, piece, seed + piece); });
        },
        [&] {
          return none_wrong(check_stream, [&](auto* wrong) {
            count_wrong_pieces(check_stream.get(), peer.data(), count, piece, seed + piece, wrong);
          });
        });
}

void latencies(FamilyContext& context) {
  constexpr std::uint32_t lines = 1 << 22;  // 512 MiB, over which repetitions continue: more than any GPU cache holds
  constexpr std::uint32_t steps = 20000;
  GpuStream stream(0);
  const HostMemory host(HostKind::pinned, std::uint64_t{lines} * 128);
  const HostMemory end(HostKind::pinned, 4);
  std::memset(end.data(), 0, 4);
  const auto measure = [&](const std::string& what, void* chain) {
    add_cost(
        context, what,
        [&] {
          return stream.seconds(
              [&](cudaStream_t native) { chase(native, chain, steps, reinterpret_cast<std::uint32_t*>(end.data())); });
        },
        steps);
  };
  const auto prepared = [&](GpuStream& owner, void* chain) {
    const CurrentDevice current(owner.gpu());
    make_chain(owner.get(), chain, lines);
    owner.wait();
    return chain;
  };
  measure("gpu 0, host memory", prepared(stream, host.data()));
  for (int gpu = 0; gpu < context.num_gpus(); ++gpu) {
    if (gpu > 0 && !can_access(0, gpu)) {
      context.cannot("gpu 0, gpu " + std::to_string(gpu), "CUDA allows no peer access between them");
      continue;
    }
    const GpuMemory memory(gpu, std::uint64_t{lines} * 128);
    GpuStream owner(gpu);
    if (gpu == 0) {
      measure("gpu 0, its own memory", prepared(owner, memory.data()));
      continue;
    }
    const PeerAccess access(0, gpu, true);
    measure("gpu 0, memory of gpu " + std::to_string(gpu), prepared(owner, memory.data()));
  }
}

namespace {

constexpr std::uint64_t pitch = 4096, num_rows = 16384, rows_of_slice = 64;

// Whether the first `width` bytes of each copied row are the source's, and all other bytes are as they were before.
// Only the first `copied_rows` rows of each slice were copied.
bool is_copied(const std::byte* target, std::uint64_t width, std::uint64_t copied_rows, std::uint32_t from,
               std::uint32_t before) {
  std::vector<std::uint32_t> words(pitch * num_rows / 4);
  check(cudaMemcpy(words.data(), target, pitch * num_rows, cudaMemcpyDefault), "read");
  for (std::uint64_t i = 0; i < words.size(); ++i) {
    const bool copied = i % (pitch / 4) < width / 4 && i / (pitch / 4) % rows_of_slice < copied_rows;
    if (words[i] != static_cast<std::uint32_t>(i) + (copied ? from : before)) return false;
  }
  return true;
}

}  // namespace

void strided_copies(FamilyContext& context) {
  const HostMemory host(HostKind::pinned, pitch * num_rows);
  const int last = context.num_gpus() - 1;
  const GpuMemory device(0, pitch * num_rows), peer(last, pitch * num_rows);
  GpuStream stream(0);
  struct Direction {
    std::string name;
    std::byte *to, *from;
  };
  std::vector<Direction> directions{{"in", device.data(), host.data()}, {"out", host.data(), device.data()}};
  if (last > 0) directions.push_back({pair_name(0, last), peer.data(), device.data()});
  const HostMemory contents(HostKind::pageable, pitch * num_rows);
  const auto refill = [&](std::byte* memory, std::uint32_t with) {
    fill(contents.data(), pitch * num_rows, with);
    check(cudaMemcpy(memory, contents.data(), pitch * num_rows, cudaMemcpyDefault), "fill");
    check(cudaDeviceSynchronize(), "fill");
  };
  constexpr std::uint32_t before = seed + 1;
  for (const Direction& direction : directions)
    for (const std::uint64_t width : {64ULL, 512ULL, 2048ULL}) {
      const std::string rows_of = ", rows of " + std::to_string(width) + " of 4096 bytes";
      refill(direction.from, seed);
      refill(direction.to, before);
      add_rate(
          context, "2-D, " + direction.name + rows_of, width * num_rows,
          [&] {
            return stream.seconds([&](cudaStream_t native) {
              check(cudaMemcpy2DAsync(direction.to, pitch, direction.from, pitch, width, num_rows, cudaMemcpyDefault,
                                      native),
                    "copy rows");
            });
          },
          [&] { return is_copied(direction.to, width, rows_of_slice, seed, before); });
      refill(direction.to, before);
      cudaMemcpy3DParms box{};
      box.srcPtr = {direction.from, pitch, pitch, rows_of_slice};
      box.dstPtr = {direction.to, pitch, pitch, rows_of_slice};
      box.extent = {width, rows_of_slice / 2, num_rows / rows_of_slice};
      box.kind = cudaMemcpyDefault;
      add_rate(
          context, "3-D, " + direction.name + rows_of, width * num_rows / 2,
          [&] {
            return stream.seconds([&](cudaStream_t native) { check(cudaMemcpy3DAsync(&box, native), "copy a box"); });
          },
          [&] { return is_copied(direction.to, width, rows_of_slice / 2, seed, before); });
    }
}

}  // namespace linkwise::cuda
