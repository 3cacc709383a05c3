// The thread that submits one device's work (DESIGN: one thread decides, one thread per device submits).
#pragma once

#include <atomic>
#include <condition_variable>
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

  void run(const std::function<void()>& begin) {
    attempt(begin);
    while (true) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      attempt(job.work);
      if (job.always) job.always();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  bool ending_ = false;
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace linkwise
