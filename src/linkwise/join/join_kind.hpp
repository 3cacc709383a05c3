// The kinds of joins, and which rows they keep.
#pragma once

#include <cstdint>
#include <string>

namespace linkwise {

enum class JoinKind : std::uint8_t { inner, left, right, full, semi, anti };

/// @throws UsageError for an unknown name.
JoinKind join_kind_from(const std::string& name);

/// Whether left rows without a match are kept, with no right row; and likewise for right rows.
constexpr bool keeps_left(JoinKind kind) { return kind == JoinKind::left || kind == JoinKind::full; }
constexpr bool keeps_right(JoinKind kind) { return kind == JoinKind::right || kind == JoinKind::full; }
/// Whether the result consists of left rows only, each at most once.
constexpr bool is_filter(JoinKind kind) { return kind == JoinKind::semi || kind == JoinKind::anti; }

}  // namespace linkwise
