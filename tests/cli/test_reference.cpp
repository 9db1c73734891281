// nodes/README.md says what the nodes of this build declare.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "engine/graph/type_names.h"
#include "tests/cli/shell.h"

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
