// When a run ends by its metric, and which of its epochs is the best.
#include <doctest/doctest.h>

#include <limits>

#include "engine/session/stop_rule.h"

using namespace sluice;

static constexpr double missing = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("a value of nothing measured is no best one, and any number is better") {
  CHECK(improves("max", 0.1, {}));
  CHECK(improves("max", 0.2, 0.1));
  CHECK_FALSE(improves("max", 0.1, 0.1));
  CHECK(improves("min", 0.1, 0.2));
  CHECK_FALSE(improves("max", 0.2, 0.1, 0.15));
  for (const char* mode : {"min", "max"}) {
    CHECK_FALSE(improves(mode, missing, {}));
    CHECK_FALSE(improves(mode, missing, 0.5));
    CHECK(improves(mode, 0.5, missing));
  }
}

TEST_CASE("patience counts values that are no better, NaN among them, from the first number on") {
  const auto ends_after = [](const std::vector<double>& values) {
    StopRule rule;
    rule.patience = 2;
    Stopping stopping;
    for (std::uint32_t e = 0; e < values.size(); ++e)
      if (stopping.met(rule, values[e], e)) return static_cast<int>(e);
    return -1;
  };
  CHECK(ends_after({1, 2, 3, 4}) == -1);
  CHECK(ends_after({1, 0, 0}) == 2);
  CHECK(ends_after({missing, 1, 2, 3}) == -1);
  CHECK(ends_after({1, missing, 2, missing, 3}) == -1);
  CHECK(ends_after({3, missing, missing, 4}) == 2);
}
