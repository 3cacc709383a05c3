// The errors that Linkwise throws. Python sees exceptions of the same names.
// A message says what was asked, what happened, and what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace linkwise {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller asked for something impossible: a GPU that does not exist, a wrong size, a bad option.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A device, the host, or a memory limit has no room for what was asked.
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
};

/// The CUDA runtime or driver reported an error.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A result failed its verification: not in order, or not a permutation of the input.
class CorruptDataError : public Error {
 public:
  using Error::Error;
};

/// The caller's stop token asked the work to end.
class Cancelled : public Error {
 public:
  using Error::Error;
};

/// The program of device operations is wrong. Most such errors only the virtual machine detects.
class ProgramError : public Error {
 public:
  using Error::Error;
};

/// Two operations touch the same bytes, one of them writes, and nothing orders them.
class RaceError : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

/// A wait that nothing can ever satisfy.
class DeadlockError : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

/// An operation touches memory that has been freed.
class UseAfterFreeError : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

}  // namespace linkwise
