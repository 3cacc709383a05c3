// Faces of a three-dimensional grid that one GPU sends to another, as stencil codes do: by the copy engines, by
// kernels that store or load, and packed, copied and unpacked. Also parts of chunks, pushed and pulled. Both follow
// Comm|Scope's public code, which goes beyond the paper here.
#include <array>
#include <numeric>

#include "linkwise/probe/cuda/kernels.hpp"
#include "linkwise/probe/cuda/measuring.hpp"
#include "linkwise/probe/cuda/peer_access.hpp"

namespace linkwise::cuda {
namespace {

constexpr std::uint32_t seed = 53, before = 7;
constexpr std::uint64_t side = 256, radius = 2;  // cells of 4 bytes: 64 MiB
constexpr std::uint64_t grid_bytes = side * side * side * 4;

struct Face {
  const char* name;
  Box box;  // with the grid's strides
};

// Rows run along x: a face across x has rows of two cells, and one across z is contiguous.
std::array<Face, 3> faces() {
  return {{{"x", {{radius, side, side}, side, side * side}},
           {"y", {{side, radius, side}, side, side * side}},
           {"z", {{side, side, radius}, side, side * side}}}};
}

std::uint64_t cells(const Box& box) { return box.size[0] * box.size[1] * box.size[2]; }
Box dense(const Box& box) { return {box.size, box.size[0], box.size[0] * box.size[1]}; }

struct Grids {
  GpuMemory source{0, grid_bytes}, target{1, grid_bytes}, packed{0, grid_bytes}, received{1, grid_bytes};
  GpuStream from{0}, to{1};
};

// Whether every cell of the face is the source's, and no other cell of the target has changed.
bool is_copied(const Grids& grids, const Box& box) {
  std::vector<std::uint32_t> words(grid_bytes / 4);
  check(cudaMemcpy(words.data(), grids.target.data(), grid_bytes, cudaMemcpyDefault), "read");
  for (std::uint64_t i = 0; i < words.size(); ++i) {
    const std::uint64_t x = i % side, y = i / side % side, z = i / (side * side);
    const bool is_inside = x < box.size[0] && y < box.size[1] && z < box.size[2];
    if (words[i] != static_cast<std::uint32_t>(i) + (is_inside ? seed : before)) return false;
  }
  return true;
}

void refill(const Grids& grids) {
  for (const auto& [memory, stream, words] :
       {std::tuple{&grids.source, &grids.from, seed}, std::tuple{&grids.target, &grids.to, before}}) {
    const CurrentDevice current(stream->gpu());
    fill_words(stream->get(), memory->data(), grid_bytes, words);
    stream->wait();
  }
}

void copy_by_engine(const Grids& grids, const Box& box, cudaStream_t stream) {
  cudaMemcpy3DPeerParms parameters{};
  const std::size_t row = side * 4;
  parameters.srcDevice = 0;
  parameters.dstDevice = 1;
  parameters.srcPtr = {grids.source.data(), row, row, side};
  parameters.dstPtr = {grids.target.data(), row, row, side};
  parameters.extent = {box.size[0] * 4, box.size[1], box.size[2]};
  check(cudaMemcpy3DPeerAsync(&parameters, stream), "copy a box");
}

}  // namespace

void halo_faces(FamilyContext& context) {
  if (context.num_gpus() < 2) return context.cannot("all", "it takes two GPUs");
  if (!can_access(0, 1)) return context.cannot("0→1", "CUDA allows no peer access between them");
  const PeerAccess there(0, 1, true), back(1, 0, true);
  Grids grids;
  for (const Face& face : faces()) {
    const Box& box = face.box;
    const std::uint64_t bytes = 4 * cells(box);
    const auto measure = [&](const std::string& how, const std::function<double()>& once) {
      refill(grids);
      add_rate(context, std::string("0→1, face across ") + face.name + ", " + how, bytes, once,
               [&] { return is_copied(grids, box); });
    };
    measure("3-D copy",
            [&] { return grids.from.seconds([&](cudaStream_t stream) { copy_by_engine(grids, box, stream); }); });
    measure("stores of a kernel", [&] {
      return grids.from.seconds(
          [&](cudaStream_t stream) { copy_box(stream, grids.target.data(), box, grids.source.data(), box); });
    });
    measure("loads of a kernel", [&] {
      return grids.to.seconds(
          [&](cudaStream_t stream) { copy_box(stream, grids.target.data(), box, grids.source.data(), box); });
    });
    measure("packed, copied, unpacked", [&] {
      return wall_seconds([&] {
        {
          const CurrentDevice current(0);
          copy_box(grids.from.get(), grids.packed.data(), dense(box), grids.source.data(), box);
          check(cudaMemcpyPeerAsync(grids.received.data(), 1, grids.packed.data(), 0, bytes, grids.from.get()), "copy");
          grids.from.wait();
        }
        const CurrentDevice current(1);
        copy_box(grids.to.get(), grids.target.data(), box, grids.received.data(), dense(box));
        grids.to.wait();
      });
    });
  }
}

// Sends only the first bytes of each chunk, by stores to the peer and by loads from it.
void partial_chunks(FamilyContext& context) {
  if (context.num_gpus() < 2) return context.cannot("all", "it takes two GPUs");
  if (!can_access(0, 1)) return context.cannot("0→1", "CUDA allows no peer access between them");
  const PeerAccess there(0, 1, true), back(1, 0, true);
  Grids grids;
  constexpr std::uint64_t chunk = 1024;
  for (const std::uint64_t part : {4, 16, 32, 64, 128, 256, 1024}) {
    // A box whose rows are the chunks.
    const Box box{{part / 4, grid_bytes / chunk, 1}, chunk / 4, grid_bytes / 4};
    const std::string what = std::to_string(part) + " of " + std::to_string(chunk) + " bytes";
    const auto intact = [&] {
      std::vector<std::uint32_t> words(grid_bytes / 4);
      check(cudaMemcpy(words.data(), grids.target.data(), grid_bytes, cudaMemcpyDefault), "read");
      for (std::uint64_t i = 0; i < words.size(); ++i)
        if (words[i] != static_cast<std::uint32_t>(i) + (i % (chunk / 4) < part / 4 ? seed : before)) return false;
      return true;
    };
    for (GpuStream* stream : {&grids.from, &grids.to}) {
      refill(grids);
      add_rate(
          context, what + (stream == &grids.from ? ", pushed" : ", pulled"), 4 * cells(box),
          [&] {
            return stream->seconds(
                [&](cudaStream_t native) { copy_box(native, grids.target.data(), box, grids.source.data(), box); });
          },
          intact);
    }
  }
}

}  // namespace linkwise::cuda
