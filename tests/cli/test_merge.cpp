// Graphs from several files, parts in files of their own, and what --set may add and remove.
#include <doctest/doctest.h>

#include "tests/cli/shell.h"

using nlohmann::json;
using shell::Folder;

namespace {

const char* const base = R"({ "vars": { "p": 0.3 }, "nodes": {
  "cases": { "type": "decathlon", "root": "nowhere" },
  "load":  { "type": "load_image", "in": "cases" },
  "flip":  { "type": "rand_flip", "in": "load", "prob": "@p" },
  "end":   { "type": "rand_gaussian_noise", "in": "flip", "std": 0.2 } } })";

struct Folded : Folder {
  shell::Result sluice(const std::string& arguments) const {
    return shell::run("cd " + path.string() + " && $SLUICE " + arguments);
  }
};

}  // namespace

TEST_CASE("files are merged left to right, and messages name the file that a value stands in") {
  Folded f;
  f.write("base.json", base);
  f.write("mine.json", "{ \"vars\": { \"p\": 0.7 },\n  \"nodes\": { \"end\": { \"std\": 0.5 } } }");
  f.write("bad.json", "{\n  \"nodes\": { \"end\": { \"std\": -1, \"men\": 3 } } }");
  CHECK(f.sluice("check --merge base.json mine.json").out ==
        "ok: base.json mine.json (4 nodes, 1 stream)\n  done together: flip + end: one copy\n");
  const auto dot = f.sluice("dot base.json mine.json");
  CHECK(dot.out.find("std = 0.5") != std::string::npos);
  CHECK(dot.out.find("prob = 0.7") != std::string::npos);
  const auto bad = f.sluice("check --merge base.json bad.json");
  CHECK(bad.code == 2);
  CHECK(bad.err ==
        "error[SL0223]: \"std\": expected at least 0, found -1\n"
        "  --> bad.json:2:30  (nodes.end.std)\n"
        "   |\n"
        " 2 |   \"nodes\": { \"end\": { \"std\": -1, \"men\": 3 } } }\n"
        "   |                              ^^\n"
        "error[SL0221]: \"rand_gaussian_noise\" has no parameter \"men\"\n"
        "  --> bad.json:2:34  (nodes.end.men)\n"
        "   |\n"
        " 2 |   \"nodes\": { \"end\": { \"std\": -1, \"men\": 3 } } }\n"
        "   |                                  ^^^^^ did you mean \"mean\"?\n"
        "found 2 errors, 0 warnings\n");
}

TEST_CASE("another type replaces a node, its old parameters are gone") {
  Folded f;
  f.write("base.json", base);
  f.write("other.json", R"({ "nodes": { "end": { "type": "rand_bias_field", "in": "flip" } } })");
  const auto r = f.sluice("check --merge base.json other.json");
  CHECK_MESSAGE(r.code == 0, r.err);
}

TEST_CASE("a part stands in a file of its own, and what is wrong there is said there") {
  Folded f;
  const std::string graph = R"({ "parts": { "prepare": "parts/prepare.json" }, "nodes": {
    "cases": { "type": "decathlon", "root": "nowhere" },
    "pre":   { "part": "prepare", "in": "cases" } } })";
  f.write("g/graph.json", graph);
  f.write("g/parts/prepare.json", R"({ "in": "x", "out": "norm", "nodes": {
    "load": { "type": "load_image", "in": "x" },
    "norm": { "type": "normalize_intensity", "in": "load" } } })");
  CHECK(f.sluice("check g/graph.json").out == "ok: g/graph.json (3 nodes, 1 stream)\n");
  f.write("g/parts/prepare.json",
          "{ \"in\": \"x\", \"nodes\": {\n \"load\": { \"type\": \"lod_image\", "
          "\"in\": \"x\" } } }");
  const auto bad = f.sluice("check g/graph.json");
  CHECK(bad.err.find("  --> g/parts/prepare.json:2:20  (nodes.pre/load.type)\n") !=
        std::string::npos);
  CHECK(bad.err.find("did you mean \"load_image\"?") != std::string::npos);
  shell::fs::remove(f.path / "g/parts/prepare.json");
  const auto none = f.sluice("check g/graph.json");
  CHECK(
      none.err.starts_with("error[SL0108]: part \"prepare\" is to be read from "
                           "g/parts/prepare.json, which is no file\n"
                           "  --> g/graph.json:1:25  (parts.prepare)\n"));
}

TEST_CASE("--set +path adds, ~path removes, and neither in silence") {
  Folded f;
  f.write("g.json", base);
  const auto check = [&](const std::string& sets) { return f.sluice("check g.json " + sets); };
  CHECK(check("--set '+nodes.smooth={\"type\":\"gaussian_smooth\",\"in\":\"end\"}'").out ==
        "ok: g.json (5 nodes, 1 stream)\n  done together: flip + end: one copy\n");
  CHECK(check("--set +vars.q=1 --set nodes.end.mean=@q").code == 0);
  CHECK(check("--set '+models.net={\"type\":\"unet\",\"spatial_dims\":3,\"in_channels\":1,"
              "\"out_channels\":2,\"channels\":[4,8],\"strides\":[2]}'")
            .code == 0);
  CHECK(check("--set ~nodes.end").out == "ok: g.json (3 nodes, 1 stream)\n");
  CHECK(check("--set ~nodes.end.std").code == 0);
  const auto missing = check("--set ~nodes.edn");
  CHECK(missing.err.find("error[SL0501]: no such path: nodes has no \"edn\"\n"
                         "  --> --set ~nodes.edn  (nodes.edn)\n"
                         "   = help: did you mean nodes.end?\n") != std::string::npos);
  const auto twice = check("--set +nodes.flip.prob=1");
  CHECK(twice.err.find("error[SL0503]: nodes.flip.prob is there already") != std::string::npos);
  const auto used = check("--set ~nodes.load");
  CHECK(used.err.find("SL0301") != std::string::npos);
  CHECK(check("--set nodes.new.type=model").err.find("SL0501") != std::string::npos);
  CHECK(check("--set nodes").err.find("SL0502") != std::string::npos);
}

TEST_CASE("--set changes nodes inside a part, and removes their parameters") {
  Folded f;
  f.write("g.json", R"({ "parts": { "p": { "in": "x", "out": "load", "nodes": {
      "load": { "type": "load_image", "in": "x", "keys": ["image", "label"] } } } },
    "nodes": { "cases": { "type": "decathlon", "root": "d" },
               "pre": { "part": "p", "in": "cases" } } })");
  CHECK(
      f.sluice("dot g.json --set nodes.pre/load.keys='[\"image\"]'").out.find("[\\\"image\\\"]") !=
      std::string::npos);
  CHECK(f.sluice("check g.json --set ~nodes.pre/load.keys").code == 0);
  CHECK(f.sluice("check g.json --set ~nodes.pre/load.kyes").code == 2);
}

TEST_CASE("requires names nodes that are there") {
  Folded f;
  const auto with = [&](const std::string& first, const std::string& second) {
    f.write("g.json", "{ \"nodes\": { \"a\": { \"type\": \"decathlon\", \"root\": \"d\"" + first +
                          " },\n\"b\": { \"type\": \"load_image\", \"in\": \"a\"" + second +
                          " } } }");
    return f.sluice("check g.json");
  };
  CHECK(with(R"(, "requires": "b")", "").code == 0);
  CHECK(with(R"(, "requires": ["bb"])", "").err.find("did you mean \"b\"?") != std::string::npos);
  CHECK(with(R"(, "requires": "b")", R"(, "requires": "a")").err.find("SL0314") !=
        std::string::npos);
}
