// The command line's shape as plain data: which commands there are and what they take. main.cpp
// reads it off its CLI11 definition, so completion is never a second list.
#pragma once

#include <string>
#include <vector>

namespace sluice::cli {

struct OptionShape {
  std::vector<std::string> names;  // "--out", "-o"; none: a positional
  std::string value;               // what it takes, as --help shows it: "DIR"; "": a flag
  std::string doc;
  bool many = false;  // takes several values in a row
};

struct CommandShape {
  std::string name, doc;
  std::vector<OptionShape> options;
};
using Shape = std::vector<CommandShape>;

// `sluice completions bash|zsh|fish`: the script to stdout.
int completions(const std::string& shell);
// `sluice complete SHELL INDEX WORD...`, which the scripts call: the words that word INDEX of the
// command line may become, one a line, with a tab and a description where there is one. Lines that
// begin with a colon are for the script: ":nospace", ":filenames". Never says an error.
int complete(const Shape& shape, const std::vector<std::string>& arguments);

}  // namespace sluice::cli
