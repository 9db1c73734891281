#include "engine/judge/straggler.h"

#include <doctest/doctest.h>

using namespace sluice;

namespace {

// 100 steps of 10 ms, whose sums take 2 ms; `load` takes so many ms an item.
Json profile(double waits_ms, double load_ms, int items = 400) {
  return {{"wall_s", 1.0},
          {"host", "h"},
          {"step", {{"steps", 100}, {"header_ms", 50 * waits_ms}, {"sum_ms", 50 * waits_ms + 200}}},
          {"nodes",
           {{"load", {{"items", items}, {"busy_s", 1e-3 * load_ms * items}}},
            {"fwd", {{"items", 100}, {"busy_s", 0.2}}}}}};
}

}  // namespace

TEST_CASE("who waits least is waited for, and its slower node is named") {
  CHECK(straggler({profile(4, 2), profile(0.5, 3), profile(4.5, 2)}) ==
        "rank 1 (h) is waited for 3.8 ms a step: its `load` takes 3 ms an item, the others' 2 ms");
  CHECK(straggler({profile(0.5, 2, 800), profile(4.5, 2)}) ==
        "rank 0 (h) is waited for 4 ms a step: its `load` has 800 items, the others' 400");
  CHECK(straggler({profile(0, 2), profile(4, 2)}) == "rank 0 (h) is waited for 4 ms a step");
}

TEST_CASE("nobody is waited for where waits are alike, steps few or figures missing") {
  CHECK(straggler({profile(4, 2), profile(3.8, 3)}).empty());
  CHECK(straggler({profile(4, 2)}).empty());
  Json few = profile(4, 2), other = profile(0, 2);
  few["step"]["steps"] = other["step"]["steps"] = 4;
  CHECK(straggler({few, other}).empty());
  other.erase("step");
  CHECK(straggler({profile(4, 2), other}).empty());
}
