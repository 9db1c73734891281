// `sluice report`: what stands in the page, whatever stands in the run folder; and the page in a
// browser, where there is one.
#include <doctest/doctest.h>

#include "tests/cli/browser.h"
#include "tests/text.h"

using nlohmann::json;
using shell::browser;
using shell::Folder;
using shell::rendered;

namespace {

const char* const evil = "<script>alert(1)</script>\"><img src=x onerror=alert(2)>";

// A run folder as a run leaves it; every name that data can bring is `evil`.
void write_run(const Folder& f, const std::string& at = "run/") {
  f.write(at + "graph.json", json{{"name", evil},
                                  {"desc", std::string("about ") + evil},
                                  {"nodes",
                                   {{"cases",
                                     {{"type", "decathlon"},
                                      {"root", "nowhere</script>"},
                                      {"split", "training"},
                                      {"desc", evil}}},
                                    {"load", {{"type", "load_image"}, {"in", "cases"}}}}}}
                                 .dump());
  f.write(at + "summary.json",
          json{{"status", "done"},
               {"epochs", 2},
               {"steps", 4},
               {"wall_s", 3.5},
               {"metrics",
                {{"step.loss", {{"last", 0.5}, {"best", 0.4}, {"epoch", 1}, {"best_epoch", 0}}},
                 {"dice.mean", {{"last", 0.9}, {"best", 0.9}, {"epoch", 1}, {"best_epoch", 1}}}}},
               {"samples", {{"emitted", 8}, {"delivered", 7}, {"quarantined", 1}}},
               {"weights_sha256", "ab"},
               {"seed", 1},
               {"threads", 2},
               {"step_threads", 2},
               {"world", {{"processes", 4}, {"launcher", "torchrun"}}}}
              .dump());
  const json slow = {{{"ms", 9.5}, {"sample", evil}, {"file", "/d/x.nii"}, {"stamp", "0:0:1"}}};
  const json node = {{"type", "load_image"}, {"items", 8},     {"passed", 0},    {"rate", 2.5},
                     {"busy", 0.5},          {"starved", 0.2}, {"blocked", 0.1}, {"p50_ms", 4},
                     {"p99_ms", 9},          {"queue_max", 3}, {"slowest", slow}};
  f.write(at + "profile.json",
          json{{"wall_s", 3.5}, {"verdict", evil}, {"nodes", {{"cases", node}, {"load", node}}}}
              .dump());
  const json column = {0.1, 0.9, 0.5};
  f.write(at + "timeline.json",
          json{{"interval_s", 0.1},
               {"cpu", column},
               {"rss_mb", {100, 120, 110}},
               {"nodes",
                {{"cases",
                  {{"busy", column}, {"queue", {0, 2, 1}}, {"credits", {1, 1, 1}}, {"total", 4}}},
                 {"load", {{"busy", column}, {"queue", {0, 0, 0}}}}}}}
              .dump());
  f.write(at + "environment.json", json{{"started", "2026-01-01T00:00:00Z"},
                                        {"command", {"sluice", "run", evil}},
                                        {"folder", "/w"},
                                        {"cpu", "one"},
                                        {"cores", 2},
                                        {"memory_gb", 8},
                                        {"system", "Debian"},
                                        {"kernel", "Linux"},
                                        {"versions", {{"sluice", "0"}}},
                                        {"variables", {{"SLUICE_X", evil}}}}
                                       .dump());
  std::string metrics;
  for (int i = 0; i < 4; ++i)
    metrics +=
        json{{"epoch", i / 2}, {"step", i + 1}, {"log", "step.loss"}, {"value", 1.0 / (i + 1)}}
            .dump() +
        "\n";
  for (int e = 0; e < 2; ++e)
    metrics +=
        json{{"epoch", e}, {"step", 2 * e + 2}, {"metric", "dice.mean"}, {"value", 0.8 + e / 10.}}
            .dump() +
        "\n";
  f.write(at + "metrics.jsonl", metrics + "{\"epoch\":1,\"st");  // a kill's half line
  f.write(at + "quarantine.jsonl",
          json{{"node", "load"}, {"sample", evil}, {"stamp", "0:0:2"}, {"message", evil}}.dump() +
              "\n");
  f.write(at + "sessions.jsonl",
          "{\"event\":\"begin\",\"time\":\"2026-01-01T00:00:00Z\",\"steps\":0}\n"
          "{\"event\":\"end\",\"time\":\"2026-01-01T00:00:09Z\",\"status\":\"done\",\"epochs\":2,"
          "\"steps\":4,\"wall_s\":3.5}\n");
  // One pixel; a second line says a file that lies outside, which must not be read.
  const unsigned char png[] = {0x89, 'P', 'N', 'G',  '\r', '\n', 0x1a, '\n', 0,    0, 0, 0x0d,
                               'I',  'H', 'D', 'R',  0,    0,    0,    1,    0,    0, 0, 1,
                               8,    0,   0,   0,    0,    0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0,
                               0x0a, 'I', 'D', 'A',  'T',  0x78, 0x9c, 0x63, 0x60, 0, 0, 0,
                               2,    0,   1,   0x48, 0xaf, 0xa4, 0x71, 0,    0,    0, 0, 'I',
                               'E',  'N', 'D', 0xae, 0x42, 0x60, 0x82};
  const std::string bytes(reinterpret_cast<const char*>(png), sizeof png);
  f.write(at + "previews/epoch_00001/a_0.png", bytes);
  f.write("secret.png", bytes + "outside");
  const json image = {{"epoch", 1},           {"file", "epoch_00001/a_0.png"},
                      {"node", "see"},        {"sample", evil},
                      {"slice", 3},           {"classes", {1}},
                      {"colors", {"#e69f00"}}};
  json outside = image;
  outside["file"] = "../../secret.png";
  f.write(at + "previews/index.jsonl", image.dump() + "\n" + outside.dump() + "\n");
}

const char* const sections[] = {"headline",   "curves",   "pictures",    "graph",
                                "nodes",      "timeline", "trace",       "slowest",
                                "quarantine", "history",  "environment", "resolved"};

}  // namespace

TEST_CASE("a report is one file that loads nothing and in which no name becomes HTML") {
  Folder f;
  write_run(f);
  const auto r = shell::run("cd " + f.path.string() + " && $SLUICE report run -o r.html");
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(r.out.empty());
  const std::string page = f.read("r.html");
  for (const char* id : sections)
    CHECK(page.find(std::string("id=\"s-") + id + "\"") != std::string::npos);
  CHECK(page.find("<script>") == std::string::npos);
  CHECK(page.find("<img") == std::string::npos);
  CHECK(occurrences(page, "<script") == 2);  // the data and the page's own
  CHECK(occurrences(page, "</script") == 2);
  CHECK(page.find("default-src 'none'") != std::string::npos);
  for (const char* scheme : {"src=\"http", "href=\"", "url(h", "@import"})
    CHECK(page.find(scheme) == std::string::npos);
  CHECK(occurrences(page, "iVBORw0KGgo") == 1);  // the one preview, and not the file outside
  CHECK_FALSE(std::filesystem::exists(f.path / "r.html.part"));
}

TEST_CASE("a report of a run that was killed says what is missing") {
  Folder f;
  write_run(f);
  for (const char* name :
       {"summary.json", "profile.json", "timeline.json", "environment.json", "metrics.jsonl"}) {
    std::filesystem::remove(f.path / "run" / name);
    const auto r = shell::run("$SLUICE report " + (f.path / "run").string());
    INFO(name << " " << r.err);
    REQUIRE(r.code == 0);
    const std::string page = f.read("run/report.html");
    CHECK(page.find(std::string("\"") + name + ": ") != std::string::npos);
  }
  f.write("run/sessions.jsonl", "{\"event\":\"begin\",\"time\":\"2026-01-01T00:00:00Z\"}\n");
  REQUIRE(shell::run("$SLUICE report " + (f.path / "run").string()).code == 0);
  CHECK(f.read("run/report.html").find("\"status\":\"open\"") != std::string::npos);
  // Files that hold something else are taken as missing.
  for (const char* name : {"summary.json", "profile.json", "timeline.json", "graph.json"})
    f.write(std::string("run/") + name, "[1, 2");
  f.write("run/summary.json", "{\"status\": 7, \"metrics\": [], \"samples\": 3}");
  f.write("run/previews/index.jsonl", "{\"file\": 3}\n[]\nnull\n{\"epoch\":1,\"file\":\"x\"}\n");
  CHECK(shell::run("$SLUICE report " + (f.path / "run").string()).code == 0);
}

TEST_CASE("a report passes over a trace that is none") {
  Folder f;
  write_run(f);
  f.write("run/trace.pftrace", "no trace");
  const auto r = shell::run("cd " + f.path.string() + " && $SLUICE report run -o r.html");
  INFO(r.err);
  CHECK(r.code == 0);
  CHECK(f.read("r.html").find("trace.pftrace: when each body ran") != std::string::npos);
}

TEST_CASE("curves and overviews that nodes left stand in the report, others are passed over") {
  Folder f;
  write_run(f);
  f.write("run/curves/froc.json", R"({"kind":"froc","x":[0,1],"y":[0,0.5],"mean":0.4})");
  f.write("run/curves/val/auc.json",
          R"({"kind":"roc","lines":[{"name":"</script>","x":[0,1],"y":[0,1]}]})");
  f.write("run/curves/acc.json",
          R"({"kind":"confusion","names":["a","b"],"counts":[[3,1],[0,4]]})");
  f.write("run/curves/bad.json", R"({"kind":"froc","x":[0,"1"],"y":3})");
  f.write("run/curves/worse.json", "[1, 2");
  f.write("run/overviews/slide.png", "\x89PNG\r\n\x1a\n and so on");
  f.write("run/overviews/no.png", "no picture");
  REQUIRE(shell::run("$SLUICE report " + (f.path / "run").string()).code == 0);
  const std::string page = f.read("run/report.html");
  CHECK(page.find("\"node\":\"froc\"") != std::string::npos);
  CHECK(page.find("\"node\":\"val/auc\"") != std::string::npos);
  CHECK(page.find("\"node\":\"acc\"") != std::string::npos);
  CHECK(page.find("\"node\":\"bad\"") == std::string::npos);
  CHECK(page.find("\"name\":\"slide\",\"png\":\"iVBORw0KGgo") != std::string::npos);
  CHECK(page.find("\"name\":\"no\"") == std::string::npos);
  CHECK(occurrences(page, "</script") == 2);
  const std::string program = browser();
  if (program.empty()) return;
  const auto r = rendered(program, f.path / "run/report.html");
  CHECK(r.err.find("CONSOLE") == std::string::npos);
  CHECK(r.out.find("class=\"confusion\"") != std::string::npos);
  CHECK(r.out.find("Slides and scores") != std::string::npos);
}

TEST_CASE("a package is no run's folder, and its report is said to be the run's") {
  Folder f;
  for (const char* name : {"manifest.json", "weights.safetensors", "graph.json"})
    f.write(std::string("p/") + name, "{}");
  const auto r = shell::run("cd " + f.path.string() + " && $SLUICE report p");
  CHECK(r.code == 2);
  CHECK(r.err.find("p: is a package, no run's folder") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(f.path / "p/report.html"));
}

TEST_CASE("a report of no run folder, or to where nothing can be written, ends with 4") {
  Folder f;
  const auto none = shell::run("$SLUICE report " + (f.path / "nowhere").string());
  CHECK(none.code == 4);
  CHECK(none.err.find("no such folder") != std::string::npos);
  const auto empty = shell::run("$SLUICE report " + f.path.string());
  CHECK(empty.code == 4);
  CHECK(empty.err.find("no run folder") != std::string::npos);
  write_run(f);
  CHECK(shell::run("$SLUICE report " + (f.path / "run").string() + " -o " +
                   (f.path / "missing/r.html").string())
            .code == 4);
}

TEST_CASE("without Graphviz a report holds a picture all the same") {
  Folder f;
  write_run(f);
  const auto r = shell::run("cd " + f.path.string() + "; PATH= $SLUICE report run");
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(f.read("run/report.html").find("<g id=\"graph-node0\" class=\"node\">") !=
        std::string::npos);
}

TEST_CASE("report loads neither LibTorch nor the runtime") {
  Folder f;
  write_run(f);
  const auto r = shell::run("LD_DEBUG=files $SLUICE report " + (f.path / "run").string() +
                            " 2>&1 | grep -c 'libtorch\\|libsluice_runtime\\|libcuda' || true");
  CHECK(r.out == "0\n");
}

TEST_CASE("a browser draws every section of a report without an error") {
  const std::string program = browser();
  if (program.empty()) {
    MESSAGE("skipped: no Chromium here");
    return;
  }
  Folder f;
  write_run(f);
  for (const bool whole : {true, false}) {
    if (!whole)
      for (const char* name : {"summary.json", "profile.json", "timeline.json", "environment.json",
                               "metrics.jsonl", "graph.json", "previews/index.jsonl"}) {
        if (std::string(name) == "graph.json") continue;
        std::filesystem::remove(f.path / "run" / name);
      }
    REQUIRE(shell::run("$SLUICE report " + (f.path / "run").string()).code == 0);
    const auto r = rendered(program, f.path / "run/report.html");
    INFO(r.err);
    REQUIRE(r.code == 0);
    CHECK(r.err.find("CONSOLE") == std::string::npos);
    CHECK(r.out.find("data-ready=\"yes\"") != std::string::npos);
    const std::string heading = whole ? "<h1>&lt;script&gt;alert(1)&lt;/script&gt;" : "<h1>";
    CHECK(r.out.find(heading) != std::string::npos);
    CHECK((r.out.find("4; threads, times and memory are those of the first") != r.out.npos) ==
          whole);
    CHECK(occurrences(r.out, "<script") == 2);
    CHECK(r.out.find("<img src=\"x\"") == std::string::npos);
    for (const char* id : sections) {
      if (std::string(id) == "headline") continue;
      const auto at = r.out.find(std::string("id=\"s-") + id + "\"");
      INFO(id);
      REQUIRE(at != std::string::npos);
      const std::string part = r.out.substr(at, r.out.find("</section>", at) - at);
      const bool titled =
          part.find("<h2>") != std::string::npos || part.find("<summary>") != std::string::npos;
      CHECK(titled);
      const bool is_taken = std::string(id) != "trace";  // test_trace.cpp has one with a trace
      if (whole && is_taken) CHECK(part.find("class=\"empty\"") == std::string::npos);
    }
  }
}
