// `sluice inspect`: what a node or network takes and gives, read from its Spec.
#include <algorithm>
#include <iostream>
#include <map>
#include <sstream>

#include "tools/cli/cli.h"

namespace sluice::cli {
namespace {

const char* lane_name(LaneKind lane) {
  constexpr const char* names[] = {"compute", "io", "step", "copy"};
  return names[static_cast<int>(lane)];
}

std::string number(double v) {
  return v == static_cast<std::int64_t>(v) ? std::to_string(static_cast<std::int64_t>(v))
                                           : Json(v).dump();
}

// "float in 0..1", "string: memory, disk", "int from 1"
std::string type_of(const ParamSpec& p) {
  std::string out = p.type;
  if (p.min && p.max)
    out += " in " + number(*p.min) + ".." + number(*p.max);
  else if (p.min)
    out += " from " + number(*p.min);
  else if (p.max)
    out += " up to " + number(*p.max);
  for (std::size_t i = 0; i < p.choices.size(); ++i) out += (i ? " | " : ": ") + p.choices[i];
  return out;
}

std::string default_of(const ParamSpec& p) {
  return p.required ? "required" : "default " + p.fallback.dump();
}

// A text in lines of at most 100 columns, all but the first indented. `used`: columns that the
// first line has already.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t used) {
  constexpr std::size_t most = 100;
  std::string out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool begins = out.empty();
    if (!begins && used + 1 + word.size() > most) {
      out += "\n" + std::string(indent, ' ') + word;
      used = indent + word.size();
    } else {
      out += (begins ? "" : " ") + word;
      used += word.size() + (begins ? 0 : 1);
    }
  }
  return out;
}

// Lines of columns, each but the last as wide as its widest cell; the last one is wrapped.
void table(const std::vector<std::vector<std::string>>& rows, std::size_t indent) {
  std::vector<std::size_t> width;
  for (const auto& row : rows)
    for (std::size_t c = 0; c + 1 < row.size(); ++c) {
      if (width.size() <= c) width.push_back(0);
      width[c] = std::max(width[c], row[c].size());
    }
  for (const auto& row : rows) {
    std::string line(indent, ' ');
    for (std::size_t c = 0; c + 1 < row.size(); ++c)
      line += row[c] + std::string(width[c] - row[c].size() + 2, ' ');
    line += wrapped(row.back(), line.size(), line.size());
    line.erase(line.find_last_not_of(' ') + 1);
    std::cout << line << '\n';
  }
}

std::string traits(const Spec& s) {
  std::vector<std::string> words;
  if (s.is_network) {
    words.push_back("network");
  } else {
    words.push_back(s.family);
    words.push_back(std::string("lane ") + lane_name(s.lane_kind));
    switch (s.arity) {
      case Arity::source:
        words.push_back("source");
        break;
      case Arity::one_to_one:
        break;
      case Arity::expand:
        words.push_back("1:n, n = " + s.count_param);
        break;
      case Arity::gather:
        words.push_back("n:1, n = " + s.count_param);
        break;
      case Arity::shuffle:
        words.push_back("reorders within " + s.count_param);
        break;
    }
  }
  if (s.is_random) words.push_back("random");
  if (s.is_ordered) words.push_back("keeps state, in order");
  if (s.concurrency > 0 && !s.is_ordered && s.arity != Arity::source)
    words.push_back(std::to_string(s.concurrency) + " at a time");
  if (s.is_cache)
    words.push_back("cache");
  else if (s.is_gate)
    words.push_back("buffers" + (s.credits_param.empty() ? "" : " " + s.credits_param));
  if (s.access == Access::read) words.push_back("reads a network");
  if (s.access == Access::update) words.push_back("updates a network");
  std::string out;
  for (const auto& word : words)
    if (!word.empty()) out += (out.empty() ? "" : "   ") + word;
  return out;
}

std::vector<std::vector<std::string>> ports(const Spec& s) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& p : s.ins)
    rows.push_back({"in", p.name + (p.optional ? " (optional)" : ""), p.doc});
  for (const auto& p : s.outs) rows.push_back({"out", p.name, p.doc});
  return rows;
}

// A value that a required parameter could have.
std::string sample_value(const ParamSpec& p) {
  if (!p.choices.empty()) return Json(p.choices.front()).dump();
  if (p.type == "string") return p.name == "net" ? "\"net\"" : "\"...\"";
  if (p.type == "int") return number(p.min.value_or(1));
  if (p.type == "float") return number(p.min.value_or(1));
  if (p.type == "bool") return "true";
  return p.type.starts_with("list<") ? "[...]" : "...";
}

std::string example(const Spec& s) {
  std::string out =
      "\"" + std::string(s.is_network ? "net" : s.name) + "\": { \"type\": \"" + s.name + "\"";
  const std::string from = "\"" + std::string(s.family == "io" ? "cases" : "load") + "\"";
  const auto needed =
      std::count_if(s.ins.begin(), s.ins.end(), [](const PortSpec& p) { return !p.optional; });
  if (needed == 1 || (needed == 0 && !s.ins.empty())) {
    out += ", \"in\": " + from;
  } else if (needed > 1) {
    std::string list;
    for (const auto& p : s.ins)
      if (!p.optional) list += (list.empty() ? "\"" : ", \"") + p.name + "\": " + from;
    out += ", \"in\": { " + list + " }";
  }
  bool any = false;
  for (const auto& p : s.params)
    if (p.required) {
      out += ", \"" + p.name + "\": " + sample_value(p);
      any = true;
    }
  // One parameter shows where they stand: the first number, else the first of any kind.
  const ParamSpec* shown = nullptr;
  for (const auto& p : s.params)
    if (!shown && (p.type == "float" || p.type == "int")) shown = &p;
  if (!shown && !s.params.empty()) shown = &s.params.front();
  if (!any && shown) out += ", \"" + shown->name + "\": " + shown->fallback.dump();
  return out + " }";
}

// Name, type and default of each parameter, its documentation below.
void parameters(const Spec& s) {
  std::size_t name = 0, type = 0;
  for (const auto& p : s.params) {
    name = std::max(name, p.name.size());
    type = std::max(type, std::min<std::size_t>(40, type_of(p).size()));
  }
  const std::size_t indent = name + 4;
  for (const auto& p : s.params) {
    std::string line = "  " + p.name;
    line.resize(indent, ' ');
    line += type_of(p);
    line.resize(std::max(line.size(), indent + type) + 2, ' ');
    std::cout << line << default_of(p) << '\n'
              << std::string(indent, ' ') << wrapped(p.doc, indent, indent) << '\n';
  }
}

void page(const Spec& s) {
  std::cout << s.name << "\n  " << wrapped(s.doc, 2, 2) << "\n\n  " << traits(s) << "\n\n";
  if (!s.is_network) {
    table(ports(s), 2);
    std::cout << '\n';
  }
  parameters(s);
  std::cout << (s.params.empty() ? "  " : "\n  ") << example(s) << '\n';
}

std::string first_sentence(const std::string& doc) { return doc.substr(0, doc.find(". ")); }

void list(const std::string& family) {
  std::map<std::string, std::vector<std::vector<std::string>>> families;
  for (const auto& s : catalogue().all())
    if (family.empty() || s->family == family || (s->is_network && family == "network"))
      families[s->is_network ? "network" : s->family].push_back({s->name, first_sentence(s->doc)});
  bool first = true;
  for (const auto& [name, rows] : families) {
    std::cout << (first ? "" : "\n") << name << '\n';
    table(rows, 2);
    first = false;
  }
}

}  // namespace

int inspect(const Options& options) {
  if (options.name.empty()) {
    if (options.json)
      std::cout << dump(catalogue().to_json());
    else
      list("");
    return code(Exit::done);
  }
  std::vector<std::string> known;
  bool is_family = options.name == "network";
  for (const auto& s : catalogue().all()) {
    known.push_back(s->name);
    is_family |= s->family == options.name;
  }
  if (const Spec* spec = catalogue().find(options.name)) {
    if (options.json)
      std::cout << dump(spec->to_json());
    else
      page(*spec);
  } else if (is_family && !options.json) {
    list(options.name);
  } else {
    const std::string hint = did_you_mean(options.name, known);
    print_error("no type is called \"" + options.name + "\"" + (hint.empty() ? "" : "; " + hint) +
                "\n`sluice inspect` lists them all");
    return code(Exit::usage);
  }
  return code(Exit::done);
}

}  // namespace sluice::cli
