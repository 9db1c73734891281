// `sluice dot --net`: a network step by step.
#include <doctest/doctest.h>

#include "tests/cli/tiny_training.h"
#include "tests/text.h"

namespace {

struct Drawn : TinyTraining {
  shell::Result dot(const std::string& more) const {
    return shell::run(in_folder + "$SLUICE dot " + more);
  }
};

}  // namespace

TEST_CASE("a network's picture has its steps, their sizes and what they cost") {
  const Drawn t;
  const auto r = t.dot("g.json --net net");
  INFO(r.err);
  REQUIRE(r.code == 0);
  // conv 1 -> 2 (3x3x3, stride 2): 2 * 27 weights and 2 biases, 8^3 voxels of 54 products.
  CHECK(contains(r.out, "<b>model.0.conv</b>"));
  CHECK(contains(r.out, "2 x 8 x 8 x 8, 56 weights, 27.6 k multiply-adds"));
  CHECK(contains(r.out, "for a sample of 1 x 16 x 16 x 16"));
  CHECK(occurrences(r.out, "label=<<b>") == occurrences(r.out, "fillcolor=") + 1);
  CHECK(occurrences(r.out, "peripheries=2") == 1);
  const auto sized = t.dot("g.json --net net --size 32,16,16");
  CHECK(contains(sized.out, "2 x 16 x 8 x 8, 56 weights, 55.3 k multiply-adds"));
  CHECK(t.dot("--net net --size 32,16,16 g.json").out == sized.out);
  CHECK(contains(t.dot("g.json --net net --size 8192,8192,8192").out, "3.71 T multiply-adds"));
}

TEST_CASE("a run's network is drawn as a picture") {
  const Drawn t;
  REQUIRE(t.run("--out a --set run.epochs=1").code == 0);
  const auto r = t.dot("a --net net -o net.svg");
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(contains(t.folder.read("net.svg"), "</svg>"));
  CHECK_FALSE(shell::fs::exists(t.folder.path / "net.svg.dot"));
}

TEST_CASE("a measured picture and the profile's table say what each layer cost") {
  const Drawn t;
  REQUIRE(t.run("--out a --set run.epochs=1").code == 0);
  const auto layers = t.json_of("a/profile.json").at("layers").at("net");
  REQUIRE(layers.size() > 3);
  double forward = 0, kept = 0;
  for (const auto& layer : layers) {
    forward += layer.at("forward_ms").get<double>();
    kept += layer.at("kept_mb").get<double>();
  }
  CHECK(layers.at(0).at("name") == "model.0.conv");
  CHECK(forward > 0);
  // At least the first norm's 2 x 8^3 numbers of float32.
  CHECK(kept >= 4e-6 * 2 * 512);
  const auto r = t.dot("g.json --net net --run a");
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(occurrences(r.out, " ms forward, ") == static_cast<int>(layers.size()));
  CHECK(occurrences(t.dot("a --net net").out, " ms forward, ") == 0);
  const auto table = shell::run(t.in_folder + "$SLUICE profile g.json --seconds 0 --all");
  INFO(table.err);
  CHECK(contains(table.out, "net: layer"));
  CHECK(contains(table.out, "model.0.conv "));
  CHECK(contains(table.out, " MB kept"));
  REQUIRE(t.dot("g.json --net net --run nowhere").code == 2);
}

TEST_CASE("a network that cannot be drawn is said") {
  const Drawn t;
  const auto refused = [&](const std::string& arguments, const std::string& why) {
    const auto r = t.dot(arguments);
    INFO(r.err);
    CHECK(r.code == 2);
    CHECK(contains(r.err, why));
  };
  refused("g.json --net other", "no network is called other; there are net");
  refused("g.json g.json --net net", "--net takes one graph or run");
  refused("g.json --net net --size 16,16", "--size wants 3 numbers above 0");
}
