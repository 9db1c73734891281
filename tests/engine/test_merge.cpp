// Graphs of several files: where each value came from, and parts that cannot be read.
#include "engine/graph/merge.h"

#include <doctest/doctest.h>

#include "engine/base/diagnostic.h"
#include "engine/graph/override.h"
#include "tests/temporary_folder.h"
#include "toy_graph.h"

using namespace sluice;
using toys::faults;
using toys::hint;

namespace {

struct Merged : TemporaryFolder {
  std::vector<std::string> files;
  Diagnostics found;

  void add(const std::string& name, const std::string& text) {
    files.push_back(write_text(name, text).string());
  }
  DocumentPtr read(const std::vector<std::string>& set = {}) {
    DocumentPtr document = read_graph_files(files, found);
    if (!document) return nullptr;
    InnerOverrides inner;
    return apply_overrides(document, parse_overrides(set, found), inner, found);
  }
  // "b.json:2:3": without the folder.
  std::string place(const DocumentPtr& document, const std::string& pointer) const {
    const std::string text = Place{document, pointer}.str();
    return text.starts_with(path.string()) ? text.substr(path.string().size() + 1) : text;
  }
};

}  // namespace

TEST_CASE(
    "A node that a later file replaces stands in that file, whatever an earlier one changed") {
  Merged m;
  m.add("a.json", R"({"nodes": {"n": {"type": "flip", "in": "s"}, "n2": {"type": "flip"}}})");
  m.add("b.json", R"({"nodes": {"n": {"prob": 3}, "n2": {"prob": 4}}})");
  m.add("c.json", R"({"nodes": {"n": {"type": "crop", "prob": 5}}})");
  const DocumentPtr document = m.read();
  REQUIRE(document);
  CHECK(m.place(document, "/nodes/n/prob") == "c.json:1:42");
  CHECK(m.place(document, "/nodes/n2/prob") == "b.json:1:45");
  CHECK(m.place(document, "/nodes/n2/type") == "a.json:1:61");
}

TEST_CASE(
    "Names of variables, nodes and parts may be words of the format, and take nothing with them") {
  Merged m;
  m.add("a.json", R"({"vars": {"type": "x", "keep": 1}, "models": {"part": {"type": "unet"}},
    "parts": {"type": {"params": {"type": 1, "keep": 2}, "nodes": {"part": {"type": "flip"}}}},
    "nodes": {"type": {"type": "flip"}, "keep": {"type": "crop"}}})");
  m.add("b.json", R"({"vars": {"type": "y"}, "models": {"type": {"type": "unet"}},
    "parts": {"type": {"params": {"type": 3}, "nodes": {"type": {"type": "crop"}}}},
    "nodes": {"type": {"prob": 0.5}, "part": {"type": "flip"}}})");
  const DocumentPtr document = m.read();
  REQUIRE(document);
  const Json& root = document->root;
  CHECK(root["vars"] == Json({{"type", "y"}, {"keep", 1}}));
  CHECK(root["models"].size() == 2);
  CHECK(root["parts"]["type"]["params"] == Json({{"type", 3}, {"keep", 2}}));
  CHECK(root["parts"]["type"]["nodes"].size() == 2);
  CHECK(root["nodes"].size() == 3);
  CHECK(root["nodes"]["type"] == Json({{"type", "flip"}, {"prob", 0.5}}));
}

TEST_CASE("A later file changes what a node has, unless it says that it is another one") {
  Merged m;
  m.add("a.json", R"({"run": {"epochs": 3, "seed": 1}, "nodes": {
    "same": {"type": "flip", "prob": 1}, "use": {"part": "p", "keys": 1},
    "now_a_part": {"type": "flip", "prob": 1}, "not_a_part": {"part": "p", "keys": 1},
    "of_no_type": {"in": "x"}, "list": {"type": "crop", "size": [1, 2]}, "value": 7}})");
  m.add("b.json", R"({"run": {"seed": 2}, "nodes": {
    "same": {"type": "flip", "in": "x"}, "use": {"part": "q"}, "now_a_part": {"part": "p"},
    "not_a_part": {"type": "flip"}, "of_no_type": {"type": "flip"}, "list": {"size": [3]},
    "value": {"type": "flip"}, "new": {"type": "flip"}}})");
  const DocumentPtr document = m.read();
  REQUIRE(document);
  CHECK(document->root["run"].dump() == R"({"epochs":3,"seed":2})");
  const std::pair<const char*, const char*> nodes[] = {
      {"same", R"({"type":"flip","prob":1,"in":"x"})"},
      {"use", R"({"part":"q"})"},
      {"now_a_part", R"({"part":"p"})"},
      {"not_a_part", R"({"type":"flip"})"},
      {"of_no_type", R"({"in":"x","type":"flip"})"},
      {"list", R"({"type":"crop","size":[3]})"},
      {"value", R"({"type":"flip"})"},
      {"new", R"({"type":"flip"})"}};
  for (const auto& [name, wanted] : nodes) CHECK(document->root["nodes"][name].dump() == wanted);
  CHECK(m.place(document, "/nodes/same/in") == "b.json:2:36");
  CHECK(m.place(document, "/nodes/same/prob") == "a.json:2:38");
}

TEST_CASE("A later file that is no object is refused where it begins, and so is an earlier one") {
  for (const bool first : {false, true}) {
    Merged m;
    m.add("a.json", first ? "[1]" : "{}");
    m.add("b.json", first ? "{}" : "\n [1]");
    CHECK_FALSE(m.read());
    CHECK(m.found.to_json()[0]["code"] == "SL0201");
    CHECK(m.found.to_json()[0]["file"] == m.files[1]);
    CHECK(m.found.to_json()[0]["line"] == (first ? 1 : 2));
  }
}

TEST_CASE("A part stands in its file, beside the file that names it or among those that are open") {
  Merged m;
  m.add("a.json", R"({"parts": {"p": "./part.json", "q": {"nodes": {}}}, "nodes": {}})");
  m.write_text("part.json", R"({"nodes": {"n": {"type": "flip"}}})");
  const DocumentPtr document = m.read();
  REQUIRE(document);
  CHECK(document->root["parts"]["p"]["nodes"].contains("n"));
  CHECK(m.place(document, "/parts/p/nodes/n/type").ends_with("part.json:1:26"));
  CHECK(m.place(document, "/parts/q/nodes") == "a.json:1:47");
  const OpenFiles open{{(m / "part.json").string(), R"({"nodes": {"edited": {}}})"}};
  const DocumentPtr edited = read_graph_files(m.files, m.found, nullptr, &open);
  REQUIRE(edited);
  CHECK(edited->root["parts"]["p"]["nodes"].contains("edited"));
  std::filesystem::remove(m / "part.json");
  CHECK_FALSE(m.read());
  const Json said = m.found.to_json()[0];
  CHECK(contains(said["message"], "part \"p\" is to be read from "));
  CHECK(contains(said["message"], "part.json, which is no file"));
  CHECK(said["path"] == "parts.p");
  CHECK(said["hint"] == "the path is relative to the file that names it");
}

TEST_CASE("A run's folder stands for its graph, and a text for the first file alone") {
  Merged m;
  m.write_text("run/graph.json", R"({"name": "of the run"})");
  m.add("b.json", R"({"desc": "of b"})");
  m.files.insert(m.files.begin(), (m / "run").string());
  CHECK(m.read()->root["name"] == "of the run");
  const std::string text = R"({"name": "edited"})";
  const DocumentPtr edited = read_graph_files(m.files, m.found, &text);
  REQUIRE(edited);
  CHECK(edited->root == Json({{"name", "edited"}, {"desc", "of b"}}));
  CHECK(m.found.all().empty());
}

TEST_CASE("What --set replaces came from --set, whatever an earlier file or --set changed in it") {
  Merged m;
  m.add("a.json", R"({"nodes": {"n": {"type": "flip"}}})");
  m.add("b.json", R"({"nodes": {"n": {"prob": 3}}})");
  const std::string whole = R"(nodes.n={"type": "crop", "prob": 5})";
  CHECK(m.place(m.read({whole}), "/nodes/n/prob") == "--set " + whole);
  CHECK(m.place(m.read({"nodes.n.prob=7", whole}), "/nodes/n/prob") == "--set " + whole);
  CHECK(m.place(m.read({whole, "nodes.n.prob=7"}), "/nodes/n/prob") == "--set nodes.n.prob=7");
}

TEST_CASE(
    "After an element was removed, the marks of later ones are not those of their neighbours") {
  Merged m;
  m.add("a.json", R"({"nodes": {"n": {"size": [1, 2, 3, 4], "type": "crop"}}})");
  const auto document = m.read({"nodes.n.size.2=5", "nodes.n.size.3=6", "~nodes.n.size.0"});
  CHECK(document->root["nodes"]["n"]["size"].dump() == "[2,5,6]");
  for (const char* i : {"0", "1", "2"})
    CHECK(m.place(document, std::string("/nodes/n/size/") + i) == "--set ~nodes.n.size.0");
  CHECK(m.place(document, "/nodes/n/type") == "a.json:1:48");
}

TEST_CASE("A part's file that the system refuses to look at is a diagnostic, not the end") {
  const std::string longest(300, 'x');
  Merged m;
  m.add("a.json", R"({"parts": {"p": ")" + longest + R"("}, "nodes": {}})");
  CHECK_FALSE(m.read());
  const Json all = m.found.to_json();
  REQUIRE(all.size() == 1);
  CHECK(all[0]["code"] == "SL0108");
  CHECK(contains(all[0]["message"], longest + ": File name too long"));
}

TEST_CASE("Parts that are a text or a list are of the wrong type, and name no file") {
  const std::pair<const char*, const char*> wrong[] = {{R"("x.json")", "SL0201 1:11 parts\n"},
                                                       {R"(["x.json"])", "SL0216 1:11 parts\n"}};
  for (const auto& [parts, said] : wrong) {
    Merged m;
    m.add("a.json", std::string(R"({"parts": )") + parts + R"(, "nodes": {}})");
    const auto document = m.read();
    REQUIRE_MESSAGE(document, faults(m.found));
    CHECK(faults(document->text).starts_with(said));
  }
}

TEST_CASE("Only a graph without vars is said to have none") {
  const std::string nodes = R"("nodes": {"n": {"type": "cases", "root": "@p"}})";
  CHECK(hint("{" + nodes + "}") == "the graph has no \"vars\"");
  CHECK(hint(R"({"vars": {}, )" + nodes + "}") == "");
  CHECK(hint(R"({"vars": {"q": "@p"}, "nodes": {}})") == "");
}
