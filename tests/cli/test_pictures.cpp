// The graphs that augment pictures, as a user starts with them: on a folder of his own.
#include <doctest/doctest.h>

#include "tests/cli/bmp.h"
#include "tests/cli/shell.h"

using nlohmann::json;

TEST_CASE("each graph that augments pictures trains on a folder, validation without augmentation") {
  shell::Folder f;
  for (int i = 0; i < 12; ++i)
    for (int c = 0; c < 2; ++c)
      f.write(
          "data/" + std::string(1, static_cast<char>('a' + c)) + "/" + std::to_string(i) + ".bmp",
          bmp(70, 66, 20 + 7 * i, c));
  const std::string graphs = SLUICE_SOURCE_DIR "/graphs/";
  for (const std::string name : {"minimal", "standard", "strong", "progressive"}) {
    INFO(name);
    const auto r =
        shell::run("cd " + f.path.string() + " && $SLUICE run " + graphs + "augment2d_" + name +
                   ".json " + graphs + "parts/augment2d_debug.json --quiet --out " + name +
                   " --set vars.root=data --set run.epochs=2 --set vars.val_frac=0.34");
    INFO(r.err);
    REQUIRE(r.code == 0);
    const json summary = json::parse(f.read(name + "/summary.json"));
    CHECK(summary.at("status") == "done");
    CHECK(summary.at("samples").at("emitted") == 2 * (16 + 8));
    const json graph = json::parse(f.read(name + "/graph.json"));
    CHECK(graph.at("nodes").at("vbatch").at("in") == "vpre/kept");
  }
}

TEST_CASE("the configurations that stand behind them are right") {
  const std::string graphs = SLUICE_SOURCE_DIR "/graphs/";
  for (const char* name : {"minimal", "standard", "strong", "progressive"})
    for (const char* how : {"best", "low_memory", "debug"})
      CHECK(shell::run("$SLUICE check --merge " + graphs + "augment2d_" + name + ".json " + graphs +
                       "parts/augment2d_" + how + ".json")
                .code == 0);
}
