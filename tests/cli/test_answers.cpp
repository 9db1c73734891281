// The commands that the binary answers itself: check, dot, inspect, explain.
#include <doctest/doctest.h>

#include <regex>
#include <set>

#include "tests/cli/shell.h"

using nlohmann::json;
using shell::Folder;

// Nodes that need no data to be checked.
static const char* const tiny = R"({ "nodes": {
  "cases": { "type": "decathlon", "root": "nowhere", "split": "training" },
  "load":  { "type": "load_image", "in": "cases" },
  "flip":  { "type": "rand_flip", "in": "load", "prob": 0.3 },
  "save":  { "type": "save_image", "in": "flip" } } })";

TEST_CASE("check says ok on stdout and what is wrong on stderr, each file by itself") {
  Folder f;
  f.write("good.json", tiny);
  f.write("bad.json", "{ \"nodes\": { \"a\": { \"type\": \"rand_flpi\", \"in\": \"b\" } } }");
  const auto both = shell::run("cd " + f.path.string() + " && $SLUICE check good.json bad.json");
  CHECK(both.code == 2);
  CHECK(both.out == "ok: good.json (4 nodes, 1 stream)\n");
  CHECK(both.err ==
        "error[SL0203]: unknown node type \"rand_flpi\"\n"
        "  --> bad.json:1:29  (nodes.a.type)\n"
        "   |\n"
        " 1 | { \"nodes\": { \"a\": { \"type\": \"rand_flpi\", \"in\": \"b\" } } }\n"
        "   |                             ^^^^^^^^^^^ did you mean \"rand_flip\"?\n"
        "found 1 error, 0 warnings\n");
}

TEST_CASE("check --json is one document") {
  Folder f;
  f.write("good.json", tiny);
  const auto r = shell::run("cd " + f.path.string() +
                            " && $SLUICE check --json good.json none.json --set nodes.flip.prob=7");
  CHECK(r.code == 2);
  CHECK(r.err.empty());
  const json all = json::parse(r.out);
  CHECK(all.at("ok") == false);
  CHECK(all.at("graphs").size() == 2);
  const json& fault = all.at("graphs")[0].at("diagnostics")[0];
  CHECK(fault.at("code") == "SL0223");
  CHECK(fault.at("place") == "--set nodes.flip.prob=7");
  CHECK(all.at("graphs")[1].at("diagnostics")[0].at("code") == "SL0101");
}

TEST_CASE("dot prints text, writes files and draws a run's measurements") {
  Folder f;
  f.write("g.json", tiny);
  f.write("run/profile.json", R"({"nodes": {"flip": {"busy": 0.5, "rate": 12.3}}})");
  const std::string in = "cd " + f.path.string() + " && $SLUICE dot g.json ";
  const auto text = shell::run(in);
  CHECK(text.code == 0);
  CHECK(text.out.starts_with("digraph \"g\" {\n"));
  CHECK(shell::run(in + "-o g.dot").code == 0);
  CHECK(f.read("g.dot") == text.out);
  const auto measured = shell::run(in + "--run run");
  CHECK(measured.out.find("12.3/s  q 0/4") != std::string::npos);
  CHECK(measured.err.starts_with("note: run was of another graph, without cases, load, save\n"));
  CHECK(shell::run(in + "--run nowhere").code == 4);
  // Of a graph with the same names, and other things behind them.
  f.write("run/graph.json", R"({ "nodes": {
  "cases": { "type": "decathlon", "root": "elsewhere", "split": "training" },
  "load":  { "type": "load_image", "in": "cases" },
  "flip":  { "type": "rand_rotate", "in": "load", "prob": 0.3 },
  "noise": { "type": "rand_gaussian_noise", "in": "flip" },
  "save":  { "type": "save_image", "in": "noise" } } })");
  f.write("run/profile.json", R"({"nodes": {
  "cases": {"type": "decathlon", "rate": 12.3}, "load": {"type": "load_image", "rate": 12.3},
  "flip": {"type": "rand_rotate", "busy": 0.5, "rate": 45.6, "p99_ms": 78.9},
  "noise": {"type": "rand_gaussian_noise"}, "save": {"type": "save_image"}}})");
  const auto other = shell::run(in + "--run run");
  CHECK(other.code == 0);
  CHECK(
      other.err.starts_with("note: run was of another graph, with other types of flip; with "
                            "other settings or inputs of cases, save; with more nodes: noise\n"));
  CHECK(other.out.find("45.6") == std::string::npos);
  CHECK(other.out.find("12.3/s") != std::string::npos);
  f.write("run/graph.json", tiny);
  f.write("run/profile.json", R"({"nodes": {"cases": {"busy": 0.5}, "load": {"busy": 0.5},
  "flip": {"busy": 0.5}, "save": {"busy": 0.5}}})");
  CHECK(shell::run(in + "--run run").err.find("another graph") == std::string::npos);
  CHECK(shell::run(in + "-o g.gif").code == 2);
  CHECK(shell::run(in + "-o missing/g.dot").code == 4);
  if (shell::run("command -v dot").code == 0) {
    CHECK(shell::run(in + "-o g.svg").code == 0);
    CHECK(f.read("g.svg").find("<svg") != std::string::npos);
    f.write("R&D/g.json", tiny);
    CHECK(shell::run("cd " + f.path.string() + " && $SLUICE dot 'R&D/g.json' -o rd.svg").code == 0);
    CHECK(f.read("rd.svg").find("xlink:href=\"R%26D/g.json#L2\"") != std::string::npos);
    CHECK(shell::run(in + "-o missing/g.svg").code == 4);
  }
  const auto none = shell::run("cd " + f.path.string() + "; PATH= $SLUICE dot g.json -o g.png");
  CHECK(none.code == 4);
  CHECK(none.err.find("install graphviz") != std::string::npos);
}

// The ids of elements of a class, in the order in which a picture has them.
static std::set<std::string> ids(const std::string& svg, const std::string& kind) {
  static const std::regex element(R"re(<g id="([^"]*)" class="([^"]*)">)re");
  std::set<std::string> found;
  for (std::sregex_iterator it(svg.begin(), svg.end(), element), end; it != end; ++it)
    if ((*it)[2] == kind) found.insert((*it)[1]);
  return found;
}

TEST_CASE("without Graphviz dot draws SVG and pages itself, with the same ids") {
  Folder f;
  const std::string in = "cd " + f.path.string() + "; ";
  for (const std::string name : {"brain", "deepgrow", "ddp_unet"}) {
    INFO(name);
    const std::string graph = "$SLUICE dot " SLUICE_SOURCE_DIR "/graphs/" + name + ".json -o ";
    const auto own = shell::run(in + "PATH= " + graph + "own.svg");
    REQUIRE(own.code == 0);
    CHECK(own.err.find("error") == std::string::npos);
    const std::string svg = f.read("own.svg");
    CHECK(ids(svg, "node").contains("node0"));
    CHECK(ids(svg, "node").contains("network0"));
    CHECK(shell::run(in + SLUICE_PYTHON " -c 'import xml.dom.minidom as x; x.parse(\"own.svg\")'")
              .code == 0);
    if (shell::run("command -v dot").code != 0) continue;
    REQUIRE(shell::run(in + graph + "graphviz.svg").code == 0);
    for (const char* kind : {"node", "edge", "cluster"})
      CHECK(ids(svg, kind) == ids(f.read("graphviz.svg"), kind));
  }
  CHECK(
      shell::run(in + "PATH= $SLUICE dot " SLUICE_SOURCE_DIR "/graphs/brain.json -o b.html").code ==
      0);
}

TEST_CASE("dot writes a page that needs no network and takes no markup from the graph") {
  if (shell::run("command -v dot").code != 0) {
    MESSAGE("skipped: no Graphviz here");
    return;
  }
  Folder f;
  f.write("g.json", R"({ "name": "a <b> & \"c\"", "desc": "<script>alert(1)</script> @SVG@ \\",
    "nodes": { "cases": { "type": "decathlon", "root": "</script><!--", "split": "training" },
               "load": { "type": "load_image", "in": "cases", "desc": "x\\Ny <i>" } } })");
  const auto r = shell::run("cd " + f.path.string() + " && $SLUICE dot g.json -o g.html");
  INFO(r.err);
  CHECK(r.code == 0);
  const std::string page = f.read("g.html");
  CHECK(page.find("<script>alert") == std::string::npos);
  CHECK(page.find("@SVG@</div>") == std::string::npos);
  for (const char* outside : {" src=", "<link", "@import", "url("})
    CHECK(page.find(outside) == std::string::npos);
  const std::string mark = "id=\"data\">";
  const auto begin = page.find(mark) + mark.size();
  const json data = json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  CHECK(data.size() == 2);
  CHECK(data.at("node0").at("params")[0].at("value") == "</script><!--");
  CHECK(data.at("node1").at("desc") == "x\\Ny <i>");
  CHECK(data.at("node1").at("source").get<std::string>().find("\"type\": \"load_image\"") !=
        std::string::npos);
  CHECK(page.find("<g id=\"node1\" class=\"node\">") != std::string::npos);
}

TEST_CASE("inspect lists types and shows a page or JSON of one") {
  const auto all = shell::run("$SLUICE inspect");
  CHECK(all.code == 0);
  CHECK(all.out.find("\ntransform\n") != std::string::npos);
  const auto page = shell::run("$SLUICE inspect rand_flip");
  CHECK(page.out.find("float in 0..1") != std::string::npos);
  CHECK(page.out.find("\"rand_flip\": { \"type\": \"rand_flip\", \"in\": ") != std::string::npos);
  CHECK(shell::run("$SLUICE inspect regressor")
            .out.find("gives  output_keys        of the model node: no image, float32") !=
        std::string::npos);
  CHECK(json::parse(shell::run("$SLUICE inspect rand_flip --json").out).at("name") == "rand_flip");
  CHECK(json::parse(shell::run("$SLUICE inspect --json").out).size() > 1);
  CHECK(shell::run("$SLUICE inspect transform").out.find("rand_flip") != std::string::npos);
  const auto wrong = shell::run("$SLUICE inspect rand_flpi");
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("did you mean \"rand_flip\"?") != std::string::npos);
}

TEST_CASE("explain describes a code, in either case, and lists them all") {
  CHECK(shell::run("$SLUICE explain sl0306").out.starts_with("SL0306: a cycle\n\n"));
  CHECK(shell::run("$SLUICE explain").out.find("SL0203  unknown node type\n") != std::string::npos);
  CHECK(shell::run("$SLUICE explain SL9999").code == 2);
}

TEST_CASE("a wrong command line ends with 2 and a suggestion") {
  const auto command = shell::run("$SLUICE chekc x.json");
  CHECK(command.code == 2);
  CHECK(command.err.find("there is no command chekc; did you mean \"check\"?") !=
        std::string::npos);
  const auto option = shell::run("$SLUICE run x.json --thread 3");
  CHECK(option.code == 2);
  CHECK(option.err.find("did you mean \"--threads\"?") != std::string::npos);
  CHECK(shell::run("$SLUICE").code == 2);
  CHECK(shell::run("$SLUICE check").code == 2);
  CHECK(shell::run("$SLUICE run x.json --threads many").code == 2);
  const auto number = [](const std::string& arguments, const std::string& why) {
    const auto r = shell::run("$SLUICE " + arguments);
    CHECK(r.code == 2);
    CHECK(r.err.starts_with("error: " + why + "\n"));
  };
  number("run x.json --minutes 0", "--minutes: Value 0 not in range 1e-06 to 1e+09");
  number("run x.json --minutes nan", "--minutes: Value nan not in range 1e-06 to 1e+09");
  number("run x.json --steps 0", "--steps: Value 0 not in range 1 to 1000000000");
  number("profile x.json --seconds nan", "--seconds: Value nan not in range 0 to 1e+09");
  CHECK(shell::run("$SLUICE --help").code == 0);
}

TEST_CASE("a run with a faulty graph or without its runtime does not begin") {
  Folder f;
  f.write("g.json", tiny);
  const std::string run = "cd " + f.path.string() + "; $SLUICE run g.json --no-out ";
  const auto faulty = shell::run(run + "--set nodes.flip.prob=x");
  CHECK(faulty.code == 2);
  CHECK(faulty.err.find("SL0222") != std::string::npos);
  const auto alone = shell::run("export SLUICE_RUNTIME=/nowhere.so; " + run);
  CHECK(alone.code == 4);
  CHECK(alone.err.find("cannot load the runtime") != std::string::npos);
}

TEST_CASE("a page shows each node's text as it stands in the file, whatever its comments hold") {
  Folder f;
  f.write("g.json", R"({ "nodes": {
    /* für } */ "cases": { "type": "decathlon", "root": "x", /* } " */ "split": "training" },
    "load": { "type": "load_image",  // it's a "quote
              "in": "cases" } } })");
  const auto r = shell::run("cd " + f.path.string() + " && $SLUICE dot g.json -o g.html");
  REQUIRE_MESSAGE(r.code == 0, r.err);
  const std::string page = f.read("g.html"), mark = "id=\"data\">";
  const auto begin = page.find(mark) + mark.size();
  const json data = json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  CHECK(data.at("node0").at("source") ==
        R"("cases": { "type": "decathlon", "root": "x", /* } " */ "split": "training" })");
  CHECK(data.at("node1").at("source") ==
        "    \"load\": { \"type\": \"load_image\",  // it's a \"quote\n"
        "              \"in\": \"cases\" }");
}

TEST_CASE("fmt leaves a file's permissions as they are") {
  Folder f;
  f.write("g.json", "{ \"nodes\":{} }");
  const auto r = shell::run("cd " + f.path.string() +
                            " && chmod 640 g.json && $SLUICE fmt g.json && stat -c %a g.json");
  CHECK_MESSAGE(r.out == "640\n", r.out, r.err);
  CHECK(f.read("g.json") == "{ \"nodes\": {} }\n");
}
