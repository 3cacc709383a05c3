// A queue of items for threads. Waking a thread takes longer than the time between two steps of a sort, so a thread
// that finds the queue empty polls it for a while before it sleeps.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

namespace linkwise {

template <typename Item>
class WorkQueue {
 public:
  explicit WorkQueue(std::chrono::microseconds patience) : patience_(patience) {}

  void push(Item item) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
      size_.store(items_.size(), std::memory_order_release);
    }
    wake_.notify_one();
  }

  void push_all(std::span<const Item> items) {
    {
      const std::lock_guard lock(mutex_);
      items_.insert(items_.end(), items.begin(), items.end());
      size_.store(items_.size(), std::memory_order_release);
    }
    wake_.notify_all();
  }

  /// Blocks for the next item, in order; nothing once `end` was called and all have been taken.
  std::optional<Item> pop() {
    const auto began = std::chrono::steady_clock::now();
    while (size_.load(std::memory_order_acquire) == 0 && !ending_.load(std::memory_order_relaxed) &&
           std::chrono::steady_clock::now() - began < patience_)
      std::this_thread::yield();
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return ending_.load(std::memory_order_relaxed) || !items_.empty(); });
    if (items_.empty()) return std::nullopt;
    std::optional<Item> item(std::move(items_.front()));
    items_.pop_front();
    size_.store(items_.size(), std::memory_order_release);
    return item;
  }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      ending_.store(true, std::memory_order_relaxed);
    }
    wake_.notify_all();
  }

 private:
  std::chrono::microseconds patience_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Item> items_;
  std::atomic<std::size_t> size_ = 0;  // of `items_`, readable without the lock
  std::atomic<bool> ending_ = false;
};

}  // namespace linkwise
