#include "linkwise/primitives/host/key_column.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "linkwise/team.hpp"

namespace linkwise {

std::uint64_t shared_prefix(std::string_view a, std::string_view b, std::uint64_t from) {
  const std::uint64_t most = std::min(a.size(), b.size());
  while (from < most && a[from] == b[from]) ++from;
  return from;
}

namespace {

constexpr std::uint64_t worth_all_cores = 1 << 14;

struct Lengths {
  std::uint64_t shortest = 0, longest = 0;
};

// Of a column without nulls, by its offsets alone.
template <typename Offset>
Lengths lengths_between(const KeyColumn& column) {
  const Offset* offsets = static_cast<const Offset*>(column.offsets) + column.offset;
  Offset shortest = std::numeric_limits<Offset>::max(), longest = 0;
#pragma omp parallel for simd reduction(min : shortest) reduction(max : longest) \
    num_threads(team_if(column.count > worth_all_cores))
  for (std::uint64_t row = 0; row < column.count; ++row) {
    const Offset length = offsets[row + 1] - offsets[row];
    shortest = std::min(shortest, length);
    longest = std::max(longest, length);
  }
  return {static_cast<std::uint64_t>(shortest), static_cast<std::uint64_t>(longest)};
}

// Of a column with at least one value.
Lengths lengths_of(const KeyColumn& column) {
  if (column.validity == nullptr && column.layout == KeyColumn::Layout::bytes32)
    return lengths_between<std::int32_t>(column);
  if (column.validity == nullptr && column.layout == KeyColumn::Layout::bytes64)
    return lengths_between<std::int64_t>(column);
  std::uint64_t shortest = std::numeric_limits<std::uint64_t>::max(), longest = 0;
#pragma omp parallel for reduction(min : shortest) reduction(max : longest) \
    num_threads(team_if(column.count > worth_all_cores))
  for (std::uint64_t row = 0; row < column.count; ++row) {
    if (column.is_null(row)) continue;
    const std::uint64_t length = column.bytes(row).size();
    shortest = std::min(shortest, length);
    longest = std::max(longest, length);
  }
  return {shortest, longest};
}

// How many leading bytes of `like` all values share.
std::uint64_t prefix_shared_with(std::string_view like, const KeyColumn& column) {
  std::uint64_t prefix = like.size();
#pragma omp parallel for reduction(min : prefix) num_threads(team_if(column.count > worth_all_cores))
  for (std::uint64_t row = 0; row < column.count; ++row)
    if (prefix > 0 && !column.is_null(row))  // once it is empty, the values' bytes need not be loaded
      prefix = std::min(prefix, shared_prefix(like, column.bytes(row), 0));
  return std::min<std::uint64_t>(prefix, like.size());
}

}  // namespace

BytesExtent bytes_extent(std::span<const KeyColumn* const> parts) {
  std::optional<std::string_view> like;
  BytesExtent extent;
  for (const KeyColumn* part : parts) {
    std::uint64_t first = 0;
    while (first < part->count && part->is_null(first)) ++first;
    if (first == part->count) continue;
    const auto [shortest, longest] = lengths_of(*part);
    if (!like) {
      like = part->bytes(first);
      extent.shortest = shortest;
    }
    extent.shortest = std::min(extent.shortest, shortest);
    extent.longest = std::max(extent.longest, longest);
    like = like->substr(0, prefix_shared_with(*like, *part));
  }
  extent.prefix = like ? like->size() : 0;
  return extent;
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
