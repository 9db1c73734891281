// `sluice runs` and `sluice compare`: what run folders say, whatever state they are in.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "tests/cli/tiny_training.h"

using nlohmann::json;
using shell::Folder;

namespace {

namespace fs = std::filesystem;

// A run's folder as a run leaves it: a loss that falls, and a mean that rises by `lr` from it.
void write_run(const Folder& f, const std::string& at, double lr, const std::string& last = "end") {
  f.write(at + "/run.json", R"({"id": "", "graph_sha256": "", "graphs": [], "step_threads": 1})");
  f.write(at + "/graph.json", json{{"nodes", {{"step", {{"type", "adam"}, {"lr", lr}}}}},
                                   {"run", {{"epochs", 2}, {"seed", 1}}}}
                                  .dump());
  f.write(
      at + "/summary.json",
      json{{"status", "done"},
           {"epochs", 2},
           {"steps", 2},
           {"wall_s", 61.0},
           {"metrics",
            {{"step.loss", {{"last", lr}, {"best", lr}, {"epoch", 1}, {"best_epoch", 1}}},
             {"dice.mean", {{"last", 0.5}, {"best", 1 - lr}, {"epoch", 1}, {"best_epoch", 0}}}}}}
          .dump());
  f.write(
      at + "/sessions.jsonl",
      json{{"event", "begin"},
           {"time", "2026-01-0" + std::to_string(1 + static_cast<int>(10 * lr)) + "T10:00:00Z"},
           {"command", {"sluice", "run", "g.json", "--set", "nodes.step.lr=" + json(lr).dump()}}}
              .dump() +
          "\n" + (last == "end" ? "{\"event\":\"end\",\"status\":\"done\",\"steps\":2}\n" : ""));
  std::string metrics;
  const double values[2][2] = {{lr * 2, 1 - lr}, {lr, 0.5}};
  for (int e = 0; e < 2; ++e)
    for (int m = 0; m < 2; ++m)
      metrics += json{{"epoch", e},
                      {"step", e + 1},
                      {"metric", m ? "dice.mean" : "step.loss"},
                      {"value", values[e][m]}}
                     .dump() +
                 "\n";
  f.write(at + "/metrics.jsonl", metrics + "{\"epoch\":9,\"st");  // a kill's half line
}

shell::Result in(const Folder& f, const std::string& command) {
  return shell::run("cd " + f.path.string() + " && " + command);
}

}  // namespace

TEST_CASE("runs are listed with how they ended and their best figures, in any order") {
  Folder f;
  write_run(f, "runs/a", 0.1);
  write_run(f, "runs/group/b", 0.3);
  write_run(f, "runs/c", 0.2, "killed");
  f.write("runs/c/notes.json", R"({"name": "third", "tags": ["x"], "note": "why, \"here\""})");
  f.write("runs/none/readme.txt", "no run");
  const auto r = in(f, "$SLUICE runs --json");
  INFO(r.err);
  REQUIRE(r.code == 0);
  const json all = json::parse(r.out)["runs"];
  REQUIRE(all.size() == 3);
  CHECK(all[0]["name"] == "group/b");  // the newest first
  CHECK(all[0]["set"]["nodes.step.lr"] == "0.3");
  CHECK(all[1]["name"] == "c");
  CHECK(all[1]["status"] == "open");  // its process has not said how it ended, and is gone
  CHECK(all[1]["title"] == "third");
  const auto order = [&](const std::string& column) {
    std::string names;
    const json sorted = json::parse(in(f, "$SLUICE runs --json --sort " + column).out);
    for (const auto& row : sorted["runs"]) names += row["name"].get<std::string>() + " ";
    return names;
  };
  CHECK(order("name") == "a c group/b ");
  CHECK(order("dice.mean") == "a c group/b ");  // more is better
  CHECK(order("step.loss") == "a c group/b ");  // less is better
  CHECK(order("started") == "group/b c a ");
  const std::string table = in(f, "TZ=UTC $SLUICE runs").out;
  INFO(table);
  CHECK(table.find("run      status  started           epochs  steps    time  dice.mean") == 0);
  CHECK(table.find("group/b  done    2026-01-04 10:00       2      2  61.0 s") != table.npos);
  const std::string there = in(f, "TZ=Asia/Kathmandu $SLUICE runs").out;  // 5 h 45 min ahead
  CHECK(there.find("group/b  done    2026-01-04 15:45       2") != there.npos);
  CHECK(in(f, "TZ=Asia/Kathmandu $SLUICE runs --csv").out.find("2026-01-03T10:00:00Z") !=
        std::string::npos);
  const std::string csv = in(f, "$SLUICE runs --csv --sort name").out;
  CHECK(csv.find("c,third,open,2026-01-03T10:00:00Z,2,2,61.0,\"why, \"\"here\"\"\",0.2,") !=
        csv.npos);
  const auto wrong = in(f, "$SLUICE runs --sort dice.men");
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("dice.mean") != std::string::npos);
  CHECK(in(f, "$SLUICE runs nowhere").code == 4);
}

TEST_CASE("the time of a run that was resumed is that of all its processes") {
  Folder f;
  write_run(f, "a", 0.1);  // summary.json, of the last process, says 61 s
  const std::string begin = R"({"event": "begin", "time": "2026-01-01T10:00:00Z"})"
                            "\n",
                    ended = R"({"event": "end", "status": "cut", "steps": 1, "wall_s": 100})"
                            "\n",
                    done = R"({"event": "end", "status": "done", "steps": 2, "wall_s": 61})"
                           "\n";
  const auto time = [&](const std::string& sessions) {
    f.write("a/sessions.jsonl", sessions);
    return json::parse(in(f, "$SLUICE runs --json").out)["runs"][0]["wall_s"];
  };
  CHECK(time(begin + done) == 61);
  CHECK(time(begin + ended + begin + done) == 161);
  CHECK(time(begin + begin + done) == 61);  // the first was killed
  CHECK(time(begin + ended + begin) == 100);
  f.write("a/live.json", R"({"steps": 2, "wall_s": 7})");
  CHECK(time(begin + ended + begin) == 107);
}

TEST_CASE("which value is the best one is what the run decided, whatever the metric's name says") {
  TinyTraining t;
  REQUIRE(t.run("--set run.checkpoint.best=dice.mean --set run.checkpoint.mode=min --set "
                "run.epochs=3 --out r")
              .code == 0);
  const json said = t.json_of("r/summary.json")["metrics"];
  CHECK(said["dice.mean"]["mode"] == "min");
  CHECK(said["step.loss"]["mode"] == "min");
  CHECK(said["step.lr"]["mode"] == "max");
  const auto figures = [&] {
    const json compared = json::parse(in(t.folder, "$SLUICE compare r --json").out);
    for (const json& f : compared["figures"])
      if (f["name"] == "dice.mean") return f["values"][0];
    return json();
  };
  const json dice = figures();
  INFO(dice.dump());
  REQUIRE(dice["min"] != dice["max"]);
  CHECK(dice["best"] == dice["min"]);
  CHECK(dice["best"] == said["dice.mean"]["best"]);
  // Of a run that was killed the metrics' lines are left.
  fs::remove(t.folder.path / "r/summary.json");
  CHECK(figures()["best"] == dice["min"]);
  REQUIRE(in(t.folder, "$SLUICE report r -o r.html").code == 0);
  CHECK(t.folder.read("r.html").find("\"best\":" + dice["min"].dump()) != std::string::npos);
}

TEST_CASE("runs are sorted by a metric as they decided which value is the best") {
  Folder f;
  for (const auto& [name, best] : {std::pair{"a", 0.3}, {"b", 0.1}, {"c", 0.2}})
    f.write("runs/" + std::string(name) + "/summary.json",
            json{{"metrics", {{"x.mean", {{"last", 1}, {"best", best}, {"mode", "min"}}}}}}.dump());
  std::string names;
  const json sorted = json::parse(in(f, "$SLUICE runs --json --sort x.mean").out);
  for (const json& row : sorted["runs"]) names += row["name"].get<std::string>() + " ";
  CHECK(names == "b c a ");
}

TEST_CASE("a metric's name does nothing to the terminal") {
  Folder f;
  write_run(f, "runs/a", 0.1);
  json summary = f.summary("runs/a");
  summary["metrics"] = {{"\x1b[31mdice.mean", {{"last", 0.5}, {"best", 0.5}}}};
  f.write("runs/a/summary.json", summary.dump());
  const std::string table = in(f, "$SLUICE runs").out;
  CHECK(table.find("\\x1b[31mdice.mean") != table.npos);
  CHECK(table.find('\x1b') == table.npos);
}

TEST_CASE("of a metric that no run has all are named that there are") {
  Folder f;
  const json value = {{"last", 1}, {"best", 1}, {"epoch", 0}, {"best_epoch", 0}};
  f.write("r/summary.json",
          json{{"status", "done"}, {"metrics", {{"a.loss", value}, {"loss", value}}}}.dump());
  const auto r = in(f, "$SLUICE runs --sort none");
  INFO(r.err);
  CHECK(r.code == 2);
  CHECK(r.err.find("there are a.loss, loss, and name") != std::string::npos);
}

TEST_CASE("compare says which settings differ, and best, last and min of each metric") {
  Folder f;
  write_run(f, "a", 0.1);
  write_run(f, "b", 0.3);
  f.write("b/graph.json",
          json{{"nodes", {{"step", {{"type", "adam"}, {"lr", 0.3}, {"x", nullptr}}}}},
               {"run", {{"epochs", 2}, {"seed", 1}}}}
              .dump());
  const auto r = in(f, "$SLUICE compare a b/ --json");
  INFO(r.err);
  REQUIRE(r.code == 0);
  const json j = json::parse(r.out);
  CHECK(j["settings"] == json::parse(R"([
      {"path": "nodes.step.lr", "values": [0.1, 0.3], "in": [0, 1]},
      {"path": "nodes.step.x", "values": [null, null], "in": [1]}])"));
  const json& dice = j["figures"][0];
  CHECK(dice["name"] == "dice.mean");
  CHECK(dice["values"][0]["best"] == 0.9);
  CHECK(dice["values"][0]["best_epoch"] == 1.0);
  CHECK(dice["values"][0]["last"] == 0.5);
  CHECK(dice["values"][0]["min"] == 0.5);
  CHECK(j["figures"][1]["values"][1]["best"] == 0.3);  // a loss: the least
  const std::string table = in(f, "$SLUICE compare a b").out;
  INFO(table);
  CHECK(table.find(
            "setting          a     b\nnodes.step.lr  0.1   0.3\nnodes.step.x     –  null\n") == 0);
  CHECK(in(f, "$SLUICE compare a none").code == 4);
  const json inside =
      json::parse(in(f, "mkdir a/x; cd a/x && $SLUICE compare .. ../../b --json").out);
  CHECK_MESSAGE(inside["runs"][0]["name"] == "a", inside["runs"][0]["name"].dump());
}

TEST_CASE("files that hold something else are taken as missing") {
  Folder f;
  write_run(f, "a", 0.1);
  for (const char* name : {"summary.json", "sessions.jsonl", "notes.json", "live.json",
                           "graph.json", "metrics.jsonl"}) {
    f.write(std::string("a/") + name, "[1, 2\n{\"event\": 3}\nnull\n");
    CHECK_MESSAGE(in(f, "$SLUICE runs .").code == 0, name);
    CHECK_MESSAGE(in(f, "$SLUICE compare a a").code == 0, name);
  }
}

TEST_CASE("a thousand runs are listed in a second") {
  Folder f;
  for (int i = 0; i < 1000; ++i) write_run(f, "runs/r" + std::to_string(i), 0.1);
  const auto begin = std::chrono::steady_clock::now();
  const auto r = in(f, "$SLUICE runs");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(std::count(r.out.begin(), r.out.end(), '\n') == 1001);
  MESSAGE(took.count(), " s");
}

TEST_CASE("a class whose name has quotes and backslashes keeps it in every table") {
  const TinyTraining t;
  t.folder.write("names.json", R"({"nodes": {"dice": {"class_names": ["air", "a\"b\\c"]}}})");
  const auto ran = shell::run(t.in_folder + "$SLUICE run g.json names.json --quiet --out a");
  REQUIRE_MESSAGE(ran.code == 0, ran.err);
  const json compared = json::parse(in(t.folder, "$SLUICE compare a a --json").out);
  CHECK(std::ranges::any_of(compared["figures"], [](const json& figure) {
    return figure["name"] == R"(dice.class_a"b\c)";
  }));
}
