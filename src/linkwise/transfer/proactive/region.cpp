#include "linkwise/transfer/proactive/region.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <sstream>
#include <stop_token>
#include <thread>
#include <utility>

#include "linkwise/error.hpp"
#include "linkwise/transfer/proactive/cuda/agents.hpp"
#include "linkwise/transfer/proactive/writers.hpp"

namespace linkwise::proactive {
namespace {

// Makes a runtime obey `source` in addition to its current stop token, during the lifetime of this object.
class AlsoObeys {
 public:
  AlsoObeys(Runtime& runtime, std::stop_source& source)
      : runtime_(runtime),
        before_(runtime.set_stop_token(source.get_token())),
        pass_on_(before_, [&source] { source.request_stop(); }) {}
  AlsoObeys(const AlsoObeys&) = delete;
  AlsoObeys& operator=(const AlsoObeys&) = delete;
  ~AlsoObeys() { runtime_.set_stop_token(before_); }
  [[nodiscard]] const std::stop_token& before() const { return before_; }

 private:
  Runtime& runtime_;
  std::stop_token before_;
  std::stop_callback<std::function<void()>> pass_on_;
};

std::string told(double seconds) {
  std::ostringstream text;
  text << seconds;
  return text.str();
}

// Runs an action that waits, and stops its waits after `seconds`. Returns whether it finished. @throws what it
// throws.
bool within(Runtime& runtime, double seconds, const std::function<void()>& action) {
  constexpr double for_ever = 1e9;
  std::stop_source late;
  const AlsoObeys obeys(runtime, late);
  std::mutex mutex;
  std::condition_variable_any done;
  const std::jthread clock([&](const std::stop_token& is_done) {
    std::unique_lock lock(mutex);
    const std::chrono::duration<double> patience(std::min(seconds, for_ever));
    done.wait_for(lock, is_done, patience, [] { return false; });
    if (!is_done.stop_requested()) late.request_stop();
  });
  try {
    action();
  } catch (const Cancelled&) {
    if (obeys.before().stop_requested()) throw;
    return false;
  }
  return true;
}

}  // namespace

Buffer put_on_gpu(Runtime& runtime, int gpu, std::span<const std::span<const std::byte>> contents,
                  const std::string& label) {
  std::uint64_t bytes = 0, at = 0;
  for (const auto& piece : contents) bytes += piece.size();
  Buffer buffer = runtime.allocate(Place::gpu(gpu), bytes, label);
  if (runtime.estimating()) return buffer;
  const Stream stream = compute_stream(runtime, gpu);
  run_or_abandon(runtime, [&] {
    for (const auto& piece : contents) {
      if (piece.empty()) continue;
      runtime.copy(stream, buffer.slice(at, piece.size()), host_view(piece.data(), 0, piece.size(), /*pageable=*/true));
      at += piece.size();
    }
    runtime.wait(runtime.record(stream));
    for (const auto& piece : contents)
      runtime.host_writes(host_view(piece.data(), 0, piece.size(), /*pageable=*/true),
                          "lets go of what it has put there");
  });
  return buffer;
}

RegionBytes::RegionBytes(Runtime& runtime, std::vector<int> gpus, std::uint64_t bytes, const std::string& label,
                         Agent agent)
    : runtime_(runtime), gpus_(std::move(gpus)), bytes_(bytes), needs_(gpus_.size()), interests_(gpus_.size()) {
  if (gpus_.empty() || gpus_.size() > most_gpus)
    throw UsageError("a region lies on 1 to " + std::to_string(most_gpus) + " GPUs, not " +
                     std::to_string(gpus_.size()));
  if (bytes == 0) throw UsageError("a region has at least one byte");
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    if (gpus_[g] < 0 || gpus_[g] >= runtime.machine().num_gpus())
      throw UsageError("there is no GPU " + std::to_string(gpus_[g]) + "; this machine has " +
                       std::to_string(runtime.machine().num_gpus()));
    if (std::find(gpus_.begin(), gpus_.begin() + g, gpus_[g]) != gpus_.begin() + g)
      throw UsageError("GPU " + std::to_string(gpus_[g]) + " is named twice");
  }
  // Whole pages, so that agents may move whole words.
  const std::uint64_t whole = (bytes + page_bytes - 1) / page_bytes * page_bytes;
  check_plan({agent}, runtime.simulated());
  if (agent == Agent::unified) unified_ = allocate_unified(whole, gpus_);
  for (const int gpu : gpus_) {
    if (unified_) {
      mirrors_.push_back({Place::gpu(gpu), static_cast<std::byte*>(unified_.get()), whole});
    } else {
      memory_.push_back(runtime.allocate(Place::gpu(gpu), whole, label));
      mirrors_.push_back(memory_.back().view());
    }
  }
}

RegionBytes::~RegionBytes() {
  if (!is_late_) return;
  for (std::vector<Buffer>* buffers : {&memory_, &interests_})
    for (Buffer& buffer : *buffers) runtime_.retire(std::move(buffer));
}

void RegionBytes::check_goes_with(const AgentPlan& plan) const {
  check_plan(plan, runtime_.simulated());
  if ((plan.agent == Agent::unified) != (unified_ != nullptr))
    throw UsageError("the agent 'unified' takes regions that were made for it, and no other does");
}

const MemoryView& RegionBytes::mirror(int gpu) const {
  const auto found = std::ranges::find(gpus_, gpu);
  if (found == gpus_.end()) throw UsageError("the region does not lie on GPU " + std::to_string(gpu));
  return mirrors_[found - gpus_.begin()];
}

void RegionBytes::need(int gpu, ByteRange range) {
  (void)mirror(gpu);
  if (has_producers_) throw UsageError("say what a GPU needs before the region's first producer is made");
  if (range.first > range.second || range.second > bytes_)
    throw UsageError("bytes " + std::to_string(range.first) + " to " + std::to_string(range.second) +
                     " are not in a region of " + std::to_string(bytes_));
  auto& needs = needs_[std::ranges::find(gpus_, gpu) - gpus_.begin()];
  needs.resize((bytes_ + page_bytes - 1) / page_bytes, false);
  if (range.first == range.second) return;
  for (std::uint64_t page = range.first / page_bytes; page <= (range.second - 1) / page_bytes; ++page)
    needs[page] = true;
}

std::vector<int> RegionBytes::peers(int gpu) const {
  std::vector<int> others = gpus_;
  std::erase(others, gpu);
  return others;
}

std::uint32_t RegionBytes::wanted(int gpu, std::uint64_t first_page, std::uint64_t last_page) const {
  std::uint32_t bits = 0;
  int place = 0;
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    if (gpus_[g] == gpu) continue;
    const auto& needs = needs_[g];
    bool any = needs.empty();
    for (std::uint64_t page = first_page; page <= last_page && page < needs.size() && !any; ++page) any = needs[page];
    if (any) bits |= 1U << place;
    ++place;
  }
  return bits;
}

bool RegionBytes::is_needed_by_all() const {
  return std::ranges::all_of(needs_, [](const auto& needs) { return needs.empty(); });
}

void RegionBytes::fill(const void* data, std::uint64_t bytes) {
  if (bytes != bytes_)
    throw UsageError("a region of " + std::to_string(bytes_) + " bytes is filled with " + std::to_string(bytes));
  if (runtime_.estimating()) return;
  flush();
  run_or_abandon(runtime_, [&] {
    std::vector<Event> filled;
    for (const int gpu : gpus_) {
      const Stream stream = compute_stream(runtime_, gpu);
      runtime_.copy(stream, mirror(gpu).slice(0, bytes), host_view(data, 0, bytes, /*pageable=*/true));
      filled.push_back(runtime_.record(stream));
      if (unified_) break;  // all have the same array
    }
    for (const Event event : filled) runtime_.wait(event);
    runtime_.host_writes(host_view(data, 0, bytes, /*pageable=*/true), "lets go of what it has filled with");
  });
}

const std::uint32_t* RegionBytes::interest(int gpu) {
  if (is_needed_by_all() || runtime_.estimating()) return nullptr;
  Buffer& buffer = interests_[std::ranges::find(gpus_, gpu) - gpus_.begin()];
  if (buffer.view().bytes == 0) {
    std::vector<std::uint32_t> wanted_pages((bytes_ + page_bytes - 1) / page_bytes);
    for (std::uint64_t page = 0; page < wanted_pages.size(); ++page) wanted_pages[page] = wanted(gpu, page, page);
    buffer = put_on_gpu(runtime_, gpu, wanted_pages.data(), wanted_pages.size() * sizeof wanted_pages[0], "interest");
  }
  return reinterpret_cast<const std::uint32_t*>(buffer.view().data);
}

void RegionBytes::fetch(int gpu, void* data, std::uint64_t bytes) {
  if (bytes > bytes_)
    throw UsageError("a region of " + std::to_string(bytes_) + " bytes has not got " + std::to_string(bytes));
  flush();
  runtime_.read_back({compute_stream(runtime_, gpu), mirror(gpu).slice(0, bytes), data});
  check();
}

// Checks all senders even if one has failed, so that none reports an old failure at a later check.
void RegionBytes::check() {
  std::erase_if(senders_, [](const auto& sender) { return sender.expired(); });
  std::exception_ptr first;
  for (const auto& sender : senders_) try {
      if (const auto alive = sender.lock()) alive->check();
    } catch (const DeviceError&) {
      if (first == nullptr) first = std::current_exception();
    }
  if (first != nullptr) std::rethrow_exception(first);
}

void RegionBytes::check_when_done() {
  hand_back(runtime_, mirrors_);
  check();
}

void RegionBytes::wait(double patience) {
  bool is_done = false;
  try {
    is_done = within(runtime_, patience, [&] { runtime_.synchronize(); });
  } catch (const Cancelled&) {
    let_go_late();
    throw;
  }
  if (is_done) {
    pending_.clear();
    return check_when_done();
  }
  let_go_late();
  throw DeviceError("a region is not done after " + told(patience) + " s" + states());
}

void RegionBytes::let_go_late() {
  is_late_ = true;
  for (const auto& sender : senders_)
    if (const auto alive = sender.lock()) alive->let_go_late();
}

std::string RegionBytes::states() {
  constexpr double to_look = 5;  // seconds
  std::string all;
  for (const auto& sender : senders_) {
    const auto alive = sender.lock();
    if (!alive) continue;
    std::string state = "a GPU does not answer";
    try {
      (void)within(runtime_, to_look, [&] { state = alive->state(); });
    } catch (const DeviceError& error) {
      state = error.what();
    }
    all += "; " + state;
  }
  return all;
}

void RegionBytes::flush() {
  for (const int gpu : gpus_) {
    const Stream compute = compute_stream(runtime_, gpu);
    for (const Event event : pending_) runtime_.wait(compute, event);
  }
  pending_.clear();
}

void RegionBytes::consumed(int gpu) {
  (void)mirror(gpu);
  add_pending(runtime_.record(compute_stream(runtime_, gpu)));
}

}  // namespace linkwise::proactive
