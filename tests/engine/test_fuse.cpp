// Which transforms the plan does together.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "engine/judge/dot.h"
#include "engine/plan/plan.h"

using namespace sluice;

namespace {

struct P {
  std::string device = "cuda";
  std::int64_t size = 2;
  bool drop_last = false;
};

Spec step(const char* name, Fuses fuses = Fuses::no) {
  return Spec(name, "").in("sample").out("sample").fuses(fuses).any_device().passes();
}

const Catalogue& types() {
  static const Catalogue all = [] {
    Catalogue c;
    c.add(Spec("cases", "").out("case").source().passes());
    c.add(step("flip", Fuses::moves));
    c.add(step("zoom", Fuses::resamples));
    c.add(step("noise", Fuses::values));
    c.add(step("pick", Fuses::fields));
    c.add(step("blur"));
    c.add(step("crop", Fuses::moves).param("size", &P::size, "").expands("size"));
    c.add(step("cache").cache());
    c.add(step("to_device").param("device", &P::device, "").gate().moves("device"));
    c.add(step("batch", Fuses::batches)
              .param("size", &P::size, "")
              .param("drop_last", &P::drop_last, "")
              .gathers("size", "drop_last")
              .gate());
    c.add(Spec("sink", "").in("sample").any_device());
    return Catalogue::from_json(c.to_json());  // as `check` has it
  }();
  return all;
}

// "cases flip zoom": one after the other, each called like its type and its place.
std::string chain(const std::string& words, const std::string& run = "{}",
                  const std::string& more = "") {
  std::string nodes, before, word;
  int n = 0;
  for (std::istringstream in(words); in >> word;) {
    const std::string name = word + std::to_string(n++);
    nodes += std::string(nodes.empty() ? "" : ",\n") + "\"" + name + "\": {\"type\": \"" + word +
             "\"" + (before.empty() ? "" : ", \"in\": \"" + before + "\"") + "}";
    before = name;
  }
  return R"({"name": "g", "run": )" + run + ", \"nodes\": {" + nodes + more + "}}";
}

std::string picture(const std::string& graph_text) {
  Diagnostics diagnostics;
  auto graph =
      load_graph(parse_document("g.json", graph_text, diagnostics), types(), {}, diagnostics);
  auto plan = graph ? make_plan(*graph, {}, diagnostics) : std::nullopt;
  REQUIRE(plan);
  return to_dot(*plan);
}

std::string runs(const std::string& graph_text) {
  Diagnostics diagnostics;
  auto graph =
      load_graph(parse_document("g.json", graph_text, diagnostics), types(), {}, diagnostics);
  auto plan = graph ? make_plan(*graph, {}, diagnostics) : std::nullopt;
  for (const auto& d : diagnostics.all()) INFO(d.message);
  REQUIRE(plan);
  std::string out;
  for (const PlanRun& run : plan->runs) {
    out += (out.empty() ? "" : "; ") + text(*plan, run);
    for (int i : run.nodes) {
      const PlanNode& n = plan->nodes[static_cast<std::size_t>(i)];
      CHECK((n.leaves == Leaves::nothing) == (i == run.nodes.back()));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("Transforms one behind the other are done together") {
  CHECK(runs(chain("cases flip flip sink")) == "flip1 + flip2: one copy");
  CHECK(runs(chain("cases zoom flip sink")) == "zoom1 + flip2: one resampling");
  CHECK(runs(chain("cases crop flip zoom zoom sink")) ==
        "crop1 + flip2 + zoom3 + zoom4: 2 resamplings");
  CHECK(runs(chain("cases flip sink")) == "");
  CHECK(runs(chain("cases flip blur zoom sink")) == "");
  CHECK(runs(chain("cases flip zoom blur flip flip sink")) ==
        "flip1 + zoom2: one resampling; flip4 + flip5: one copy");
  CHECK(runs(chain("cases flip zoom cache flip flip sink")) ==
        "flip1 + zoom2: one resampling; flip4 + flip5: one copy");
}

TEST_CASE("A 1:n node begins a run and never stands inside one") {
  CHECK(runs(chain("cases flip crop flip sink")) == "crop2 + flip3: one copy");
  CHECK(runs(chain("cases crop crop sink")) == "");
}

TEST_CASE("With run.lazy all resamplings of a run are one, and run.fuse = false leaves all alone") {
  CHECK(runs(chain("cases zoom flip zoom sink", R"({"lazy": true})")) ==
        "zoom1 + flip2 + zoom3: one resampling");
  CHECK(runs(chain("cases zoom flip zoom sink", R"({"fuse": false})")) == "");
}

TEST_CASE("A batch belongs to the run on a device, and behind a cache, which holds the volumes") {
  CHECK(runs(chain("cases flip zoom noise flip batch sink")) ==
        "flip1 + zoom2 + noise3 + flip4: one resampling");
  CHECK(runs(chain("cases to_device flip zoom noise flip batch sink")) ==
        "flip2 + zoom3 + noise4 + flip5 + batch6: one resampling of the whole batch");
  CHECK(runs(chain("cases cache crop flip noise batch sink")) ==
        "crop2 + flip3 + noise4 + batch5: one copy of the whole batch");
  CHECK(runs(chain("cases cache blur flip batch sink")) == "");
  CHECK(runs(chain("cases noise noise sink")) == "noise1 + noise2: one copy");
}

TEST_CASE("What only chooses fields belongs to a run that goes on behind it") {
  CHECK(runs(chain("cases flip pick flip sink")) == "flip1 + pick2 + flip3: one copy");
  CHECK(runs(chain("cases pick flip flip pick sink")) == "flip2 + flip3: one copy");
  CHECK(runs(chain("cases flip pick sink")) == "");
  CHECK(runs(chain("cases cache flip pick batch sink")) ==
        "flip2 + pick3 + batch4: one copy of the whole batch");
}

TEST_CASE("A cache keeps narrow volumes where all that read it can widen them") {
  const auto narrow = [](const std::string& graph_text) {
    Diagnostics diagnostics;
    auto graph =
        load_graph(parse_document("g.json", graph_text, diagnostics), types(), {}, diagnostics);
    auto plan = graph ? make_plan(*graph, {}, diagnostics) : std::nullopt;
    REQUIRE(plan);
    return std::any_of(plan->nodes.begin(), plan->nodes.end(),
                       [](const auto& n) { return n.narrow; });
  };
  CHECK(narrow(chain("cases cache crop blur")));
  CHECK(narrow(chain("cases cache batch")));
  CHECK_FALSE(narrow(chain("cases cache blur flip flip")));
  CHECK_FALSE(narrow(chain("cases cache crop", R"({"fuse": false})")));
  CHECK_FALSE(
      narrow(chain("cases cache flip", "{}", R"(, "k": {"type": "sink", "in": "cache1"})")));
}

TEST_CASE("A sample that two nodes read is finished") {
  const std::string more =
      R"(, "other": {"type": "sink", "in": "flip1"}, "more": {"type": "sink", "in": "zoom3"})";
  CHECK(runs(chain("cases flip flip zoom", "{}", more)) == "flip2 + zoom3: one resampling");
}

TEST_CASE("Nodes that judge a failure in different ways are not one run") {
  const std::string flip = R"({"type": "flip", "in": )";
  CHECK(runs(R"({"name": "g", "nodes": {"cases": {"type": "cases"},
    "a": )" + flip +
             R"("cases", "on_error": "quarantine"}, "b": )" + flip + R"("a"},
    "c": )" + flip +
             R"("b"}, "k": {"type": "sink", "in": "c"}}})") == "b + c: one copy");
}

TEST_CASE("The picture joins what is done together by a plus, without an arrow") {
  const std::string dot = picture(chain("cases zoom flip sink"));
  const auto begin = dot.find("\"zoom1\" -> \"flip2\"");
  REQUIRE(begin != std::string::npos);
  const std::string line = dot.substr(begin, dot.find('\n', begin) - begin);
  CHECK(line.find("label=\"  +  \", arrowhead=none, ") != std::string::npos);
  CHECK(line.find("done together: zoom1 + flip2: one resampling") != std::string::npos);
  CHECK(dot.find("label=\"  +  \"", begin + line.size()) == std::string::npos);
}
