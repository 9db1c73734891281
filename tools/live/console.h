// stderr while a run goes on: a block of lines at the bottom of the terminal that is drawn again
// and again, and messages that scroll by above it. Where there is no terminal, messages only.
//
// While a Console lives, whatever is written to std::cerr goes through it, line by line, so that
// no message, ours or a library's, falls into the block.
//
// Invariants: nothing is written to stdout; off a terminal no control character is written; the
// cursor stands below the block and is never hidden, so a process that is killed leaves a terminal
// that needs no repair; what is drawn is written in one call.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tools/live/block.h"

namespace sluice::live {

class Console {
 public:
  Console();
  ~Console();  // takes the block away
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // A terminal that understands cursor movements: not TERM=dumb.
  bool redraws() const { return redraws_; }
  Style style() const;  // as the terminal is now
  void draw(std::vector<std::string> block);
  void clear() { draw({}); }
  void say(std::string_view lines);  // whole lines

  // For a signal's handler: a block is on the screen, so nothing may be written past the Console.
  static bool drawing() { return on_screen.load(std::memory_order_relaxed); }

 private:
  class Redirect;
  std::string erase() const;
  static std::atomic<bool> on_screen;

  const bool redraws_;
  const bool color_, utf8_;
  std::mutex mutex_;
  std::vector<std::string> block_;  // as it stands on the screen
  std::vector<int> widths_;         // of its lines, in columns
  std::unique_ptr<Redirect> redirect_;
};

}  // namespace sluice::live
