// A node whose state of an epoch is spread over ranks: what is saved of it, and what it reports.
#include <doctest/doctest.h>

#include "engine/session/ranks.h"
#include "engine/state/checkpoint.h"
#include "tests/engine/thread_wire.h"

using namespace sluice;

namespace {

struct Sum final : Node {
  int sum = 0;
  explicit Sum(int begin) : sum(begin) {}
  void process(Firing&) override {}
  void flush(Flush& end) override { end.metric("sum", std::exchange(sum, 0)); }
  void save(State& state) const override { state.values["sum"] = sum; }
  void load(const State& state) override { sum = state.values.at("sum"); }
  void merge(const State& part) override { sum += part.values.at("sum").get<int>(); }
};

}  // namespace

TEST_CASE(
    "a node in parts is saved as a whole while its epoch goes on, and still reports it once") {
  ThreadWires wires(2);
  std::vector<Sum*> sums;
  std::vector<std::unique_ptr<Parted>> parts;
  for (int r = 0; r < 2; ++r) {
    auto ranks = std::make_shared<Ranks>();
    ranks->world.rank = r;
    ranks->world.size = 2;
    ranks->wire = &wires[r];
    auto sum = std::make_unique<Sum>(r == 0 ? 1 : 2);
    sums.push_back(sum.get());
    parts.push_back(std::make_unique<Parted>(std::move(sum), "node", ranks));
  }
  const auto saved = [&](const std::string& when) {
    parts[1]->hand_over(when);
    parts[0]->hand_over(when);
    State state;
    parts[0]->save(state);
    return state.values.at("sum").get<int>();
  };
  CHECK(saved("at/1") == 3);
  CHECK(sums[0]->sum == 1);
  sums[1]->sum += 10;
  CHECK(saved("at/2") == 13);
  CHECK_FALSE(wires[0].has("part/node/at/1/1"));  // or they would pile up
  std::vector<Flush> ends(2);
  wires.each(
      [&](int r) { parts[static_cast<std::size_t>(r)]->flush(ends[static_cast<std::size_t>(r)]); });
  for (const Flush& end : ends) {
    REQUIRE(end.metrics.size() == 1);
    CHECK(end.metrics.front().second == 13);
  }
  sums[0]->sum = 5;
  CHECK(saved(at_end) == 5);
}
