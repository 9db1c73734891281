#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "engine/dot.h"
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

TEST_CASE("The picture of a training graph is that of the golden file") {
  const Drawn d(file(golden + "hippocampus.json"));
  const std::string dot = to_dot(*d.plan);
  CHECK(dot == expected("hippocampus.dot", dot));
}

TEST_CASE("The measured picture is that of the golden file") {
  const Drawn d(file(golden + "hippocampus.json"));
  const std::string dot = to_dot(*d.plan, Json::parse(file(golden + "hippocampus.profile.json")));
  CHECK(dot == expected("hippocampus.measured.dot", dot));
}

TEST_CASE("A profile of another graph, or none at all, does no harm") {
  const Drawn d(file(golden + "hippocampus.json"));
  const std::string plain = to_dot(*d.plan);
  CHECK(to_dot(*d.plan, Json::parse(R"({"nodes": {"other": {"busy": 1}}})")) == plain);
  CHECK(to_dot(*d.plan, Json::parse(R"({"nodes": 3})")) == plain);
  CHECK(to_dot(*d.plan, Json::parse("[]")) == plain);
  to_dot(*d.plan, Json::parse(R"({"nodes": {"crop": 1, "flip": {"busy": "x", "rate": null}}})"));
}
