// `sluice inspect`: what a node or network takes and gives, read from its Spec.
#include <algorithm>
#include <iostream>
#include <map>
#include <sstream>

#include "engine/base/message.h"
#include "engine/graph/type_names.h"
#include "tools/assist/describe.h"
#include "tools/cli/cli.h"
#include "tools/cli/reference.h"

namespace sluice::cli {

using namespace assist;

namespace {

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

// Words with three spaces between them.
std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : "   ") + word;
  return out;
}

std::vector<std::vector<std::string>> ports(const Spec& s) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& p : s.ins)
    rows.push_back({"in", p.name + (p.optional ? " (optional)" : ""), p.doc});
  for (const auto& p : s.outs) rows.push_back({"out", p.name, p.doc});
  return rows;
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
  std::cout << s.name << "\n  " << wrapped(s.doc, 2, 2) << "\n\n  " << joined(traits(s)) << "\n\n";
  auto rows = s.is_network ? std::vector<std::vector<std::string>>{} : ports(s);
  for (auto& row : fields_of(s)) rows.push_back(std::move(row));
  for (auto& row : rules_of(s)) rows.push_back(std::move(row));
  table(rows, 2);
  if (!rows.empty()) std::cout << '\n';
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
    else if (options.markdown)
      std::cout << node_reference(catalogue());
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
  const std::string here = type_for_class(options.name, known);
  const auto holding = types_with(options.name, known);
  if (const Spec* spec = catalogue().find(here.empty() ? options.name : here)) {
    if (!here.empty() && !options.json)
      std::cout << "MONAI's " << printable(options.name) << " is " << here << "\n\n";
    if (options.json)
      std::cout << dump(spec->to_json());
    else
      page(*spec);
  } else if (is_family && !options.json) {
    list(options.name);
  } else if (options.name.size() > 2 && !holding.empty() && !options.json) {
    std::vector<std::vector<std::string>> rows;
    for (const auto& name : holding)
      rows.push_back({name, first_sentence(catalogue().find(name)->doc)});
    table(rows, 0);
  } else {
    const std::string hint = did_you_mean(options.name, known);
    print_error("no type is called \"" + options.name + "\"" + (hint.empty() ? "" : "; " + hint) +
                "\n`sluice inspect` lists them all");
    return code(Exit::usage);
  }
  return code(Exit::done);
}

}  // namespace sluice::cli
