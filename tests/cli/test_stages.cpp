// Networks in parts, from the graph file: the weights of the undivided run, what `profile` says of
// each stage, and what is refused. tests/kernels/test_stages.cpp holds the passes themselves.
#include <doctest/doctest.h>

#include "tests/cli/device_training.h"
#include "tests/cli/shell.h"
#include "tests/text.h"

using nlohmann::json;
using shell::Folder;

namespace {

const json whole_net = json::object();

struct Training {
  Folder folder;

  // With further parameters of the network.
  shell::Result sluice(const std::string& command, const json& net,
                       const std::string& device = "none") const {
    auto g = device_training({{"channels", {4, 8, 8, 12}},
                              {"strides", {2, 2, 2}},
                              {"num_res_units", 1},
                              {"norm", "BATCH"},
                              {"dropout", 0.1}},
                             8, 4);
    g["run"].update({{"seed", 3}, {"threads", 2}});
    g["models"]["net"].update(net);
    const std::string file = folder.write("g.json", g.dump(2)).string();
    return shell::run("cd " + folder.path.string() + "\nSLUICE_DEVICE=" + device + " $SLUICE " +
                      command + " " + file + " --quiet");
  }
  std::string weights(const json& net, const std::string& device = "none") const {
    std::filesystem::remove_all(folder.path / "r");
    const auto r = sluice("run --out r", net, device);
    INFO(r.err);
    REQUIRE(r.code == 0);
    return json::parse(folder.read("r/summary.json")).at("weights_sha256");
  }
  std::string refusal(const json& net) const {
    const auto r = sluice("run --no-out", net);
    CHECK(r.code == 2);
    return r.err;
  }
};

}  // namespace

TEST_CASE("a graph whose network is in stages ends with the weights of the undivided network") {
  const Training t;
  const json layers = {"model.1.submodule.0", "model.1.submodule.1.submodule.1.submodule",
                       "model.2"};
  const std::string whole = t.weights(whole_net);
  CHECK(t.weights({{"stages", 1}}) == whole);
  CHECK(t.weights({{"stages", 4}}) == whole);
  CHECK(t.weights({{"stages", layers}, {"recompute", "stage"}}) == whole);
  // Micro-batches have statistics of their own.
  const std::string chunked = t.weights({{"chunks", 2}});
  CHECK(chunked != whole);
  const json all = {{"stages", 4}, {"chunks", 2}, {"recompute", "stage"}};
  CHECK(t.weights(all) == chunked);
  CHECK(t.weights({{"stages", 4}, {"chunks", 2}}, "simulated:4") == chunked);
}

TEST_CASE("a run in stages goes on from its checkpoint to the same weights") {
  const Training t;
  const json parts = {{"stages", 4}, {"recompute", "stage"}};
  const std::string whole = t.weights(whole_net);
  REQUIRE(t.sluice("run --out cut --steps 3", parts).code == 0);
  const auto r = shell::run("cd " + t.folder.path.string() +
                            "\nSLUICE_DEVICE=none $SLUICE run --resume cut --quiet");
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(json::parse(t.folder.read("cut/summary.json")).at("weights_sha256") == whole);
}

TEST_CASE("profile says what each stage takes") {
  const Training t;
  const json parts = {{"stages", 4}, {"chunks", 2}};
  const json said = json::parse(t.sluice("profile --json", parts).out).at("stages").at("net");
  REQUIRE(said.at("stages").size() == 4);
  CHECK(said.at("micro_batches") == 2);
  CHECK(said.at("expected_bubble").get<double>() == doctest::Approx(3.0 / 5));
  CHECK(said.at("stages")[0].at("bytes_in") == 2 * 32 * 32 * 4);  // the images
  CHECK(said.at("stages")[0].at("first") == "model.0.conv.unit0.conv");
  for (const json& stage : said.at("stages")) {
    CHECK(stage.at("peak_bytes").get<double>() >= stage.at("kept_bytes").get<double>());
    CHECK(stage.at("kept_bytes").get<double>() > 0);
  }
  // What it says would balance them is taken as it stands, or nothing is said.
  if (const json& balanced = said.at("balanced"); !balanced.empty()) {
    CAPTURE(balanced.dump());
    CHECK(t.sluice("run --no-out", {{"stages", balanced}}).code == 0);
  }
  const json again = {{"stages", 4}, {"chunks", 2}, {"recompute", "stage"}};
  const json less = json::parse(t.sluice("profile --json", again).out).at("stages").at("net");
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(less.at("stages")[i].at("kept_bytes").get<double>() <
          said.at("stages")[i].at("kept_bytes").get<double>());
  const std::string table = t.sluice("profile", parts).out;
  CHECK(contains(table, "net: stage"));
  CHECK(contains(table, "2 micro-batches: stages of equal time on devices of their own wait 60%"));
  CHECK_FALSE(said.contains("bubble"));
  const json four = json::parse(t.sluice("profile --json", parts, "simulated:4").out);
  const json waited = four.at("stages").at("net").at("bubble");
  CHECK(waited.get<double>() > 0);
  CHECK(waited.get<double>() < 1);
  CHECK_FALSE(json::parse(t.sluice("profile --json", whole_net).out).contains("stages"));
}

TEST_CASE("stages that cannot be are refused with the graph's network") {
  const Training t;
  CHECK(contains(t.refusal({{"stages", 1000}}),
                 "unet: stages is 1000, but the network can be cut into "));
  const std::string unknown = t.refusal({{"stages", {"model.1.submodul.0"}}});
  CHECK(contains(unknown, "stages: no layer is called \"model.1.submodul.0\""));
  CHECK(contains(unknown, "did you mean"));
  CHECK(contains(t.refusal({{"stages", {"model.2", "model.1"}}}),
                 "\"model.1\" does not come after \"model.2\""));
  CHECK(contains(t.refusal({{"stages", {"model.0"}}}), "\"model.0\" begins the network"));
  for (const json& bad : {json(0), json(2.5), json(true), json::array(), json({1, 2}), json("4")}) {
    CAPTURE(bad.dump());
    CHECK(contains(t.refusal({{"stages", bad}}),
                   "stages is a number from 1, or a list of layers' names, found " + bad.dump()));
  }
  CHECK(contains(t.refusal({{"chunks", 0}}), "g.json:"));
  CHECK(contains(t.refusal({{"recompute", "always"}}), "stage"));
  const std::string other = t.refusal({{"type", "vnet"}, {"stages", 4}});
  CHECK(contains(other, "\"stages\""));
  CHECK(contains(other, "g.json:"));
}
