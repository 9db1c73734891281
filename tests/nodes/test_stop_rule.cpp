// When a run ends by its metric, and which of its epochs is the best.
#include <doctest/doctest.h>

#include <iterator>
#include <limits>
#include <utility>

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

TEST_CASE("small steps add up to a better value only where that is asked for") {
  const auto ends_after = [](bool cumulative, const std::string& mode, double sign) {
    StopRule rule;
    rule.patience = 3;
    rule.mode = mode;
    rule.min_delta = 0.5;
    rule.cumulative_delta = cumulative;
    Stopping stopping;
    const double values[] = {1, 1.25, 1.5, 1.75, 2, 2.25, 2.5};  // each half of what counts
    for (std::uint32_t e = 0; e < std::size(values); ++e)
      if (stopping.met(rule, sign * values[e], e)) return static_cast<int>(e);
    return -1;
  };
  for (const auto& [mode, sign] : {std::pair{"max", 1.0}, {"min", -1.0}}) {
    CAPTURE(mode);
    CHECK(ends_after(false, mode, sign) == 3);
    CHECK(ends_after(true, mode, sign) == -1);
  }
}

TEST_CASE("a bound is met by its own value, and by nothing measured never") {
  StopRule high, low;
  high.at_least = 0.5;
  low.at_most = 0.5;
  const auto met = [](const StopRule& rule, double value) {
    return Stopping().met(rule, value, 0);
  };
  CHECK(met(high, 0.5));
  CHECK(met(high, 0.75));
  CHECK_FALSE(met(high, 0.25));
  CHECK(met(low, 0.5));
  CHECK(met(low, 0.25));
  CHECK_FALSE(met(low, 0.75));
  CHECK_FALSE(met(high, missing));
  CHECK_FALSE(met(low, missing));
}

TEST_CASE("patience that was saved and loaded ends a run where unbroken patience does") {
  const double some[] = {0.25, 0.5, missing, 0.75};
  StopRule rule;
  rule.patience = 3;
  rule.min_delta = 0.25;
  for (int run = 0; run < 1 << 12; ++run)  // every run of six values
    for (const bool again : {false, true}) {
      Stopping unbroken, broken;
      for (std::uint32_t e = 0; e < 6; ++e) {
        const double value = some[run >> 2 * e & 3];
        const bool ends = unbroken.met(rule, value, e);
        Stopping next;
        next.load(broken.save());
        broken = next;
        REQUIRE(broken.met(rule, value, e) == ends);
        // Asked twice of an epoch, as where validation is rarer than training.
        if (again) REQUIRE(broken.met(rule, value, e) == ends);
        REQUIRE(broken.save() == unbroken.save());
        if (ends) break;
      }
    }
}
