// Graphs that read well and cannot run as they stand: one mistake each, and its one diagnostic.
// tests/cli/test_messages.cpp holds the messages' text, of the types that ship.
#include <doctest/doctest.h>

#include "engine/plan/plan.h"
#include "tests/engine/toy.h"
#include "toy_graph.h"

using namespace sluice;

namespace {

const std::string loaded_cases =
                      R"("s": {"type": "cases", "root": "r"}, "l": {"type": "load", "in": "s"}, )",
                  train = loaded_cases +
                          R"("b": {"type": "batch", "in": "l", "size": 2},
                             "fwd": {"type": "model", "in": "b", "net": "net"},
                             "step": {"type": "adam", "in": "fwd", "net": "net"}, )";

// Code and path of each diagnostic, a line each; `top`: what stands in front of "nodes".
std::string refused(const std::string& nodes, const std::string& top = "",
                    bool with_message = false, const PlanOptions& options = {}) {
  Json models = Json::object();
  for (const char* name : {"net", "other"})
    if (nodes.find("\"net\": \"" + std::string(name)) != nodes.npos)
      models[name] = {{"type", "unet"}};
  auto read =
      toys::load("{" + top + "\"models\": " + models.dump() + ", \"nodes\": {" + nodes + "}}");
  REQUIRE_MESSAGE(read.graph, toys::faults(read.diagnostics));
  const auto plan = make_plan(*read.graph, options, read.diagnostics);
  CHECK(plan.has_value() == read.diagnostics.ok());
  std::string all;
  for (const Diagnostic& d : read.diagnostics.all())
    all += d.code + " " + d.path + (with_message ? ": " + d.message : "") + "\n";
  return all;
}

}  // namespace

TEST_CASE("samples that do not correspond are not joined") {
  CHECK(refused(loaded_cases + R"("k": {"type": "save", "in": "l"})").empty());
  CHECK(refused(loaded_cases + R"("m": {"type": "mask"}, "k": {"type": "save", "in": "m"})") ==
        "SL0401 nodes.m\n");
  CHECK(refused(loaded_cases + R"("s2": {"type": "cases", "root": "q"},
      "j": {"type": "join", "in": {"image": "l", "label": "s2"}}, "k": {"type": "save", "in": "j"})") ==
        "SL0402 nodes.j.in\n");
  CHECK(refused(loaded_cases + R"("c": {"type": "crop", "in": "l", "num_samples": 2},
      "j": {"type": "join", "in": {"image": "l", "label": "c"}}, "k": {"type": "save", "in": "j"})") ==
        "SL0404 nodes.j.in\n");
  std::string crops, last = "l";
  for (const char* name : {"c1", "c2", "c3", "c4", "c5"}) {
    crops += "\"" + std::string(name) + R"(": {"type": "crop", "in": ")" + last + "\"}, ";
    last = name;
  }
  CHECK(refused(loaded_cases + crops + R"("k": {"type": "save", "in": ")" + last + "\"}") ==
        "SL0403 nodes.c5\n");
}

TEST_CASE("a network that is trained has one updater, in one stream, and readers of its turns") {
  CHECK(refused(train + R"("k": {"type": "save", "in": "fwd"})").empty());
  CHECK(refused(train + R"("again": {"type": "adam", "in": "fwd", "net": "net"})") ==
        "SL0410 nodes.again.net\n");
  CHECK(refused(train + R"("loose": {"type": "model", "in": "b", "net": "net"},
      "k": {"type": "save", "in": "loose"})") == "SL0411 nodes.loose.net\n");
  CHECK(refused(loaded_cases + R"("fwd": {"type": "model", "in": "l", "net": "net"},
      "b": {"type": "batch", "in": "fwd", "size": 1},
      "step": {"type": "adam", "in": "b", "net": "net"})") == "SL0412 nodes.b\n");
  const std::string reader = R"("v": {"type": "cases", "root": "q" AFTER},
      "w": {"type": "sliding_window", "in": "v", "net": "net"}, "k": {"type": "save", "in": "w"})";
  const auto after = [&](const std::string& text) {
    std::string with = train + reader;
    return with.replace(with.find(" AFTER"), 6, text);
  };
  CHECK(refused(after(R"(, "after": "step")")).empty());
  CHECK(refused(after("")) == "SL0413 nodes.v\n");
  CHECK(refused(loaded_cases + R"("a": {"type": "model", "in": "l", "net": "net"},
      "b": {"type": "model", "in": "a", "net": "other"}, "sa": {"type": "adam", "in": "b", "net": "net"},
      "sb": {"type": "adam", "in": "b", "net": "other"}, "v": {"type": "cases", "root": "q"},
      "w": {"type": "sliding_window", "in": "v", "net": "other"}, "k": {"type": "save", "in": "w"})",
                "", true) ==
        "SL0413 nodes.v: \"v\" feeds a reader of network \"other\", which is being trained\n");
  CHECK(refused(after(R"(, "after": "fwd")")) == "SL0414 nodes.v.after\n");
  CHECK(refused(R"("s": {"type": "cases", "root": "r", "after": "step"},
      "fwd": {"type": "model", "in": "s", "net": "net"},
      "step": {"type": "adam", "in": "fwd", "net": "net"})") == "SL0415 nodes.s.after\n");
  CHECK(refused(train + R"("s2": {"type": "cases", "root": "q"},
      "fwd2": {"type": "model", "in": "s2", "net": "other"},
      "step2": {"type": "adam", "in": "fwd2", "net": "other"})") == "SL0415 nodes.step2\n");
  CHECK(refused(loaded_cases + R"("fwd": {"type": "model", "in": "l", "net": "net"},
      "c": {"type": "crop", "in": "fwd", "num_samples": 2},
      "more": {"type": "model", "in": "c", "net": "net"},
      "step": {"type": "adam", "in": "more", "net": "net"})") == "SL0416 nodes.more.net\n");
}

TEST_CASE("a cache keeps nothing that another epoch would make anew") {
  const auto behind = [](const std::string& node) {
    return refused(loaded_cases + "\"x\": " + node + R"(, "kept": {"type": "cache", "in": "x"},
        "k": {"type": "save", "in": "kept"})");
  };
  CHECK(behind(R"({"type": "normalize", "in": "l"})").empty());
  CHECK(behind(R"({"type": "flip", "in": "l"})") == "SL0420 nodes.kept\n");
  CHECK(behind(R"({"type": "batch", "in": "l"})") == "SL0420 nodes.kept\n");
}

TEST_CASE("a segment has the credits that those behind it hold back") {
  const auto buffered = [](int size) {
    return refused(loaded_cases + R"("ahead": {"type": "buffer", "in": "l", "size": )" +
                   std::to_string(size) + R"(}, "b": {"type": "batch", "in": "ahead", "size": 4},
        "k": {"type": "save", "in": "b"})");
  };
  CHECK(buffered(4).empty());
  CHECK(buffered(3) == "SL0430 nodes.ahead.size\n");
}

TEST_CASE("a run stops by a metric that is there, and divides a batch that is large enough") {
  const auto stop = [](const std::string& metric) {
    return refused(train + R"("k": {"type": "save", "in": "fwd"})",
                   R"("run": {"stop": {"metric": ")" + metric + R"(", "at_least": 1}}, )");
  };
  CHECK(stop("step.loss").empty());
  CHECK(stop("b.loss") == "SL0440 run.stop.metric\n");
  const auto shards = [](const std::string& run) {
    return refused(train + R"("k": {"type": "save", "in": "fwd"})", "\"run\": {" + run + "}, ");
  };
  CHECK(shards(R"("shards": 2, "step_threads": 1)").empty());
  CHECK(shards(R"("shards": 2)") == "SL0451 run.shards\n");
  CHECK(shards(R"("shards": 3, "step_threads": 1)") == "SL0450 nodes.b.size\n");
}

TEST_CASE("several processes train networks one behind the other, and metrics of the first alone") {
  const std::string nodes = train + R"("fwd2": {"type": "model", "in": "b", "net": "other"},
      "step2": {"type": "adam", "in": "fwd2", "net": "other"})";
  const std::string run = R"("run": {"shards": 2, "step_threads": 1}, )";
  const auto on = [](int processes) {
    PlanOptions options;
    options.processes = processes;
    return options;
  };
  CHECK(refused(nodes, run).empty());
  for (const int processes : {2, 3})
    CHECK(refused(nodes, run, true, on(processes)) ==
          "SL0450 nodes.fwd2: run.shards is 2, but \"fwd\" and \"fwd2\" begin training side by "
          "side\n");
  const std::string measured = train + R"("k": {"type": "dice", "in": "fwd"})";
  CHECK(refused(measured).empty());
  CHECK(refused(measured, run) == "SL0453 nodes.k.type\n");
}

TEST_CASE("a node that nothing reads may be meant for one that reads beside it") {
  auto read = toys::load("{\"nodes\": {" + loaded_cases +
                         R"("f": {"type": "flip", "in": "l"}, "k": {"type": "save", "in": "l"}}})");
  REQUIRE(read.graph);
  make_plan(*read.graph, {}, read.diagnostics);
  REQUIRE(read.diagnostics.all().size() == 1);
  CHECK(read.diagnostics.all()[0].path == "nodes.f");
  CHECK(read.diagnostics.all()[0].hint == "should \"k\" read it instead of \"l\"?");
}

TEST_CASE("a metric that a node waits for must be known between two turns") {
  const auto refusal = [](const std::string& metric) {
    toy::Builder b;
    const int fwd = b.add("fwd", toy::reader_spec(), toy::forward, {{b.source("s", 3), 0}});
    b.add("step", toy::updater_spec().param("metric", &toy::P::net, "").watches("metric"),
          toy::forward, {{fwd, 0}}, {{"metric", metric}});
    b.plan();
    std::string all;
    for (const Diagnostic& d : b.diagnostics.all()) all += d.code + " " + d.path + "\n";
    return all;
  };
  CHECK(refusal("step.loss").empty());
  CHECK(refusal("").empty());
  CHECK(refusal("fwd.loss") == "SL0440 nodes.step.metric\n");
  CHECK(refusal("loss") == "SL0440 nodes.step.metric\n");
}
