// Which rows a join has.
#pragma once

#include <cstdint>
#include <string>

namespace linkwise {

enum class JoinKind : std::uint8_t { inner, left, right, full, semi, anti };

/// @throws UsageError for a name that is none.
JoinKind join_kind_from(const std::string& name);

/// Whether left rows without a match come with no right one, or right rows with no left one.
constexpr bool keeps_left(JoinKind kind) { return kind == JoinKind::left || kind == JoinKind::full; }
constexpr bool keeps_right(JoinKind kind) { return kind == JoinKind::right || kind == JoinKind::full; }
/// Whether it gives left rows alone, each once at most.
constexpr bool is_filter(JoinKind kind) { return kind == JoinKind::semi || kind == JoinKind::anti; }

}  // namespace linkwise
