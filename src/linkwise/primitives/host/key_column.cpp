#include "linkwise/primitives/host/key_column.hpp"

namespace linkwise {

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
