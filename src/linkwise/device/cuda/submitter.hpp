// The thread that submits one device's work (DESIGN: one thread decides, one thread per device submits).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace linkwise {

/// Runs jobs in order on a thread of its own. After the first exception it drops the work of later jobs but
/// still runs their `always` part, so that nobody waits for them in vain; `rethrow` reports that exception.
class Submitter {
 public:
  explicit Submitter(std::function<void()> begin) : thread_([this, begin = std::move(begin)] { run(begin); }) {}
  ~Submitter() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  Submitter(const Submitter&) = delete;
  Submitter& operator=(const Submitter&) = delete;

  void post(std::function<void()> work, std::function<void()> always = {}) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back({std::move(work), std::move(always)});
    }
    posted_.fetch_add(1, std::memory_order_release);
    wake_.notify_one();
  }

  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }

  void rethrow() {
    if (!failed()) return;
    const std::lock_guard lock(mutex_);
    std::rethrow_exception(error_);
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

  // Waking a thread takes longer than a sort has between two steps: look for work a while before sleeping.
  void wait_awake() const {
    constexpr auto patience = std::chrono::microseconds(500);
    const auto began = std::chrono::steady_clock::now();
    while (posted_.load(std::memory_order_acquire) == taken_ && std::chrono::steady_clock::now() - began < patience)
      std::this_thread::yield();
  }

  void run(const std::function<void()>& begin) {
    attempt(begin);
    while (true) {
      wait_awake();
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      ++taken_;
      lock.unlock();
      attempt(job.work);
      if (job.always) job.always();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  std::atomic<std::uint64_t> posted_ = 0;
  std::uint64_t taken_ = 0;  // by the thread
  bool ending_ = false;
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace linkwise
