// A place is where bytes lie: a GPU, or a NUMA node of the host.
#pragma once

#include <string>

namespace linkwise {

enum class PlaceKind { host, gpu };

struct Place {
  PlaceKind kind = PlaceKind::host;
  int index = 0;

  static Place gpu(int index) { return {PlaceKind::gpu, index}; }
  static Place host(int index = 0) { return {PlaceKind::host, index}; }
  [[nodiscard]] bool is_gpu() const { return kind == PlaceKind::gpu; }
  [[nodiscard]] std::string name() const { return (is_gpu() ? "gpu" : "host") + std::to_string(index); }
  friend auto operator<=>(const Place&, const Place&) = default;
};

}  // namespace linkwise
