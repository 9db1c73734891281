// `sluice complete`: what a word of the command line may become.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <set>

#include "tools/cli/cli.h"
#include "tools/cli/shape.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

struct Candidate {
  std::string text, doc;
};

// ---- the line -----------------------------------------------------------------------------------

// bash takes "=" and ":" for words of their own. Joins them again; `cut` is what of the current
// word's front bash has split off, which candidates must not repeat.
void join_words(std::vector<std::string>& words, std::size_t& index, std::string& cut) {
  std::vector<std::string> joined;
  std::size_t at = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool splits = words[i] == "=" || words[i] == ":";
    const bool follows = i > 0 && (words[i - 1] == "=" || words[i - 1] == ":");
    if (joined.size() > 1 && (splits || follows))
      joined.back() += words[i];
    else
      joined.push_back(words[i]);
    if (i == index) at = joined.size() - 1;
  }
  if (index < words.size() && index > 0) {
    const std::string& whole = joined[at];
    const std::string& last = words[index] == "=" || words[index] == ":" ? "" : words[index];
    // Words after the current one cannot be joined to it: readline hands over the line's front.
    cut = whole.substr(0, whole.size() - std::min(whole.size(), last.size()));
  }
  words = std::move(joined);
  index = at;
}

struct Line {
  std::vector<std::string> words;
  std::size_t index = 0;
  const CommandShape* command = nullptr;
  const OptionShape* option = nullptr;  // the current word is a value of it
  std::vector<std::string> positionals;

  const std::string& current() const { return words[index]; }
};

const OptionShape* find_option(const CommandShape& command, const std::string& name) {
  for (const auto& o : command.options)
    if (std::find(o.names.begin(), o.names.end(), name) != o.names.end()) return &o;
  return nullptr;
}

const OptionShape* positional(const CommandShape& command, std::size_t n) {
  const OptionShape* last = nullptr;
  for (const auto& o : command.options) {
    if (!o.names.empty()) continue;
    last = &o;
    if (n-- == 0) return last;
  }
  return last && last->many ? last : nullptr;
}

void read_line(Line& line, const Shape& shape) {
  if (line.index < 2) return;
  for (const auto& c : shape)
    if (c.name == line.words[1]) line.command = &c;
  if (!line.command) return;
  const OptionShape* pending = nullptr;
  for (std::size_t i = 2; i < line.index; ++i) {
    const std::string& word = line.words[i];
    if (word.starts_with("-") && word.size() > 1) {
      const auto equals = word.find('=');
      pending = find_option(*line.command, word.substr(0, equals));
      if (pending && (pending->value.empty() || equals != std::string::npos)) pending = nullptr;
    } else if (pending) {
      if (!pending->many) pending = nullptr;
    } else {
      line.positionals.push_back(word);
    }
  }
  line.option = pending ? pending : positional(*line.command, line.positionals.size());
}

// ---- what a value may be ------------------------------------------------------------------------

using Candidates = std::vector<Candidate>;

// Entries of the folder that `prefix` is in; folders end with a slash.
Candidates files(const std::string& prefix, const std::vector<std::string>& extensions,
                 bool folders_only) {
  const auto slash = prefix.rfind('/');
  const std::string front = slash == std::string::npos ? "" : prefix.substr(0, slash + 1);
  std::string folder = front.empty() ? "." : front;
  if (const char* home = std::getenv("HOME"); home && folder.starts_with("~/"))
    folder = home + folder.substr(1);
  Candidates found;
  std::error_code problem;
  for (fs::directory_iterator at(folder, problem), end; at != end; at.increment(problem)) {
    if (problem) break;
    const std::string name = at->path().filename().string();
    if (name.starts_with(".") && !prefix.substr(front.size()).starts_with(".")) continue;
    const bool is_folder = at->is_directory(problem);
    const bool fits = std::any_of(extensions.begin(), extensions.end(),
                                  [&](const std::string& e) { return name.ends_with(e); });
    if (is_folder)
      found.push_back({front + name + "/", ""});
    else if (!folders_only && (extensions.empty() || fits))
      found.push_back({front + name, ""});
  }
  return found;
}

std::string first_sentence(const std::string& doc) { return doc.substr(0, doc.find(". ")); }

Candidates types(bool with_networks) {
  Candidates found;
  std::set<std::string> families;
  for (const auto& s : catalogue().all()) {
    if (s->is_network && !with_networks) continue;
    found.push_back({s->name, first_sentence(s->doc)});
    families.insert(s->is_network ? "network" : s->family);
  }
  if (with_networks)
    for (const auto& family : families) found.push_back({family, "family"});
  return found;
}

// "true", "memory", ...: what a parameter may be set to where that is a short list.
Candidates values(const ParamSpec& p) {
  Candidates found;
  for (const auto& choice : p.choices) found.push_back({choice, ""});
  if (p.type.starts_with("bool")) found = {{"true", ""}, {"false", ""}};
  return found;
}

Candidates with_front(Candidates candidates, const std::string& front) {
  for (auto& c : candidates) c.text = front + c.text;
  return candidates;
}

// "name=value" for the parameters of a Spec.
Candidates assignments(const Spec& spec, const std::string& front, const std::string& prefix) {
  if (const auto equals = prefix.find('='); equals != std::string::npos) {
    if (!prefix.starts_with(front)) return {};
    const ParamSpec* p = spec.find_param(prefix.substr(front.size(), equals - front.size()));
    return p ? with_front(values(*p), prefix.substr(0, equals + 1)) : Candidates{};
  }
  Candidates found;
  for (const auto& p : spec.params) found.push_back({front + p.name + "=", first_sentence(p.doc)});
  return found;
}

const Spec* spec_on(const Line& line) {
  return line.positionals.empty() ? nullptr : catalogue().find(line.positionals.front());
}

// "image=": the fields that a node is told to read, by default.
Candidates fields(const Line& line, const std::string& prefix) {
  if (const auto equals = prefix.find('='); equals != std::string::npos)
    return with_front(files(prefix.substr(equals + 1),
                            {".npy", ".nii", ".nii.gz", ".nrrd", ".mha", ".png"}, false),
                      prefix.substr(0, equals + 1));
  Candidates found;
  std::set<std::string> names;
  if (const Spec* spec = spec_on(line))
    for (const auto& p : spec->params)
      if (p.name == "keys" || (p.name.ends_with("key") && p.name != "output_key"))
        for (const auto& key : p.fallback.is_array() ? p.fallback : Json::array({p.fallback}))
          if (key.is_string() && !key.get<std::string>().empty()) names.insert(key);
  for (const auto& name : names) found.push_back({name + "=", "field"});
  return found;
}

// ---- --set paths --------------------------------------------------------------------------------

// One step of a path at a time: "nodes.", then "nodes.crop.", then "nodes.crop.prob=".
void add_step(Candidates& found, const std::string& path, const std::string& prefix,
              const std::string& doc) {
  if (!path.starts_with(prefix)) return;
  const auto dot = path.find('.', prefix.size());
  const std::string step = dot == std::string::npos ? path : path.substr(0, dot + 1);
  const auto same = [&](const Candidate& c) { return c.text == step; };
  if (std::none_of(found.begin(), found.end(), same))
    found.push_back({step, dot == std::string::npos ? doc : ""});
}

void add_spec(Candidates& found, const Spec& spec, const std::string& front,
              const std::string& prefix) {
  const bool at_value = prefix.find('=') != std::string::npos;
  for (const auto& c : assignments(spec, front, prefix)) {
    if (at_value)
      found.push_back(c);
    else
      add_step(found, c.text, prefix, c.doc);
  }
}

Candidates set_paths(const Line& line, const std::string& prefix) {
  Candidates found;
  std::vector<std::string> graphs = line.positionals;
  if (graphs.empty()) return found;
  Options options;
  Checked checked;
  check_graph(graphs, options, checked);
  if (!checked.graph) return found;
  const Graph& graph = *checked.graph;
  if (const DocumentPtr& document = graph.document; document && document->root.contains("vars"))
    for (const auto& [name, value] : document->root["vars"].items())
      add_step(found, "vars." + name + "=", prefix, value.dump());
  add_spec(found, run_spec(), "run.", prefix);
  for (const auto& m : graph.models) add_spec(found, *m.spec, "models." + m.name + ".", prefix);
  for (const auto& n : graph.nodes) add_spec(found, *n.spec, "nodes." + n.path + ".", prefix);
  return found;
}

// ---- the answer ---------------------------------------------------------------------------------

Candidates of_value(const Line& line, std::string kind, const std::string& prefix) {
  while (kind.ends_with('.')) kind.pop_back();  // "GRAPH..."
  if (kind == "GRAPH") return files(prefix, {".json"}, false);
  if (kind == "DIR") return files(prefix, {}, true);
  if (kind == "FILE") return files(prefix, {}, false);
  if (kind == "TYPE") return types(line.command->name == "inspect");
  if (kind == "PATH=VALUE") return set_paths(line, prefix);
  if (kind == "KEY=FILE") return fields(line, prefix);
  if (kind == "NAME=VALUE") {
    const Spec* spec = spec_on(line);
    return spec ? assignments(*spec, "", prefix) : Candidates{};
  }
  Candidates found;
  if (kind == "CODE")
    for (const CodeText& c : all_codes())
      found.push_back({std::string(c.code), std::string(c.title)});
  if (kind.find('|') != std::string::npos)  // "bash|zsh|fish"
    for (std::size_t at = 0; at <= kind.size();) {
      const auto end = std::min(kind.find('|', at), kind.size());
      found.push_back({kind.substr(at, end - at), ""});
      at = end + 1;
    }
  return found;
}

Candidates commands(const Shape& shape) {
  Candidates found;
  for (const auto& c : shape) found.push_back({c.name, c.doc});
  found.push_back({"--help", ""});
  found.push_back({"--version", ""});
  return found;
}

Candidates option_names(const CommandShape& command) {
  Candidates found;
  for (const auto& o : command.options)
    for (const auto& name : o.names)
      if (name.starts_with("--")) found.push_back({name, o.doc});
  return found;
}

Candidates candidates(const Line& line, const Shape& shape) {
  const std::string& word = line.current();
  if (line.index < 2) return commands(shape);
  if (!line.command) return {};
  if (word.starts_with("-")) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) return option_names(*line.command);
    const OptionShape* option = find_option(*line.command, word.substr(0, equals));
    if (!option) return {};
    return with_front(of_value(line, option->value, word.substr(equals + 1)),
                      word.substr(0, equals + 1));
  }
  return line.option ? of_value(line, line.option->value, word) : Candidates{};
}

void print(Candidates found, const std::string& word, const std::string& cut) {
  std::erase_if(found, [&](const Candidate& c) { return !c.text.starts_with(word); });
  std::sort(found.begin(), found.end(),
            [](const Candidate& a, const Candidate& b) { return a.text < b.text; });
  const auto goes_on = [](const Candidate& c) {
    return c.text.ends_with('=') || c.text.ends_with('/') || c.text.ends_with('.');
  };
  if (std::any_of(found.begin(), found.end(), goes_on)) std::cout << ":nospace\n";
  if (std::any_of(found.begin(), found.end(),
                  [](const Candidate& c) { return c.text.find(' ') != std::string::npos; }))
    std::cout << ":filenames\n";
  for (const auto& c : found) {
    std::string doc = c.doc;
    std::replace(doc.begin(), doc.end(), '\n', ' ');
    std::cout << c.text.substr(std::min(cut.size(), c.text.size()))
              << (doc.empty() ? "" : "\t" + doc) << '\n';
  }
}

}  // namespace

int complete(const Shape& shape, const std::vector<std::string>& arguments) {
  if (arguments.size() < 3) return code(Exit::done);
  Line line;
  line.words.assign(arguments.begin() + 2, arguments.end());
  const long index = std::strtol(arguments[1].c_str(), nullptr, 10);
  line.index = std::min(static_cast<std::size_t>(std::max(0L, index)), line.words.size());
  line.words.resize(line.index + 1);
  std::string cut;
  if (arguments[0] == "bash") join_words(line.words, line.index, cut);
  read_line(line, shape);
  print(candidates(line, shape), line.current(), cut);
  return code(Exit::done);
}

}  // namespace sluice::cli
