// What a failed system call is: an IoError, or, where memory or file descriptors have run out, a
// MachineError, for which no sample is at fault.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "engine/base/error.h"

namespace sluice {

// Never quarantined: the next sample would fail too, or fail elsewhere the next time.
struct MachineError : Error {
  using Error::Error;
};

inline bool is_of_machine(int cause) {
  return cause == ENOMEM || cause == EMFILE || cause == ENFILE;
}

// `cause` is the call's errno, whose text follows the message.
[[noreturn]] inline void fail_call(const std::string& message, int cause) {
  const std::string text = message + ": " + std::strerror(cause);
  if (is_of_machine(cause)) throw MachineError(cause == ENOMEM ? Exit::memory : Exit::io, text);
  throw IoError(text);
}

}  // namespace sluice
