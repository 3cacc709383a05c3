// The parts of a VirtualRuntime, for its own source files.
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
  std::vector<std::pair<std::uint32_t, std::int64_t>> sets;  // executed, in order: value, node
};

/// In vector clocks and recorded accesses, the host is agent 0, and each lane is an agent.
constexpr int host_agent = 0;
constexpr int agent_of(int lane) { return lane + 1; }

struct VirtualRuntime::Lane {
  std::string name;
  Place place;
  std::vector<std::int64_t> nodes;
  std::size_t next = 0;  // first that has not run
  // For a foreign stream: its native handle. Until it is flushed, our work on it comes after what other software
  // enqueues meanwhile.
  bool is_foreign = false;
  void* native = nullptr;
  std::size_t flushed = 0;
};

struct VirtualRuntime::Recorded {
  std::int64_t node = -1;
  std::uint64_t wait = 0;  // its number in the wait log
};

struct VirtualRuntime::Node {
  std::int64_t id = 0;
  int lane = -1;            // -1: a wait or an access of the host
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
  bool shown = false;  // appears in the timeline
  // For a wait: the awaited node, and the numbers of the wait and of the event's record in the wait log.
  std::int64_t awaited = -1;
  std::uint64_t wait = 0, record = 0;
  VectorClock clock;
};

}  // namespace linkwise
