// Networks that begin with weights from PyTorch, and `sluice weights`.
#include <doctest/doctest.h>

#include "tests/cli/npy.h"
#include "tests/cli/tiny_training.h"
#include "tests/text.h"

using nlohmann::json;

namespace {

const std::string folder = SLUICE_SOURCE_DIR "/tests/golden/weights/";

struct Begun {
  TinyTraining t;
  shell::Result run(const std::string& more) const {
    return shell::run(t.in_folder + "$SLUICE run g.json --set run.epochs=1 --set nodes.step.lr=0 " +
                      "--set +models.net.weights=" + folder + "unet.pt " + more);
  }
  json weights(const std::string& arguments) const {
    const auto r = shell::run(t.in_folder + "$SLUICE weights --json " + arguments);
    CAPTURE(r.err);
    REQUIRE(r.code == 0);
    return json::parse(r.out);
  }
};

}  // namespace

TEST_CASE("a network begins with what PyTorch saved, by MONAI's names") {
  const Begun b;
  const std::string prefix = "--set +models.net.strip_prefix=module. ";
  const auto r = b.run(prefix + "--set +models.net.weights_key=state_dict --out a");
  INFO(r.err);
  REQUIRE(r.code == 0);
  const json file = b.weights(folder + "unet.pt --strip-prefix module."),
             here = b.weights("a --strip-prefix net.");
  CHECK(file.at("tensors").size() == 8);
  CHECK(file == here);
  // safetensors hold the same.
  b.weights("a --strip-prefix net. -o net.safetensors");
  CHECK(b.weights("net.safetensors") == file);
}

TEST_CASE("weights that do not fit are refused with what might have been meant") {
  const Begun b;
  const auto refused = [&](const std::string& more, const std::string& why) {
    const auto r = b.run(more + " --out x");
    INFO(r.err);
    CHECK(r.code == 2);
    CHECK(contains(r.err, why));
  };
  refused("", "all its names begin with \"module.\": \"strip_prefix\": \"module.\"");
  const std::string prefix = "--set +models.net.strip_prefix=module. ";
  refused(prefix + "--set models.net.channels=[3,4]",
          "other shapes than network \"net\": \"model.0.conv.weight\" is [2, 1, 3, 3, 3] there and "
          "[3, 1, 3, 3, 3] here");
  const auto odd = b.run(prefix + "--set +models.net.weights_key=net --out x");
  CHECK(odd.code == 3);
  CHECK(contains(odd.err, "has no \"net\"; there are \"epoch\", \"state_dict\""));
}

TEST_CASE("weights of a run are called by its network's name, and need no prefix stripped") {
  const TinyTraining t;
  REQUIRE(t.run("--out a --set run.epochs=1").code == 0);
  const auto begin_with = [&](const std::string& from, const std::string& more) {
    return t.run("--overwrite --out b --steps 1 --set +models.net.weights=" + from + more);
  };
  const auto other = begin_with("a", " --set models.net.out_channels=3");
  CHECK(other.code == 2);
  CHECK(contains(other.err, "\"partial\": true leaves these as they are drawn"));
  shell::fs::create_directory(t.folder.path / "empty");
  const auto none = begin_with("empty", "");
  CHECK(none.code == 4);
  CHECK(contains(none.err, "empty: no weights here: give a run folder"));
  // As prune leaves it: no checkpoint, but a graph and its weights.
  shell::fs::copy(t.folder.path / "a/checkpoints/last/model.safetensors",
                  t.folder.path / "empty/model.safetensors");
  CHECK(begin_with("empty", "").code == 0);
}

TEST_CASE("weights of a run's one network are written by the names that PyTorch has") {
  const Begun b;
  REQUIRE(b.t.run("--out a --set run.epochs=1").code == 0);
  const auto written = shell::run(b.t.in_folder + "$SLUICE weights a -o w.safetensors");
  REQUIRE_MESSAGE(written.code == 0, written.err);
  const json run = b.weights("a").at("tensors"), file = b.weights("w.safetensors").at("tensors");
  REQUIRE(file.size() == run.size());
  for (std::size_t i = 0; i < run.size(); ++i) {
    CHECK("net." + file[i].at("name").get<std::string>() == run[i].at("name"));
    CHECK(file[i].at("sum") == run[i].at("sum"));
  }
  CHECK(b.weights(folder + "unet.pt --strip-prefix module.").at("tensors")[0].at("name") ==
        file[0].at("name"));
}

TEST_CASE("pretrained weights become the part of a network whose names end like theirs") {
  const Begun b;
  REQUIRE(b.t.run("--out a --set run.epochs=1").code == 0);
  REQUIRE(
      shell::run(b.t.in_folder + "$SLUICE weights a --strip-prefix net.model. -o part.safetensors")
          .code == 0);
  const auto with = [&](const std::string& more) {
    return shell::run(b.t.in_folder +
                      "$SLUICE run g.json --set +models.net.weights=part.safetensors "
                      "--set run.epochs=1 --set nodes.step.lr=0 --overwrite --out b" +
                      more);
  };
  const auto whole = with("");
  CHECK(whole.code == 2);
  CHECK(contains(whole.err, "with \"partial\": true they begin the part \"model.\""));
  const auto part = with(" --set +models.net.partial=true");
  REQUIRE_MESSAGE(part.code == 0, part.err);
  CHECK(contains(part.err, "part.safetensors, which become its part \"model.\""));
  CHECK(b.weights("b").at("weights_sha256") == b.weights("a").at("weights_sha256"));
}

// A script of Python begins, with the last weights of the run "a" in whole.safetensors.
static const std::string reading_whole =
    std::string("cp a/checkpoints/last/model.safetensors whole.safetensors\n") + SLUICE_PYTHON
    R"( - <<'E'
import json, struct
data = open("whole.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head, body = json.loads(data[8:8 + n]), data[8 + n:]
)";

TEST_CASE("weights that have more than the network are told, since they may be another one's") {
  const TinyTraining t;
  REQUIRE(t.run("--out a --set run.epochs=1").code == 0);
  const auto r = shell::run(
      t.in_folder + reading_whole +
      R"(head["net.model.9.weight"] = {"dtype": "F32", "shape": [2], "data_offsets": [len(body), len(body) + 8]}
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open("more.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body + struct.pack("<2f", 1, 2))
E
for file in whole more; do
  $SLUICE run g.json --no-out --steps 1 --set +models.net.weights=$file.safetensors 2> $file.txt
done)");
  REQUIRE_MESSAGE(r.code == 0, r.err);
  CHECK(contains(t.folder.read("more.txt"),
                 "note: more.safetensors has what network \"net\" has no place for, so it may be "
                 "another network's: \"net.model.9.weight\""));
  CHECK_FALSE(contains(t.folder.read("whole.txt"), "no place for"));
}

TEST_CASE("a whole network behind each of two prefixes is told as such") {
  const TinyTraining t;
  REQUIRE(t.run("--out a --set run.epochs=1").code == 0);
  const auto r = shell::run(t.in_folder + reading_whole + R"(head.pop("__metadata__", None)
def write(file, prefixes, more=()):
    made, all = {}, b""
    for prefix in prefixes:
        for name, of in head.items():
            begin, end = of["data_offsets"]
            made[prefix + name[4:]] = dict(of, data_offsets=[len(all), len(all) + end - begin])
            all += body[begin:end]
    for name in more:
        made[name] = {"dtype": "F32", "shape": [1], "data_offsets": [len(all), len(all) + 4]}
        all += b"\0" * 4
    text = json.dumps(made).encode()
    text += b" " * (-len(text) % 8)
    open(file + ".safetensors", "wb").write(struct.pack("<Q", len(text)) + text + all)
write("one", ["ema."])
write("two", ["enc.", "ema."])
write("beside", ["ema."], ["epoch"])
E
for file in one two beside; do
  $SLUICE run g.json --no-out --steps 1 --set +models.net.weights=$file.safetensors 2> $file.txt
done; true)");
  REQUIRE_MESSAGE(r.code == 0, r.err);
  const auto says = [&](const std::string& file, const std::string& what) {
    const std::string text = t.folder.read(file);
    CHECK_MESSAGE(contains(text, what), text);
  };
  says("one.txt", "all its names begin with \"ema.\": \"strip_prefix\": \"ema.\"");
  says("two.txt",
       "the file has all of them behind each of \"ema.\", \"enc.\": \"strip_prefix\" says which");
  says("beside.txt", "the file has all of them behind \"ema.\": \"strip_prefix\": \"ema.\"");
}

TEST_CASE("which of a file's dictionaries is meant is asked in the words of who reads it") {
  const Begun b;
  const std::string two = folder + "two.pt";
  const auto asked = shell::run("$SLUICE weights " + two);
  CHECK(asked.code == 3);
  CHECK_MESSAGE(contains(asked.err, "has weights in \"net\", \"ema\": say which with --key"),
                asked.err);
  CHECK(shell::run("$SLUICE weights --key ema " + two).code == 0);
  const auto graph = b.t.run("--no-out --set +models.net.weights=" + two);
  CHECK_MESSAGE(contains(graph.err, "say which with \"weights_key\""), graph.err);
}

TEST_CASE("partial weights are taken where they fit, and the rest is named") {
  const Begun b;
  const auto r = b.run(
      "--set +models.net.strip_prefix=module. --set +models.net.partial=true "
      "--set models.net.out_channels=3 --set nodes.train.num_seg_classes=2 "
      "--set nodes.val.num_seg_classes=2 --out a");
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(contains(r.err,
                 "of another shape: \"model.2.conv.weight\" is [6, 2, 3, 3, 3] there and "
                 "[6, 3, 3, 3, 3] here"));
  const auto nothing = b.run("--set +models.net.partial=true --out b");
  CHECK(nothing.code == 2);
}
