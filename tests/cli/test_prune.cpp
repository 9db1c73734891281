// `sluice prune`: a run's network with fewer channels is trained on by the graph that it writes.
#include <doctest/doctest.h>

#include "tests/cli/tiny_training.h"

using nlohmann::json;

TEST_CASE("a pruned network is an ordinary one, which its graph trains on") {
  const TinyTraining t;
  REQUIRE(t.run("--out a --set run.epochs=3 --set models.net.channels=[4,8]").code == 0);
  const auto r = shell::run(t.in_folder + "$SLUICE prune a --channels 0.5 -o s");
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(r.out.find("net: channels [2,4] of [4,8];") != std::string::npos);
  const json graph = t.json_of("s/graph.json");
  CHECK(graph.at("models").at("net").at("channels") == json{2, 4});
  CHECK(graph.at("run").at("epochs") == 2);
  CHECK(r.out.find("trains it on for 2 epochs;") != std::string::npos);
  const auto ran = shell::run(t.in_folder + "$SLUICE run s/graph.json --quiet --out b");
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  // It begins with the pruned weights: without a step they are what the run ends with.
  const auto still =
      shell::run(t.in_folder + "$SLUICE run s/graph.json --quiet --out c --set nodes.step.lr=0");
  INFO(still.err);
  REQUIRE(still.code == 0);
  const auto digest = [&](const std::string& arguments) {
    return json::parse(shell::run(t.in_folder + "$SLUICE weights --json " + arguments).out)
        .at("weights_sha256");
  };
  CHECK(digest("s/model.safetensors") == digest("c --strip-prefix net."));
}

TEST_CASE("a run that was begun elsewhere is pruned to a graph that runs there") {
  const TinyTraining t;
  REQUIRE(t.run("--out a --set run.epochs=1 --set models.net.channels=[4,8]").code == 0);
  const auto r = shell::run(t.in_folder +
                            "mkdir other && cd other && $SLUICE prune ../a -o s > said && cd .. && "
                            "$SLUICE run other/s/graph.json --quiet --no-out");
  INFO(r.err);
  CHECK(r.code == 0);
  const std::string said = t.folder.read("other/said");
  INFO(said);
  CHECK(said.find("`cd " + t.folder.path.string() + " && sluice run ") != std::string::npos);
}

TEST_CASE("a file that may not grow ends a pruning and an export with 4, and nothing stays") {
  const TinyTraining t;
  const auto run = shell::run(t.in_folder +
                              "$SLUICE run g.json --out a --set run.epochs=1 --set "
                              "models.net.channels=[8,16] --set nodes.train.num_samples=2");
  REQUIRE(run.code == 0);
  CHECK_MESSAGE(run.out.find("done: 1 epoch, 1 step, ") != std::string::npos, run.out);
  REQUIRE(shell::run(t.in_folder + "touch before after; ls -A > before").code == 0);
  for (const std::string command :
       {"prune a -o s", "export a -o m.onnx", "convert a w.safetensors"}) {
    CAPTURE(command);
    const auto r = shell::run(t.in_folder + "ulimit -f 1; $SLUICE " + command +
                              "; echo $?; ls -A > after; cmp before after");
    CHECK(r.out == "4\n");
    CHECK(r.err.find("File too large") != std::string::npos);
  }
}

TEST_CASE("a mean of weights is pruned with the network that it follows") {
  const TinyTraining t;
  json g = json::parse(tiny_training);
  g["models"]["net"]["channels"] = {4, 8};
  g["models"]["mean"] = g["models"]["net"];
  g["nodes"]["ema"] = {{"type", "ema"}, {"in", "step"}, {"net", "mean"}, {"of", "net"}};
  g["nodes"]["val"]["after"] = "ema";
  g["nodes"]["infer"]["net"] = "mean";
  t.folder.write("e.json", g.dump());
  for (const std::string net : {"net", "mean"}) {
    const auto r = shell::run(t.in_folder + "$SLUICE run e.json --quiet --overwrite --out a && " +
                              "$SLUICE prune a --net " + net + " --channels 0.5 -o " + net +
                              " && $SLUICE run " + net + "/graph.json --quiet --out of_" + net);
    INFO(r.err);
    REQUIRE(r.code == 0);
    const json models = t.json_of(net + "/graph.json").at("models");
    for (const char* each : {"net", "mean"}) {
      CHECK(models.at(each).at("channels") == json{2, 4});
      CHECK(models.at(each).at("weights") == net + "/model.safetensors");
    }
  }
}

TEST_CASE("what cannot be pruned is said, and nothing is written") {
  const TinyTraining t;
  REQUIRE(t.run("--out a --set run.epochs=1").code == 0);
  const auto refused = [&](const std::string& arguments, const std::string& why) {
    const auto r = shell::run(t.in_folder + "$SLUICE prune " + arguments);
    CAPTURE(arguments);
    INFO(r.err);
    CHECK(r.code == 2);
    CHECK(r.err.find(why) != std::string::npos);
    CHECK_FALSE(shell::fs::exists(t.folder.path / "s"));
  };
  refused("a -o a", "a is there already and stays as it is");
  refused("g.json -o s", "g.json: is no run's folder");
  refused("a -o s --multiple 64", "would stay as they are");
  const auto packaged =
      shell::run(t.in_folder +
                 "mkdir p; cp a/graph.json p; echo > p/manifest.json; : > p/weights.safetensors");
  REQUIRE(packaged.code == 0);
  refused("p -o s", "p: is no run's folder");
  refused("a -o s --channels 1", "1 not in range");
}
