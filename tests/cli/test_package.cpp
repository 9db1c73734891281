// `sluice export --package`, `sluice run` of a package and `sluice verify`.
#include "tests/cli/packaged.h"

using nlohmann::json;
namespace fs = std::filesystem;

TEST_CASE("a package predicts wherever it is carried, as the run that it was made of") {
  const Packaged p;
  CHECK(p.read_json("p/labels.json") == json{{"0", "air"}, {"1", "ball"}});
  const json manifest = p.read_json("p/manifest.json");
  CHECK(manifest.at("images").at("channels") == 1);
  CHECK(manifest.at("files").contains("model.onnx"));
  REQUIRE(p.sh("mkdir elsewhere && mv p elsewhere/q && $SLUICE new prediction data/images "
               "--weights run -o own.json && $SLUICE run own.json --quiet --out own")
              .code == 0);
  const auto r = p.sh(
      "mkdir far && cd far && $SLUICE run ../elsewhere/q --quiet --out out "
      "--set vars.images=../data/images");
  INFO(r.err);
  REQUIRE(r.code == 0);
  for (const char* name : {"a0_seg.nii.gz", "a1_seg.nii.gz"}) {
    CHECK(fs::exists(p.at(std::string("own/segmentations/") + name)));
    CHECK(p.sh(std::string("cmp own/segmentations/") + name + " far/out/segmentations/" + name)
              .code == 0);
  }
}

TEST_CASE("verify says that a package is whole and computes what it did") {
  const Packaged p;
  const auto r = p.sh("$SLUICE verify p");
  INFO(r.err);
  REQUIRE(r.code == 0);
  // A quarter more than the window, and at least 32 along each axis.
  CHECK(r.out == "6 files as they were packaged\nselftest: 32,768 voxels, 0 differ\n");
  REQUIRE(p.sh("$SLUICE export run --package real --selftest data/images/a0.nii").code == 0);
  const json said = json::parse(p.sh("$SLUICE verify real --json").out);
  CHECK(said == json{{"files", 6}, {"voxels", 16 * 18 * 20}, {"differ", 0}, {"good", true}});
}

TEST_CASE("a package without a self-test is not verified, and how to make one is said") {
  const Packaged p;
  const auto r = p.sh("rm -r p/selftest\n" SLUICE_PYTHON R"( - <<'E'
import json
m = json.load(open("p/manifest.json"))
m["files"] = {name: sha for name, sha in m["files"].items() if not name.startswith("selftest/")}
json.dump(m, open("p/manifest.json", "w"))
E
$SLUICE verify p)");
  INFO(r.out);
  INFO(r.err);
  CHECK(r.code == 3);
  CHECK(r.out.empty());
  CHECK(r.err.find("p: has no self-test, so nothing was computed and compared") !=
        std::string::npos);
  CHECK(r.err.find("`sluice export RUN --package DIR`") != std::string::npos);
}

TEST_CASE("a package that was changed is neither run nor verified") {
  const Packaged p;
  const std::string run = "$SLUICE run p --quiet --no-out --set vars.images=data/images";
  p.sh("cp -r p whole; printf x >> p/weights.safetensors");
  p.refused("$SLUICE verify p", 3, "p/weights.safetensors: is not as it was packaged");
  p.refused(run, 3, "p/weights.safetensors: is not as it was packaged");
  p.sh("rm -r p; cp -r whole p; rm p/labels.json");
  p.refused(run, 3, "p/labels.json: is not there, though the package had it");
  // A prediction does not read the self-test.
  p.sh("rm -r p; cp -r whole p; printf x >> p/selftest/input/made.nii.gz");
  CHECK(p.sh(run).code == 0);
  p.refused("$SLUICE verify p", 3, "selftest/input/made.nii.gz: is not as it was packaged");
  p.sh("rm -r p; cp -r whole p; sed -i 's/\"format\": 1/\"format\": 2/' p/manifest.json");
  p.refused(run, 3, "which is newer than this one");
  for (const char* manifest : {"[]", "3", R"({"format": "x", "sluice": "0.1.0", "files": {}})",
                               R"({"format": 1, "sluice": 3, "files": {}})",
                               R"({"format": 1, "sluice": "0.1.0", "files": []})"}) {
    p.folder.write("p/manifest.json", manifest);
    p.refused("$SLUICE verify p", 3, "p/manifest.json: is no package's");
  }
  p.folder.write("p/manifest.json",
                 R"({"format": 1, "sluice": "0.1.0", "files": {"graph.json": "x"}})");
  p.refused("$SLUICE verify p", 3, "\"files\" lacks weights.safetensors");
  p.sh("rm -r p; cp -r whole p; rm p/manifest.json");
  p.refused("$SLUICE verify p", 3, "p: is no package");
}

TEST_CASE("a self-test that this machine answers otherwise fails") {
  const Packaged p;
  // Another image's segmentation in its place, with its digest.
  p.sh(
      "cat > other.py <<'E'\n"
      "import hashlib, json, gzip\n"
      "f = 'p/selftest/expected/made_seg.nii.gz'\n"
      "b = bytearray(gzip.decompress(open(f, 'rb').read()))\n"
      "for i in range(352, len(b)): b[i] = 1 - b[i] if b[i] < 2 else b[i]\n"
      "open(f, 'wb').write(gzip.compress(bytes(b)))\n"
      "m = json.load(open('p/manifest.json'))\n"
      "m['files']['selftest/expected/made_seg.nii.gz'] = "
      "hashlib.sha256(open(f, 'rb').read()).hexdigest()\n"
      "json.dump(m, open('p/manifest.json', 'w'))\n"
      "E\n" SLUICE_PYTHON " other.py");
  const auto r = p.sh("$SLUICE verify p");
  CHECK(r.code == 3);
  CHECK(r.out.find("32,768 voxels, 32,768 differ") != std::string::npos);
  CHECK(r.err.find("does not compute what the one did that made the package") != std::string::npos);
}

TEST_CASE("a package for MONAI Deploy runs by its manifest's command") {
  const Packaged p;
  const auto r =
      p.sh("$SLUICE export run --package models/balls --map && $SLUICE verify models/balls");
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(r.out.find("8 files as they were packaged") != std::string::npos);
  const json application = p.read_json("models/balls/map/app.json"),
             package = p.read_json("models/balls/map/pkg.json");
  // What the specification requires, and paths that it fixes.
  for (const char* key : {"command", "input", "output", "type", "environment"})
    CHECK(application.contains(key));
  CHECK(application.at("environment").at("HOLOSCAN_INPUT_PATH") == "/var/holoscan/input/");
  CHECK(package.at("models") == json{{{"name", "balls"}, {"path", "balls"}}});
  const auto ran = p.sh(
      "mkdir out; export PATH=$(dirname $SLUICE):$PATH HOLOSCAN_MODEL_PATH=$PWD/models/ "
      "HOLOSCAN_INPUT_PATH=$PWD/data/images/ HOLOSCAN_OUTPUT_PATH=$PWD/out/\n"
      "sh -c '" +
      application.at("command").get<std::string>() +
      "' && "
      "$SLUICE run p --quiet --out own --set vars.images=data/images && "
      "diff -r out/segmentations own/segmentations");
  INFO(ran.err);
  CHECK(ran.code == 0);
  CHECK(fs::exists(p.at("out/segmentations/a1_seg.nii.gz")));
  p.refused("$SLUICE export run -o m.onnx --map", 2, "--package");
}

TEST_CASE("what cannot be packaged is said") {
  const Packaged p;
  p.refused("$SLUICE export run --package p", 2, "p is there already and stays as it is");
  p.refused("$SLUICE export g.json --package q", 3, "g.json/graph.json: no such file");
  p.refused("$SLUICE export run --package q -o m.onnx", 2, "excludes");
  p.refused("$SLUICE export run --package q --selftest none.nii", 4,
            "--selftest none.nii: no such file");
  p.refused("$SLUICE export run --package q --selftest g.json", 2,
            "--selftest g.json: expected a NIfTI file");
  CHECK_FALSE(fs::exists(p.at("q")));
}

TEST_CASE("a signal ends the export of a package, of which nothing stays") {
  const Packaged p;
  const auto r = p.sh(
      "mkdir slow; export TMPDIR=$PWD/slow FILE_CALLS_UNDER=$(realpath slow) "
      "FILE_CALLS_WAIT_US=100000 LD_PRELOAD=" SLUICE_BINARY_DIR
      "/fake/libfile_calls.so\n"
      "$SLUICE export run --package q & e=$!\n"
      "for i in $(seq 200); do ls -d slow/sluice-* > /dev/null 2>&1 && break; sleep 0.05; done\n"
      "kill -TERM $e; wait $e; echo $? > code; unset LD_PRELOAD; ls -A . slow > left");
  INFO(r.err);
  CHECK(p.folder.read("code") == "143\n");
  CHECK(r.err.find("q: its self-test was ended by a signal") != std::string::npos);
  const std::string left = p.folder.read("left");
  INFO(left);
  CHECK(left.find(".q.") == std::string::npos);
  CHECK(left.find("sluice-") == std::string::npos);
  CHECK_FALSE(fs::exists(p.at("q")));
}

TEST_CASE("a made image has the window's one number along each axis") {
  const Packaged p;
  json g = json::parse(packaged_training);
  g["nodes"]["infer"]["roi_size"] = 24;
  p.folder.write("one.json", g.dump());
  const auto r = p.sh(
      "$SLUICE run one.json --quiet --out one && $SLUICE export one --package q && "
      "$SLUICE verify q");
  REQUIRE_MESSAGE(r.code == 0, r.err);
  CHECK(r.out.find("selftest: 32,768 voxels, 0 differ") != std::string::npos);
}

TEST_CASE("flat images and regions that overlap are refused of a package") {
  const Packaged p;
  const auto refused = [&](const json& g, const std::string& why) {
    fs::create_directories(p.at("other"));
    p.folder.write("other/graph.json", g.dump());
    p.refused(
        "$SLUICE export other --package q", 2,
        "other: a package segments volumes by the largest of two or more output channels; " + why);
    CHECK_FALSE(fs::exists(p.at("q")));
  };
  const json whole = json::parse(packaged_training);
  json g = whole;
  g["models"]["net"]["spatial_dims"] = 2;
  g["nodes"]["infer"]["roi_size"] = {16, 16};
  refused(g, "this network takes images of 2 axes");
  g = whole;
  g["nodes"]["loss"] = {{"type", "dice_loss"}, {"in", "fwd"}, {"sigmoid", true}};
  refused(g, "this one's are regions that may overlap, by nodes.loss");
  for (const char* loss : {"bce_with_logits_loss", "focal_loss"}) {
    g["nodes"]["loss"] = {{"type", loss}, {"in", "fwd"}};
    refused(g, "this one's are regions that may overlap, by nodes.loss");
  }
  g = whole;
  g["models"]["net"]["out_channels"] = 1;
  refused(g, "this network has 1");
}

TEST_CASE("a package has the weights that are named, and says so as one document") {
  const Packaged p;
  REQUIRE(p.sh("$SLUICE run g.json --quiet --out other --set run.seed=2").code == 0);
  REQUIRE(p.sh("$SLUICE export other --package o").code == 0);
  const auto r = p.sh("$SLUICE export run --package q --weights other --json");
  REQUIRE_MESSAGE(r.code == 0, r.err);
  const auto sha256 = [&](const std::string& package) {
    return p.read_json(package + "/manifest.json").at("weights_sha256");
  };
  const json said = json::parse(r.out);
  CHECK(said.at("package") == "q");
  CHECK(said.at("files") == 7);
  CHECK(said.at("weights_sha256") == sha256("q"));
  CHECK(sha256("q") == sha256("o"));
  CHECK(sha256("q") != sha256("p"));
  CHECK(p.sh("$SLUICE verify q").code == 0);
}

TEST_CASE("what an ONNX file alone can be is refused of a package") {
  const Packaged p;
  for (const char* option : {"--precision float16", "--scales s.json", "--head softmax",
                             "--size 16,16,16", "--outputs 1", "--check"})
    p.refused(std::string("$SLUICE export run --package q ") + option, 2, "--package excludes");
  CHECK_FALSE(fs::exists(p.at("q")));
}

TEST_CASE("of several networks a package has the one that is named, with what it reads") {
  const Packaged p;
  json g = json::parse(packaged_training);
  g["models"]["small"] = g["models"]["net"];
  g["models"]["small"]["channels"] = {2, 4};
  for (const char* name : {"fwd", "loss", "step", "infer"})
    g["nodes"][std::string("s_") + name] = g["nodes"][name];
  for (const char* name : {"s_fwd", "s_step", "s_infer"}) g["nodes"][name]["net"] = "small";
  g["nodes"]["s_loss"]["in"] = "s_fwd";
  g["nodes"]["s_step"]["in"] = "s_loss";
  g["nodes"]["s_infer"]["overlap"] = 0.5;
  p.folder.write("two.json", g.dump());
  const auto ran = p.sh("$SLUICE run two.json --quiet --out two");
  REQUIRE_MESSAGE(ran.code == 0, ran.err);
  p.refused("$SLUICE export two --package q", 2, "the graph has several networks: --net");
  const auto r = p.sh("$SLUICE export two --package q --net small && $SLUICE verify q");
  REQUIRE_MESSAGE(r.code == 0, r.err);
  const json made = p.read_json("q/graph.json");
  CHECK(made.at("models").at("net").at("channels") == json{2, 4});
  CHECK(made.at("nodes").at("infer").at("overlap") == 0.5);
}

TEST_CASE("a package segments as it would where the validation's window gives labels") {
  const Packaged p;
  REQUIRE(p.sh("cp -r run labels").code == 0);
  json g = p.read_json("run/graph.json");
  g["nodes"]["infer"]["argmax"] = true;
  p.folder.write("labels/graph.json", g.dump());
  const auto r = p.sh(
      "$SLUICE export labels --package q && $SLUICE verify q && cd q/selftest/expected && "
      "cmp made_seg.nii.gz ../../../p/selftest/expected/made_seg.nii.gz");
  CHECK_MESSAGE(r.code == 0, r.err);
}

TEST_CASE("images and labels may have any names in a package") {
  const Packaged p;
  json g = json::parse(packaged_training);
  for (const char* source : {"cases", "val"})
    g["nodes"][source]["patterns"] = {{"ct", "images/*.nii"}, {"organs", "labels/*.nii"}};
  for (const char* both : {"load", "ras", "flip", "fit", "vload", "vras"})
    g["nodes"][both]["keys"] = {"ct", "organs"};
  for (const char* image : {"norm", "vnorm", "fwd"}) g["nodes"][image]["keys"] = "ct";
  g["nodes"]["infer"]["key"] = "ct";
  g["nodes"]["loss"]["label_key"] = "organs";
  g["nodes"]["dice"]["keys"] = {"pred", "organs"};
  const auto same_segmentations = [&](const std::string& name) {
    p.folder.write(name + ".json", g.dump());
    const auto r =
        p.sh("$SLUICE run " + name + ".json --quiet --out r_" + name + " && $SLUICE export r_" +
             name + " --package " + name + " && $SLUICE verify " + name + " && $SLUICE run " +
             name + " --quiet --out o_" + name + " --set vars.images=data/images && " +
             "$SLUICE run p --quiet --out out_" + name +
             " --set vars.images=data/images && diff -r out_" + name + "/segmentations o_" + name +
             "/segmentations");
    CHECK_MESSAGE(r.code == 0, r.err);
  };
  same_segmentations("whole");
  // A network that a model node alone reads, of a field that another was copied to.
  for (const char* node : {"val", "vload", "vras", "vnorm", "infer", "dice"})
    g["nodes"].erase(node);
  g["nodes"]["copy"] = {{"type", "copy_items"}, {"in", "norm"}, {"keys", "ct"}, {"names", "x"}};
  g["nodes"]["flip"]["in"] = "copy";
  for (const char* both : {"flip", "fit"}) g["nodes"][both]["keys"] = {"x", "organs"};
  g["nodes"]["fwd"]["keys"] = "x";
  p.folder.write("m.json", g.dump());
  const auto r = p.sh(
      "$SLUICE run m.json --quiet --out m && $SLUICE export m --package q && $SLUICE verify q");
  CHECK_MESSAGE(r.code == 0, r.err);
  const json made = p.read_json("q/graph.json");
  CHECK(made.at("nodes").at("load").at("keys") == json{"ct"});
  CHECK(made.at("nodes").at("infer").at("key") == "x");
}

TEST_CASE("a package has what stands in front of each load_image, and its lists' defaults") {
  const Packaged p;
  json g = p.read_json("run/graph.json");
  json& nodes = g["nodes"];
  nodes["vload"]["keys"] = {"image"};
  nodes["scale"] = {{"type", "scale_intensity"}, {"in", "vload"}, {"keys", {"image"}}};
  nodes["labels"] = {{"type", "load_image"}, {"in", "scale"}, {"keys", {"label"}}};
  // By default the first key is resampled linearly, the second by its nearest voxel.
  nodes["grid"] = {
      {"type", "spacing"}, {"in", "labels"}, {"keys", {"label", "image"}}, {"pixdim", 1}};
  nodes["vras"]["in"] = "grid";
  fs::create_directories(p.at("two"));
  REQUIRE(p.sh("cp -r run/. two/").code == 0);
  p.folder.write("two/graph.json", g.dump());
  const auto r = p.sh("$SLUICE export two --package q");
  REQUIRE_MESSAGE(r.code == 0, r.err);
  const json made = p.read_json("q/graph.json").at("nodes");
  CHECK(made.at("load").at("keys") == json{"image"});
  CHECK(made.contains("scale_intensity"));
  CHECK(made.at("spacing").at("keys") == json{"image"});
  CHECK(made.at("spacing").at("mode") == json{"nearest"});
}

TEST_CASE("a mean teacher, which validation reads, is what a prediction is made with") {
  const Packaged p;
  json g = json::parse(packaged_training);
  g["models"]["teacher"] = g["models"]["net"];
  g["nodes"]["mean"] = {
      {"type", "ema"}, {"in", "step"}, {"net", "teacher"}, {"of", "net"}, {"decay", 0.5}};
  g["nodes"]["val"]["after"] = "mean";
  g["nodes"]["infer"]["net"] = "teacher";
  p.folder.write("e.json", g.dump());
  const auto r = p.sh(
      "$SLUICE run e.json --quiet --out e && $SLUICE export e --package q --net teacher && "
      "$SLUICE new prediction data/images --weights e -o own.json && "
      "$SLUICE run own.json --quiet --out own && "
      "$SLUICE run q --quiet --out out --set vars.images=data/images && "
      "diff -r out/segmentations own/segmentations");
  CHECK_MESSAGE(r.code == 0, r.err);
  const json own = p.read_json("own.json");
  CHECK(own.at("models").contains("teacher"));
}

TEST_CASE("a package's graph.json runs as its folder does") {
  const Packaged p;
  const auto r = p.sh(
      "$SLUICE run p --quiet --out a --set vars.images=data/images && "
      "$SLUICE run p/graph.json --quiet --out b --set vars.images=data/images && "
      "diff -r a/segmentations b/segmentations");
  CHECK_MESSAGE(r.code == 0, r.err);
  const std::string python =
      "PYTHONPATH=" SLUICE_SOURCE_DIR "/tools/python SLUICE_RUNTIME=" SLUICE_BINARY_DIR
      "/libsluice_runtime.so " SLUICE_PYTHON " -c ";
  if (p.sh(python + "'import sluice'").code != 0) {
    MESSAGE("skipped: no Python with torch");
    return;
  }
  for (const std::string graph : {"p", "p/graph.json"}) {
    CAPTURE(graph);
    const auto batches = p.sh(python + "'import sluice; print(len(list(sluice.batches(\"" + graph +
                              "\", node=\"label\", set={\"vars.images\": \"data/images\"}))))'");
    CHECK_MESSAGE(batches.code == 0, batches.err);
    CHECK(batches.out == "2\n");
  }
}
