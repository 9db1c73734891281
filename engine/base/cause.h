// What an exception means: the exit code and one line of text. Everything that makes an exit or a
// quarantined sample of an exception asks here, so that each has one exit everywhere.
//
//   Error                        its own exit
//   std::bad_alloc               5, as whatever says in LibTorch's words that memory is out
//   std::system_error            4; ENOMEM 5
//   any other                    what the caller says
#pragma once

#include <string>

#include "engine/base/error.h"

namespace sluice {

struct Cause {
  Exit exit = Exit::usage;
  std::string text;         // without LibTorch's C++ stack
  bool of_machine = false;  // no sample is at fault: it is never quarantined
  bool is_of_sample() const { return !of_machine && (exit == Exit::data || exit == Exit::io); }
};

// Of the exception that is being handled: for catch blocks only.
Cause cause(Exit otherwise) noexcept;

// As the exception that is being handled, with `where` and a colon before its text.
[[noreturn]] void rethrow_with(const std::string& where, Exit otherwise);

// From here on, an exception that leaves a thread or a noexcept function because memory has run out
// ends the process with one line and exit 5 instead of an abort.
void exit_when_memory_is_out();

}  // namespace sluice
