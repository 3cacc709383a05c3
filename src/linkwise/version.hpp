// The version of these headers. Until 1.0 a minor version may change what is declared; a patch does not. Only the
// public headers (linkwise/sort.hpp, join.hpp, probe.hpp and proactive.hpp) and what their comments name are stable.
// Other headers are there because these include them, and may change with any version.
#pragma once

#define LINKWISE_VERSION_MAJOR 0
#define LINKWISE_VERSION_MINOR 1
#define LINKWISE_VERSION_PATCH 0
/// For comparisons: 1'002'003 is 1.2.3.
#define LINKWISE_VERSION (LINKWISE_VERSION_MAJOR * 1'000'000 + LINKWISE_VERSION_MINOR * 1'000 + LINKWISE_VERSION_PATCH)
