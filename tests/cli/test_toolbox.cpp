// The training toolbox in whole runs: what it keeps from epoch to epoch survives a resume.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "tests/cli/tiny_training.h"

namespace {

int epochs_of(const TinyTraining& t, const std::string& run) {
  int epochs = 0;
  std::istringstream lines(t.folder.read(run + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    epochs += line.find("\"metric\":\"step.lr\"") != std::string::npos;
  return epochs;
}

}  // namespace

TEST_CASE("a mean of the weights, a plateau, groups and accumulation go on where a run was cut") {
  const TinyTraining t;
  const std::string more =
      R"(--set '+models.mean={"type":"unet","spatial_dims":3,"in_channels":1,"out_channels":2,)"
      R"("channels":[2,4],"strides":[2]}' --set nodes.infer.net=mean )"
      R"(--set '+nodes.ema={"type":"ema","in":"step","net":"mean","of":"net","decay":0.5}' )"
      R"(--set '+nodes.step.groups=[{"match":"model.0","lr_scale":0.1}]' )"
      R"(--set +nodes.step.grad_accumulation=2 --set +nodes.step.lr_schedule=reduce_on_plateau )"
      R"(--set +nodes.step.metric=dice.mean --set +nodes.step.mode=max --set +nodes.step.patience=0 )"
      R"(--set +nodes.step.threshold=0.1 )";
  const auto whole = t.run(more + "--set run.epochs=5 --out whole");
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  REQUIRE(t.run(more + "--set run.epochs=2 --out r").code == 0);
  REQUIRE(shell::run(t.in_folder + "$SLUICE run --resume r --set run.epochs=5").code == 0);
  CHECK(t.weights("r") == t.weights("whole"));
  CHECK(t.folder.read("r/metrics.jsonl") == t.folder.read("whole/metrics.jsonl"));
  // The plateau was reached, so the test can fail.
  const std::string metrics = t.folder.read("whole/metrics.jsonl");
  CHECK(metrics.find("\"metric\":\"step.lr\",\"value\":0.001") != std::string::npos);
}

TEST_CASE("a run without progress ends by its patience, counted over a resume") {
  const TinyTraining t;
  const std::string rule =
      R"(--set '+run.stop={"metric":"step.lr","patience":2}' --set run.epochs=)";
  REQUIRE(t.run(rule + "9 --out whole").code == 0);
  CHECK(t.json_of("whole/summary.json")["status"] == "stopped");
  CHECK(epochs_of(t, "whole") == 3);  // the first, and two that are no better
  REQUIRE(t.run(rule + "2 --out r").code == 0);
  REQUIRE(shell::run(t.in_folder + "$SLUICE run --resume r --set run.epochs=9").code == 0);
  CHECK(epochs_of(t, "r") == 3);
  REQUIRE(t.run(R"(--set '+run.stop={"metric":"step.loss","patience":2,"mode":"min"}' )"
                "--set run.epochs=4 --out falling")
              .code == 0);
  CHECK(t.json_of("falling/summary.json")["status"] == "done");
}

TEST_CASE("of losses and errors less is better where no mode is given") {
  const TinyTraining t;
  const auto stopped = t.run(
      R"(--set '+run.stop={"metric":"step.loss","patience":2}' --set run.epochs=4 --out falling)");
  REQUIRE_MESSAGE(stopped.code == 0, stopped.err);
  CHECK(t.json_of("falling/summary.json")["status"] == "done");
  // What is kept; the node's type says it, its name does not.
  const auto kept = t.run(R"(--set '+nodes.hot={"type":"as_discrete","in":"infer",)"
                          R"("keys":"label","to_onehot":2}' )"
                          R"(--set '+nodes.off={"type":"mae_metric","in":"hot"}' )"
                          R"(--set '+run.checkpoint={"best":"off.mean"}' )"
                          "--set run.epochs=4 --out kept");
  REQUIRE_MESSAGE(kept.code == 0, kept.err);
  std::vector<double> off;
  std::istringstream lines(t.folder.read("kept/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (const auto one = nlohmann::json::parse(line); one.value("metric", "") == "off.mean")
      off.push_back(one["value"]);
  REQUIRE(off.size() == 4);
  const auto least = std::min_element(off.begin(), off.end());
  REQUIRE(*least < *std::max_element(off.begin(), off.end()));
  CHECK(t.json_of("kept/checkpoints/best/state.json")["state"]["steps"] ==
        3 * (least - off.begin() + 1));
}

TEST_CASE("a plateau goes by what the metric's node is") {
  const TinyTraining t;
  // The node's type says that less is better, its name does not; so its rate falls where "min"
  // would.
  const std::string plateau =
      R"(--set '+nodes.hot={"type":"as_discrete","in":"infer","keys":"label","to_onehot":2}' )"
      R"(--set '+nodes.off={"type":"mae_metric","in":"hot"}' --set run.epochs=5 )"
      "--set +nodes.step.lr_schedule=reduce_on_plateau --set +nodes.step.metric=off.mean "
      "--set +nodes.step.patience=0 --set +nodes.step.threshold=0 ";
  const auto rates = [&](const std::string& more) {
    const auto r = t.run(plateau + more + " --out r --overwrite");
    REQUIRE_MESSAGE(r.code == 0, r.err);
    std::vector<double> found;
    std::istringstream lines(t.folder.read("r/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const auto one = nlohmann::json::parse(line); one.value("metric", "") == "step.lr")
        found.push_back(one["value"]);
    return found;
  };
  const auto judged = rates("");
  CHECK(judged == rates("--set +nodes.step.mode=min"));
  CHECK(judged != rates("--set +nodes.step.mode=max"));
  // What run.stop says of the metric holds here too.
  CHECK(rates("--set +nodes.step.mode=max") ==
        rates(R"(--set '+run.stop={"metric":"off.mean","patience":9,"mode":"max"}')"));
}

TEST_CASE("a stop rule says what it stops by") {
  const TinyTraining t;
  const auto r = t.run(R"(--set '+run.stop={"metric":"step.loss"}')");
  CHECK(r.code == 2);
  CHECK(r.err.find("needs one of \"at_least\", \"at_most\" and \"patience\"") != std::string::npos);
}

TEST_CASE("the epoch with the best metric is kept, and what a resume keeps is the same") {
  const TinyTraining t;
  const std::string best =
      R"(--set '+run.checkpoint={"best":"step.loss","mode":"max"}' --set run.epochs=)";  // the
                                                                                         // first
  REQUIRE(t.run(best + "4 --out whole").code == 0);
  const auto state = t.json_of("whole/checkpoints/best/state.json")["state"];
  CHECK(state["steps"] == 3);
  CHECK(state["best_kept"] == state["metrics"]["step.loss"]["last"]);
  REQUIRE(t.run(best + "1 --out r").code == 0);
  REQUIRE(shell::run(t.in_folder + "$SLUICE run --resume r --set run.epochs=4").code == 0);
  CHECK(t.json_of("r/checkpoints/best/state.json")["state"]["steps"] == 3);
  CHECK(t.folder.read("r/checkpoints/best/model.safetensors") ==
        t.folder.read("whole/checkpoints/best/model.safetensors"));
  // A kill between two checkpoints leaves none that says of a best one that it is kept, and is not.
  const std::string both =
      R"(--set '+run.checkpoint={"best":"step.loss","every_epochs":1}' --set run.epochs=1 )";
  REQUIRE(t.run(both + "--out both").code == 0);
  const auto serial = [&](const std::string& name) {
    return t.json_of("both/checkpoints/" + name + "/state.json")["serial"].get<int>();
  };
  CHECK(serial("best") < serial("epoch_00001"));
  const auto wrong = t.run(R"(--set '+run.checkpoint={"best":"step.lost"}')");
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("run.checkpoint.best") != std::string::npos);
}

TEST_CASE("two networks against each other, the judge with three steps a batch, survive a cut") {
  const char* const gan = R"({
    "run": { "epochs": 2, "seed": 5 },
    "models": {
      "maker": { "type": "generator", "latent_shape": [4], "start_shape": [2, 4, 4],
                 "channels": [2, 1], "strides": [2, 1] },
      "judge": { "type": "discriminator", "in_shape": [1, 8, 8], "channels": [2, 1],
                 "strides": [2, 2], "last_act": null } },
    "nodes": {
      "real":   { "type": "noise", "num_samples": 8, "shape": [1, 8, 8], "key": "image" },
      "latent": { "type": "draw_latent", "in": "real", "shape": [4] },
      "batch":  { "type": "batch", "in": "latent", "size": 2 },
      "make":   { "type": "model", "in": "batch", "net": "maker", "keys": "latent",
                  "output_keys": "made" },
      "judge_steps": { "type": "several_steps", "in": "make", "net": "judge", "times": 3, "step": [
        { "type": "model", "net": "judge", "keys": "made", "output_keys": "said" },
        { "type": "patch_adversarial_loss", "key": "said", "criterion": "bce",
          "target_is_real": false, "output_key": "no" },
        { "type": "model", "net": "judge", "output_keys": "said_of_real" },
        { "type": "patch_adversarial_loss", "key": "said_of_real", "criterion": "bce",
          "output_key": "yes" },
        { "type": "sum_losses", "keys": ["no", "yes"], "weights": [0.5, 0.5] },
        { "type": "adam", "net": "judge", "lr": 0.01 } ] },
      "judged": { "type": "model", "in": "judge_steps", "net": "judge", "keys": "made",
                  "output_keys": "said" },
      "fooled": { "type": "patch_adversarial_loss", "in": "judged", "key": "said",
                  "criterion": "bce" },
      "step":   { "type": "adam", "in": "fooled", "net": "maker", "lr": 0.01 } } })";
  const TinyTraining t;
  t.folder.write("gan.json", gan);
  const auto run = [&](const std::string& more) {
    return shell::run(t.in_folder + "$SLUICE run gan.json --quiet " + more);
  };
  const auto whole = run("--out whole");
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  CHECK(t.json_of("whole/summary.json")["metrics"].contains("judge_steps.loss"));
  REQUIRE(run("--out threads --threads 3").code == 0);
  CHECK(t.weights("threads") == t.weights("whole"));
  // Each batch is four updates; the run is cut in the middle of an epoch.
  REQUIRE(run("--out cut --steps 10").code == 0);
  REQUIRE(shell::run(t.in_folder + "$SLUICE run --resume cut").code == 0);
  CHECK(t.weights("cut") == t.weights("whole"));
  REQUIRE(run("--out one --set nodes.judge_steps.times=1").code == 0);
  CHECK(t.weights("one") != t.weights("whole"));
  // One makes images of numbers, the other was made for images of one size.
  const auto advice = shell::run(
      t.in_folder + "$SLUICE advise gan.json --seconds 1 --json --set run.epochs=100000");
  REQUIRE_MESSAGE(advice.code == 0, advice.err);
  CHECK(nlohmann::json::parse(advice.out).at("largest_patches").empty());
}

TEST_CASE(
    "an updater whose network has no part in its loss is told so, in shards as in one piece") {
  const char* const graph = R"({
    "models": {
      "net": { "type": "fully_connected_net", "in_channels": 4, "out_channels": 4,
               "hidden_channels": [3] },
      "other": { "type": "fully_connected_net", "in_channels": 4, "out_channels": 4,
                 "hidden_channels": [3] } },
    "nodes": {
      "made":  { "type": "noise", "num_samples": 8, "shape": [4], "key": "image" },
      "batch": { "type": "batch", "in": "made", "size": 4 },
      "fwd":   { "type": "model", "in": "batch", "net": "net" },
      "loss":  { "type": "mse_loss", "in": "fwd", "label_key": "image" },
      "first": { "type": "adam", "in": "loss", "net": "net" },
      "step":  { "type": "adam", "in": "first", "net": "other" } } })";
  const TinyTraining t;
  t.folder.write("two.json", graph);
  auto lone = nlohmann::json::parse(graph);
  lone["nodes"].erase("first");
  lone["nodes"]["step"]["in"] = "loss";
  t.folder.write("one.json", lone.dump());
  const std::string shards = " --set +run.shards=2 --set +run.step_threads=1";
  for (const std::string& more : {std::string(), shards, shards + " --processes 2"}) {
    CAPTURE(more);
    const auto two = shell::run(t.in_folder + "$SLUICE run two.json --no-out --quiet" + more);
    CHECK(two.code == 0);
    CHECK(two.err ==
          "warning: nodes.step: the loss does not depend on what is trained of network \"other\", "
          "which stays as it is\n");
    const auto one = shell::run(t.in_folder + "$SLUICE run one.json --no-out --quiet" + more);
    CHECK(one.code == 2);
    CHECK(one.err.find("the loss has no gradient: its model node is in no training stream") !=
          std::string::npos);
  }
}
