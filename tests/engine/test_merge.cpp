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
