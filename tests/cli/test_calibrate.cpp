// `sluice calibrate` and `export --precision int8`: scales that depend on no thread, a file that
// computes as the network does.
#include "tests/cli/npy.h"
#include "tests/cli/packaged.h"

using nlohmann::json;

namespace {

// The package's graph predicts; its images are those that the network was trained on.
const std::string calibrate =
    "$SLUICE calibrate p/graph.json --set vars.package=p --set vars.images=data/images ";

std::string segmented(const std::string& out, const std::string& more) {
  return "$SLUICE run p/graph.json --quiet --overwrite --set vars.package=p --set "
         "vars.images=data/images --out " +
         out + " " + more + "\n";
}

}  // namespace

TEST_CASE("an exported network of 8 bits segments as the network of 32 does") {
  const Packaged p;
  const auto r = p.sh(calibrate + "--samples 2 --step-threads 1 -o s.json && " + calibrate +
                      "--samples 2 --step-threads 2 -o t.json && cmp s.json t.json");
  INFO(r.err);
  INFO(r.out);
  REQUIRE(r.code == 0);
  const json scales = p.read_json("s.json");
  CHECK(scales.at("symmetric") == true);
  for (const auto& [name, v] : scales.at("values").items()) {
    CHECK(v.at("zero_point") == 0);
    const double most = std::max(-v.at("min").get<double>(), v.at("max").get<double>());
    CHECK(v.at("scale").get<double>() == doctest::Approx(most / 127));
  }
  for (const std::string more : {"", "--method percentile", "--method mse --asymmetric"}) {
    CAPTURE(more);
    const auto e = p.sh(calibrate + more +
                        " -o u.json && $SLUICE export run --precision int8 "
                        "--scales u.json -o m.onnx");
    INFO(e.err);
    REQUIRE(e.code == 0);
    CHECK(p.read_json("u.json").at("samples") == 2);  // of the 32 that it may take
  }
  if (p.sh(std::string(SLUICE_PYTHON) + " -c 'import onnx, onnxruntime'").code != 0) {
    MESSAGE("skipped: no onnx and onnxruntime");
    return;
  }
  const auto checked = p.sh(
      std::string(SLUICE_PYTHON) +
      " -c \"import onnx; onnx.checker.check_model('m.onnx', full_check=True)\" && $SLUICE export "
      "run --precision int8 --scales s.json -o m.onnx --check && $SLUICE export run -o f.onnx");
  INFO(checked.err);
  CHECK(checked.code == 0);
  CHECK(checked.out.find("differs from this build's own float32 forward by ") != std::string::npos);
  const std::string net =
      "--set 'models.net={\"type\": \"onnx\", \"file\": \"m.onnx\", "
      "\"in_channels\": 1, \"out_channels\": 2, \"spatial_dims\": 3}'";
  const auto ran =
      p.sh(segmented("a", "") + segmented("b", net) +
           "for i in 0 1; do gunzip -c a/segmentations/a${i}_seg.nii.gz > a$i; "
           "gunzip -c b/segmentations/a${i}_seg.nii.gz > b$i; cmp -l a$i b$i; done | wc -l");
  INFO(ran.err);
  CHECK(std::stoi(ran.out) <= 16 * 18 * 20 * 2 / 50);  // voxels that change class
}

TEST_CASE("scales that do not belong to a network are refused") {
  const Packaged p;
  REQUIRE(p.sh(calibrate + "-o s.json").code == 0);
  REQUIRE(p.sh("$SLUICE run g.json --quiet --out other --set run.seed=2").code == 0);
  p.refused("$SLUICE export other --precision int8 --scales s.json -o m.onnx", 3,
            "s.json: was calibrated with other weights");
  p.refused("$SLUICE export run --precision int8 -o m.onnx", 2, "go together");
  p.refused("$SLUICE export run --scales s.json -o m.onnx", 2, "go together");
  p.refused("echo '{}' > e.json; $SLUICE export run --precision int8 --scales e.json -o m.onnx", 3,
            "e.json: is no file of `sluice calibrate`");
  for (const auto& [pattern, why] : std::vector<std::pair<std::string, std::string>>{
           {"s/\"scale\": [^,]*/\"scale\": 0/", ".scale: expected a number above 0"},
           {"s/\"scale\": [^,]*/\"scale\": 1e99/", ".scale: expected a number above 0"},
           {"s/\"scale\": [^,]*/\"scale\": \"x\"/", "e.json: is no file of `sluice calibrate`"},
           {"s/\"zero_point\": 0/\"zero_point\": 5/", ".zero_point: expected 0"},
           {"s/\"symmetric\": true/\"symmetric\": 3/", "e.json: is no file of `sluice calibrate`"}})
    p.refused("sed '" + pattern +
                  "' s.json > e.json; $SLUICE export run --precision int8 --scales e.json "
                  "-o m.onnx",
              3, why);
  p.refused("$SLUICE calibrate g.json -o s.json", 2,
            "trains: calibrate with a graph that predicts");
  p.refused(calibrate + "--net other -o s.json", 2, "no network is called other; there are net");
}

TEST_CASE("a package is calibrated as it is run: with its own weights") {
  const Packaged p;
  const auto r = p.sh(
      "$SLUICE calibrate p --set vars.images=data/images -o s.json && "
      "$SLUICE export run --precision int8 --scales s.json -o m.onnx");
  INFO(r.err);
  CHECK(r.code == 0);
}

TEST_CASE("heads of deep supervision, which a prediction leaves out, need no scale") {
  const Packaged p;
  json g = json::parse(packaged_training);
  g["models"]["net"] = json::parse(R"({ "type": "dynunet", "spatial_dims": 3, "in_channels": 1,
      "out_channels": 2, "kernel_size": [3, 3, 3], "strides": [1, 2, 2], "filters": [4, 8, 8],
      "upsample_kernel_size": [2, 2], "deep_supervision": true, "deep_supr_num": 1 })");
  p.folder.write("deep.json", g.dump());
  const auto r = p.sh(
      "$SLUICE run deep.json --quiet --out deep && $SLUICE export deep --package d && "
      "$SLUICE calibrate d/graph.json --set vars.package=d --set vars.images=data/images -o s.json "
      "&& $SLUICE export deep --precision int8 --scales s.json -o m.onnx");
  INFO(r.err);
  REQUIRE(r.code == 0);
  const std::string scales = p.folder.read("s.json");
  CHECK(scales.find("output_block") != std::string::npos);
  CHECK(scales.find("deep_supervision_heads") == std::string::npos);
  p.refused("$SLUICE export deep --precision int8 --scales s.json --outputs 2 -o m.onnx", 2,
            "the scales have none for it");
}

TEST_CASE("a signal ends a calibration, with its code and without a file") {
  const Packaged p;
  const auto r = p.sh(
      "mkdir slow; export TMPDIR=$PWD/slow FILE_CALLS_UNDER=$(realpath slow) "
      "FILE_CALLS_WAIT_US=100000 LD_PRELOAD=" SLUICE_BINARY_DIR "/fake/libfile_calls.so\n" +
      calibrate + "-o s.json & p=$!; sleep 1; kill -TERM $p; wait $p");
  CHECK_MESSAGE(r.code == 143, r.err);
  CHECK(r.err.find("checkpoint") == std::string::npos);
  CHECK_FALSE(shell::fs::exists(p.at("s.json")));
}

TEST_CASE("a graph that stands behind --set is the graph") {
  const Packaged p;
  const auto r = p.sh(
      "$SLUICE calibrate --set vars.package=p --set vars.images=data/images p/graph.json -o "
      "s.json");
  CHECK_MESSAGE(r.code == 0, r.err);
}

TEST_CASE("a value that is not finite, or zero everywhere, has no scale") {
  const Packaged p;
  const std::string all = calibrate + "-o s.json ";
  p.refused(all +
                "--set 'nodes.normalize_intensity={\"type\": \"scale_intensity_range\", \"keys\": "
                "\"image\", \"in\": "
                "\"orientation\", \"a_min\": 0, \"a_max\": 1, \"b_min\": 0, \"b_max\": 0}'",
            3, "what model.0.conv.weight reads is zero everywhere");
  // The first convolution makes them, so the second one reads them; logits are NaN as well.
  const auto spoilt = p.sh(SLUICE_PYTHON R"( - <<'E'
import json, struct
b = bytearray(open('p/weights.safetensors', 'rb').read())
n = struct.unpack('<Q', b[:8])[0]
names = sorted(k for k in json.loads(b[8:8 + n]) if k.endswith('model.0.conv.weight'))
begin, end = json.loads(b[8:8 + n])[names[0]]['data_offsets']
b[8 + n + begin:8 + n + end] = struct.pack('<f', float('nan')) * ((end - begin) // 4)
open('p/weights.safetensors', 'wb').write(b)
E)");
  INFO(spoilt.err);
  REQUIRE(spoilt.code == 0);
  p.refused(all, 3, "what model.1.submodule.conv.weight reads is not finite");
  CHECK_FALSE(shell::fs::exists(p.at("s.json")));
}

TEST_CASE("networks of signals are not calibrated, which is said") {
  const shell::Folder folder;
  npy::write(folder.path / "s.npy", {{1, 16}, std::vector<float>(16, 1.0f)});
  folder.write("g.json", R"({
    "models": { "net": { "type": "unet", "spatial_dims": 1, "in_channels": 1, "out_channels": 2,
                         "channels": [2, 4], "strides": [2] } },
    "nodes": {
      "files": { "type": "file_patterns", "root": ".", "patterns": { "image": "*.npy" } },
      "load":  { "type": "load_image", "in": "files", "keys": "image", "channel_dim": 0 },
      "batch": { "type": "batch", "in": "load", "size": 1 },
      "fwd":   { "type": "model", "in": "batch", "net": "net" },
      "sum":   { "type": "digest", "in": "fwd" } } })");
  const auto r = shell::run("cd " + folder.path.string() + "; $SLUICE calibrate g.json -o s.json");
  INFO(r.err);
  CHECK(r.code == 3);
  CHECK(r.err.find("models.net: 1-D convolutions are not calibrated") != std::string::npos);
  CHECK_FALSE(shell::fs::exists(folder.path / "s.json"));
}
