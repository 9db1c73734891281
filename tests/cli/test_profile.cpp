// `sluice profile`: its questions and answers. What they are worth is measured by
// tools/bench/unbalanced.cpp, never here: these tests do not look at a clock.
#include <doctest/doctest.h>

#include "tests/cli/tiny_training.h"

using nlohmann::json;
using shell::Folder;

namespace {

// Balls that `nodes` change, so many epochs of them.
struct Graph {
  explicit Graph(const std::string& nodes, int epochs = 3)
      : file(folder
                 .write("g.json", R"({ "run": { "epochs": )" + std::to_string(epochs) + R"( },
  "nodes": {
    "made":  { "type": "synthetic", "num_samples": 6, "spatial_size": [32, 32, 32],
               "rad_max": 10, "rad_min": 4 },
)" + nodes + "} }")
                 .string()) {}
  Graph()
      : Graph(R"(
    "norm":  { "type": "normalize_intensity", "in": "made" },
    "kept":  { "type": "cache", "in": "norm" },
    "flip":  { "type": "rand_flip", "in": "kept", "prob": 1.0, "spatial_axis": 0 },
    "noise": { "type": "rand_gaussian_noise", "in": "flip", "keys": "image", "prob": 1.0 },
    "batch": { "type": "batch", "in": "noise", "size": 2 })") {}
  Folder folder;
  std::string file;
  shell::Result profile(const std::string& more) const {
    return shell::run("$SLUICE profile " + file + " --quiet " + more);
  }
};

}  // namespace

TEST_CASE("profile answers what-if questions, and a second run measures them") {
  Graph g;
  const auto r = g.profile(
      "--json --verify --isolate --what-if free:noise --what-if threads=1 "
      "--what-if batch.size=3 --what-if noise.threads=1");
  INFO(r.err);
  REQUIRE(r.code == 0);
  const json j = json::parse(r.out);
  const json& nodes = j.at("nodes");
  // The others were passed by the cache, but for those that came before an entry was complete.
  const int normed = nodes.at("norm").at("items"), passed = nodes.at("norm").at("passed");
  CHECK(normed + passed == 18);
  CHECK(normed >= 6);
  CHECK(passed >= 6);
  CHECK(nodes.at("noise").at("items") == 18);
  CHECK(nodes.at("made").at("epoch_size") == 6);
  CHECK(nodes.at("norm").at("mb_most").get<double>() > 0.1);  // an image and a label of 32^3
  CHECK(nodes.at("noise").at("p50_ms") <= nodes.at("noise").at("p95_ms"));
  CHECK(j.at("shares").at("seconds").contains("data"));
  CHECK(!j.at("verdict").get<std::string>().empty());
  const json& answers = j.at("what_if");
  REQUIRE(answers.size() == 4);
  // It changes values alone, so it is left out, and the rest of its run stays together.
  CHECK(answers.at(0).at("left_out") == json({"noise"}));
  for (const json& a : answers) {
    INFO(a.dump());
    CHECK(a.at("before").get<double>() > 0);
    CHECK(a.at("predicted").get<double>() > 0);
    CHECK(a.at("measured").get<double>() > 0);
  }
  CHECK(r.err.find("SL0319") == r.err.rfind("SL0319"));  // warned once
  const json& alone = j.at("alone");
  CHECK(alone.at("noise").at("1").get<double>() > 0);
  CHECK_FALSE(alone.contains("made"));
  CHECK_FALSE(alone.contains("kept"));
}

TEST_CASE("profile refuses a change that names nothing, before it runs") {
  Graph g;
  const auto refused = [&](const std::string& change) {
    const auto r = g.profile("--what-if " + change);
    CHECK(r.code == 2);
    CHECK(r.out.empty());
    return r.err;
  };
  CHECK(refused("free:nosie").find("no such node") != std::string::npos);
  CHECK(refused("quick").find("want threads=N") != std::string::npos);
  for (const char* change : {"threads=-1", "threads=0", "threads=abc", "threads=2x",
                             "io_threads=", "threads=9999999999"})
    CHECK(refused(change).find("a number of threads is positive") != std::string::npos);
}

TEST_CASE("profile refuses what says how results are kept where none are") {
  Graph g;
  for (const char* option : {"--trace", "--overwrite"}) {
    const auto r = g.profile(option);
    CHECK(r.code == 2);
    CHECK_MESSAGE(r.err.find("requires --out") != std::string::npos, r.err);
  }
}

TEST_CASE("profile says what is wrong with a changed graph") {
  Graph g;
  const auto r = g.profile("--what-if batch.size=0");
  CHECK(r.code == 2);
  CHECK(r.err.find("\"size\": expected") != std::string::npos);
}

TEST_CASE("profile says what the process used, and nothing of GPUs where there is no driver") {
  Graph g;
  const json j = json::parse(g.profile("--json").out);
  CHECK(j["process"]["cores"].get<double>() > 0);
  CHECK(j["process"]["most_mb"].get<double>() > 10);
  CHECK(j["process"]["minor_faults"].get<std::int64_t>() >= 0);
}

TEST_CASE("profile watches the GPU through the driver and judges it by the guide's bands") {
  Graph g;
  const std::string fake = "export LD_LIBRARY_PATH=" SLUICE_BINARY_DIR "/fake_nvml; ";
  const auto r = shell::run(fake + "$SLUICE profile " + g.file + " --quiet --json");
  REQUIRE(r.code == 0);
  const json gpu = json::parse(r.out)["gpus"].at(0);
  CHECK(gpu["name"] == "Fake 100");
  CHECK(gpu["utilization"] == 0.5);
  CHECK(gpu["memory"] == 0.95);
  CHECK(gpu["sm_mhz"] == 1755);
  CHECK(gpu["temperature_c"] == 83);
  CHECK(gpu["power_w"] == 512.5);
  CHECK(gpu["remarks"].size() == 3);
  const auto text = shell::run(fake + "$SLUICE profile " + g.file + " --quiet").out;
  CHECK(text.find("Fake 100: 50% busy, 95000 MB (95%), 1755 MHz, 83 C, 512 W; it waits") !=
        std::string::npos);
}

TEST_CASE("profile states what one pass does for several nodes as one, and frees it as one") {
  const Graph g(R"(
    "kept":  { "type": "cache", "in": "made" },
    "space": { "type": "spacing", "in": "kept", "pixdim": 0.7 },
    "flip":  { "type": "rand_flip", "in": "space", "prob": 1.0, "spatial_axis": 0 },
    "noise": { "type": "rand_gaussian_noise", "in": "flip", "keys": "image", "prob": 1.0 })",
                4);
  const auto r = g.profile("--json --verify --what-if free:space+flip --what-if free:flip");
  INFO(r.err);
  REQUIRE(r.code == 0);
  const json j = json::parse(r.out);
  const json& space = j.at("nodes").at("space");
  CHECK(space.at("done_with") == json({"flip"}));
  CHECK(space.at("shared_s").get<double>() > 0);
  CHECK(space.at("busy_s").get<double>() > space.at("body_s").get<double>());
  CHECK_FALSE(j.at("nodes").at("noise").contains("done_with"));
  CHECK_FALSE(j.at("what_if").at(0).contains("in_one_pass"));
  // `space` makes other extents, so it cannot be left out.
  CHECK(j.at("what_if").at(0).at("left_out") == json({"flip"}));
  CHECK(j.at("what_if").at(0).at("measured").get<double>() > 0);
  CHECK(j.at("what_if").at(1).at("in_one_pass") == "space + flip");

  const auto text = g.profile("--what-if free:flip").out;
  INFO(text);
  CHECK(text.find("\nspace + flip ") != std::string::npos);
  CHECK(text.find("done in the pass of another node: flip (space)\n") != std::string::npos);
  CHECK(text.find("; one pass does space + flip: free them together") != std::string::npos);
}

TEST_CASE("profile begins with what limits, and leaves idle nodes to one line") {
  Graph g;
  // So long a run that the six fillings of the cache are no time of it.
  const auto text = g.profile("--set run.epochs=600").out;
  INFO(text);
  CHECK(text.substr(0, text.find('\n')).find("limit") != std::string::npos);
  const auto rows = [](const std::string& out) {
    const auto begin = out.find("\nnode ");
    const auto end = out.find("\n\n", begin + 1);
    return out.substr(begin, end - begin);
  };
  // The cache only passes things on, and what is no time has no cores.
  CHECK(rows(text).find("\nkept ") == std::string::npos);
  CHECK(rows(text).find(" 0%  100%") == std::string::npos);
  CHECK(text.find("(--all shows each)") != std::string::npos);
  const auto all = rows(g.profile("--all").out);
  for (const char* node : {"made", "norm", "kept", "noise", "batch"})
    CHECK(all.find("\n" + std::string(node) + " ") != std::string::npos);
  CHECK(all.find("–") != std::string::npos);
  CHECK(all.find("(--all shows each)") == std::string::npos);
}

TEST_CASE("profile counts a network's multiply-adds of one sample, whatever a batch holds") {
  const TinyTraining t;
  const auto counted = [&](const std::string& size) {
    const auto r = shell::run(t.in_folder +
                              "$SLUICE profile g.json --quiet --json --set run.epochs=1 --set "
                              "'~nodes.val' --set '~nodes.infer' --set '~nodes.dice' --set "
                              "nodes.batch.size=" +
                              size);
    REQUIRE_MESSAGE(r.code == 0, r.err);
    return json::parse(r.out).at("arithmetic").at("net").at("sample_multiply_adds").get<double>();
  };
  CHECK(counted("1") > 1e5);
  CHECK(counted("3") == counted("1"));
  const auto text = shell::run(t.in_folder + "$SLUICE profile g.json --quiet");
  INFO(text.out);
  CHECK(text.out.find(" M multiply-adds forward for a sample, ") != std::string::npos);
}
