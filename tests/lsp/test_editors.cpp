// The server in editors: the lines of graphs/README.md in Neovim and Emacs, the extension of
// tools/vscode under Node. Each is left out where it is not installed.
#include <doctest/doctest.h>

#include "tests/cli/shell.h"

namespace {

const char* const typo = R"({
  "nodes": {
    "made": { "type": "file_list", "root": "x", "pattern": "*.nii" },
    "load": { "type": "load_imag", "in": "made", "keys": "image" },
    "show": { "type": "digest", "in": "load" }
  }
}
)";

// What both say of it: it is marked, mended, explained, and a node is renamed wherever it is named.
void holds(const shell::Result& r) {
  INFO(r.out);
  INFO(r.err);
  for (const char* said :
       {"marked: line 4: unknown node type \"load_imag\"", "offered: ", "problems after the fix: 0",
        "hover: load_image", "|     \"source\": { \"type\": \"file_list\"",
        "|     \"load\": { \"type\": \"load_image\", \"in\": \"source\", \"keys\": \"image\" },"}) {
    CAPTURE(said);
    CHECK(r.out.find(said) != std::string::npos);
  }
  CHECK(r.out.find("failed") == std::string::npos);
  CHECK(r.out.find("said: ") == std::string::npos);
}

// An editor on a graph with a typo, set up by the lines of graphs/README.md.
void holds_by_readme(const std::string& editor) {
  const shell::Folder folder;
  folder.write("g.json", typo);
  holds(shell::run("cd " + folder.path.string() +
                   " && PATH=$(dirname $SLUICE):$PATH HOME=$PWD SLUICE_README=" SLUICE_SOURCE_DIR
                   "/graphs/README.md timeout 60 " +
                   editor));
}

bool there(const std::string& program) { return shell::run("command -v " + program).code == 0; }

}  // namespace

TEST_CASE("lsp: Neovim marks, mends, explains and renames by the lines of graphs/README.md") {
  if (!there("nvim")) {
    MESSAGE("skipped: no nvim");
    return;
  }
  holds_by_readme("nvim --headless -u NONE g.json -c 'luafile " SLUICE_SOURCE_DIR
                  "/tests/lsp/neovim.lua'");
}

TEST_CASE("lsp: Emacs marks, mends, explains and renames by the lines of graphs/README.md") {
  if (shell::run("emacs --batch --eval '(progn (package-initialize) (require (quote eglot)))'")
          .code) {
    MESSAGE("skipped: no emacs with eglot");
    return;
  }
  holds_by_readme("emacs --batch -l " SLUICE_SOURCE_DIR "/tests/lsp/emacs.el");
}

TEST_CASE("lsp: the extension for VS Code marks, mends, completes, renames and draws") {
  if (!there("node")) {
    MESSAGE("skipped: no node");
    return;
  }
  const shell::Folder folder;
  folder.write("g.json", typo);
  const auto r = shell::run("timeout 60 node " SLUICE_SOURCE_DIR
                            "/tests/lsp/vscode.js " SLUICE_SOURCE_DIR "/tools/vscode $SLUICE " +
                            folder.path.string());
  holds(r);
  for (const char* said :
       {"completed: true", "outline: nodes", "picture: 3 nodes, 3 links, its script allowed: true",
        "a click goes to line 4", "a wrong graph: error, markup in it: false",
        "in the browser: sluice open"}) {
    CAPTURE(said);
    CHECK(r.out.find(said) != std::string::npos);
  }
}
