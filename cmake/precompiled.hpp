// Headers that nearly every file of the library includes, compiled once. Each file still includes what it uses: the
// sanitizers' build has no precompiled headers.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "linkwise/device/runtime.hpp"
#include "linkwise/error.hpp"
