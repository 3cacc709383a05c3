// The thread that submits one device's work (DESIGN: one thread decides, one thread per device submits).
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "linkwise/device/cuda/work_queue.hpp"
#include "linkwise/error.hpp"

namespace linkwise {

/// Runs jobs in order on a thread of its own. After the first exception it drops the work of later jobs but
/// still runs their `always` part, so that nobody waits for them in vain; `rethrow` reports that exception.
class Submitter {
 public:
  explicit Submitter(std::function<void()> begin) : thread_([this, begin = std::move(begin)] { run(begin); }) {}
  ~Submitter() {
    jobs_.end();
    thread_.join();
  }
  Submitter(const Submitter&) = delete;
  Submitter& operator=(const Submitter&) = delete;

  void post(std::function<void()> work, std::function<void()> always = {}) {
    jobs_.push({std::move(work), std::move(always)});
  }

  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }

  void rethrow() {
    if (!failed()) return;
    const std::lock_guard lock(mutex_);
    std::rethrow_exception(error_);
  }

  /// After a failed allocation, which harms no device, later jobs are run again. Nothing may be running meanwhile.
  void forget_out_of_memory() {
    if (!failed()) return;
    const std::lock_guard lock(mutex_);
    try {
      std::rethrow_exception(error_);
    } catch (const OutOfMemoryError&) {
      error_ = nullptr;
      failed_.store(false, std::memory_order_release);
    } catch (...) {  // NOLINT(bugprone-empty-catch): any other one stays
    }
  }

 private:
  struct Job {
    std::function<void()> work, always;
  };

  void attempt(const std::function<void()>& work) {
    if (failed() || !work) return;
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      failed_.store(true, std::memory_order_release);
    }
  }

  void run(const std::function<void()>& begin) {
    attempt(begin);
    while (const std::optional<Job> job = jobs_.pop()) {
      attempt(job->work);
      if (job->always) job->always();
    }
  }

  WorkQueue<Job> jobs_{std::chrono::microseconds(500)};
  std::mutex mutex_;
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;  // guarded by the mutex
  std::thread thread_;        // last: it uses the others
};

}  // namespace linkwise
