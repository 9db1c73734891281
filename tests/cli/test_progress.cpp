// What a terminal shows while a run goes on.
#include <doctest/doctest.h>

#include "tests/cli/nifti.h"
#include "tests/cli/screen.h"
#include "tests/cli/shell.h"
#include "tests/text.h"

using shell::Folder;
using shell::OnTerminal;

namespace {

// Runs for ever; one file of three is damaged.
struct Endless {
  Folder folder;
  std::string graph;
  Endless() {
    folder.write("images/a.nii", shell::nifti(32));
    folder.write("images/b.nii", shell::nifti(32).substr(0, 1000));
    folder.write("images/c.nii", shell::nifti(32));
    graph =
        folder.write("g.json", R"({
      "run": { "epochs": 1000000, "max_bad": 100000000 },
      "nodes": {
        "files":  { "type": "file_list", "root": ")" +
                                   (folder.path / "images").string() + R"(", "pattern": "*.nii" },
        "load":   { "type": "load_image", "in": "files", "keys": "image", "on_error": "quarantine" },
        "smooth": { "type": "gaussian_smooth", "in": "load", "keys": "image", "sigma": 3 } } })");
  }
  OnTerminal run(const std::vector<std::string>& variables, const std::string& more,
                 const std::function<bool(const OnTerminal&)>& enough, int width = 80) const {
    OnTerminal t;
    t.screen.width = width;
    std::vector<std::string> words{SLUICE_BINARY_DIR "/sluice", "run", graph, "--no-out"};
    if (!more.empty()) words.push_back(more);
    t.run(words, variables, (folder.path / "out").string(), enough);
    return t;
  }
};

// The screen's last lines are a block whose first line is the head.
bool shows_block(const OnTerminal& t, const std::string& word) {
  const auto& rows = t.screen.rows;
  std::size_t head = rows.size();
  while (head > 0 && !rows[head - 1].starts_with("epoch ")) --head;
  if (head == 0) return false;
  for (std::size_t i = head; i < rows.size(); ++i)
    if (contains(rows[i], word)) return true;
  return false;
}

}  // namespace

TEST_CASE("on a terminal a block is redrawn below the messages, and goes at the end") {
  const Endless e;
  std::size_t heads = 0;
  for (const int width : {80, 44}) {
    const auto t = e.run(
        {"TERM=xterm", "LANG=C.UTF-8", "LC_ALL=C.UTF-8"}, "",
        [&](const OnTerminal& now) {
          if (!shows_block(now, "smooth")) return false;
          heads = 0;  // one block at a time
          for (const auto& r : now.screen.rows) heads += r.starts_with("epoch ");
          return contains(now.raw, "\033[") && contains(now.raw, "quarantined b");
        },
        width);
    INFO(t.screen.text());
    CHECK(heads == 1);
    CHECK(t.screen.unknown.empty());
    CHECK(!contains(t.raw, "\033[?25l"));  // a killed process leaves no hidden cursor
    int messages = 0;
    bool stopping = false;
    for (const auto& row : t.screen.rows) {
      CHECK(!row.starts_with("epoch "));
      CHECK(!contains(row, "p99"));
      CHECK(!contains(row, "■"));
      messages += row.starts_with("quarantined b: load: ");
      stopping |= row.starts_with("stopping: ");
    }
    CHECK(messages > 0);
    CHECK(stopping);
    CHECK(t.code == 130);
    const std::string out = e.folder.read("out");
    CHECK(out.starts_with("cut: "));  // the summary, and nothing of the block
    CHECK(!contains(out, "\033"));
    CHECK(!contains(out, "p99"));
  }
}

TEST_CASE("NO_COLOR leaves the block without colours") {
  const auto t = Endless().run({"TERM=xterm", "NO_COLOR=1", "LC_ALL=C"}, "",
                               [](const OnTerminal& now) { return shows_block(now, "smooth"); });
  CHECK(contains(t.raw, "\033["));
  for (std::size_t at = 0; (at = t.raw.find("\033[", at)) != std::string::npos; ++at) {
    const char end = t.raw[t.raw.find_first_not_of("0123456789;", at + 2)];
    CHECK(end != 'm');
  }
  for (const char c : t.raw) CHECK(static_cast<unsigned char>(c) < 0x80);  // LC_ALL=C
}

TEST_CASE("a dumb terminal and a quiet run get no control characters") {
  const Endless e;
  const auto enough = [](const OnTerminal& now) { return contains(now.raw, "quarantined b"); };
  const auto dumb = e.run({"TERM=dumb"}, "", enough);
  CHECK(dumb.code == 130);
  CHECK(!contains(dumb.raw, "\033"));
  const auto quiet = e.run({"TERM=xterm", "NO_COLOR=1"}, "--quiet", enough);
  CHECK(quiet.code == 130);
  CHECK(!contains(quiet.raw, "\033"));
  CHECK(e.folder.read("out").empty());
}
