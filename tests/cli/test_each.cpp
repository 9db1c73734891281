// `sluice run --each`: one run a value.
#include <doctest/doctest.h>

#include "tests/cli/tiny_training.h"

TEST_CASE("each value's run gives the weights of a run of its own") {
  const TinyTraining t;
  const auto all = t.run("--each run.seed=1,2 --out all");
  CHECK(all.code == 0);
  CHECK(all.err.find("seed=2: done, dice.mean") != std::string::npos);
  CHECK(all.err.find("mean of 2: dice.mean") != std::string::npos);
  CHECK(t.run("--set run.seed=2 --out one").code == 0);
  CHECK(t.weights("all/seed=2") == t.weights("one"));
  CHECK(t.weights("all/seed=1") != t.weights("one"));
  const auto runs = t.json_of("all/each.json");
  CHECK(runs["path"] == "run.seed");
  CHECK(runs["runs"].size() == 2);
  CHECK(runs["runs"][1]["folder"] == "seed=2");
  const auto report = shell::run(t.in_folder + "$SLUICE report all");
  CHECK(report.code == 2);
  CHECK(report.err ==
        "error: all: its runs are no folds of nnU-Net's, which have one report; `sluice report "
        "all/seed=1` is of one run, `sluice runs all` lists them all\n");
}

TEST_CASE("a value whose run fails leaves the others to their turn and gives its exit code") {
  const TinyTraining t;
  const auto all = t.run("--each nodes.batch.size=-1,2 --out all");
  CHECK(all.code == 2);
  CHECK(all.err.find("size=-1: exit 2") != std::string::npos);
  CHECK(t.weights("all/size=2") != "none");
}

TEST_CASE("the mean is of those that are done, and --continue is named for the others") {
  const TinyTraining t;
  const std::string runs = "--set run.epochs=1 --out all --each run.seed=";
  REQUIRE(t.run(runs + "1").code == 0);
  const auto more = t.run(runs + "1,2,3");  // the first is there already
  INFO(more.err);
  CHECK(more.code == 2);
  CHECK(more.err.find("mean of 2: dice.mean") != std::string::npos);
  CHECK(more.err.find("with --continue goes on") != std::string::npos);
  const auto again = t.run(runs + "1,2,3 --continue");
  CHECK(again.code == 0);
  CHECK(again.err.find("mean of 3: dice.mean") != std::string::npos);
  CHECK(again.err.find("with --continue") == std::string::npos);
}

TEST_CASE("a value with commas of its own is one") {
  const TinyTraining t;
  CHECK(t.run("--each nodes.infer.roi_size=[16,16,16],[8,16,16] --out all").code == 0);
  CHECK(t.json_of("all/each.json")["runs"][1]["value"] == "[8,16,16]");
}

TEST_CASE("an --each that cannot be meant is refused") {
  const TinyTraining t;
  for (const auto& [more, says] : {std::pair{"--each run.seed --out a", "PATH=A,B"},
                                   std::pair{"--each =1,2 --out a", "PATH=A,B"},
                                   std::pair{"--each run.seed=1,,2 --out a", "empty value"},
                                   std::pair{"--each run.seed=1,1 --out a", "twice"},
                                   std::pair{"--each run.seed=1,2", "--out"}}) {
    const auto r = t.run(more);
    CHECK(r.code == 2);
    CHECK_MESSAGE(r.err.find(says) != std::string::npos, more, ": ", r.err);
  }
}

TEST_CASE("runs of --each that go at once are those that go one after the other") {
  const TinyTraining t;
  REQUIRE(t.run("--each run.seed=1,2,3 --step-threads 1 --out all").code == 0);
  const auto r = t.run("--each run.seed=1,2,3 --step-threads 1 --at-once 2 --out both");
  INFO(r.err);
  CHECK(r.code == 0);
  for (const char* seed : {"seed=1", "seed=2", "seed=3"})
    CHECK(t.weights(std::string("both/") + seed) == t.weights(std::string("all/") + seed));
  CHECK(t.json_of("both/each.json") == t.json_of("all/each.json"));
  CHECK(t.run("--at-once 2 --out one").code == 2);
}

TEST_CASE("a signal to --each goes on to its runs, and --continue ends what was cut") {
  const TinyTraining t;
  const std::string runs = "--each run.seed=1,2 --set run.epochs=40 --step-threads 1 --threads 1 ";
  REQUIRE(t.run(runs + "--out whole").code == 0);
  const auto r = shell::run(t.in_folder + "$SLUICE run g.json --quiet " + runs +
                            "--out cut & p=$!; while [ ! -s cut/seed=1/metrics.jsonl ]; do sleep "
                            "0.05; done; kill -TERM $p; wait $p; echo $?");
  CHECK(r.out == "143\n");
  CHECK_FALSE(std::filesystem::exists(t.folder.path / "cut/seed=2"));
  REQUIRE(t.run(runs + "--continue --out cut").code == 0);
  for (const char* seed : {"seed=1", "seed=2"})
    CHECK(t.weights(std::string("cut/") + seed) == t.weights(std::string("whole/") + seed));
}

TEST_CASE("each.json keeps the runs of earlier commands") {
  const TinyTraining t;
  REQUIRE(t.run("--each run.seed=1,2 --set run.epochs=1 --out all").code == 0);
  CHECK(t.run("--each run.seed=2,3 --set nodes.batch.size=-1 --out all").code == 2);
  REQUIRE(t.run("--each run.seed=3 --set run.epochs=1 --out all").code == 0);
  auto runs = t.json_of("all/each.json")["runs"];
  REQUIRE(runs.size() == 3);
  CHECK(runs[0] == nlohmann::json{{"value", "1"}, {"folder", "seed=1"}, {"exit", 0}});
  CHECK(runs[1] == nlohmann::json{{"value", "2"}, {"folder", "seed=2"}, {"exit", 2}});
  CHECK(runs[2] == nlohmann::json{{"value", "3"}, {"folder", "seed=3"}, {"exit", 0}});
  REQUIRE(t.run("--each nodes.step.lr=0.1 --set run.epochs=1 --out all").code == 0);
  const auto all = t.json_of("all/each.json");
  CHECK(all["path"] == "nodes.step.lr");
  REQUIRE(all["runs"].size() == 4);
  CHECK(all["runs"][0]["path"] == "run.seed");
  CHECK_FALSE(all["runs"][3].contains("path"));
}

TEST_CASE("--each --json gives one document with each run's summary") {
  const TinyTraining t;
  const auto r = t.run("--each run.seed=1,2 --set run.epochs=1 --json --out all");
  REQUIRE_MESSAGE(r.code == 0, r.err);
  const auto all = nlohmann::json::parse(r.out);
  REQUIRE(all["runs"].size() == 2);
  CHECK(all["runs"][1]["value"] == "2");
  CHECK(all["runs"][1]["summary"] == t.json_of("all/seed=2/summary.json"));
}

TEST_CASE("a parent that does not ask how its children end takes nothing from ours") {
  const TinyTraining t;
  const std::string ignoring = SLUICE_PYTHON
      " -c 'import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
      "os.execv(sys.argv[1], sys.argv[1:])' $SLUICE run g.json --quiet --set run.epochs=1 ";
  for (const std::string more : {"--each run.seed=1,2 --out all", "--processes 2 --out two"}) {
    const auto r = shell::run(t.in_folder + "timeout 120 " + ignoring + more);
    CHECK_MESSAGE(r.code == 0, more, ": ", r.err);
  }
}
