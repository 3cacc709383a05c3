#include "linkwise/primitives/host/key_column.hpp"

#include <algorithm>
#include <optional>

#include "linkwise/team.hpp"

namespace linkwise {

std::uint64_t shared_prefix(std::string_view a, std::string_view b, std::uint64_t from) {
  const std::uint64_t most = std::min(a.size(), b.size());
  while (from < most && a[from] == b[from]) ++from;
  return from;
}

BytesExtent bytes_extent(std::span<const KeyColumn* const> parts) {
  constexpr std::uint64_t worth_all_cores = 1 << 14;
  std::optional<std::string_view> like;
  std::uint64_t prefix = 0, shortest = 0, longest = 0;
  for (const KeyColumn* part : parts) {
    const KeyColumn& of = *part;
    std::uint64_t first = 0;
    while (first < of.count && of.is_null(first)) ++first;
    if (first == of.count) continue;
    if (!like) {
      like = of.bytes(first);
      prefix = shortest = longest = like->size();
    }
#pragma omp parallel for reduction(min : prefix, shortest) reduction(max : longest) \
    num_threads(team_if(of.count > worth_all_cores))
    for (std::uint64_t row = first; row < of.count; ++row) {
      if (of.is_null(row)) continue;
      const std::string_view bytes = of.bytes(row);
      shortest = std::min<std::uint64_t>(shortest, bytes.size());
      longest = std::max<std::uint64_t>(longest, bytes.size());
      // Once the common prefix is empty, only lengths are read; the strings' bytes need not be loaded.
      prefix = std::min(prefix, shared_prefix(like->substr(0, prefix), bytes, 0));
    }
  }
  return {prefix, shortest, longest};
}

int compare(const KeyColumn& a, std::uint64_t row_a, const KeyColumn& b, std::uint64_t row_b) {
  const bool a_is_null = a.is_null(row_a), b_is_null = b.is_null(row_b);
  if (a_is_null || b_is_null) {
    if (a_is_null && b_is_null) return 0;
    return a_is_null == a.nulls_first ? -1 : 1;
  }
  for (int limb = 0; limb < a.limbs(); ++limb) {
    const std::uint64_t code_a = a.code(row_a, limb), code_b = b.code(row_b, limb);
    if (code_a != code_b) return code_a < code_b ? -1 : 1;
  }
  if (!a.is_bytes()) return 0;
  const int order = a.bytes(row_a).compare(b.bytes(row_b));
  return a.descending ? -order : order;
}

}  // namespace linkwise
