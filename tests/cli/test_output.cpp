// What a run leaves to look at: previews, TensorBoard's event files, the timeline, the sessions.
#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <sstream>

#include "tests/cli/shell.h"

using nlohmann::json;
using shell::Folder;

namespace {

const char* const watched = R"({
  "vars": { "root": "", "epochs": 4 },
  "run": { "epochs": "@epochs", "seed": 1, "step_threads": 1, "checkpoint": { "every_epochs": 1 } },
  "models": { "net": { "type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 3,
                       "channels": [4, 8], "strides": [2], "num_res_units": 1 } },
  "nodes": {
    "train": { "type": "decathlon", "root": "@root", "split": "training", "limit": 8 },
    "load":  { "type": "load_image", "in": "train" },
    "norm":  { "type": "normalize_intensity", "in": "load" },
    "fit":   { "type": "resize_with_pad_or_crop", "in": "norm", "spatial_size": [32, 32, 32] },
    "kept":  { "type": "cache", "in": "fit" },
    "batch": { "type": "batch", "in": "kept", "size": 2 },
    "fwd":   { "type": "model", "in": "batch", "net": "net" },
    "loss":  { "type": "dice_ce_loss", "in": "fwd", "to_onehot_y": true, "softmax": true },
    "step":  { "type": "adam", "in": "loss", "net": "net", "lr": 0.01 },
    "val":   { "type": "decathlon", "root": "@root", "split": "validation", "after": "step", "limit": 3 },
    "vload": { "type": "load_image", "in": "val" },
    "vnorm": { "type": "normalize_intensity", "in": "vload" },
    "infer": { "type": "sliding_window", "in": "vnorm", "net": "net", "roi_size": [32, 32, 32] },
    "dice":  { "type": "dice_metric", "in": "infer", "include_background": false },
    "see":   { "type": "preview", "in": "infer", "count": 2, "size": 64 },
    "board": { "type": "tensorboard", "in": "infer", "max_images": 1, "size": 64 }
  }
})";

struct Watched {
  Folder folder;
  std::string graph, flags;
  bool ready;
  Watched() {
    const std::string data = shell::test_data();
    ready = !data.empty();
    if (!ready) MESSAGE("skipped: SLUICE_TEST_DATA names no folder with real data");
    graph = folder.write("watched.json", watched).string();
    flags = " --quiet --threads 2 --set vars.root=" + data + "/Task04_Hippocampus ";
  }
  std::string out(const std::string& name) const { return (folder.path / name).string(); }
  shell::Result run(const std::string& more) const {
    return shell::run("$SLUICE run " + graph + flags + more);
  }
  json read(const std::string& file) const { return json::parse(folder.read(file)); }
  std::vector<json> lines(const std::string& file) const {
    std::istringstream in(folder.read(file));
    std::vector<json> all;
    for (std::string line; std::getline(in, line);) all.push_back(json::parse(line));
    return all;
  }
};

// What TensorBoard reads; null, and a message, where it is not installed.
json events(const std::string& folder) {
  const auto r =
      shell::run(SLUICE_PYTHON " " SLUICE_SOURCE_DIR "/tests/cli/read_events.py " + folder);
  if (r.code != 0) MESSAGE("skipped: TensorBoard's reader is not here: " << r.err);
  const bool absent_or_fine = r.code == 0 || r.code == 77 || r.code == 127;
  CHECK(absent_or_fine);
  return r.code == 0 ? json::parse(r.out) : json();
}

// The run's own record of one value, by step.
std::vector<std::pair<double, double>> recorded(const std::vector<json>& lines, const char* kind,
                                                const std::string& name) {
  std::vector<std::pair<double, double>> all;
  for (const json& l : lines)
    if (l.value(kind, "") == name) all.push_back({l.at("step"), l.at("value")});
  return all;
}

void check_scalars(const json& found, const std::vector<json>& lines) {
  const std::pair<const char*, const char*> kinds[] = {{"log", "batch/"}, {"metric", "epoch/"}};
  for (const auto& [kind, prefix] : kinds)
    for (const char* name : {"step.loss", "step.lr", "dice.mean", "dice.class_1"}) {
      const auto expect = recorded(lines, kind, name);
      const std::string tag = std::string(prefix) + name;
      INFO(tag);
      REQUIRE(found.at("scalars").contains(tag) == !expect.empty());
      if (expect.empty()) continue;
      const json& scalars = found.at("scalars").at(tag);
      REQUIRE(scalars.size() == expect.size());
      for (std::size_t i = 0; i < expect.size(); ++i) {
        CHECK(scalars[i][0] == expect[i].first);
        CHECK(scalars[i][1].get<double>() == doctest::Approx(expect[i].second));
      }
    }
}

}  // namespace

TEST_CASE("TensorBoard reads every metric, every logged value and the pictures of a run") {
  Watched w;
  if (!w.ready) return;
  const auto r = w.run("--out " + w.out("run"));
  INFO(r.err);
  REQUIRE(r.code == 0);
  const json found = events(w.out("run/tensorboard"));
  if (found.is_null()) return;
  check_scalars(found, w.lines("run/metrics.jsonl"));
  CHECK(found.at("scalars").at("batch/step.loss").size() == 16);
  CHECK(found.at("scalars").at("epoch/number") == json({{4, 1}, {8, 2}, {12, 3}, {16, 4}}));
  const json& images = found.at("images").at("board/0");
  REQUIRE(images.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(images[i][0] == 4 * (i + 1));
    CHECK(images[i][3] == "89504e47");
  }
}

TEST_CASE("a killed and resumed run leaves every step once in TensorBoard's eyes") {
  Watched w;
  if (!w.ready) return;
  // So many epochs that some are left after the kill on the quickest machine.
  const std::string run = "$SLUICE run " + w.graph + w.flags + "--set vars.epochs=40 ";
  // Killed for good, in some epoch after a checkpoint.
  const auto killed = shell::run(
      run + "--out " + w.out("run") + " & p=$!; for i in $(seq 1200); do [ -e " + w.out("run") +
      "/checkpoints/epoch_00003 ] && break; sleep 0.05; done; sleep 0.1; kill -9 $p; wait $p");
  REQUIRE(killed.code == 128 + 9);
  CHECK_FALSE(std::filesystem::exists(w.folder.path / "run/summary.json"));
  const auto rest = shell::run(run + "--resume " + w.out("run"));
  INFO(rest.err);
  REQUIRE(rest.code == 0);

  const auto sessions = w.lines("run/sessions.jsonl");
  REQUIRE(sessions.size() == 3);
  CHECK(sessions[0].at("event") == "begin");
  CHECK(sessions[1].at("event") == "begin");
  CHECK(sessions[1].at("resumed_from").get<std::string>().find("epoch_") != std::string::npos);
  CHECK(sessions[2].at("event") == "end");

  const json found = events(w.out("run/tensorboard"));
  if (found.is_null()) return;
  const auto lines = w.lines("run/metrics.jsonl");
  check_scalars(found, lines);
  const json& losses = found.at("scalars").at("batch/step.loss");
  for (std::size_t i = 0; i < losses.size(); ++i) CHECK(losses[i][0] == i + 1);
  std::set<int> steps;
  for (const json& image : found.at("images").at("board/0"))
    CHECK(steps.insert(image[0].get<int>()).second);
}

TEST_CASE("a resumed run with nothing left to train leaves no later step in TensorBoard's eyes") {
  Watched w;
  if (!w.ready) return;
  const auto first = w.run("--set vars.epochs=3 --out " + w.out("run"));
  INFO(first.err);
  REQUIRE(first.code == 0);
  // As if it had been killed before the checkpoint of its third epoch was there.
  for (const char* checkpoint : {"epoch_00003", "last"})
    std::filesystem::remove_all(w.folder.path / "run/checkpoints" / checkpoint);
  const auto rest = w.run("--set vars.epochs=2 --resume " + w.out("run"));
  INFO(rest.err);
  REQUIRE(rest.code == 0);
  const json found = events(w.out("run/tensorboard"));
  if (found.is_null()) return;
  check_scalars(found, w.lines("run/metrics.jsonl"));
  CHECK(found.at("scalars").at("batch/step.loss").size() == 8);
}

TEST_CASE("a run leaves previews, a timeline, the environment and its slowest samples") {
  Watched w;
  if (!w.ready) return;
  const auto r = w.run("--out " + w.out("run"));
  INFO(r.err);
  REQUIRE(r.code == 0);
  const auto index = w.lines("run/previews/index.jsonl");
  CHECK(index.size() == 8);
  for (const json& line : index) {
    const auto file = w.folder.path / "run/previews" / line.at("file").get<std::string>();
    CHECK(std::filesystem::file_size(file) > 100);
  }
  CHECK(w.read("run/environment.json").at("command").at(1) == "run");
  const json timeline = w.read("run/timeline.json"), profile = w.read("run/profile.json");
  for (const auto& [name, node] : profile.at("nodes").items()) {
    INFO(name);
    CHECK(timeline.at("nodes").at(name).at("queue").size() == timeline.at("cpu").size());
    const json& slowest = node.at("slowest");
    CHECK(slowest.size() == std::min<std::size_t>(10, node.at("items")));
    for (std::size_t i = 1; i < slowest.size(); ++i)
      CHECK(slowest[i - 1].at("ms").get<double>() >= slowest[i].at("ms").get<double>());
  }
  const auto ends = profile.at("epoch_ends_s").get<std::vector<double>>();
  CHECK(ends.size() == w.read("run/summary.json").at("epochs").get<std::size_t>());
  CHECK(std::is_sorted(ends.begin(), ends.end()));
  const json& slow = profile.at("nodes").at("load").at("slowest").at(0);
  CHECK(slow.at("file").get<std::string>().find(slow.at("sample").get<std::string>()) !=
        std::string::npos);
  // Another run in the same folder is another run: nothing of this one stays.
  REQUIRE(w.run("--overwrite --set vars.epochs=1 --out " + w.out("run")).code == 0);
  CHECK(w.lines("run/previews/index.jsonl").size() == 2);
  CHECK(w.lines("run/sessions.jsonl").size() == 2);
}
