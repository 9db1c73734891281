// Names that people try for types, and what the page for MONAI users promises of them.
#include <doctest/doctest.h>

#include <fstream>
#include <regex>
#include <set>

#include "engine/graph/graph.h"
#include "engine/graph/merge.h"
#include "engine/graph/param_names.h"
#include "engine/graph/type_names.h"
#include "tests/engine/toy_graph.h"
#include "tests/temporary_folder.h"

using namespace sluice;

TEST_CASE("every class on the page for MONAI users finds the node that the page names") {
  std::ifstream page(SLUICE_SOURCE_DIR "/nodes/MONAI.md");
  static const std::regex link(R"(\(README\.md#(\w+)\))"), code("`([A-Za-z_0-9.]+)[^`]*`");
  const std::regex row(R"(^\| (.*?) \| (.*?) \|.*)");
  struct Row {
    std::vector<std::string> classes;
    std::set<std::string> nodes;
  };
  std::vector<Row> rows;
  std::vector<std::string> known;
  bool classes = false;
  std::smatch m;
  for (std::string line; std::getline(page, line);) {
    classes |= line == "## Classes";
    if (!classes || !std::regex_match(line, m, row)) continue;
    Row one;
    const std::string names = m[1], nodes = m[2];
    for (std::sregex_iterator it(nodes.begin(), nodes.end(), link), end; it != end; ++it)
      one.nodes.insert((*it)[1]);
    for (std::sregex_iterator it(names.begin(), names.end(), code), end; it != end; ++it)
      if (std::regex_search((*it)[1].str(), std::regex("(^|\\.)[A-Z][A-Za-z0-9]{2,}$")))
        one.classes.push_back((*it)[1]);
    known.insert(known.end(), one.nodes.begin(), one.nodes.end());
    if (!one.nodes.empty()) rows.push_back(one);
  }
  std::size_t found = 0;
  // Of a tutorial's own, and of others' lists that a page for MONAI names in passing.
  const std::set<std::string> passed{"Net", "ImageFolder"};
  for (const Row& one : rows)
    for (const std::string& name : one.classes) {
      if (passed.count(name)) continue;
      INFO(name);
      CHECK(one.nodes.count(type_for_class(name, known)) == 1);
      ++found;
    }
  CHECK(found > 65);
}

TEST_CASE("the page for MONAI users accounts for every class of MONAI 1.6.1") {
  std::ifstream page(SLUICE_SOURCE_DIR "/nodes/MONAI.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  std::ifstream list(SLUICE_SOURCE_DIR "/tests/golden/monai_classes.json");
  const auto groups = nlohmann::json::parse(list);
  std::size_t classes = 0;
  static const std::regex word("[A-Za-z_0-9]+");
  std::set<std::string> words;
  for (std::sregex_iterator it(text.begin(), text.end(), word), end; it != end; ++it)
    words.insert(it->str());
  for (const auto& [group, names] : groups.items())
    for (const std::string name : names) {
      INFO(group, " ", name);
      const bool marked = name.ends_with('d') && words.contains(name.substr(0, name.size() - 1));
      CHECK((words.contains(name) || words.contains(name + "d") || marked));
      ++classes;
    }
  CHECK(classes > 450);
}

TEST_CASE("classes are found with MONAI's marks of dictionary transforms, and parts of names") {
  const std::vector<std::string> known{"adamw", "flip", "rand_flip", "unet"};
  for (const std::string name :
       {"RandFlip", "RandFlipd", "RandFlipD", "RandFlipDict", "monai.transforms.RandFlipd"})
    CHECK(type_for_class(name, known) == "rand_flip");
  CHECK(type_for_class("AdamW", known) == "adamw");
  CHECK(type_for_class("UNet", known) == "unet");
  CHECK(type_for_class("rand_flip", known) == "");
  CHECK(type_for_class("RandZoomd", known) == "");
  CHECK(types_with("Flip", known) == std::vector<std::string>{"flip", "rand_flip"});
  CHECK(suggest_type("UNet", known) == "here it is called \"unet\"");
}

TEST_CASE("a parameter is found by another word for it, where that means one alone") {
  CHECK(meant_param("num", {"root", "limit", "shuffle"}) == "limit");
  CHECK(meant_param("patch", {"keys", "spatial_size"}) == "spatial_size");
  CHECK(meant_param("batch_size", {"size", "drop_last"}) == "size");
  CHECK(meant_param("size", {"spatial_size", "roi_size"}) == "");  // either
  CHECK(meant_param("spatal_size", {"spatial_size", "mode"}) == "spatial_size");
  CHECK(meant_param("colour", {"spatial_size", "mode"}) == "");
}

TEST_CASE("a variable that is being defined is not what was meant") {
  Diagnostics diagnostics;
  load_graph(parse_document("g.json", R"({"vars": {"patch": "@ptach", "path": "x"}, "nodes": {}})",
                            diagnostics),
             toys::catalogue(), {}, diagnostics);
  const std::string said = diagnostics.to_json().dump();
  CHECK(said.find("unknown variable \\\"@ptach\\\"") != std::string::npos);
  CHECK(said.find("did you mean \\\"@patch\\\"") == std::string::npos);
  CHECK(said.find("did you mean \\\"@path\\\"") != std::string::npos);
}

TEST_CASE("a run's folder stands for the graph that it holds") {
  const TemporaryFolder folder;
  folder.write_text("run/graph.json", R"({"nodes": {}})");
  Diagnostics diagnostics;
  const DocumentPtr document = read_graph_files({(folder / "run").string()}, diagnostics);
  REQUIRE(document);
  CHECK(document->file == (folder / "run/graph.json").string());
  CHECK_FALSE(read_graph_files({folder.path.string()}, diagnostics));
}
