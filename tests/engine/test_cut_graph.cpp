// A graph cut to what stands upstream of a node.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "engine/base/error.h"
#include "engine/graph/cut_graph.h"
#include "engine/plan/plan.h"
#include "toy_graph.h"

using namespace sluice;

namespace {

const Spec& sink_spec() {
  static const Spec s = Spec("sink", "Takes.").in("sample").gate().ordered();
  return s;
}

Graph cut(const std::string& from) {
  std::ifstream in(SLUICE_SOURCE_DIR "/tests/golden/hippocampus.json");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto loaded = toys::load(text);
  REQUIRE_MESSAGE(loaded.graph, toys::faults(loaded.diagnostics));
  GraphNode sink;
  sink.path = "sink";
  sink.spec = &sink_spec();
  return cut_graph(std::move(*loaded.graph), from, sink);
}

std::string paths(const Graph& graph) {
  std::string all;
  for (const GraphNode& n : graph.nodes) all += (all.empty() ? "" : " ") + n.path;
  return all;
}

std::string refusal(const std::string& from) {
  try {
    cut(from);
  } catch (const Error& e) {
    CHECK(e.exit == Exit::usage);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a cut graph holds what stands upstream, and the sink that reads it") {
  const Graph graph = cut("batch");
  CHECK(paths(graph) == "train pre/load pre/ras pre/norm pre/cached crop flip zoom batch sink");
  CHECK(graph.models.empty());
  CHECK_FALSE(graph.run.stop.has_value());
  const GraphNode& sink = graph.nodes.back();
  CHECK(graph.nodes[static_cast<std::size_t>(sink.inputs.front().from)].path == "batch");
  Diagnostics diagnostics;
  const auto plan = make_plan(graph, {}, diagnostics);
  REQUIRE_MESSAGE(plan, toys::faults(diagnostics));
  CHECK_FALSE(plan->turns);
}

TEST_CASE("a validation's stream waits for nobody, and keeps the network that it reads") {
  const Graph graph = cut("infer");
  CHECK(paths(graph) == "val vpre/load vpre/ras vpre/norm vpre/cached infer sink");
  CHECK(graph.nodes.front().after.empty());
  CHECK(graph.models.size() == 1);
  Diagnostics diagnostics;
  CHECK(make_plan(graph, {}, diagnostics).has_value());
}

TEST_CASE("a cut graph divides no batch, writes no checkpoint and stops by no metric") {
  auto loaded = toys::load(R"({"run": {"epochs": 3, "shards": 2, "seed": 7,
      "stop": {"metric": "step.loss", "at_most": 1},
      "checkpoint": {"every_epochs": 2, "every_s": 9, "best": "step.loss"}},
    "models": {"net": {"type": "unet"}, "other": {"type": "unet"}},
    "nodes": {"s": {"type": "cases", "root": "r"}, "f": {"type": "model", "in": "s", "net": "net"},
      "step": {"type": "adam", "in": "f", "net": "net"}}})");
  REQUIRE_MESSAGE(loaded.graph, toys::faults(loaded.diagnostics));
  REQUIRE(loaded.graph->run.shards == 2);
  REQUIRE(loaded.graph->run.checkpoint_every_s == 9);
  GraphNode sink;
  sink.path = "sink";
  sink.spec = &sink_spec();
  const Graph graph = cut_graph(std::move(*loaded.graph), "f", sink);
  CHECK(paths(graph) == "s f sink");
  CHECK(graph.run.seed == 7);
  CHECK_FALSE(graph.run.shards);
  CHECK_FALSE(graph.run.stop);
  CHECK(graph.run.checkpoint_every == 0);
  CHECK_FALSE(graph.run.checkpoint_every_s);
  CHECK(graph.run.checkpoint_best.empty());
  REQUIRE(graph.models.size() == 1);
  CHECK(graph.models[0].name == "net");
}

TEST_CASE("a port of a node can be named") {
  const Graph graph = cut("fields.label");
  const GraphInput& in = graph.nodes.back().inputs.front();
  CHECK(graph.nodes[static_cast<std::size_t>(in.from)].path == "fields");
  CHECK(in.from_port == 1);
}

TEST_CASE("what cannot be cut is refused with what was meant") {
  CHECK(refusal("bacth") == "no node is called \"bacth\"; did you mean \"batch\"?");
  CHECK(refusal("pre") ==
        "no node is called \"pre\"; the part's nodes are pre/load, pre/ras, pre/norm, pre/cached");
  CHECK(refusal("fields.lable") ==
        "\"fields\" (split) has no output \"lable\"; did you mean \"label\"?");
  CHECK(refusal("step").starts_with("\"step\" (adam) sends nothing"));
}
