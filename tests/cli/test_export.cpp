// `sluice export`, and networks that are ONNX files.
#include <doctest/doctest.h>

#include <filesystem>

#include "tests/cli/npy.h"
#include "tests/cli/tiny_training.h"
#include "tests/text.h"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string python = SLUICE_PYTHON;

bool python_has(const std::string& module) {
  return shell::run(python + " -c 'import " + module + "'").code == 0;
}

// A run of two epochs in DIR/a.
struct Trained : TinyTraining {
  Trained() { REQUIRE(run("--out a --set run.epochs=1").code == 0); }
  shell::Result sh(const std::string& command) const { return shell::run(in_folder + command); }
};

const char* const as_network =
    "--set 'models.net={\"type\":\"onnx\",\"file\":\"m.onnx\",\"spatial_dims\":3,\"in_channels\":1,"
    "\"out_channels\":2}' ";

}  // namespace

TEST_CASE("a run's network is exported, and the file is a valid model") {
  const Trained t;
  const auto r = t.sh("$SLUICE export a -o m.onnx --json");
  INFO(r.err);
  REQUIRE(r.code == 0);
  const json said = json::parse(r.out);
  CHECK(said.at("opset") == 17);
  CHECK(said.at("any_batch") == true);
  CHECK(said.at("any_extents") == true);
  CHECK(said.at("extents") == json{16, 16, 16});
  CHECK(said.at("metadata").at("weights_sha256").get<std::string>().size() == 64);
  REQUIRE(t.sh("$SLUICE export a -o again.onnx && cmp m.onnx again.onnx").code == 0);
  if (!python_has("onnx")) return;
  const auto checked = t.sh(python + " -c 'import onnx; m = onnx.load(\"m.onnx\"); " +
                            "onnx.checker.check_model(m, full_check=True); " +
                            "print(sum(len(t.raw_data) // 4 for t in m.graph.initializer "
                            "if t.data_type == 1))'");
  INFO(checked.err);
  CHECK(checked.code == 0);
  CHECK(std::stoi(checked.out) >= said.at("parameters").get<int>());
}

TEST_CASE("a run's checkpoint is exported with its own weights") {
  const Trained t;  // of one epoch
  REQUIRE(t.sh("$SLUICE run g.json --quiet --out b && "
               "cp -rL $(ls -d a/checkpoints/last* | head -1) b/checkpoints/epoch_00001")
              .code == 0);
  const auto weights = [&](const std::string& command) {
    const auto r = t.sh("$SLUICE export " + command + " -o m.onnx --json");
    INFO(r.err);
    REQUIRE(r.code == 0);
    return json::parse(r.out).at("metadata").at("weights_sha256").get<std::string>();
  };
  const std::string older = weights("b/checkpoints/epoch_00001/");
  CHECK(older == weights("a"));
  CHECK(older != weights("b"));
  CHECK(t.sh("cd b && $SLUICE export checkpoints/epoch_00001 -o m.onnx").code == 0);
}

TEST_CASE("--check holds the file against this build, or says that nothing was compared") {
  const Trained t;
  const auto lone = t.sh("SLUICE_ONNXRUNTIME=/none $SLUICE export a -o m.onnx --check");
  CHECK(lone.code == 2);
  CHECK(contains(lone.err, "ONNX Runtime cannot be loaded: /none"));
  if (!python_has("onnxruntime")) return;
  for (const std::string more :
       {"", "--precision float16 ", "--head softmax ", "--size 8,12,16 "}) {
    const auto r = t.sh("$SLUICE export a -o m.onnx --check --json " + more);
    CAPTURE(more);
    INFO(r.err);
    REQUIRE(r.code == 0);
    CHECK(json::parse(r.out).at("difference").get<double>() <
          (contains(more, "float16") ? 2e-2 : 1e-4));
  }
  const auto unset = t.sh("SLUICE_ONNXRUNTIME= $SLUICE export a -o m.onnx --check");
  CHECK(contains(unset.out, "differs from this build's own"));
  const auto labels = t.sh("$SLUICE export a -o m.onnx --check --head argmax");
  CHECK(contains(labels.out,
                 "0.0000 of the labels differ from this build's own (16x16x16 and "
                 "16x16x32)"));
}

TEST_CASE("--check refuses a network whose numbers are NaN") {
  if (!python_has("onnxruntime")) return;
  const Trained t;
  const auto r = t.sh(python + R"( - <<'E'
import json, struct
b = bytearray(open('a/checkpoints/last/model.safetensors', 'rb').read())
n = struct.unpack('<Q', b[:8])[0]
begin, end = json.loads(b[8:8 + n])['net.model.0.conv.weight']['data_offsets']
b[8 + n + begin:8 + n + end] = struct.pack('<f', float('nan')) * ((end - begin) // 4)
open('nan.safetensors', 'wb').write(b)
E
for head in logits argmax; do
  $SLUICE export a --weights nan.safetensors --check --head $head -o m.onnx
  echo $?
done)");
  INFO(r.err);
  CHECK(r.out == "8\n8\n");
  CHECK(contains(r.err, "m.onnx: output \"logits\" is of numbers that are NaN or infinite"));
}

TEST_CASE("one number for the window is the extent along each axis") {
  const TinyTraining t;
  REQUIRE(t.run("--out a --set run.epochs=1 --set nodes.infer.roi_size=[16]").code == 0);
  for (const std::string more : {"", "--size 8"}) {
    const auto r = shell::run(t.in_folder + "$SLUICE export a -o m.onnx --json " + more);
    REQUIRE_MESSAGE(r.code == 0, r.err);
    const int n = more.empty() ? 16 : 8;
    CHECK(json::parse(r.out).at("extents") == json{n, n, n});
  }
}

TEST_CASE("a file takes one image of its own axes") {
  if (!python_has("onnxruntime")) return;
  const Trained t;
  REQUIRE(t.sh("$SLUICE export a -o m.onnx").code == 0);
  npy::write(t.folder.path / "x.npy", {{1, 1, 4, 4, 4}, std::vector<float>(64)});
  npy::write(t.folder.path / "flat.npy", {{1, 1, 4, 4}, std::vector<float>(16)});
  npy::write(t.folder.path / "more.npy", {{1, 1, 4, 4, 4, 4}, std::vector<float>(256)});
  const auto applied = [&](const std::string& in) {
    return t.sh(
        "$SLUICE apply onnx --param file=m.onnx spatial_dims=3 in_channels=1 "
        "out_channels=2 --in " +
        in);
  };
  CHECK(applied("image=x.npy").code == 0);
  CHECK(contains(applied("image=x.npy other=x.npy").err, "m.onnx takes one image, got 2 inputs"));
  CHECK(contains(applied("image=flat.npy").err, "got [1, 1, 4, 4]"));
  CHECK(contains(applied("image=more.npy").err, "got [1, 1, 4, 4, 4, 4]"));
}

TEST_CASE("a file predicts as the network that it was exported from") {
  if (!python_has("onnxruntime")) return;
  const Trained t;
  REQUIRE(t.sh("$SLUICE export a -o m.onnx").code == 0);
  const json graph = json::parse(tiny_training);
  json predict = {{"run", {{"epochs", 1}, {"seed", 3}}}, {"models", graph["models"]}};
  for (const char* node : {"val", "infer", "dice"}) predict["nodes"][node] = graph["nodes"][node];
  predict["nodes"]["val"].erase("after");
  predict["models"]["net"]["weights"] = "a";
  t.folder.write("p.json", predict.dump());
  const auto dice = [&](const std::string& out, const std::string& more) {
    const auto r = t.sh("$SLUICE run p.json --quiet --out " + out + " " + more);
    INFO(r.err);
    REQUIRE(r.code == 0);
    return t.json_of(out + "/summary.json").at("metrics").dump();
  };
  CHECK(dice("own", "") == dice("file", as_network));
  const auto filled = t.sh(std::string("$SLUICE run p.json --quiet --no-out ") + as_network +
                           " --set +models.net.weights=a");
  CHECK(filled.code == 2);
  CHECK(contains(filled.err, "network \"net\" has no weights to be filled"));
}

TEST_CASE("files that are no networks for this graph are refused before data is read") {
  const Trained t;
  const auto refused = [&](const std::string& file, const std::string& more, int code,
                           const std::string& why) {
    const auto r =
        t.sh("cp " + file + " m.onnx; $SLUICE run g.json --no-out --quiet " + as_network + more);
    INFO(r.err);
    CHECK(r.code == code);
    CHECK(contains(r.err, why));
  };
  REQUIRE(t.sh("$SLUICE export a -o whole.onnx; head -c 200 whole.onnx > cut.onnx; "
               "echo text > text.onnx; : > empty.onnx")
              .code == 0);
  refused("cut.onnx", "", 3, "m.onnx is no ONNX file");
  refused("text.onnx", "", 3, "m.onnx is no ONNX file");
  refused("empty.onnx", "", 3, "m.onnx is no ONNX file");
  refused("whole.onnx", "--set models.net.out_channels=5", 2,
          "m.onnx has 2 channels in \"logits\", out_channels is 5");
  if (!python_has("onnxruntime")) return;
  refused("whole.onnx", "", 2, "has no weights to train");
}

TEST_CASE("what cannot be exported is said") {
  const Trained t;
  const auto refused = [&](const std::string& arguments, const std::string& why) {
    const auto r = t.sh("$SLUICE export " + arguments);
    INFO(r.err);
    CHECK(r.code == 2);
    CHECK(contains(r.err, why));
    CHECK_FALSE(fs::exists(t.folder.path / "x.onnx"));
  };
  refused("a -o x.txt", "x.txt: networks are exported as .onnx");
  refused("a", "name a file, -o net.onnx, or a folder, --package DIR");
  refused("g.json -o x.onnx", "which weights? name a run's folder, or --weights FILE");
  refused("a -o x.onnx --net other", "no network is called other; there are net");
  refused("a -o x.onnx --size 16,16", "--size wants 3 numbers above 0");
  refused("a -o x.onnx --outputs 2", "the network has 1 outputs");
  // A network of something else than images.
  npy::write(t.folder.path / "z.npy", {{1, 3}, {0, 0, 0}});
  REQUIRE(t.sh("$SLUICE apply generator --in image=z.npy --param latent_shape=[3] "
               "start_shape=[2,4,4] channels=[2,1] strides=[2,1] --out pred=y.npy "
               "state=s.safetensors")
              .code == 0);
  t.folder.write("z.json", R"({ "models": { "net": { "type": "generator", "latent_shape": [3],
      "start_shape": [2, 4, 4], "channels": [2, 1], "strides": [2, 1],
      "weights": "s.safetensors" } },
    "nodes": { "a": { "type": "synthetic", "num_samples": 1, "spatial_size": [16, 16],
                      "num_seg_classes": 1 },
               "b": { "type": "batch", "in": "a", "size": 1 },
               "fwd": { "type": "model", "in": "b", "net": "net" } } })");
  refused("z.json -o x.onnx", "models.net: is not exported: its input \"latent\" is no image");
}
