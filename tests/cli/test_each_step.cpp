// A run that ends after any of its steps and goes on at other thread counts and buffer sizes ends
// with the same weights. SLUICE_LONG=1 tries each of 200 steps at each setting.
#include <doctest/doctest.h>

#include "tests/campaign.h"
#include "tests/cli/tiny_training.h"

using nlohmann::json;

namespace {

struct Setting {
  const char* threads;
  const char* buffer;
};
const Setting settings[] = {{"1", "2"},  {"1", "4"}, {"1", "32"}, {"2", "2"}, {"2", "4"},
                            {"2", "32"}, {"8", "2"}, {"8", "4"},  {"8", "32"}};

// 200 steps in 10 epochs, validated after each second one, with shuffle, filter-like crops of
// several and batches that do not come out even.
std::string graph() {
  json g = json::parse(tiny_training);
  g["run"]["epochs"] = 10;
  g["run"]["step_threads"] = 1;
  g["vars"]["buffer"] = 4;
  g["nodes"]["train"]["num_samples"] = 20;
  g["nodes"]["train"]["shuffle"] = true;
  g["nodes"]["crop"] = {{"type", "rand_spatial_crop_samples"},
                        {"in", "noise"},
                        {"roi_size", {8, 8, 8}},
                        {"random_size", false},
                        {"num_samples", 2}};
  g["nodes"]["buffer"] = {{"type", "buffer"}, {"in", "crop"}, {"size", "@buffer"}};
  g["nodes"]["batch"]["in"] = "buffer";
  g["nodes"]["val"]["every_epochs"] = 2;
  return g.dump();
}

}  // namespace

TEST_CASE(
    "a run that ends after any step goes on to the same weights, at any threads and buffers") {
  const TinyTraining t;
  t.folder.write("g.json", graph());
  REQUIRE(t.run("--out whole").code == 0);
  const std::string weights = t.weights("whole");
  const auto summary = t.json_of("whole/summary.json");
  REQUIRE(summary.value("steps", 0) == 200);
  const std::uint64_t all = 199 * std::size(settings);
  for (campaign::Cases cases("each_step", 5, all); cases.next();) {
    const std::uint64_t i =
        campaign::at_length() ? cases.index() : (cases.index() * 457 + campaign::seed()) % all;
    const std::uint64_t step = 1 + i % 199;
    const auto [threads, buffer] = settings[(i / 199 + i) % std::size(settings)];
    const auto with = [&](const std::string& more) {
      return t.run(more + " --threads " + threads + " --set vars.buffer=" + buffer);
    };
    CAPTURE(step);
    CAPTURE(threads);
    CAPTURE(buffer);
    const auto first = with("--out part --steps " + std::to_string(step));
    REQUIRE_MESSAGE(first.code == 0, first.err);
    CHECK(t.json_of("part/summary.json").value("steps", std::uint64_t{0}) == step);
    const auto rest = t.run("--resume part --set vars.buffer=4");
    REQUIRE_MESSAGE(rest.code == 0, rest.err);
    CHECK(t.weights("part") == weights);
    CHECK(t.json_of("part/summary.json").value("steps", 0) == 200);
    // Each step is in the metrics once.
    CHECK(t.folder.read("part/metrics.jsonl") == t.folder.read("whole/metrics.jsonl"));
    std::filesystem::remove_all(t.folder.path / "part");
  }
}

TEST_CASE("the weights are the same at any number of data threads and any size of buffers") {
  const TinyTraining t;
  t.folder.write("g.json", graph());
  std::string weights;
  for (campaign::Cases cases("determinism", 3, 64); cases.next();) {
    const char* const threads[] = {"2", "1", "8", "16"};
    const char* const buffers[] = {"4", "32", "2"};
    const auto i = cases.index();
    const auto r =
        t.run("--out run --overwrite --threads " + std::string(threads[i % 4]) +
              " --set vars.buffer=" + buffers[i % 3] + (i % 5 == 4 ? " --set run.fuse=false" : ""));
    REQUIRE_MESSAGE(r.code == 0, r.err);
    if (weights.empty()) weights = t.weights("run");
    CHECK(t.weights("run") == weights);
  }
}
