// models.NET.memory: what a training step keeps changes no weight; profile says what it takes.
#include <doctest/doctest.h>

#include "tests/cli/tiny_training.h"
#include "tests/text.h"

using nlohmann::json;

namespace {

const std::string wide = " --set models.net.channels=[8,16] --set models.net.num_res_units=1 ";

}  // namespace

TEST_CASE("a run ends with the same weights whatever a step keeps, makes again or moves away") {
  const TinyTraining t;
  for (const std::string threads : {"1", "2"}) {
    const std::string run = "run g.json --quiet --overwrite --step-threads " + threads + wide;
    REQUIRE(shell::run(t.in_folder + "$SLUICE " + run + "--out keep").code == 0);
    REQUIRE(t.weights("keep") != "none");
    for (const std::string memory : {"light", "recompute", "offload"})
      for (const std::string device : {"", "SLUICE_DEVICE=simulated "}) {
        CAPTURE(memory);
        CAPTURE(device);
        REQUIRE(shell::run(t.in_folder + device + "$SLUICE " + run +
                           "--out other --set models.net.memory=" + memory)
                    .code == 0);
        CHECK(t.weights("keep") == t.weights("other"));
      }
  }
}

TEST_CASE("profile says what a step's activations take, and what is made again") {
  const TinyTraining t;
  const auto kept = shell::run(t.in_folder + "$SLUICE profile g.json --seconds 0" + wide);
  INFO(kept.out);
  CHECK(contains(kept.out, "net: activations of a training step: "));
  CHECK_FALSE(contains(kept.out, "forward passes again"));
  CHECK(contains(kept.out, "net: activations of a forward pass alone: "));
  const auto again = shell::run(t.in_folder +
                                "$SLUICE profile g.json --seconds 0 --set "
                                "models.net.memory=recompute" +
                                wide);
  CHECK(contains(again.out, " forward passes again, 0 B moved to the host"));
  const auto away = shell::run(t.in_folder +
                               "$SLUICE profile g.json --seconds 0 --set "
                               "models.net.memory=offload" +
                               wide);
  INFO(away.out);
  CHECK(contains(away.out, ", 0.00 forward passes again, "));
  CHECK_FALSE(contains(away.out, " 0 B moved to the host"));
}

TEST_CASE("advise says the largest patch, which is larger where values are made again") {
  const TinyTraining t;
  const auto r = shell::run(t.in_folder +
                            "$SLUICE advise g.json --seconds 1 --json --set run.epochs=1000 "
                            "--set models.net.memory_budget=50000000" +
                            wide);
  INFO(r.err);
  REQUIRE(r.code == 0);
  const json patch = json::parse(r.out).at("largest_patches").at("net");
  CHECK(patch.at("budget") == 50000000);
  CHECK(patch.at("keep").get<int>() >= 32);
  CHECK(patch.at("light").get<int>() >= patch.at("keep").get<int>());
  CHECK(patch.at("recompute").get<int>() > patch.at("keep").get<int>());
  CHECK(patch.at("offload").is_null());  // there is no device to move values from
  const auto told =
      shell::run(t.in_folder + "$SLUICE advise g.json --seconds 1 --set run.epochs=1000");
  CHECK(contains(told.out, "the loss, labels and samples come on top"));
}

TEST_CASE("a budget that cannot be kept is refused with what is needed") {
  const TinyTraining t;
  const auto no_budget = t.run("--out a --set models.net.memory=auto");
  CHECK(no_budget.code == 2);
  CHECK(contains(no_budget.err, "memory \"auto\" needs a memory_budget"));
  const auto r = t.run("--out a --set models.net.memory=auto --set models.net.memory_budget=1000");
  INFO(r.err);
  CHECK(r.code == 2);
  CHECK(contains(r.err, "a step's activations need at least "));
  CHECK(contains(r.err, "memory_budget is 1000 B"));
}
