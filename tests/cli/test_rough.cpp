// A machine and files that do not behave: full outputs, names with escape sequences, thousands of
// warnings, bodies that do not end.
#include <doctest/doctest.h>

#include "tests/cli/shell.h"
#include "tests/text.h"

using nlohmann::json;
using shell::Folder;

namespace {

const char* const tiny = R"({
  "run": { "watchdog_s": 300 },
  "nodes": {
    "train": { "type": "synthetic", "num_samples": 2, "spatial_size": [16, 16, 16],
               "rad_min": 2, "rad_max": 6 },
    "scale": { "type": "scale_intensity", "in": "train", "keys": ["image"] },
    "save":  { "type": "save_image", "in": "scale", "keys": ["image"], "output_dir": "/tmp" }
  }
})";

std::string in(const Folder& folder) { return "cd " + folder.path.string() + "; "; }

}  // namespace

TEST_CASE("output that does not reach stdout is exit 4 with the cause") {
  const Folder folder;
  folder.write("g.json", tiny);
  folder.write("ragged.json", "{\"name\":   \"a\"}");
  folder.write("wrong.json", "{\"nodes\": 1}");
  for (const std::string command :
       {"check g.json", "check --json g.json", "schema", "inspect", "inspect --json", "dot g.json",
        "explain", "doctor --json", "fmt --check ragged.json", "check --json wrong.json"}) {
    CAPTURE(command);
    const auto r = shell::run(in(folder) + "$SLUICE " + command + " >/dev/full");
    CHECK(r.code == 4);
    CHECK_MESSAGE(contains(r.err, "cannot write to stdout: No space left on device"), r.err);
  }
}

TEST_CASE("a current folder that was removed is said before anything is loaded") {
  const Folder folder;
  const std::string graph = folder.write("g.json", tiny).string();
  for (const std::string& command :
       {"run " + graph + " --no-out", std::string("doctor"), std::string("weights x")}) {
    CAPTURE(command);
    const auto r =
        shell::run(in(folder) + "mkdir -p gone; cd gone; rm -r ../gone; $SLUICE " + command);
    CHECK(r.code == 4);
    CHECK(r.err == "error: the current folder does not exist: No such file or directory\n");
  }
  CHECK(shell::run(in(folder) + "mkdir -p gone; cd gone; rm -r ../gone; $SLUICE explain").code ==
        0);
}

TEST_CASE("files that cannot be written are exit 4, and nothing half-written stays") {
  const Folder folder;
  folder.write("g.json", tiny);
  folder.write("run/graph.json", tiny);
  const auto small =
      shell::run(in(folder) + "ulimit -f 1; " +
                 "$SLUICE dot g.json -o x.dot; echo $?; $SLUICE report run; echo $?");
  CHECK(contains(small.out, "4\n4\n"));
  CHECK(contains(small.err, "cannot write x.dot: File too large"));
  CHECK_FALSE(std::filesystem::exists(folder.path / "x.dot"));
  CHECK_FALSE(std::filesystem::exists(folder.path / "x.dot.part"));
  CHECK_FALSE(std::filesystem::exists(folder.path / "run/report.html"));
  const auto full = shell::run(
      in(folder) + "ln -s /dev/full full.dot; " + "$SLUICE dot g.json -o full.dot; echo $?; " +
      "$SLUICE report run -o /dev/full; echo $?; test -c /dev/full; echo $?");
  CHECK(full.out == "4\n4\n0\n");
}

TEST_CASE("escape sequences in names do not reach the terminal") {
  const Folder folder;
  folder.write("a\x1b[31mb.json", tiny);
  folder.write("bad\x1b]0;x\x07.json",
               "{\"nodes\": {\"a\\u001b[2J\": {\"type\": \"\\u001b[1m\"}}}");
  const auto r = shell::run(in(folder) + "$SLUICE check *.json; $SLUICE check no*such$'\\e[2J'");
  CHECK_FALSE(contains(r.out + r.err, "\x1b"));
  CHECK_FALSE(contains(r.out + r.err, "\x07"));
  CHECK(contains(r.out, "ok: a\\x1b[31mb.json"));
  CHECK(contains(r.err, "bad\\x1b]0;x\\x07.json"));
}

TEST_CASE("thousands of warnings in a file of one line are said in seconds") {
  const Folder folder;
  json g = {
      {"nodes",
       {{"train", {{"type", "synthetic"}, {"num_samples", 2}, {"spatial_size", {64, 64, 64}}}}}}};
  for (int i = 0; i < 4000; ++i)
    g["nodes"]["n" + std::to_string(i)] = {
        {"type", "scale_intensity"}, {"in", "train"}, {"keys", "image"}};
  folder.write("g.json", g.dump());
  const auto r = shell::run(in(folder) + "timeout 20 $SLUICE check g.json");
  CHECK(r.code == 0);
  CHECK(contains(r.err, "warning[SL0319]: and 3900 more of this kind"));
  CHECK(contains(r.err, "found 0 errors, 4000 warnings"));
}

TEST_CASE("a body that does not end is named, with its sample, and the summary says stalled") {
  const Folder folder;
  json g = json::parse(tiny);
  g["nodes"]["train"]["spatial_size"] = {320, 320, 320};
  g["run"]["watchdog_s"] = 0.05;
  folder.write("g.json", g.dump());
  const auto r = shell::run(in(folder) + "$SLUICE run g.json --quiet --out r");
  CHECK(r.code == 7);
  CHECK_MESSAGE(contains(r.err, "train (synthetic): epoch 0"), r.err);
  CHECK_MESSAGE(contains(r.err, "works on (0/0/0) for 0."), r.err);
  const json summary = json::parse(folder.read("r/summary.json"), nullptr, false);
  REQUIRE(summary.is_object());
  CHECK(summary["status"] == "stalled");
}

TEST_CASE("of a file that is not there the first folder is named that is missing") {
  const Folder folder;
  folder.write("data/list.json", "{}");
  json g = json::parse(tiny);
  g["nodes"]["train"] = {{"type", "decathlon"}, {"root", "data/Task1/raw"}};
  g["nodes"]["load"] = {{"type", "load_image"}, {"in", "train"}, {"keys", {"image"}}};
  g["nodes"]["scale"]["in"] = "load";
  folder.write("g.json", g.dump());
  const auto said = [&](const std::string& command) {
    const auto r = shell::run(in(folder) + "$SLUICE " + command);
    CHECK(r.code != 0);
    return r.out + r.err;
  };
  const auto says = [&](const std::string& command, const std::string& part) {
    const std::string text = said(command);
    CHECK_MESSAGE(contains(text, part), command, "\n", text);
  };
  says("check data/more/x/g.json", "(no folder more in data)");
  says("check data/list.json/g.json", "(data/list.json is no folder)");
  says("run g.json --quiet --no-out", "(no folder Task1 in data)");
  says("runs data/more/x", "data/more/x: no such folder (no folder more in data)");
  says("data check data/more/x", "data/more/x: no such file or folder (no folder more in data)");
  const std::string here = shell::fs::canonical(folder.path).string();
  says("check none/g.json", "(no folder none in " + here + ")");
  CHECK_FALSE(contains(said("check data/none.json"), "no folder"));
}

TEST_CASE("what is not a regular file is refused at once wherever a path is given") {
  const Folder folder;
  folder.write("g.json", tiny);
  const auto r =
      shell::run(in(folder) + "mkfifo f; for c in 'check f' 'dot f' 'run f' 'report f' " +
                 "'trace f' 'check /dev/zero'; do timeout 10 $SLUICE $c; echo $?; done");
  CHECK_FALSE(contains(r.out, "124"));
  CHECK_FALSE(contains(r.out, "0\n"));
  CHECK(contains(r.err, "f: it is not a regular file"));
}

TEST_CASE("a run's folder stands for its graph wherever a graph is taken") {
  const Folder folder;
  folder.write("r/graph.json", tiny);
  for (const std::string command : {"check r", "dot r", "check --json r"}) {
    CAPTURE(command);
    CHECK(shell::run(in(folder) + "$SLUICE " + command).code == 0);
  }
  const auto measured = shell::run(in(folder) + "$SLUICE dot --run r");
  CHECK(measured.code == 4);  // no profile.json: it was never run
  CHECK(contains(measured.err, "r/profile.json"));
}

TEST_CASE("MONAI's names find nodes, and words find the types that hold them") {
  const auto flip = shell::run("$SLUICE inspect RandFlipd");
  CHECK(flip.code == 0);
  CHECK(flip.out.starts_with("MONAI's RandFlipd is rand_flip\n"));
  CHECK(contains(flip.out, "spatial_axis"));
  const auto word = shell::run("$SLUICE inspect _flip");
  CHECK(word.code == 0);
  CHECK(contains(word.out, "rand_axis_flip"));
  CHECK(contains(word.out, "rand_flip"));
  CHECK(shell::run("$SLUICE inspect DiceCELoss")
            .out.starts_with("MONAI's DiceCELoss is dice_ce_loss\n"));
}

TEST_CASE("a what-if that names no node is refused before anything runs") {
  const Folder folder;
  folder.write("g.json", tiny);
  const auto r = shell::run(in(folder) + "timeout 60 $SLUICE profile g.json --seconds 1000 " +
                            "--what-if scael.threads=4");
  CHECK(r.code == 2);
  CHECK_MESSAGE(contains(r.err, "no node is called \"scael\"; did you mean \"scale\"?"), r.err);
}
