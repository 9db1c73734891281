// `sluice completions`: the scripts in their shells, and that they offer what the binary takes.
#include <doctest/doctest.h>

#include <set>
#include <sstream>

#include "tests/cli/shell.h"

using shell::Folder;

namespace {

using Words = std::set<std::string>;

Words lines(const std::string& text) {
  Words found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) found.insert(line);
  return found;
}

// What bash completes the last of `words` to. The words are as bash splits them: "=" is one.
Words completed(const std::string& words, const std::string& folder = ".") {
  const auto r = shell::run("cd " + folder +
                            "; source <($SLUICE completions bash); COMP_WORDS=($SLUICE " + words +
                            "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _sluice; "
                            "printf '%s\\n' \"${COMPREPLY[@]}\"");
  INFO(r.err);
  CHECK(r.code == 0);
  return lines(r.out);
}

}  // namespace

TEST_CASE("bash completes commands and the options of each as --help has them") {
  const Words commands = completed("''");
  CHECK(commands.count("apply") == 1);
  CHECK(commands.count("complete") == 0);
  CHECK(completed("ins") == Words{"inspect"});
  for (const std::string& command : commands) {
    if (command.starts_with("-")) continue;
    CAPTURE(command);
    Words options;
    std::istringstream help(shell::run("$SLUICE " + command + " --help").out);
    for (std::string word; help >> word;) {
      const auto names = word.find("--");  // "-h,--help"
      if (word.starts_with("-") && names != std::string::npos) options.insert(word.substr(names));
    }
    CHECK_FALSE(options.empty());
    CHECK(completed(command + " --") == options);
  }
}

TEST_CASE("bash completes node types, parameters, codes, shells and their values") {
  CHECK(completed("inspect rand_fl") == Words{"rand_flip", "rand_flip_box"});
  CHECK(completed("inspect transfor") == Words{"transform"});
  CHECK(completed("apply une").empty());  // a network
  CHECK(completed("apply dice_l") == Words{"dice_loss"});
  CHECK(completed("apply rand_flip --param pro") == Words{"prob="});
  CHECK(completed("apply dice_loss --param soft") == Words{"softmax=", "soft_label="});
  CHECK(completed("apply dice_loss --param softmax = t") == Words{"true"});
  CHECK(completed("apply dice_loss --param batch=true reduction = ''") ==
        Words{"mean", "none", "sum"});
  CHECK(completed("apply dice_loss --in ''") == Words{"pred=", "label="});
  CHECK(completed("explain SL030") == Words{"SL0301", "SL0302", "SL0303", "SL0304", "SL0305",
                                            "SL0306", "SL0307", "SL0308", "SL0309"});
  CHECK(completed("completions z") == Words{"zsh"});
  CHECK(completed("run --threads ''").empty());
  CHECK(completed("nothing --").empty());
}

TEST_CASE("bash completes graphs, folders and --set paths") {
  Folder f;
  f.write("tiny.json", R"({ "vars": { "share": 0.3 }, "nodes": {
    "cases": { "type": "decathlon", "root": "nowhere" },
    "load":  { "type": "load_image", "in": "cases" },
    "flip":  { "type": "rand_flip", "in": "load", "prob": "@share" } } })");
  f.write("notes.txt", "");
  f.write("folder/more.json", "{}");
  f.write("a space.json", "{}");
  const std::string at = f.path.string();
  CHECK(completed("run ''", at) == Words{"tiny.json", "folder/", "a space.json"});
  CHECK(completed("check folder/", at) == Words{"folder/more.json"});
  CHECK(completed("run tiny.json --out ''", at) == Words{"folder/"});
  CHECK(completed("run tiny.json --out = fo", at) == Words{"folder/"});
  CHECK(completed("run tiny.json --set v", at) == Words{"vars."});
  CHECK(completed("run tiny.json --set vars.", at) == Words{"vars.share="});
  CHECK(completed("run tiny.json --set nodes.", at) ==
        Words{"nodes.cases.", "nodes.load.", "nodes.flip."});
  CHECK(completed("run tiny.json --set nodes.flip.p", at) == Words{"nodes.flip.prob="});
  CHECK(completed("run tiny.json --set nodes.cases.split = ''", at) ==
        Words{"training", "validation", "test"});
  CHECK(completed("run none.json --set nodes.", at).empty());
}

TEST_CASE("the scripts are right in the shells that are there") {
  for (const char* name : {"bash", "zsh", "fish"}) {
    const std::string shell = name;
    const auto script = shell::run("$SLUICE completions " + shell);
    CHECK(script.code == 0);
    CHECK(script.out.find("complete " + shell) != std::string::npos);
    if (shell::run("command -v " + shell).code != 0) {
      MESSAGE("not checked: no " << shell << " here");
      continue;
    }
    const auto parsed = shell::run("$SLUICE completions " + shell + " | " + shell + " -n");
    INFO(parsed.err);
    CHECK(parsed.code == 0);
  }
  CHECK(shell::run("$SLUICE completions fihs").err.find("did you mean \"fish\"?") !=
        std::string::npos);
  CHECK(shell::run("$SLUICE completions tcsh").code == 2);
}

TEST_CASE("completing never says an error, whatever the words are") {
  for (const char* line : {"bash 0 sluice", "bash 7 sluice run", "bash -3 sluice run", "bash x y",
                           "zsh 99999999999999999999 a", "fish", "", "bash 1", "bash 2 sluice run",
                           "bash 3 sluice apply --in"}) {
    CAPTURE(line);
    const auto r = shell::run(std::string("$SLUICE complete ") + line);
    CHECK(r.code == 0);
    CHECK(r.err.empty());
  }
}
