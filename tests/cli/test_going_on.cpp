// Runs that are gone on with where they have ended, by their epochs or by their stop rule, and with
// other rules than they had.
#include <doctest/doctest.h>

#include "tests/cli/tiny_training.h"
#include "tests/text.h"

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct GoingOn : TinyTraining {
  shell::Result resume(const std::string& run, const std::string& more = "") const {
    return shell::run(in_folder + "$SLUICE run --resume " + run + " " + more);
  }
  json state(const std::string& checkpoint) const {
    return json_of(checkpoint + "/state.json").at("state");
  }
};

// The rate of each epoch is half of the one before: a metric that falls whatever is trained.
const std::string falling =
    "--set +nodes.step.lr_schedule=exponential --set +nodes.step.gamma=0.5 ";
std::string stop_by(const std::string& rule) { return "--set '+run.stop={" + rule + "}' "; }
const std::string stops_after_three = stop_by(R"("metric": "step.lr", "patience": 2)");

}  // namespace

TEST_CASE("a run that goes on with fewer epochs than it has done keeps its place") {
  const GoingOn t;
  REQUIRE(t.run("--set run.epochs=4 --out whole").code == 0);
  REQUIRE(t.run("--set run.epochs=4 --steps 8 --out r").code == 0);  // in the third epoch
  const json place = t.state("r/checkpoints/last");
  const auto shorter = t.resume("r", "--set run.epochs=2");
  CHECK_MESSAGE(shorter.code == 0, shorter.err);
  for (const char* key : {"turn", "batch", "steps"})
    CHECK(t.state("r/checkpoints/last").at(key) == place.at(key));
  const auto all = t.resume("r", "--set run.epochs=4");
  CHECK_MESSAGE(contains(all.out, "done: 4 epochs, 12 steps"), all.out);
  CHECK(t.weights("r") == t.weights("whole"));
  CHECK(t.folder.read("r/metrics.jsonl") == t.folder.read("whole/metrics.jsonl"));
}

TEST_CASE("a run that its stop rule has ended is at its end, however often it is begun again") {
  const GoingOn t;
  const std::string rules = falling + stops_after_three + "--set +run.checkpoint.every_epochs=1 ";
  REQUIRE(t.run(rules + "--set run.epochs=9 --out r").code == 0);
  CHECK(t.json_of("r/summary.json").at("epochs") == 3);
  const auto told =
      shell::run(t.in_folder + "$SLUICE run g.json " + rules + "--set run.epochs=9 --out told");
  CHECK(contains(told.out,
                 "run.stop has ended it; with another run.stop `sluice run --resume told`"));
  CHECK(!contains(told.out, "  `sluice run --resume told` goes on"));
  const std::string weights = t.weights("r"), summary = t.folder.read("r/summary.json");
  for (const std::string again : {"run --resume r", "run r/graph.json --out r --continue"}) {
    CAPTURE(again);
    const auto r = shell::run(t.in_folder + "$SLUICE " + again);
    CHECK_MESSAGE(r.code == 0, r.err);
    CHECK(contains(r.out, "nothing is left: run.stop has ended it"));
    CHECK(t.folder.read("r/summary.json") == summary);
  }
  // Killed behind the last epoch, before it was said that the run has ended.
  fs::remove_all(t.folder.path / "r/checkpoints/last");
  fs::remove(t.folder.path / "r/summary.json");
  const auto ended = t.resume("r");
  CHECK_MESSAGE(ended.code == 0, ended.err);
  CHECK(t.weights("r") == weights);
  CHECK(t.json_of("r/summary.json").at("epochs") == 3);
  CHECK(t.json_of("r/summary.json").at("status") == "stopped");
  // More patience goes on from there.
  CHECK(t.resume("r", "--set run.stop.patience=4").code == 0);
  CHECK(t.json_of("r/summary.json").at("epochs") == 5);
}

TEST_CASE("half a line that a loss of power has left takes nothing of the next one") {
  const GoingOn t;
  REQUIRE(t.run("--set run.epochs=1 --out r").code == 0);
  const std::string before = t.folder.read("r/sessions.jsonl") + "{\"event\": \"beg";
  t.folder.write("r/sessions.jsonl", before);
  REQUIRE(t.resume("r", "--set run.epochs=2").code == 0);
  const std::string after = t.folder.read("r/sessions.jsonl");
  REQUIRE(after.starts_with(before + "\n"));
  CHECK(json::parse(after.substr(before.size() + 1,
                                 after.find('\n', before.size() + 1) - before.size() - 1))
            .at("event") == "begin");
}

TEST_CASE("a rule that is given another metric begins to judge anew") {
  const GoingOn t;
  const std::string by_rate =
      falling + stops_after_three + R"(--set '+run.checkpoint={"best": "step.lr"}' )";
  REQUIRE(t.run(by_rate + "--steps 6 --out r").code == 0);
  CHECK(t.state("r/checkpoints/last").at("best_kept") == doctest::Approx(0.01));
  const auto other = t.resume("r",
                              "--set run.epochs=5 --set run.stop.metric=step.loss "
                              "--set run.checkpoint.best=step.loss");
  CHECK_MESSAGE(other.code == 0, other.err);
  CHECK(contains(other.err, "run.checkpoint.best: \"step.lr\" -> \"step.loss\""));
  const json best = t.json_of("r/summary.json").at("metrics").at("step.loss");
  CHECK(t.state("r/checkpoints/last").at("best_kept") == best.at("best"));
  CHECK(t.state("r/checkpoints/best").at("steps") == 3 * (best.at("best_epoch").get<int>() + 1));
}

TEST_CASE("the best checkpoint is of an epoch that its metric was measured in") {
  const GoingOn t;
  REQUIRE(t.run("--set run.epochs=6 --set +nodes.val.every_epochs=3 --steps 10 --out r").code == 0);
  REQUIRE(t.resume("r", R"(--set '+run.checkpoint={"best": "dice.mean"}' --steps 3)").code == 0);
  CHECK_FALSE(fs::exists(t.folder.path / "r/checkpoints/best"));
  REQUIRE(t.resume("r").code == 0);
  CHECK(t.state("r/checkpoints/best").at("steps") == 18);
}

TEST_CASE("a best checkpoint that could not be written is the run's exit code") {
  const GoingOn t;
  const std::string best = falling + R"(--set '+run.checkpoint={"best": "step.lr"}' )";
  REQUIRE(t.run("--set run.epochs=3 --steps 2 --out r").code == 0);
  t.folder.write("r/checkpoints/best", "a file in its place");
  const auto r = t.resume("r", best);
  CHECK_MESSAGE(r.code == 4, r.err);
  CHECK(contains(r.err, "error: checkpoint best was not written"));
  const json summary = t.json_of("r/summary.json");
  CHECK(summary.at("status") == "done");
  CHECK(contains(summary.at("warnings").dump(), "checkpoint best was not written"));
  CHECK(t.state("r/checkpoints/last").at("steps") == 9);
}

TEST_CASE("a metric that no epoch brings is said, with those that come") {
  const GoingOn t;
  const std::string rule = stop_by(R"("metric": "dice.class_7", "patience": 1)");
  const auto r = t.run(rule + R"(--set '+run.checkpoint={"best": "dice.class_7"}' --out r)");
  CHECK(r.code == 0);
  CHECK_MESSAGE(occurrences(r.err, "there is no \"dice.class_7\"") == 2, r.err);
  CHECK(contains(r.err,
                 "run.stop.metric: there is no \"dice.class_7\" after an epoch that reports "
                 "dice.class_1, dice.mean"));
}

TEST_CASE("with fewer batches a step than before a cut epoch goes on to step") {
  const GoingOn t;
  const std::string four = "--set nodes.train.num_samples=40 --set run.epochs=1 ";
  REQUIRE(t.run(four + "--set +nodes.step.grad_accumulation=4 --steps 3 --out r").code == 0);
  const auto r = t.resume("r", "--set nodes.step.grad_accumulation=2");
  CHECK_MESSAGE(r.code == 0, r.err);
  // 20 batches: a step of the 3 that were pending and the next one, then 8 of two each.
  CHECK(t.state("r/checkpoints/last").at("nodes").at("step").at("steps") == 9);
}
