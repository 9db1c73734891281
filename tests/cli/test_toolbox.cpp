// The training toolbox in whole runs: what it keeps from epoch to epoch survives a resume.
#include <doctest/doctest.h>

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
  const auto wrong = t.run(R"(--set '+run.checkpoint={"best":"step.lost"}')");
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("run.checkpoint.best") != std::string::npos);
}
