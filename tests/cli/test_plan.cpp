// `sluice plan`: what training would take on more processes.
#include <doctest/doctest.h>

#include "tests/cli/tiny_training.h"
#include "tests/text.h"

using nlohmann::json;

namespace {

struct Planned : TinyTraining {
  Planned() {
    json g = json::parse(tiny_training);
    g["nodes"]["train"]["num_samples"] = 10;
    g["nodes"]["batch"]["size"] = 4;
    folder.write("g.json", g.dump(1));
    REQUIRE(run("--step-threads 1 --out r").code == 0);
  }
  shell::Result plan(const std::string& more) const {
    return shell::run(in_folder + "$SLUICE plan " + more);
  }
};

}  // namespace

TEST_CASE("plan says from a run's profile what more processes would take") {
  const Planned t;
  const auto run = t.plan("r --ranks 1,2,4,8 --step-threads 1 --cores 8 --json");
  REQUIRE_MESSAGE(run.code == 0, run.err);
  const json rows = json::parse(run.out).at("rows");
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].at("efficiency") == 1);
  CHECK(rows[0].at("sent_bytes") == 0);
  CHECK(rows[1].at("sent_bytes") > 0);
  CHECK(rows[1].at("shards") == 2);
  CHECK(rows[1].at("passes_ms").get<double>() ==
        doctest::Approx(rows[0].at("passes_ms").get<double>() / 2));
  CHECK(rows[2].at("steps_an_epoch") == 3);
  CHECK(contains(rows[3].at("refused"), "has 4 items"));

  // One process divides nothing, so what keeps a batch from being divided is no matter.
  const auto one = t.plan(
      "g.json --profile r --ranks 1,2 --step-threads 1 --set +nodes.batch.drop_last=true --json");
  REQUIRE_MESSAGE(one.code == 0, one.err);
  const json of_one = json::parse(one.out).at("rows");
  CHECK_FALSE(of_one[0].contains("refused"));
  CHECK(contains(of_one[1].at("refused"), "drops an epoch's last batch"));

  const auto table = t.plan("g.json --profile r --ranks 2 --step-threads 1");
  CHECK(table.code == 0);
  CHECK_MESSAGE(contains(table.out, "efficiency  step of one rank / (W x step)"), table.out);
}

TEST_CASE("plan measures a short run of its own where no profile is given") {
  const Planned t;
  const auto run = t.plan("g.json --ranks 2 --seconds 2 --json --set run.epochs=1");
  REQUIRE_MESSAGE(run.code == 0, run.err);
  CHECK(json::parse(run.out).at("measured").at("values") > 0);
}

TEST_CASE("plan ends as the run does that it measures, where that fails or is ended") {
  const Planned t;
  const auto failed = t.plan("g.json --ranks 2 --seconds 20 --set nodes.step.lr=1e30");
  CHECK(failed.code == 8);
  CHECK(failed.out.empty());
  CHECK_MESSAGE(contains(failed.err, "the run that was to be measured failed"), failed.err);
  const auto ended = t.plan(
      "g.json --ranks 2 --seconds 60 --set run.epochs=100000 & p=$!; sleep 2; kill -TERM $p; "
      "wait $p");
  CHECK(ended.code == 143);
  CHECK(ended.out.empty());
}

TEST_CASE("a graph that stands behind a list on the command line is the graph") {
  const Planned t;
  const auto before = t.plan("r --ranks 2,4 --step-threads 1 --json"),
             behind = t.plan("--ranks 2,4 r --step-threads 1 --json");
  CHECK_MESSAGE(behind.code == 0, behind.err);
  CHECK(json::parse(behind.out)["rows"].size() == json::parse(before.out)["rows"].size());
}

TEST_CASE("plan refuses what cannot be planned") {
  const Planned t;
  const auto refused = [&](const std::string& line, const std::string& part) {
    const auto run = t.plan(line);
    CHECK(run.code == 2);
    CHECK_MESSAGE(contains(run.err, part), run.err);
  };
  refused("r", "--ranks");
  refused("r --ranks 0", "--ranks");
  refused("r --ranks 2 --link 3", "--link 3: want a rate such as 12.5GB/s");
  refused("r --ranks 2 --link=-1GB/s", "want a rate");
  refused("r --ranks 2 --link infGB/s", "want a rate");
  refused("r --ranks 2 --latency 5", "--latency 5: want a time such as 5us");
  refused("g.json --profile . --ranks 2", "holds no profile.json");
  const auto missing = t.plan("g.json --profile none --ranks 2");
  CHECK(missing.code == 4);
  CHECK_MESSAGE(contains(missing.err, "none: no such folder"), missing.err);
  t.folder.write("odd/profile.json", R"({"step": [], "wall_s": 1})");
  const auto odd = t.plan("g.json --profile odd --ranks 2");
  CHECK(odd.code == 3);
  CHECK_MESSAGE(contains(odd.err, "odd/profile.json: is not as a run writes it"), odd.err);
  refused("r --ranks 2 --set +run.shards=9", "has 4 items of the source to divide");
  const auto more = t.plan("r --ranks 8 --step-threads 1");
  CHECK_MESSAGE(contains(more.out,
                         "8 processes divide a batch into 8 shards, since run.shards is not given, "
                         "but a batch of 4 has 4 items of the source"),
                more.out);
  json g = json::parse(tiny_training);
  for (const char* name : {"train", "flip", "noise", "batch", "fwd", "loss", "step", "dice"})
    g["nodes"].erase(name);
  g["nodes"]["val"].erase("after");
  g["models"]["net"]["weights"] = "r";
  t.folder.write("p.json", g.dump());
  refused("p.json --profile r --ranks 2", "trains nothing");
  const auto fewer = t.plan("r --ranks 4 --step-threads 1 --set +run.shards=2");
  CHECK(fewer.code == 0);
  CHECK_MESSAGE(contains(fewer.out, "at most one process a shard"), fewer.out);
  REQUIRE(t.run("--processes 2 --out two").code == 0);
  refused("two --ranks 2", "a run of several processes");
}
