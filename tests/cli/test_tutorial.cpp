// graphs/TUTORIAL.md, word for word.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "tests/cli/shell.h"

using shell::Folder;

TEST_CASE("the tutorial's commands work in the order in which they stand") {
  if (shell::run("dpkg -s mricron-data").code != 0) {
    MESSAGE("skipped: mricron-data is not installed");
    return;
  }
  Folder f;
  shell::fs::create_directory_symlink(SLUICE_BINARY_DIR, f.path / "build");
  shell::fs::create_directory_symlink(SLUICE_SOURCE_DIR "/graphs", f.path / "graphs");
  std::ifstream page(SLUICE_SOURCE_DIR "/graphs/TUTORIAL.md");
  std::string commands;
  int blocks = 0;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line == "```sh" || line == "```") {
      inside = line == "```sh";
      blocks += inside;
    } else if (inside) {
      commands += line + "\n";
    }
  }
  REQUIRE(blocks >= 8);
  const auto r = shell::run("cd " + f.path.string() + "\nset -e\n" + commands);
  INFO(r.err);
  CHECK(r.code == 0);
  CHECK((r.out + r.err).find("done: 2 epochs") != std::string::npos);
  for (const char* file : {"mine.svg", "measured.svg", "report.html", "runs/2/summary.json"})
    CHECK_MESSAGE(shell::fs::exists(f.path / file), file);
}
