// sluice-edge: packages without LibTorch.
#include <set>

#include "tests/cli/packaged.h"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// The training graph with more before the network, and the prediction back on the label's grid.
std::string graph_with(const std::string& nodes, const std::string& last) {
  std::string text = packaged_training;
  const auto replace = [&](const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  };
  replace(R"("infer": { "type": "sliding_window", "in": "vnorm")",
          nodes + R"("infer": { "type": "sliding_window", "overlap": 0.5, "mode": "gaussian",
                     "sw_batch_size": 3, "in": ")" +
              last + "\"");
  replace(R"("dice":  { "type": "dice_metric", "in": "infer")",
          R"("back": { "type": "invert", "in": "infer" },
             "dice": { "type": "dice_metric", "in": "back")");
  return text;
}

// ONNX Runtime where Python has it; "" and a message where not.
std::string runtime_of(const Packaged& p) {
  const auto found = p.sh(SLUICE_PYTHON
                          " -c 'import onnxruntime, glob, os; print(glob.glob(os.path.dirname("
                          "onnxruntime.__file__) + \"/capi/libonnxruntime.so.*\")[0], end=\"\")'");
  if (found.code != 0) MESSAGE("skipped: no onnxruntime");
  return found.code == 0 ? "export SLUICE_ONNXRUNTIME=" + found.out + "; " : "";
}

// Of the images in data/images, by Sluice with the same network on ONNX Runtime, and by the edge.
void same_labels(const Packaged& p, const std::string& runtime, const std::string& package) {
  const auto own =
      p.sh(runtime + "$SLUICE run " + package +
           " --quiet --out own --set vars.images=data/images --set 'models.net={\"type\": \"onnx\","
           "\"file\": \"" +
           package +
           "/model.onnx\", \"spatial_dims\": 3, \"in_channels\": 1, "
           "\"out_channels\": 2}'");
  INFO(own.err);
  REQUIRE(own.code == 0);
  const auto edge =
      p.sh(runtime + "$SLUICE-edge run " + package + " --images data/images --out edge");
  INFO(edge.err);
  REQUIRE(edge.code == 0);
  CHECK(edge.out == "edge/segmentations/a0_seg.nii.gz\nedge/segmentations/a1_seg.nii.gz\n");
  CHECK(edge.err.find("2 segmented, 0 left out") != std::string::npos);
  for (const char* name : {"a0_seg.nii.gz", "a1_seg.nii.gz"})
    CHECK(p.sh(std::string("cmp own/segmentations/") + name + " edge/segmentations/" + name).code ==
          0);
}

}  // namespace

TEST_CASE("sluice-edge gives a package's labels, byte for byte, without LibTorch") {
  const Packaged p;
  const std::string runtime = runtime_of(p);
  if (runtime.empty()) return;
  same_labels(p, runtime, "p");
  const auto verified = p.sh(runtime + "$SLUICE-edge verify p");
  INFO(verified.err);
  CHECK(verified.code == 0);
  CHECK(verified.out == "selftest: 32768 voxels, 0 differ\n");
  const auto needs = p.sh("ldd $SLUICE-edge");
  REQUIRE(needs.out.find("libc.so") != std::string::npos);
  // With "lib": the addresses that ldd prints may hold "c10".
  for (const char* library : {"libtorch", "libc10", "libtbb", "libITK", "libgomp", "libstdc++"}) {
    CAPTURE(library);
    CHECK(needs.out.find(library) == std::string::npos);
  }
  CHECK(fs::file_size(SLUICE_BINARY_DIR "/sluice-edge") < 3'000'000);
}

TEST_CASE("sluice-edge resamples, crops, pads and scales as Sluice does") {
  const Packaged p;
  const std::string runtime = runtime_of(p);
  if (runtime.empty()) return;
  p.folder.write("h.json", graph_with(R"(
    "space": { "type": "spacing", "in": "vnorm", "keys": "image", "pixdim": [1.25, 0.8, 1] },
    "crop": { "type": "crop_foreground", "in": "space", "keys": "image", "margin": 2,
              "k_divisible": [4, 1, 2] },
    "padded": { "type": "spatial_pad", "in": "crop", "keys": "image", "spatial_size": [18, 26, 22] },
    "unit": { "type": "scale_intensity", "in": "padded", "keys": "image" },
    "wide": { "type": "scale_intensity_range", "in": "unit", "keys": "image", "a_min": 0,
              "a_max": 1, "b_min": -1, "b_max": 1, "clip": true },
    )",
                                      "wide"));
  const auto made =
      p.sh("$SLUICE run h.json --quiet --out run2 && $SLUICE export run2 --package q");
  INFO(made.err);
  REQUIRE(made.code == 0);
  same_labels(p, runtime, "q");
}

TEST_CASE("sluice-edge keeps the largest components that Sluice keeps") {
  const Packaged p;
  const std::string runtime = runtime_of(p);
  if (runtime.empty()) return;
  // Labels of many pieces: the network has hardly been trained.
  const std::vector<std::string> ways{
      R"("hot": true)", R"("connectivity": 1)",
      R"("num_components": 3, "connectivity": 2, "applied_labels": [1])",
      R"("independent": false, "applied_labels": [0, 1])", R"("num_components": 0)"};
  std::set<std::string> different;
  for (const std::string& how : ways) {
    CAPTURE(how);
    const auto made = p.sh("rm -rf q own edge; cp -r p q\n" SLUICE_PYTHON R"( - <<'E'
import hashlib, json, re
g = json.loads(re.sub('//.*', '', open('q/graph.json').read()))
n = g['nodes']
find = lambda name: next(v for v in n.values() if v['type'] == name)
how = json.loads('{)" + how +
                           R"(}')
last = find('argmax' if how.pop('hot', False) else 'save_image')
n['largest'] = {'type': 'keep_largest_connected_component', 'in': last['in'], **how}
if last['type'] == 'argmax':  # a channel a class
    n['hot'] = {'type': 'as_discrete', 'in': last['in'], 'threshold': 0.0}
    n['largest']['in'] = 'hot'
last['in'] = 'largest'
json.dump(g, open('q/graph.json', 'w'))
m = json.load(open('q/manifest.json'))
m['files']['graph.json'] = hashlib.sha256(open('q/graph.json', 'rb').read()).hexdigest()
json.dump(m, open('q/manifest.json', 'w'))
E)");
    INFO(made.err);
    REQUIRE(made.code == 0);
    same_labels(p, runtime, "q");
    different.insert(p.sh("cat edge/segmentations/*").out);
  }
  CHECK(different.size() == ways.size());
}

TEST_CASE("sluice-edge names what it does not run, what was changed and what is missing") {
  const Packaged p;
  const std::string run = "$SLUICE-edge run p --images data/images --out out";
  p.refused("SLUICE_ONNXRUNTIME=/none " + run, 2, "ONNX Runtime cannot be loaded");
  p.refused("$SLUICE-edge run data --images data/images", 3, "data/manifest.json: no such file");
  p.refused(run + " --threads 0", 2, "--threads: Value 0 not in range 1 to 4096");
  p.sh("cp -r p whole; printf x >> p/model.onnx");
  p.refused(run, 3, "p/model.onnx: is not as it was packaged");
  // A node and a parameter of Sluice's that are not here, with their digest.
  const auto edit = [&](const std::string& from, const std::string& to) {
    const auto r = p.sh("rm -rf p; cp -r whole p\n" SLUICE_PYTHON R"( - <<'E'
import hashlib, json
t = open('p/graph.json').read()
assert ')" + from + R"(' in t
open('p/graph.json', 'w').write(t.replace(')" +
                        from + "', '" + to + R"(', 1))
m = json.load(open('p/manifest.json'))
m['files']['graph.json'] = hashlib.sha256(open('p/graph.json', 'rb').read()).hexdigest()
json.dump(m, open('p/manifest.json', 'w'))
E)");
    INFO(r.err);
    REQUIRE(r.code == 0);
  };
  edit("\"type\": \"normalize_intensity\"", "\"type\": \"median_smooth\"");
  p.refused(run, 2, "unknown node type \"median_smooth\"");
  p.refused(run, 2, "sluice-edge does not have it");
  p.refused(run, 2, "p/graph.json:");
  p.refused(run, 2, "`sluice run` runs what sluice-edge does not");
  edit("\"type\": \"argmax\"", "\"type\": \"argmax\", \"regions_class_order\": [1, 2]");
  p.refused(run, 2, "regions_class_order");
}

TEST_CASE("logits that are not finite end a prediction with exit 8 or quarantine the sample") {
  const Packaged p;
  // All numbers of the last layer become NaN, in the weights and in model.onnx.
  const auto spoilt = p.sh(SLUICE_PYTHON R"( - <<'E'
import hashlib, json, struct
b = bytearray(open('p/weights.safetensors', 'rb').read())
n = struct.unpack('<Q', b[:8])[0]
head = json.loads(b[8:8 + n])
onnx = open('p/model.onnx', 'rb').read()
spoilt = 0
for name, t in head.items():
    if name == '__metadata__' or t['dtype'] != 'F32': continue
    begin, end = (8 + n + o for o in t['data_offsets'])
    was, nan = bytes(b[begin:end]), struct.pack('<f', float('nan')) * ((end - begin) // 4)
    if len(was) >= 64 and onnx.count(was) == 1:
        b[begin:end] = nan
        onnx = onnx.replace(was, nan)
        spoilt += 1
assert spoilt > 0
open('p/weights.safetensors', 'wb').write(b)
open('p/model.onnx', 'wb').write(onnx)
m = json.load(open('p/manifest.json'))
for f in ('weights.safetensors', 'model.onnx'):
    m['files'][f] = hashlib.sha256(open('p/' + f, 'rb').read()).hexdigest()
json.dump(m, open('p/manifest.json', 'w'))
E)");
  INFO(spoilt.err);
  REQUIRE(spoilt.code == 0);
  const std::string why =
      "the network's logits are NaN or infinite in window 1 of 4, at voxel "
      "[0, 0, 0]";
  const std::string run = "$SLUICE run p --quiet --no-out --set vars.images=data/images";
  p.refused(run, 8, why);
  p.refused(run, 8, "a0");
  const auto left_out = p.sh(run + " --set +nodes.infer.on_error=quarantine");
  CHECK(left_out.code == 0);
  CHECK(left_out.err.find("quarantined a1") != std::string::npos);
  CHECK(left_out.err.find(why) != std::string::npos);
  p.refused(run + " --set +nodes.infer.on_error=quarantine --set +nodes.infer.max_bad=1", 8, why);
  const std::string runtime = runtime_of(p);
  if (runtime.empty()) return;
  p.refused(runtime + "$SLUICE-edge run p --images data/images --out out", 8, "infer: a0: " + why);
}

TEST_CASE("sluice-edge computes the same on aarch64, in the emulator") {
  if (!std::getenv("SLUICE_LONG")) {
    MESSAGE("skipped: builds for another processor, so with SLUICE_LONG=1");
    return;
  }
  const Packaged p;
  const auto r = p.sh("SLUICE_VENV=$(dirname $(dirname " SLUICE_PYTHON ")) " SLUICE_SOURCE_DIR
                      "/tools/edge/aarch64.sh " SLUICE_BINARY_DIR "/aarch64 verify p");
  if (r.code == 77) {
    MESSAGE(r.err);
    return;
  }
  INFO(r.err);
  CHECK(r.code == 0);
  CHECK(r.out.find("selftest: 32768 voxels, 0 differ") != std::string::npos);
}
