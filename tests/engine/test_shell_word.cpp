// Names in commands that messages propose.
#include <doctest/doctest.h>

#include "engine/base/shell_word.h"

using namespace sluice;

TEST_CASE("a name in a proposed command is one word of a shell") {
  for (const char* plain : {"runs/brain-1", "/data/Task01.x", "net#train", "--set=a", "größe.json"})
    CHECK(shell_word(plain) == plain);
  CHECK(shell_word("my run") == "'my run'");
  CHECK(shell_word("John's $HOME") == R"('John'\''s $HOME')");
  CHECK(shell_word("~/a") == "'~/a'");
  CHECK(shell_word("#1") == "'#1'");
  CHECK(shell_word("a;b") == "'a;b'");
  CHECK(shell_word("") == "''");
}
