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

TEST_CASE("a rank is waited for from five steps on, where that costs a twentieth of a step") {
  Json slow = profile(4, 2), other = profile(4.5, 2);  // 0.5 ms of a step of 10 ms
  const std::string said = "rank 0 (h) is waited for 0.5 ms a step";
  CHECK(straggler({slow, other}) == said);
  CHECK(straggler({slow, profile(4.25, 2)}).empty());
  for (Json* p : {&slow, &other}) {
    (*p)["wall_s"] = 0.05;
    (*p)["step"] = {{"steps", 5}, {"header_ms", p == &slow ? 10 : 20}, {"sum_ms", 10}};
  }
  CHECK(straggler({slow, other}) == "rank 0 (h) is waited for 2 ms a step");
}

TEST_CASE("waits are told in whole milliseconds from ten on, and a rank by its number alone") {
  Json slow = profile(0, 2), other = profile(10, 2);
  slow.erase("host");
  CHECK(straggler({slow, other}) == "rank 0 is waited for 10 ms a step");
  CHECK(straggler({slow, profile(10.6, 2)}) == "rank 0 is waited for 11 ms a step");
}

TEST_CASE("a node is named where it takes more than a quarter of the wait longer than elsewhere") {
  // 4 ms a step; of that `load` takes 0.9 ms, and then 1.1 ms, longer there.
  CHECK(straggler({profile(0, 2.225), profile(4, 2)}) == "rank 0 (h) is waited for 4 ms a step");
  CHECK(straggler({profile(0, 2.275), profile(4, 2)}) ==
        "rank 0 (h) is waited for 4 ms a step: its `load` takes 2.3 ms an item, the others' 2 ms");
  // A tenth more an item is not what makes it slower: there are more of them.
  CHECK(straggler({profile(0, 2.125, 600), profile(4, 2)}) ==
        "rank 0 (h) is waited for 4 ms a step: its `load` has 600 items, the others' 400");
  // Of two nodes the one that takes the most more, whichever comes first.
  Json both = profile(0, 3);
  both["nodes"]["fwd"]["busy_s"] = 0.4;
  CHECK(straggler({both, profile(4, 2)}).find("`load`") != std::string::npos);
  both["nodes"]["fwd"]["busy_s"] = 0.7;
  CHECK(straggler({both, profile(4, 2)}).find("`fwd` takes 7 ms an item, the others' 2 ms") !=
        std::string::npos);
  // What no other rank does is compared with nothing.
  Json other = profile(4, 2);
  other["nodes"].erase("load");
  CHECK(straggler({profile(0, 3), other}) == "rank 0 (h) is waited for 4 ms a step");
}
