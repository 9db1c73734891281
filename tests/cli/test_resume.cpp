// Whose folder it is, and what a resume goes on with.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "engine/plan/turn_place.h"
#include "tests/cli/nifti.h"
#include "tests/cli/packaged.h"
#include "tests/cli/tiny_training.h"
#include "tests/cli/types.h"
#include "tests/text.h"

using nlohmann::json;
using shell::Folder;
namespace fs = std::filesystem;

namespace {

// The numbers of the turns that a run of `epochs` in all makes after one of `first`.
std::vector<sluice::Turn> turns(int epochs, int every, const json* place = nullptr,
                                json* end = nullptr) {
  json graph = json::parse(tiny_training);
  graph["run"]["epochs"] = epochs;
  graph["nodes"]["val"]["every_epochs"] = every;
  sluice::Diagnostics said;
  const auto read = sluice::load_graph(sluice::parse_document("g.json", graph.dump(), said),
                                       types::real(), {}, said);
  REQUIRE(read);
  const auto plan = sluice::make_plan(*read, {}, said);
  REQUIRE(plan);
  const auto order = plan->sequence();
  if (end) *end = sluice::turn_place(*plan, order.size());
  std::vector<sluice::Turn> all;
  for (std::size_t i = place ? sluice::turn_at(*plan, *place) : 0; i < order.size(); ++i)
    all.push_back(order[i]);
  for (std::size_t i = 0; i < order.size(); ++i)
    CHECK(sluice::turn_at(*plan, sluice::turn_place(*plan, i)) == i);
  return all;
}

bool trains(const sluice::Turn& t, const std::vector<sluice::Turn>& all) {
  return t.stream == all.front().stream;
}

}  // namespace

TEST_CASE("going on with more epochs trains each of the added ones, wherever validation stands") {
  for (int every = 1; every <= 3; ++every)
    for (int first = 1; first <= 4; ++first)
      for (int all = 1; all <= 4; ++all) {
        CAPTURE(every);
        CAPTURE(first);
        CAPTURE(all);
        json end;
        turns(first, every, nullptr, &end);
        const auto whole = turns(all, every), rest = turns(all, every, &end);
        std::vector<sluice::Turn> wanted;
        for (const auto& t : whole)
          if (static_cast<int>(t.train_epoch) >= first) wanted.push_back(t);
        CHECK(rest == wanted);
        CHECK((rest.empty() || trains(rest.front(), whole)));
      }
}

TEST_CASE("a validation that the longer run does not have is passed, and its epoch is over") {
  json place{{"epoch", 0}, {"validation", "val"}};  // the extra one after the last of 1 epoch
  CHECK(turns(2, 2, &place).front().train_epoch == 1);
  place["validation"] = "gone";
  CHECK(turns(2, 1, &place).front().train_epoch == 1);
  place = {{"epoch", 0}, {"validation", "val"}};
  CHECK(turns(2, 1, &place).size() == 3);
}

TEST_CASE("a run that goes on with more epochs ends with the weights of the longer run") {
  const TinyTraining t;
  REQUIRE(t.run("--set nodes.val.every_epochs=2 --set run.epochs=2 --out whole").code == 0);
  REQUIRE(t.run("--set nodes.val.every_epochs=2 --set run.epochs=1 --out r").code == 0);
  const auto more = shell::run(t.in_folder + "$SLUICE run --resume r --set run.epochs=2");
  INFO(more.out, more.err);
  CHECK(more.code == 0);
  CHECK(contains(more.out, "done: 2 epochs, 6 steps"));
  CHECK(contains(more.err, "run.epochs: 1 -> 2"));
  CHECK(t.weights("r") == t.weights("whole"));

  const std::string summary = t.folder.read("r/summary.json");
  const auto again = shell::run(t.in_folder + "$SLUICE run --resume r");
  CHECK(again.code == 0);
  CHECK(again.out == "nothing is left: epochs is 2; --set run.epochs=N goes on\n");
  CHECK(t.folder.read("r/summary.json") == summary);
}

TEST_CASE("a proposed command holds the folder's name as a shell reads it") {
  const TinyTraining t;
  REQUIRE(t.run("--out \"it's 1\"").code == 0);
  const auto refused = t.run("--out \"it's 1\"");
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "it's 1 holds a run of g.json: --resume 'it'\\''s 1' goes on"));
}

TEST_CASE("a folder that holds a run is refused, kept, gone on with or replaced, as is said") {
  const TinyTraining t;
  REQUIRE(t.run("--trace --out a").code == 0);
  const json first = t.json_of("a/run.json");
  CHECK(first.at("id").get<std::string>().size() == 32);
  t.folder.write("a/notes.txt", "mine");
  t.folder.write("a/report.html", "old");
  t.folder.write("a/tensorboard/events.out.tfevents.0000000001.sluice", "old");
  t.folder.write("a/previews/epoch_00001/x_0.png", "old");
  t.folder.write("a/previews/epoch_00001/mine.txt", "mine");

  const auto refused = t.run("--out a");
  CHECK(refused.code == 2);
  CHECK(contains(refused.err,
                 "a holds a run of g.json: --resume a goes on with it, "
                 "--out OTHER keeps it, --overwrite replaces it"));
  CHECK(t.json_of("a/run.json") == first);

  const auto replaced = t.run("--set nodes.step.lr=0.5 --out a --overwrite");
  INFO(replaced.err);
  REQUIRE(replaced.code == 0);
  CHECK(t.json_of("a/run.json").at("id") != first.at("id"));
  for (const char* gone :
       {"a/trace.pftrace", "a/report.html", "a/tensorboard", "a/previews/epoch_00001/x_0.png"})
    CHECK_MESSAGE(!fs::exists(t.folder.path / gone), gone);
  CHECK(t.folder.read("a/notes.txt") == "mine");
  CHECK(t.folder.read("a/previews/epoch_00001/mine.txt") == "mine");
  CHECK(t.json_of("a/checkpoints/last/state.json").at("state").at("run") ==
        t.json_of("a/run.json").at("id"));

  t.folder.write("b/notes.txt", "mine");  // no run's
  CHECK(t.run("--out b").code == 0);
  // A graph that does not open leaves the run as it is, and no folder of its own.
  const auto kept = t.json_of("a/run.json");
  CHECK(t.run("--set models.net.weights=nowhere --out a --overwrite").code != 0);
  CHECK(t.json_of("a/run.json") == kept);
  CHECK(t.run("--set models.net.weights=nowhere --out c").code != 0);
  CHECK(!fs::exists(t.folder.path / "c"));
}

TEST_CASE("a run that was killed before its first checkpoint begins anew, never with another's") {
  const TinyTraining t;
  const std::string lr = "--set nodes.step.lr=0.5 ";
  REQUIRE(t.run(lr + "--out whole").code == 0);
  REQUIRE(t.run("--out a").code == 0);
  // As a kill just after the new run had its name leaves it, and one just before its first step.
  const fs::path a = t.folder.path / "a";
  json run = t.json_of("a/run.json");
  run["id"] = std::string(32, '0');
  run["graph_sha256"] = t.json_of("whole/run.json").at("graph_sha256");
  t.folder.write("a/run.json", run.dump());
  const auto alone = shell::run(t.in_folder + "$SLUICE run --resume a");
  CHECK(alone.code == 2);
  CHECK(contains(alone.err, "a/graph.json is not the graph that this run began with"));
  fs::copy_file(t.folder.path / "whole/graph.json", a / "graph.json",
                fs::copy_options::overwrite_existing);
  const auto r = shell::run(t.in_folder + "$SLUICE run --resume a");
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(contains(r.err, "left out a checkpoint of another run: a/checkpoints/last"));
  CHECK(contains(r.err, "its run wrote no checkpoint yet, so it begins at the beginning"));
  CHECK(t.weights("a") == t.weights("whole"));
  CHECK(t.json_of("a/run.json").at("id") == std::string(32, '0'));
}

TEST_CASE("a run whose run.json is damaged or gone keeps its checkpoints, whatever resumes it") {
  const TinyTraining t;
  REQUIRE(t.run("--set run.epochs=1 --out a").code == 0);
  const std::string run = t.folder.read("a/run.json"), weights = t.weights("a");
  const auto kept = [&](const std::string& why) {
    const auto r = t.run("--set run.epochs=2 --resume a");
    INFO(r.err);
    CHECK(r.code == 4);
    CHECK(contains(r.err, why));
    CHECK(t.weights("a") == weights);
    CHECK(fs::exists(t.folder.path / "a/checkpoints/last/state.json"));
  };
  t.folder.write("a/run.json", run.substr(0, run.size() / 2));
  kept("a/run.json is damaged");
  CHECK(contains(t.run("--out a").err, "a holds a run of another graph: --resume a goes on"));
  t.folder.write("a/run.json", "");
  kept("a/run.json is damaged");
  fs::remove(t.folder.path / "a/run.json");
  kept("a/run.json: it is missing");
  const auto unnamed = t.run("--out a").err;
  CHECK_MESSAGE(contains(unnamed, "a holds what a run left, but no run.json"), unnamed);
  t.folder.write("a/run.json", run);
  CHECK(t.run("--set run.epochs=2 --resume a").code == 0);
}

TEST_CASE("a resume takes the step threads that the run had, and says where it is told otherwise") {
  const TinyTraining t;
  REQUIRE(t.run("--set run.epochs=1 --step-threads 3 --out a").code == 0);
  const auto same = t.run("--set run.epochs=2 --resume a");
  INFO(same.err);
  REQUIRE(same.code == 0);
  CHECK(t.json_of("a/summary.json").at("step_threads") == 3);
  CHECK(!contains(same.err, "step threads"));
  const auto other = t.run("--set run.epochs=3 --resume a --step-threads 1");
  REQUIRE(other.code == 0);
  CHECK(t.json_of("a/summary.json").at("step_threads") == 1);
  CHECK(contains(other.err, "goes on with 1 step threads where the run had 3"));
}

TEST_CASE("a resume says what differs, and refuses what makes its state meaningless") {
  const TinyTraining t;
  REQUIRE(t.run("--set run.epochs=1 --out a").code == 0);
  const auto refused = [&](const std::string& more, const std::string& why) {
    const auto r = t.run("--set run.epochs=2 --resume a " + more);
    CAPTURE(more);
    INFO(r.err);
    CHECK(r.code == 2);
    CHECK(contains(r.err, why));
  };
  refused("--set nodes.batch.size=3", "nodes.batch.size: 2 -> 3");
  refused("--set nodes.train.num_samples=4", "nodes.train.num_samples: 6 -> 4");
  refused("--set run.seed=4", "run.seed");
  refused("--set nodes.step.type=sgd", "the state of step, a node of type \"adam\", would be lost");
  refused("--set models.net.channels=[2,8]", "other shapes than network \"net\": \"model.1.");
  const auto forced = t.run("--set run.epochs=2 --set nodes.batch.size=3 --resume a --force");
  INFO(forced.err);
  CHECK(forced.code == 0);
  const auto word = t.run(
      "--set run.epochs=3 --set nodes.batch.size=3 --set nodes.step.lr=0.5 "
      "--resume a --quiet");
  INFO(word.err);
  CHECK(word.code == 0);
  CHECK(contains(word.err, "nodes.step.lr: 0.01 -> 0.5"));
}

TEST_CASE("a resume says that the files of training are others, and not that they moved") {
  const TinyTraining t;
  std::string graph = tiny_training;
  const std::string from = "\"train\": {", to = "\"flip\":";
  const auto begin = graph.find(from), end = graph.find(to);
  graph.replace(begin, end - begin, R"("list": { "type": "file_patterns", "root": "a_root",
      "patterns": { "image": "i*.nii", "label": "l*.nii" } },
    "train": { "type": "load_image", "in": "list" }, )");
  t.folder.write("g.json", graph);
  for (const char* name : {"i1", "i2", "l1", "l2"})
    t.folder.write(std::string("a_root/") + name + ".nii", shell::nifti(16));
  const auto first = t.run("--set run.epochs=1 --out a");
  INFO(first.err);
  REQUIRE(first.code == 0);
  fs::rename(t.folder.path / "a_root", t.folder.path / "b_root");
  const std::string moved = "--set nodes.list.root=b_root --force --resume a --set run.epochs=";
  CHECK(!contains(t.run(moved + "2").err, "files of list are others"));
  t.folder.write("b_root/i1.nii", shell::nifti(16));
  const auto r = t.run(moved + "3");
  INFO(r.err);
  CHECK(r.code == 0);
  CHECK(contains(r.err, "the files of list are others than those of a, or were written to since"));
}

namespace {

// The images, labels and weights of training stand in a list of 2400 rows, of which the second
// alone is of i2.nii.
struct ListedTraining : TinyTraining {
  ListedTraining() {
    json g = json::parse(tiny_training);
    g["nodes"]["list"] = {{"type", "csv_list"},
                          {"file", "list.csv"},
                          {"keys", {"image", "label"}},
                          {"values", {"weight"}}};
    g["nodes"]["train"] = {{"type", "load_image"}, {"in", "list"}, {"keys", {"image", "label"}}};
    folder.write("g.json", g.dump());
    for (const char* name : {"i1", "i2", "l1"})
      folder.write(std::string(name) + ".nii", shell::nifti(16));
    list(1);
  }
  void list(double weight) const {
    std::string rows = "image,label,weight\n";
    for (int i = 0; i < 2400; ++i)
      rows += std::string(i == 1 ? "i2" : "i1") + ".nii,l1.nii," +
              std::to_string(i == 1 ? weight : 0.5) + "\n";
    folder.write("list.csv", rows);
  }
};

}  // namespace

TEST_CASE("a resume says that values in a list are others, or one file of many") {
  const ListedTraining t;
  const std::string on = "--resume a --steps 1",
                    values =
                        "the values (labels, weights) of the "
                        "samples of list are others than those of a",
                    files = "the files of list are others than those of a";
  const auto first = t.run("--out a --steps 1");
  REQUIRE_MESSAGE(first.code == 0, first.err);
  const auto same = t.run(on);
  CHECK_MESSAGE(same.code == 0, same.err);
  CHECK(!contains(same.err, "others than those"));
  t.list(2);
  const auto weight = t.run(on);
  CHECK_MESSAGE(contains(weight.err, values), weight.err);
  CHECK(!contains(weight.err, files));
  fs::last_write_time(t.folder.path / "i2.nii", fs::file_time_type::clock::now());
  const auto file = t.run(on);
  CHECK_MESSAGE(contains(file.err, files), file.err);
  CHECK(!contains(file.err, values));
}

TEST_CASE(
    "a setting whose moments the checkpoint does not have is refused by name, or begins anew") {
  const TinyTraining t;
  const std::string sgd = "--set nodes.step.type=sgd ";
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {sgd, "--set +nodes.step.momentum=0.9", "momentum"},
      {sgd, "--set +nodes.step.lr_schedule=one_cycle", "lr_schedule"},
      {"", "--set +nodes.step.amsgrad=true", "amsgrad"},
      {"--set nodes.step.type=rmsprop ", "--set +nodes.step.centered=true", "centered"}};
  for (const auto& [before, more, setting] : cases) {
    CAPTURE(setting);
    REQUIRE(t.run(before + "--set run.epochs=1 --out a --overwrite").code == 0);
    const std::string on = before + more + " --set run.epochs=2 --resume a ";
    const auto refused = t.run(on);
    CHECK_MESSAGE(refused.code == 2, refused.err);
    CHECK_MESSAGE(contains(refused.err, "nodes.step." + setting + ": the run had it otherwise"),
                  refused.err);
    const auto forced = t.run(on + "--force");
    CHECK_MESSAGE(forced.code == 0, forced.err);
    CHECK_MESSAGE(contains(forced.err, "nodes.step." + setting), forced.err);
    CHECK(t.json_of("a/summary.json").at("epochs") == 2);
  }
}

TEST_CASE("files of training that are written to during a run are told at its end") {
  const TinyTraining t;
  json g = json::parse(tiny_training);
  g["nodes"]["list"] = {{"type", "file_patterns"},
                        {"root", "data"},
                        {"patterns", {{"image", "i*.nii"}, {"label", "l*.nii"}}}};
  g["nodes"]["train"] = {{"type", "load_image"}, {"in", "list"}};
  t.folder.write("g.json", g.dump());
  for (const char* name : {"i1", "i2", "l1", "l2"})
    t.folder.write(std::string("data/") + name + ".nii", shell::nifti(16));
  const auto said = [&](const std::string& out, const std::string& change) {
    const auto r =
        shell::run(t.in_folder + "$SLUICE run g.json --quiet --set run.epochs=100000 " + "--out " +
                   out + " & p=$!\nuntil [ -s " + out + "/metrics.jsonl ]; do sleep 0.02; done\n" +
                   change + "\nkill -INT $p; wait $p");
    CHECK_MESSAGE(r.code == 130, r.err);
    return t.json_of(out + "/summary.json").value("warnings", json()).dump();
  };
  CHECK(!contains(said("same", "true"), "were written to"));
  CHECK(contains(said("other", "cp data/i1.nii new; mv new data/i1.nii"),
                 "the files of list were written to while the run went on"));
}

TEST_CASE("files whose names are no UTF-8 keep a cut run from nothing, metrics of them included") {
  const TinyTraining t;
  std::string graph = tiny_training;
  const auto begin = graph.find("\"train\": {"), end = graph.find("\"flip\":");
  graph.replace(begin, end - begin, R"("list": { "type": "file_patterns", "root": "root",
      "patterns": { "image": "i*.nii", "label": "l*.nii" } },
    "train": { "type": "load_image", "in": "list" },
    "each": { "type": "decollate", "in": "fwd" },
    "each_dice": { "type": "dice_metric", "in": "each" }, )");
  t.folder.write("g.json", graph);
  for (const char* name : {"i1", "i2", "i3", "i4", "l1", "l2", "l3", "l4"})
    t.folder.write(std::string("root/") + name + "_caf\xe9.nii", shell::nifti(16));
  REQUIRE(t.run("--out whole").code == 0);
  const auto cut = t.run("--steps 1 --out a");
  INFO(cut.err);
  REQUIRE(cut.code == 0);
  REQUIRE(t.run("--resume a").code == 0);
  CHECK(t.weights("a") == t.weights("whole"));
  const auto metrics = [&](const std::string& run) {
    return t.json_of(run + "/summary.json").at("metrics").at("each_dice.mean");
  };
  CHECK(metrics("a") == metrics("whole"));
}

TEST_CASE("a sampler may draw more items than are listed, and fewer, of which all are watched") {
  const TinyTraining t;
  for (const std::string draws : {"5", "1"}) {
    CAPTURE(draws);
    std::string graph = t.folder.read("g.json");
    const auto begin = graph.find("\"train\""), end = graph.find("\"flip\"", begin);
    REQUIRE(begin != std::string::npos);
    graph.replace(begin, end - begin,
                  R"("list": { "type": "file_patterns", "root": "root",
        "patterns": { "image": "i*.nii", "label": "l*.nii" } },
      "draw": { "type": "weighted_random_sampler", "in": "list", "num_samples": )" +
                      draws + R"( },
      "train": { "type": "load_image", "in": "draw" },
    )");
    t.folder.write("s.json", graph);
    for (const char* name : {"i1", "i2", "l1", "l2"})
      t.folder.write(std::string("root/") + name + ".nii", shell::nifti(16));
    const std::string out = "draws" + draws;
    const auto run = [&](const std::string& more) {
      return shell::run(t.in_folder + "$SLUICE run s.json --quiet " + more);
    };
    const auto first = run("--set run.epochs=1 --out " + out);
    INFO(first.err);
    REQUIRE(first.code == 0);
    t.folder.write("root/i2.nii", shell::nifti(16));
    const auto again = run("--resume " + out + " --set run.epochs=2");
    INFO(again.err);
    CHECK(again.code == 0);
    CHECK(contains(again.err, "the files of list are others than those of"));
  }
}

TEST_CASE("a resume without a graph finds the graph and its relative paths from anywhere") {
  const TinyTraining t;
  const auto made = t.run("--set run.epochs=1 --out a");
  REQUIRE(made.code == 0);
  // The network's first weights are a relative path from here on.
  const std::string more = "--set +models.net.weights=a ";
  REQUIRE(t.run(more + "--set run.epochs=1 --out b").code == 0);
  const auto r = shell::run("cd / && $SLUICE run --quiet --set run.epochs=2 --resume " +
                            (t.folder.path / "b").string());
  INFO(r.err);
  CHECK(r.code == 0);
  CHECK(contains(r.err, "relative paths count from " + t.folder.path.string()));
  CHECK(t.json_of("b/summary.json").at("steps") == 6);
  CHECK(shell::run(t.in_folder + "$SLUICE run --resume nowhere").code == 4);
  CHECK(shell::run(t.in_folder + "$SLUICE run --resume nowhere g.json").code == 4);
  CHECK(!fs::exists(t.folder.path / "nowhere"));
  CHECK(shell::run(t.in_folder + "$SLUICE run").code == 2);
}

TEST_CASE("two runs in one folder: the second is refused and names the first") {
  const TinyTraining t;
  fs::create_directories(t.folder.path / "a");
  const auto r = shell::run(
      t.in_folder +
      "$SLUICE run g.json --quiet --set run.epochs=100000 --out a & p=$!\n"
      "until [ -s a/metrics.jsonl ]; do sleep 0.02; done\n"
      "for more in '' --overwrite; do $SLUICE run g.json --quiet --out a $more; echo $?; done\n"
      "$SLUICE run g.json --quiet --resume a; echo $?\n"
      "echo process $p works; kill -INT $p; wait $p; echo $?");
  INFO(r.out, r.err);
  CHECK(r.out.starts_with("2\n2\n2\n"));
  CHECK(r.out.ends_with("130\n"));
  const std::string word = r.out.substr(6, r.out.find(" works") - 6);
  CHECK(contains(r.err, "a: " + word + " works in this folder"));
}

TEST_CASE("of two runs that write into one folder the second says so, and names the first") {
  const TinyTraining t;
  const auto writer = [&](const char* node, const char* postfix) {
    return std::string("--set '+nodes.") + node + R"(={"type":"save_image","in":"noise",)" +
           R"("keys":"image","output_dir":")" + (t.folder.path / "shared").string() +
           R"(","output_postfix":")" + postfix + "\"}' ";
  };
  // Two writers of one graph share the folder.
  const std::string run =
      "$SLUICE run g.json --quiet --no-out " + writer("one", "a") + writer("two", "b");
  const auto r =
      shell::run(t.in_folder + run +
                 "--set run.epochs=100000 & p=$!\n"
                 "until ls shared 2>/dev/null | grep -q .; do sleep 0.02; done\n" +
                 run + "; echo $?\n" + "echo process $p writes; kill -INT $p; wait $p; echo $?\n" +
                 run + "; echo $?");
  INFO(r.out, r.err);
  CHECK(r.out.starts_with("0\n"));
  CHECK(r.out.ends_with("130\n0\n"));
  const std::string word = r.out.substr(2, r.out.find(" writes") - 2),
                    said = "shared: " + word + " writes there too";
  CHECK(r.err.find("writes there too") != std::string::npos);
  CHECK(contains(r.err, said));
  CHECK(r.err.find("writes there too") == r.err.rfind("writes there too"));
  for (const auto& entry : fs::directory_iterator(t.folder.path / "shared"))
    CHECK(entry.path().filename().string().starts_with("synthetic"));  // no lock is left
}

TEST_CASE("without --out results go to the first free runs/NAME-N, and --no-out keeps nothing") {
  const TinyTraining t;
  fs::create_directories(t.folder.path / "runs/g-2");
  t.folder.write("runs/g-2/metrics.jsonl", "{}\n");
  for (const char* name : {"runs/g-1", "runs/g-3"}) {
    const auto r = shell::run(t.in_folder + "$SLUICE run g.json");
    CHECK(r.code == 0);
    CHECK(r.err.starts_with("results in " + std::string(name) + "\n"));
    CHECK(fs::exists(t.folder.path / name / "summary.json"));
  }
  CHECK(t.run("--no-out").code == 0);
  CHECK(!fs::exists(t.folder.path / "runs/g-4"));
  CHECK(t.run("--no-out --out x").code == 2);
}

TEST_CASE("a folder that cannot be made or written to is exit 4 with the path and the cause") {
  const TinyTraining t;
  t.folder.write("file", "");
  fs::create_directories(t.folder.path / "odd/metrics.jsonl/x");
  const auto refused = [&](const std::string& out, const std::string& why) {
    const auto r = t.run("--out " + out);
    CAPTURE(out);
    INFO(r.err);
    CHECK(r.code == 4);
    CHECK(contains(r.err, why));
  };
  refused("file", "file: cannot make the run folder: Not a directory");
  refused("file/x", "file/x: cannot make the run folder: Not a directory");
  refused("/dev/null", "/dev/null: cannot make the run folder: Not a directory");
  refused(std::string(300, 'x'), "cannot make the run folder: File name too long");
  refused("/proc/x", "/proc/x: cannot make the run folder: No such file or directory");
  refused("odd", "cannot open odd/metrics.jsonl: Is a directory");
}

TEST_CASE("a file that may not grow ends a run with exit 4, and a reader that goes ends nothing") {
  const TinyTraining t;
  const auto small = shell::run(t.in_folder +
                                "ulimit -f 8; $SLUICE run g.json --quiet --out a --set "
                                "run.epochs=400 --set run.checkpoint.every_epochs=1000");
  INFO(small.err);
  CHECK(small.code == 4);
  CHECK(contains(small.err, "File too large"));
  const auto alone = shell::run(t.in_folder + "$SLUICE run g.json --out b 2> >(exec true)");
  CHECK(alone.code == 0);
  CHECK(t.json_of("b/summary.json").at("status") == "done");
  const auto cut = shell::run(t.in_folder +
                              "($SLUICE run g.json --out c 2>&1 >/dev/null; echo $? "
                              "> status) | head -c 1 >/dev/null");
  CHECK(t.json_of("c/summary.json").at("status") == "done");
  CHECK(t.folder.read("status") == "0\n");
}

TEST_CASE("a run whose last checkpoint could not be written has failed, and says so everywhere") {
  const TinyTraining t;
  const auto r = shell::run(
      t.in_folder +
      "ulimit -f 8; $SLUICE run g.json --quiet --out a --set models.net.channels=[16,32]");
  INFO(r.err);
  CHECK(r.code == 4);
  const json summary = t.json_of("a/summary.json");
  CHECK(summary.at("status") == "failed");
  const std::string said = "checkpoint last was not written: cannot write a/checkpoints/";
  CHECK(contains(summary.at("error").get<std::string>(), said));
  CHECK(contains(summary.at("warnings").dump(), said));
  CHECK(contains(t.folder.read("a/sessions.jsonl"), R"("status":"failed")"));
  const auto runs = shell::run(t.in_folder + "$SLUICE runs --json .");
  CHECK(json::parse(runs.out).at("runs").at(0).at("status") == "failed");
  REQUIRE(shell::run(t.in_folder + "$SLUICE report a").code == 0);
  CHECK(contains(t.folder.read("a/report.html"), R"("status":"failed")"));
}

TEST_CASE("what could not be kept beside the results is a warning with its path and cause") {
  const TinyTraining t;
  const auto full = shell::run(t.in_folder +
                               "ulimit -f 64; $SLUICE run g.json --quiet --trace --out a --set "
                               "run.epochs=60");
  INFO(full.err);
  CHECK(full.code == 0);
  CHECK(contains(full.err, "warning: a/trace.pftrace: the trace ends here: File too large"));
  CHECK(t.json_of("a/summary.json").at("warnings").dump().find("trace.pftrace") !=
        std::string::npos);
}

TEST_CASE("a cache entry that finds no space is a warning, and the run goes on") {
  const TinyTraining t;
  const auto r =
      shell::run(t.in_folder +
                 "ulimit -f 64; $SLUICE run g.json --quiet --out a --set run.epochs=1 --set "
                 "nodes.train.spatial_size=[48,48,48] "
                 "--set '+nodes.kept={\"type\":\"cache\",\"in\":\"train\","
                 "\"store\":\"disk\",\"dir\":\"kept\"}' --set nodes.flip.in=kept");
  INFO(r.err);
  CHECK(r.code == 0);
  CHECK(contains(r.err, "warning: kept: entries cannot be written (File too large)"));
  CHECK(contains(t.json_of("a/summary.json").at("warnings").dump(), "File too large"));
}

TEST_CASE(
    "a checkpoint within an epoch holds which files the epoch has written, and a resume goes on") {
  const TinyTraining t;
  const std::string more =
      R"(--set '+nodes.kept={"type":"save_image","in":"noise","output_dir":)"
      R"("kept","keys":["image"],"output_postfix":"x"}' --set nodes.batch.in=kept )";
  REQUIRE(t.run(more + "--steps 1 --out a").code == 0);
  CHECK(t.json_of("a/checkpoints/last/state.json").at("state").at("nodes").contains("kept"));
  CHECK(contains(t.folder.read("a/checkpoints/last/optimizer.safetensors"), "kept:written"));
  const auto r = shell::run(t.in_folder + "$SLUICE run --quiet --resume a");
  INFO(r.err);
  CHECK(r.code == 0);
  REQUIRE(t.run(more + "--out whole").code == 0);
  CHECK(t.weights("a") == t.weights("whole"));
}

TEST_CASE("previews of a validation that a resume repeats are listed once") {
  const TinyTraining t;
  const std::string more =
      "--set '+nodes.seen={\"type\":\"preview\",\"in\":\"infer\"}' --set run.epochs=2 ";
  REQUIRE(t.run(more + "--out a").code == 0);
  const std::string index = t.folder.read("a/previews/index.jsonl");
  CHECK(!index.empty());
  // As a kill leaves it that comes after the second epoch's pictures and before its checkpoint.
  REQUIRE(t.run(more + "--set run.epochs=1 --out b").code == 0);
  t.folder.write("b/previews/index.jsonl", index + "{\"epo");
  const auto r = shell::run(t.in_folder + "$SLUICE run --quiet --resume b --set run.epochs=2");
  INFO(r.err);
  CHECK(r.code == 0);
  CHECK(t.folder.read("b/previews/index.jsonl") == index);

  t.folder.write("c/previews", "a file");
  const auto failed = t.run(more + "--out c");
  INFO(failed.err);
  CHECK(failed.code == 4);
  CHECK(contains(failed.err, "c/previews/epoch_00001: cannot make the folder: Not a directory"));
}

TEST_CASE("quarantine.jsonl of a resumed run has each bad sample once, as an unbroken run's") {
  const shell::Folder f;
  const auto sh = [&](const std::string& command) {
    return shell::run("cd " + f.path.string() + "\n" + command);
  };
  for (const char* sub : {"images", "labels"}) fs::create_directories(f.path / "data" / sub);
  for (int i = 0; i < 4; ++i) {
    const std::string name = "a" + std::to_string(i) + ".nii";
    nii::write_pair((f.path / "data/images" / name).string(),
                    (f.path / "data/labels" / name).string(), {16, 18, 20}, {1, 1, 1});
  }
  fs::resize_file(f.path / "data/images/a1.nii", 1000);
  json g = json::parse(packaged_training);
  g["run"] = {{"epochs", 3}, {"seed", 1}, {"checkpoint", {{"every_epochs", 1}}}};
  g["run"]["max_bad"] = 1;
  for (const char* load : {"load", "vload"}) g["nodes"][load]["on_error"] = "quarantine";
  f.write("g.json", g.dump());
  const auto whole = sh("$SLUICE run g.json --quiet --out a && sort a/quarantine.jsonl");
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  CHECK(std::count(whole.out.begin(), whole.out.end(), '\n') == 6);
  // The first epoch's is the newest checkpoint that a kill would have left.
  const auto resumed =
      sh("rm -r a/checkpoints/last a/checkpoints/epoch_0000[23]\n"
         "$SLUICE run --resume a --quiet && sort a/quarantine.jsonl");
  INFO(resumed.err);
  CHECK(resumed.code == 0);
  CHECK(resumed.out == whole.out);
  // One bad sample is allowed, in however many epochs; the one before the resume counts.
  fs::resize_file(f.path / "data/images/a2.nii", 1000);
  const auto one_more =
      sh("rm -r a/checkpoints/last a/checkpoints/epoch_0000[23]\n"
         "$SLUICE run --resume a --quiet");
  CHECK(one_more.code == 3);
  CHECK(contains(one_more.err, "(more than the 1 allowed)"));
}
