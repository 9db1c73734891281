#include <doctest/doctest.h>

#include "tests/engine/toy.h"

namespace sluice::toy {

Outcome run(Builder& b, int threads, RunEvents* events, RunOptions o) {
  static RunEvents silent;
  o.threads = threads;
  o.background = false;
  if (!b.made) {
    const bool planned = b.plan(threads);
    for (const auto& d : b.diagnostics.all())
      if (d.severity == Severity::error) MESSAGE(d.code << ": " << d.message);
    REQUIRE(planned);
  }
  Scheduler s(*b.made, b.pointers(), o, events ? *events : silent);
  Outcome out = s.run();
  if (out.status == Outcome::Status::stalled) MESSAGE(out.stall);
  for (std::size_t i = 0; i < b.nodes.size(); ++i) CHECK(s.credits_out(static_cast<int>(i)) == 0);
  return out;
}

}  // namespace sluice::toy
