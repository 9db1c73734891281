// Whose time a body's time is. Other threads may help with a body, and a body may do what other
// nodes of its run (engine/plan/plan.h) left to it:
//
//   PassTimer timer;
//   timer.begin(owners);   // a pass over the voxels: one reading of the clock, never one a voxel
//   timer.begin(others);   // ends the pass before
//   timer.end();
//
// Invariant: outside of bodies, and for work of nobody in particular, none of this reads the clock.
#pragma once

#include <cstdint>
#include <exception>

#include "engine/base/spans.h"

namespace sluice {

// The nodes whose work one pass does, by their positions in the run; a pass is booked to `first`.
struct Owners {
  static constexpr int most = 64;  // positions; later nodes of a longer run are not told apart
  std::uint64_t all = 0;
  int first = -1;

  Owners() = default;
  explicit Owners(int position) { add(position); }
  void add(int position) {
    if (position < 0 || position >= most) return;
    all |= std::uint64_t{1} << position;
    if (first < 0) first = position;
  }
  void add(const Owners& others) {
    all |= others.all;
    if (first < 0) first = others.first;
  }
  bool none() const { return first < 0; }
  bool several() const { return (all & (all - 1)) != 0; }
  friend bool operator==(const Owners&, const Owners&) = default;
};

// Where the time of a body is booked. Called by all threads that work on it.
class BodyTimes {
 public:
  explicit BodyTimes(int position) : position_(position) {}
  virtual ~BodyTimes() = default;
  int position() const { return position_; }       // of its node in its run; -1: it is in none
  virtual void help_begins(std::int64_t now) = 0;  // on another thread than the body's
  virtual void help_ends(std::int64_t now) = 0;
  virtual void pass_begins(const Owners& owners, std::int64_t now) = 0;
  virtual void pass_ends(const Owners& owners, std::int64_t began, std::int64_t now) = 0;

 private:
  const int position_;
};

// The body that runs on this thread, or that this thread helps; null outside of bodies.
inline thread_local BodyTimes* the_body = nullptr;
// The nodes whose pass threw last on this thread.
inline thread_local Owners blamed;

// While it lives, this thread helps with a body of another one.
class HelpTimer {
 public:
  explicit HelpTimer(BodyTimes* body) : body_(body) {
    if (!body_) return;
    outer_ = the_body;
    the_body = body_;
    body_->help_begins(now_ns());
  }
  ~HelpTimer() {
    if (!body_) return;
    body_->help_ends(now_ns());
    the_body = outer_;
  }
  HelpTimer(const HelpTimer&) = delete;
  HelpTimer& operator=(const HelpTimer&) = delete;

 private:
  BodyTimes* const body_;
  BodyTimes* outer_ = nullptr;
};

class PassTimer {
 public:
  PassTimer() = default;
  ~PassTimer() {
    if (std::uncaught_exceptions() > exceptions_ && !owners_.none()) blamed = owners_;
    end();
  }
  PassTimer(const PassTimer&) = delete;
  PassTimer& operator=(const PassTimer&) = delete;

  void begin(const Owners& owners) {
    if (owners == owners_) return;
    const std::int64_t now = body_ ? now_ns() : 0;
    stop(now);
    owners_ = owners;
    began_ = now;
    if (body_ && !owners_.none()) body_->pass_begins(owners_, now);
  }
  void end() { begin({}); }

 private:
  void stop(std::int64_t now) {
    if (body_ && !owners_.none()) body_->pass_ends(owners_, began_, now);
  }

  BodyTimes* const body_ = the_body;
  const int exceptions_ = std::uncaught_exceptions();
  Owners owners_;
  std::int64_t began_ = 0;
};

}  // namespace sluice
