#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "engine/judge/dot.h"
#include "engine/judge/dot_text.h"
#include "engine/judge/svg.h"
#include "toy_graph.h"

using namespace sluice;

static const std::string golden = SLUICE_SOURCE_DIR "/tests/golden/";

static std::string file(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// The text of a golden file; with SLUICE_UPDATE_GOLDEN=1 the file is written first.
static std::string expected(const std::string& name, const std::string& found) {
  if (std::getenv("SLUICE_UPDATE_GOLDEN")) std::ofstream(golden + name) << found;
  return file(golden + name);
}

struct Drawn {
  toys::Loaded loaded;
  std::optional<Plan> plan;
  explicit Drawn(const std::string& text) : loaded(toys::load(text)) {
    REQUIRE_MESSAGE(loaded.graph, toys::faults(loaded.diagnostics));
    plan = make_plan(*loaded.graph, PlanOptions{}, loaded.diagnostics);
    REQUIRE_MESSAGE(plan, toys::faults(loaded.diagnostics));
  }
};

static std::string measured(const Drawn& d, const std::string& profile) {
  DotOptions options;
  options.figures = Figures::from_json(*d.plan, Json::parse(profile));
  return to_dot(*d.plan, options);
}

TEST_CASE("The picture of a training graph is that of the golden file") {
  const Drawn d(file(golden + "hippocampus.json"));
  const std::string dot = to_dot(*d.plan);
  CHECK(dot == expected("hippocampus.dot", dot));
}

TEST_CASE("The measured picture is that of the golden file") {
  const Drawn d(file(golden + "hippocampus.json"));
  const std::string dot = measured(d, file(golden + "hippocampus.profile.json"));
  CHECK(dot == expected("hippocampus.measured.dot", dot));
}

TEST_CASE("A profile of another graph, or none at all, does no harm") {
  const Drawn d(file(golden + "hippocampus.json"));
  const std::string plain = to_dot(*d.plan);
  CHECK(measured(d, R"({"nodes": {"other": {"busy": 1}}})") == plain);
  CHECK(measured(d, R"({"nodes": 3})") == plain);
  CHECK(measured(d, "[]") == plain);
  measured(d, R"({"nodes": {"crop": 1, "flip": {"busy": "x", "rate": null}}})");
}

TEST_CASE("The thick path of a measured picture ends at the node that limits, which is red") {
  const Drawn d(file(golden + "hippocampus.json"));
  const std::string dot = measured(d, file(golden + "hippocampus.profile.json"));
  const auto edge = [&](const std::string& ends) {
    const auto at = dot.find(ends + " [");
    REQUIRE(at != std::string::npos);
    const std::string line = dot.substr(at, dot.find('\n', at) - at);
    const auto width = line.find("penwidth=");
    return width == std::string::npos ? 0 : std::stod(line.substr(width + 9));
  };
  CHECK(edge("\"train\" -> \"pre/load\"") > 4);
  CHECK(edge("\"pre/load\" -> \"pre/ras\"") < 1.5);
  CHECK(edge("\"val\" -> \"vpre/load\"") == 0);  // not measured
  const auto red = dot.find("color=\"#C0392B\", fillcolor");
  REQUIRE(red != std::string::npos);
  CHECK(dot.rfind("\"pre/load\" [", red) > dot.rfind("];\n", red));
  CHECK(dot.find("`pre/load` limits: 2 of 2 io threads busy 97 %") != std::string::npos);
}

TEST_CASE("A picture of a run that stands still shows what waits and which credits are out") {
  const Drawn d(file(golden + "hippocampus.json"));
  Json profile = Json::parse(file(golden + "hippocampus.profile.json"));
  profile["nodes"]["pre/load"]["queue"] = 3;
  profile["nodes"]["train"]["credits"]["out"] = 3;
  DotOptions options;
  options.figures = Figures::from_json(*d.plan, profile);
  options.state = "stalled";
  const std::string dot = to_dot(*d.plan, options);
  CHECK(dot.find("41.8/s  q 3/4") != std::string::npos);
  CHECK(dot.find("cases, 3/4 credits") != std::string::npos);
  CHECK(dot.find(">stalled</font>") != std::string::npos);
  CHECK(measured(d, file(golden + "hippocampus.profile.json")).find("q 4/4") != std::string::npos);
}

TEST_CASE("Links lead to the line in the graph file, from where the picture lies") {
  const Drawn d(file(golden + "hippocampus.json"));
  CHECK(to_dot(*d.plan).find("URL=\"g.json#L6\"") != std::string::npos);
  DotOptions options;
  options.base = "pictures/new";
  CHECK(to_dot(*d.plan, options).find("URL=\"../../g.json#L6\"") != std::string::npos);
}

TEST_CASE("A link to a file holds no character that a URL or XML may not hold") {
  CHECK(dot::url("R&D/a<b>\"#1 ?.json") == "R%26D/a%3Cb%3E%22%231%20%3F.json");
  CHECK(dot::url("../\xc3\xa4-1.2_~.json") == "../%C3%A4-1.2_~.json");
  CHECK(dot::url("c:100%") == "c%3A100%25");
}

TEST_CASE("A node that was of another type in the run has no figures") {
  const Drawn d(R"({ "nodes": { "in": { "type": "cases", "root": "x" },
                                "save": { "type": "save", "in": "in" } } })");
  const auto known = [&](const char* profile) {
    const Figures f = Figures::from_json(*d.plan, Json::parse(profile));
    return std::pair{f.nodes[0].known, f.nodes[1].known};
  };
  CHECK(known(R"({"nodes": {"in": {"type": "cases"}, "save": {"type": "flip", "busy": 1}}})") ==
        std::pair{true, false});
  CHECK(known(R"({"nodes": {"in": {"busy": 1}, "save": {"type": 3}}})") == std::pair{true, false});
}

TEST_CASE("No control character of a graph's text is in its picture") {
  const Drawn d(R"({ "name": "a\u001b[31m", "desc": "a\u0007 bell\nand a line", "nodes": {
    "edge": { "type": "cases", "root": "x\u0000y", "desc": "\u009b2J" },
    "node": { "type": "save", "in": "edge" } } })");
  const std::string dot = to_dot(*d.plan);
  for (const std::string& text : {dot, svg_of_dot(dot)}) {
    for (const char c : text) CHECK((static_cast<unsigned char>(c) >= 32 || c == '\n'));
    CHECK(text.find("\xc2\x9b") == std::string::npos);
    CHECK(text.find("x1b[31m") != std::string::npos);
    CHECK(text.find("bell") != std::string::npos);
  }
}

TEST_CASE("Fields are said to go on only where some were left out") {
  Drawn d(R"({ "nodes": { "in": { "type": "cases", "root": "x" },
                          "save": { "type": "save", "in": "in" } } })");
  const auto drawn = [&](std::initializer_list<const char*> names) {
    auto& fields = d.plan->nodes[0].flow.fields;
    fields.clear();
    for (const char* name : names) fields.emplace_back().name = name;
    return dot::changed_fields(*d.plan, 0, 3).front();
  };
  CHECK(drawn({"a_field_with_a_name_of_its_own"}) == "a_field_with_a_name_of_its_own");
  CHECK(drawn({"a_field_with_a_name_of_its_own", "label"}) ==
        "a_field_with_a_name_of_its_own, ...");
  CHECK(drawn({"image", "label", "previous", "prediction"}) == "image, label, previous, ...");
}
