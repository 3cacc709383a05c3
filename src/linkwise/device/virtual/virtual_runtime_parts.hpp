// What a VirtualRuntime consists of, for its own source files.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "linkwise/device/virtual/virtual_runtime.hpp"

namespace linkwise {

struct VirtualRuntime::FlagState {
  std::string name;
  std::uint32_t value = 0;
  VectorClock clock;                                         // of the set that gave the value
  std::vector<std::pair<std::uint32_t, std::int64_t>> sets;  // executed, in order: value, node
};

struct VirtualRuntime::Lane {
  std::string name;
  Place place;
  std::vector<std::int64_t> nodes;
  std::size_t next = 0;  // first that has not run
};

struct VirtualRuntime::Node {
  std::int64_t id = 0;
  int lane = -1;            // -1: a fence of the host
  std::int64_t number = 0;  // on its lane, from 1
  std::string name;
  std::string phase;
  Operation operation;
  bool is_copy = false;
  MemoryView from, to;  // of a copy
  std::vector<std::int64_t> after;
  int awaited_flag = -1, set_flag = -1;
  std::uint32_t flag_value = 0;
  bool done = false;
  bool shown = false;  // has a place in the timeline
  VectorClock clock;
};

}  // namespace linkwise
