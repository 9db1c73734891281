// nodes/README.md says what the nodes of this build declare, and what the pages say of commands and
// of each other holds.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "engine/graph/type_names.h"
#include "tests/cli/shell.h"

namespace fs = std::filesystem;

static std::string file(const std::string& name) {
  std::ifstream in(SLUICE_SOURCE_DIR "/" + name);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("nodes/README.md is what inspect --markdown writes") {
  const auto r = shell::run("$SLUICE inspect --markdown");
  CHECK(r.code == 0);
  if (std::getenv("SLUICE_UPDATE_GOLDEN"))
    std::ofstream(SLUICE_SOURCE_DIR "/nodes/README.md") << r.out;
  const bool is_current = r.out == file("nodes/README.md");
  CHECK_MESSAGE(is_current, "run: build/sluice inspect --markdown > nodes/README.md");
}

TEST_CASE("every node that the page for MONAI users names is a type of this build") {
  const std::string page = file("nodes/MONAI.md");
  REQUIRE(!page.empty());
  const auto types = nlohmann::json::parse(shell::run("$SLUICE inspect --json").out);
  std::set<std::string> known;
  for (const auto& t : types) known.insert(t.at("name"));
  std::size_t named = 0;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    // | `RandFlipd` | [rand_flip](README.md#rand_flip) | ... |
    for (std::size_t at = 0; (at = line.find("(README.md#", at)) != std::string::npos; ++at) {
      const auto begin = at + 11, end = line.find(')', begin);
      CHECK_MESSAGE(known.count(line.substr(begin, end - begin)), line);
      ++named;
    }
  }
  CHECK(named > 30);
}

// The text without what stands in ``` fences.
static std::string prose(const fs::path& page) {
  std::ifstream in(page);
  std::string all;
  bool code = false;
  for (std::string line; std::getline(in, line);) {
    const bool fence = line.starts_with("```");
    code ^= fence;
    if (!code && !fence) all += line + "\n";
  }
  return all;
}

// "#the-graph-file" of "# The graph file", as GitHub makes it.
static std::set<std::string> anchors(const std::string& text) {
  std::set<std::string> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto begin = line.find_first_not_of('#');
    if (begin == 0 || begin == line.npos || line[begin] != ' ') continue;
    std::string anchor;
    for (const char c : line.substr(begin + 1)) {
      const auto u = static_cast<unsigned char>(c);
      if (c == ' ')
        anchor += '-';
      else if (std::isalnum(u) || c == '-' || c == '_' || u >= 0x80)
        anchor += static_cast<char>(std::tolower(u));
    }
    all.insert(anchor);
  }
  return all;
}

TEST_CASE("links from page to page lead to files and headings") {
  const fs::path root = SLUICE_SOURCE_DIR;
  std::size_t links = 0;
  for (fs::recursive_directory_iterator at(root), end; at != end; ++at) {
    const std::string name = at->path().filename();
    if (at->is_directory() && (name.starts_with(".") || name.starts_with("build")))
      at.disable_recursion_pending();
    if (at->path().extension() != ".md") continue;
    const std::string text = prose(at->path());
    for (auto open = text.find("]("); open != text.npos; open = text.find("](", open + 1)) {
      const std::string link = text.substr(open + 2, text.find(')', open) - open - 2);
      if (link.starts_with("http") || link.find(' ') != link.npos) continue;  // "[](In t)"
      const auto hash = link.find('#');
      const fs::path to = hash == 0 ? at->path() : at->path().parent_path() / link.substr(0, hash);
      CHECK_MESSAGE(fs::exists(to), at->path().string(), ": ", link);
      if (hash != link.npos)
        CHECK_MESSAGE(anchors(prose(to)).count(link.substr(hash + 1)), at->path().string(), ": ",
                      link);
      ++links;
    }
  }
  CHECK(links > 100);
}

TEST_CASE("the settings that graphs/README.md shows are right for brain.json") {
  const std::string page = file("graphs/README.md");
  const auto begin = page.find("## From the command line"), end = page.find("\n## ", begin + 1);
  const std::string section = page.substr(begin, end - begin);
  std::size_t shown = 0;
  for (auto at = section.find("`--set "); at != section.npos; at = section.find("`--set ", at)) {
    const auto close = section.find('`', at + 1);
    const std::string setting = section.substr(at + 1, close - at - 1);
    const auto r = shell::run("$SLUICE check " SLUICE_SOURCE_DIR "/graphs/brain.json " + setting);
    CHECK_MESSAGE(r.code == 0, setting, ": ", r.err);
    at = close + 1;
    ++shown;
  }
  CHECK(shown > 4);
}
