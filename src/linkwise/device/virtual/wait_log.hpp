// A log of the waits of a program on the virtual machine: where each one is, whether it orders anything, and which
// one is left out to test whether the race detector notices.
#pragma once

#include <cstdint>
#include <source_location>
#include <vector>

namespace linkwise {

enum class WaitKind {
  event,        ///< a stream waits for an event
  flag,         ///< a stream waits for a flag
  host,         ///< the host waits for an event
  synchronize,  ///< … for everything
  read_back,    ///< … for what it reads back
  flush,        ///< what we enqueued on foreign streams has been submitted to them
  record        ///< an event comes after its stream's last operation; left out: after the one before
};

struct LoggedWait {
  WaitKind kind;
  std::source_location site;
  /// Whether it orders operations that happens-before does not order already.
  bool orders = false;
};

class WaitLog {
 public:
  /// Clears the log and logs from now on. The wait with this 1-based number is left out; 0: none.
  void begin(std::uint64_t left_out) {
    before_ += waits_.size();
    waits_.clear();
    left_out_ = left_out;
    is_logging_ = true;
  }
  /// Logs a wait of the program; true if it is the one to leave out.
  bool leaves_out(WaitKind kind, const std::source_location& site) {
    if (!is_logging_) return false;
    waits_.push_back({kind, site});
    return waits_.size() == left_out_;
  }
  /// A unique number of the wait that was logged last; 0 if none was.
  [[nodiscard]] std::uint64_t last() const { return before_ + waits_.size(); }
  /// Notes that this wait orders something. Numbers from before `begin`, and 0, are ignored.
  void note_order(std::uint64_t wait) {
    if (wait > before_ && wait <= last()) waits_[wait - before_ - 1].orders = true;
  }
  [[nodiscard]] const std::vector<LoggedWait>& waits() const { return waits_; }

 private:
  std::vector<LoggedWait> waits_;
  std::uint64_t before_ = 0, left_out_ = 0;
  bool is_logging_ = false;
};

}  // namespace linkwise
