// Where a program waits on the virtual machine, what each wait is good for, and which one is left out to see whether
// the detector notices.
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
  flush,        ///< what was handed to other software's streams is on them
  record        ///< an event is behind the last operation of its stream, and not behind the one before
};

struct LoggedWait {
  WaitKind kind;
  std::source_location site;
  /// It orders what nothing else orders: otherwise it is implied by happens-before.
  bool orders = false;
};

class WaitLog {
 public:
  /// Logs from now on, and forgets what was logged. The wait with this number, from 1 on, is to be left out; 0: none.
  void begin(std::uint64_t left_out) {
    before_ += waits_.size();
    waits_.clear();
    left_out_ = left_out;
    is_logging_ = true;
  }
  /// A wait of the program; true if it is the one to leave out.
  bool leaves_out(WaitKind kind, const std::source_location& site) {
    if (!is_logging_) return false;
    waits_.push_back({kind, site});
    return waits_.size() == left_out_;
  }
  /// What tells the wait that was logged last from all others; 0 if none was.
  [[nodiscard]] std::uint64_t last() const { return before_ + waits_.size(); }
  /// That wait orders something. Those of before `begin`, and 0, are nobody's.
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
