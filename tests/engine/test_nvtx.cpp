#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/trace/nvtx.h"
#include "tests/engine/toy.h"
#include "tests/temporary_folder.h"

using namespace sluice;
using namespace sluice::toy;

// Run in a process of its own by the test below, with a tool attached.
TEST_CASE("nvtx child" * doctest::skip()) {
  Builder b;
  const int s = b.source("cases", 5);
  const int x = b.add("pre/load", plain("x"), forward, {{s, 0}});
  b.add("end", sink("k"), [](Firing&) {}, {{x, 0}});
  CHECK(run(b, 2).status == Outcome::Status::done);
}

TEST_CASE("a tool that is attached sees a range for every body, named after its node") {
  const std::string tool = SLUICE_BINARY_DIR "/libnvtx_tool.so";
  if (!std::filesystem::exists(tool)) {
    MESSAGE("skipped: built without NVTX's headers");
    return;
  }
  TemporaryFolder folder;
  const std::string out = (folder / "ranges").string();
  const std::string child = "NVTX_INJECTION64_PATH=" + tool + " NVTX_TOOL_OUT=" + out +
                            " " SLUICE_BINARY_DIR
                            "/engine_tests --no-skip -tc='nvtx child' > /dev/null";
  REQUIRE(std::system(child.c_str()) == 0);
  std::ifstream in(out);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  // The last source firing ends the epoch; a sink is flushed.
  CHECK(text == "sluice 0\ncases 6\nend 6\npre/load 5\n");
}
