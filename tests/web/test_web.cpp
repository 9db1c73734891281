// `sluice open`: who gets in, what the server answers, and the page in a browser, where there is
// one.
#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/cli/shell.h"

namespace {

std::string python() {
  const char* given = std::getenv("SLUICE_PAGE_PYTHON");  // one that has playwright
  return given ? given : SLUICE_PYTHON;
}

void all_hold(const std::string& script) {
  const auto r = shell::run(python() + " " SLUICE_SOURCE_DIR "/tests/web/" + script + " $SLUICE");
  INFO(r.out);
  INFO(r.err);
  CHECK(r.code == 0);
  if (r.out.starts_with("skipped")) {
    MESSAGE(r.out);
    return;
  }
  CHECK(r.out.find("FAILS") == std::string::npos);
  CHECK(r.out.find("ok    ") != std::string::npos);
}

}  // namespace

TEST_CASE("the page's server lets in who has the token, and nobody else") { all_hold("server.py"); }

TEST_CASE("the page saves a graph with the line ends that it was opened with") {
  if (shell::run("command -v node").code != 0) {
    MESSAGE("skipped: no node");
    return;
  }
  const auto r = shell::run("node " SLUICE_SOURCE_DIR "/tests/web/line_ends.mjs");
  CHECK_MESSAGE(r.code == 0, r.out << r.err);
}

TEST_CASE("the page does in a browser what it says") { all_hold("page.py"); }
