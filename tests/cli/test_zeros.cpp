// models.NET.sparsity: zeros that are chosen once and stay, through a resume as well.
#include <doctest/doctest.h>

#include "tests/cli/tiny_training.h"
#include "tests/text.h"

using nlohmann::json;

namespace {

const std::string wide = " --set models.net.channels=[16,32] ";
std::string sparse(const std::string& what) {
  return wide + "--set 'models.net.sparsity=" + what + "' ";
}

// The share of zeros in a run's weight, and whether they stand where its mask has them.
const char* const look =
    " -c \"import json, struct, sys, glob\n"
    "f = sorted(glob.glob(sys.argv[1] + '/checkpoints/*/model.safetensors'))[-1]\n"
    "b = open(f, 'rb').read(); n = struct.unpack('<Q', b[:8])[0]; h = json.loads(b[8:8 + n])\n"
    "def raw(k): s, e = h[k]['data_offsets']; return b[8 + n + s:8 + n + e]\n"
    "for k in sorted(k for k in h if k.endswith('.mask')):\n"
    "  m = raw(k); w = struct.unpack('<%df' % len(m), raw(k[:-5]))\n"
    "  assert all((x != 0) <= y for x, y in zip(w, m)), k\n"
    "  print(k, m.count(0) / len(m))\n\" ";

}  // namespace

TEST_CASE("zeros are chosen by magnitude, stay zero, and are the same after a resume") {
  const TinyTraining t;
  for (const std::string rule :
       {R"({"pattern": "vector", "keep": 0.5, "from_epoch": 1})", R"({"pattern": "2:4"})"}) {
    CAPTURE(rule);
    const auto whole = t.run("--overwrite --out whole --set run.epochs=3" + sparse(rule));
    INFO(whole.err);
    REQUIRE(whole.code == 0);
    CHECK(contains(whole.err, " weights of "));
    CHECK(contains(whole.err, " convolutions are zero from now on; "));
    for (const std::string first : {"1", "2"}) {
      REQUIRE(t.run("--overwrite --out r --set run.epochs=" + first + sparse(rule)).code == 0);
      const auto r = shell::run(t.in_folder + "$SLUICE run --resume r --set run.epochs=3");
      INFO(r.err);
      REQUIRE(r.code == 0);
      CHECK(t.weights("r") == t.weights("whole"));
    }
    const auto seen = shell::run(t.in_folder + SLUICE_PYTHON + look + "whole");
    INFO(seen.err);
    CHECK(seen.code == 0);
    INFO(seen.out);
    CHECK(contains(seen.out, ".mask 0.5\n"));
  }
}

TEST_CASE("the mean of a network's weights is zero where these are") {
  const TinyTraining t;
  const std::string rule = R"({"pattern": "vector", "from_epoch": 1})";
  for (const std::string type : {"ema", "swa"}) {
    CAPTURE(type);
    t.folder.write("mean.json", R"({ "models": { "mean": { "type": "unet", "spatial_dims": 3,
        "in_channels": 1, "out_channels": 2, "channels": [16, 32], "strides": [2], "sparsity": )" +
                                    rule + R"( } }, "nodes": { "mean": { "type": ")" + type +
                                    R"(", "in": "step", "net": "mean", "of": "net")" +
                                    (type == "swa" ? R"(, "from_epoch": 0)" : "") + " } } }");
    const auto r = t.run("mean.json --overwrite --out mean" + sparse(rule));
    INFO(r.err);
    REQUIRE(r.code == 0);
    const auto seen = shell::run(t.in_folder + SLUICE_PYTHON + look + "mean");
    INFO(seen.err);
    CHECK(seen.code == 0);
    CHECK(contains(seen.out, "mean.model.1.submodule.conv.weight.mask 0.5"));
  }
}

TEST_CASE("zeros can be made in a network that was trained without") {
  const TinyTraining t;
  REQUIRE(t.run("--out dense --set run.epochs=1" + wide).code == 0);
  const auto r = t.run("--out sparse --set run.epochs=1 --set models.net.weights=dense" +
                       sparse(R"({"pattern": "vector"})"));
  INFO(r.err);
  CHECK(r.code == 0);
}

TEST_CASE("a sparsity that means nothing is refused") {
  const TinyTraining t;
  const auto refused = [&](const std::string& rule, const std::string& why) {
    const auto r = t.run("--out a" + sparse(rule));
    CAPTURE(rule);
    INFO(r.err);
    CHECK(r.code == 2);
    CHECK(contains(r.err, "sparsity: " + why));
  };
  refused(R"({"pattern": "block"})", "\"pattern\" is \"vector\" or \"2:4\"");
  refused(R"({"pattern": "vector", "keep": 0})", "\"keep\" is a share above 0, up to 1");
  refused(R"({"pattern": "2:4", "keep": 0.25})", "2:4 keeps one half");
  refused(R"({"pattern": "vector", "kept": 0.5})", "has no member \"kept\"");
  refused("\"vector\"", "is no object with \"pattern\"");
  const std::string vectors = " --set 'models.net.sparsity={\"pattern\": \"vector\"}'";
  CHECK(contains(t.run("--out a" + vectors).err, "the pattern fits none of the convolutions"));
  t.folder.write("signal.json", R"({
    "models": { "net": { "type": "basic_unet", "spatial_dims": 1, "in_channels": 1,
                         "out_channels": 2, "sparsity": { "pattern": "vector" } } },
    "nodes": {
      "made":  { "type": "noise", "num_samples": 4, "shape": [1, 64], "key": "image" },
      "batch": { "type": "batch", "in": "made", "size": 2 },
      "fwd":   { "type": "model", "in": "batch", "net": "net" },
      "loss":  { "type": "sum_loss", "in": "fwd" },
      "step":  { "type": "sgd", "in": "loss", "net": "net" } } })");
  CHECK(contains(shell::run(t.in_folder + "$SLUICE run signal.json --no-out").err,
                 "signal.json:2:24: models.net: basic_unet: sparsity: 1-D convolutions have no "
                 "zeros that are kept"));
}
