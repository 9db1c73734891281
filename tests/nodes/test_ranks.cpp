// A node whose state of an epoch is spread over ranks: what is saved of it, and what it reports.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "engine/base/error.h"
#include "engine/session/ranks.h"
#include "engine/state/checkpoint.h"
#include "tests/engine/thread_wire.h"
#include "tests/temporary_folder.h"

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

// Of each rank of a world of so many, what the collective throws; "" where it returns.
std::vector<std::string> each_rank(int size, const std::function<void(Ranks&)>& collective) {
  ThreadWires wires(size);
  std::vector<std::string> said(static_cast<std::size_t>(size));
  wires.each([&](int r) {
    Ranks ranks;
    ranks.world.rank = r;
    ranks.world.size = size;
    ranks.wire = &wires[r];
    said[static_cast<std::size_t>(r)] = message_of([&] { collective(ranks); });
  });
  return said;
}

}  // namespace

TEST_CASE("a rank that has something otherwise than rank 0 says what") {
  const auto said = each_rank(4, [](Ranks& ranks) {
    Json mine = {{"graph", "a"}, {"items", {{"files", 3}}}};
    if (ranks.world.rank == 2) mine["items"]["files"] = 4;
    if (ranks.world.rank == 3) mine["device"] = "gpu";
    require_same(ranks, mine);
  });
  CHECK(said[0].empty());
  CHECK(said[1].empty());
  CHECK(said[2] == "rank 2 has another items: {\"files\":4}, rank 0 has {\"files\":3}");
  CHECK(said[3] == "rank 3 has another device: \"gpu\", rank 0 has null");
  Ranks alone;
  require_same(alone, {{"graph", "a"}});
}

TEST_CASE("every rank hears which one has other weights") {
  for (const int odd : {-1, 0, 1, 2}) {
    const auto said = each_rank(3, [&](Ranks& ranks) {
      require_same_weights(ranks, ranks.world.rank == odd ? "abce" : "abcd");
    });
    for (const std::string& text : said) {
      CAPTURE(odd);
      if (odd < 0)
        CHECK(text.empty());
      else  // where rank 0 is the odd one, the first of the others
        CHECK(contains(text, "rank " + std::to_string(std::max(odd, 1)) + " has other weights"));
    }
  }
  Ranks alone;
  require_same_weights(alone, "abcd");
}

TEST_CASE("a wish of one rank is known to all after the turn") {
  for (const int wishing : {-1, 0, 2}) {
    const auto said = each_rank(3, [&](Ranks& ranks) {
      ranks.wish = ranks.world.rank == wishing;
      if (any_wish(ranks)) throw Error(Exit::usage, "stop");
    });
    for (const std::string& text : said) CHECK(text == (wishing < 0 ? "" : "stop"));
  }
  Ranks alone;
  CHECK_FALSE(any_wish(alone));
  alone.wish = true;
  CHECK(any_wish(alone));
}

TEST_CASE("what ranks tell comes to rank 0 in their order, whatever bytes it holds") {
  std::vector<Json> at_first;
  each_rank(3, [&](Ranks& ranks) {
    const auto all = told(ranks, "end", {{"rank", ranks.world.rank}, {"name", "caf\xe9"}});
    if (ranks.world.rank == 0)
      at_first = all;
    else if (!all.empty())
      throw Error(Exit::usage, "heard something");
  });
  REQUIRE(at_first.size() == 3);
  for (int r = 0; r < 3; ++r) CHECK(at_first[static_cast<std::size_t>(r)]["rank"] == r);
}

TEST_CASE("ranks of one machine read one clock") {
  for (const std::string& text : each_rank(3, [](Ranks& ranks) {
         if (behind_first(ranks) != 0) throw Error(Exit::usage, "another clock");
       }))
    CHECK(text.empty());
}

TEST_CASE("a node of rank 0 alone lets samples through elsewhere, where it has an output") {
  const Spec sum = Spec("sum", "").in("in").ordered().merges(),
             csv = Spec("csv", "").in("in").ordered(),
             table = Spec("table", "").in("in").out("out").ordered(),
             step = Spec("step", "").in("in").ordered().updates("net"),
             plain = Spec("plain", "").in("in").out("out");
  ThreadWires wires(2);
  GraphNode graph;
  graph.path = "node";
  const auto changed = [&](const Spec& spec, int rank) {
    auto ranks = std::make_shared<Ranks>();
    ranks->world.rank = rank;
    ranks->world.size = 2;
    ranks->wire = rank < 0 ? nullptr : &wires[rank];
    PlanNode plan;
    plan.graph = &graph;
    plan.spec = &spec;
    auto node = std::make_unique<Sum>(1);
    const Node* const before = node.get();
    const auto after = of_rank(std::move(node), plan, ranks);
    return after.get() != before;
  };
  for (const Spec* spec : {&sum, &csv, &table, &step, &plain}) CHECK_FALSE(changed(*spec, -1));
  CHECK(changed(sum, 0));
  CHECK(changed(sum, 1));
  for (const Spec* spec : {&csv, &table}) {
    CHECK_FALSE(changed(*spec, 0));
    CHECK(changed(*spec, 1));
  }
  for (const Spec* spec : {&step, &plain}) CHECK_FALSE(changed(*spec, 1));
}

TEST_CASE("an epoch that one rank was cut in is reported by none") {
  ThreadWires wires(3);
  std::vector<std::size_t> reported(3, 99);
  wires.each([&](int r) {
    auto ranks = std::make_shared<Ranks>();
    ranks->world.rank = r;
    ranks->world.size = 3;
    ranks->wire = &wires[r];
    Parted part(std::make_unique<Sum>(r), "node", ranks);
    if (r == 1) return part.hand_over(at_end);  // it never comes to the epoch's end
    Flush end;
    part.flush(end);
    reported[static_cast<std::size_t>(r)] = end.metrics.size();
    part.hand_over(at_end);
    State state;
    if (r == 0) part.save(state);
    if (r == 0 && state.values.at("sum") != 3) reported[1] = 0;
  });
  CHECK(reported == std::vector<std::size_t>{0, 99, 0});
}

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
  parts[1]->hand_over("at/3");
  parts[1]->hand_over(at_end);  // it is through with the run, and rank 0 may not have read yet
  REQUIRE(wires[0].has("part/node/at/3/1"));
  parts[0]->hand_over("at/3");
  State late;
  parts[0]->save(late);
  CHECK(late.values.at("sum") == 5);
  CHECK(saved(at_end) == 5);
}
