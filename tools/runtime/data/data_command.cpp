// `sluice data check`: which data set is meant, and what is said of it.
#include "tools/runtime/data/data_command.h"

#include <fmt/format.h>

#include <iostream>
#include <optional>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "engine/base/missing_folder.h"
#include "tools/runtime/data/data_check.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_lines = 20;  // of one kind; --json has all

// A folder, or its dataset.json; else graph files.
DataSet data_set_of(const Json& request) {
  const Options options = Options::from_json(request);
  const fs::path first = options.graphs.front();
  if (!fs::exists(first))
    throw Error(Exit::usage, first.string() + ": no such file or folder" + missing_folder(first));
  const bool folder = fs::is_directory(first);
  if (!folder && first.filename() != "dataset.json") return data_set_of_graph(options);
  require_alone(request);
  return data_set_of_folder(folder ? first : first.parent_path());
}

std::optional<Manifest> manifest_of(const DataSet& set) {
  const fs::path file = set.root / Manifest::usual_name;
  if (set.root.empty() || !fs::exists(file)) return std::nullopt;
  return Manifest::read(file);
}

std::string cases_text(const DataSet& set) {
  std::vector<std::pair<std::string, std::size_t>> counts;
  for (const DataCase& one : set.cases) {
    if (counts.empty() || counts.back().first != one.split) counts.emplace_back(one.split, 0);
    ++counts.back().second;
  }
  std::string text;
  for (const auto& [split, n] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, split);
  return text;
}

Json json_of(const DataSet& set, const DataCheck& check) {
  Json kinds = Json::array(), findings = Json::array();
  for (const DataKind& kind : data_kinds()) {
    std::size_t n = 0;
    for (const Finding& f : check.findings) n += f.kind == kind.name;
    if (n > 0)
      kinds.push_back({{"kind", kind.name},
                       {"severity", kind.fault ? "error" : "warning"},
                       {"count", n},
                       {"text", kind.text}});
  }
  for (const Finding& f : check.findings)
    findings.push_back({{"kind", f.kind}, {"file", f.file}, {"text", f.text}});
  return {{"layout", set.layout},      {"cases", set.cases.size()},
          {"files", check.files},      {"bytes", check.bytes},
          {"errors", check.faults},    {"warnings", check.warnings},
          {"kinds", std::move(kinds)}, {"findings", std::move(findings)}};
}

void print_kind(const DataKind& kind, const std::vector<const Finding*>& findings) {
  fmt::print("{}  {} {}: {}\n", kind.fault ? "error  " : "warning", findings.size(), kind.name,
             kind.text);
  for (std::size_t i = 0; i < std::min(findings.size(), most_lines); ++i) {
    const auto& [name, file, text] = *findings[i];
    fmt::print("  {}\n", printable(text.starts_with(file + ": ") ? text : file + ": " + text));
  }
  if (findings.size() > most_lines)
    fmt::print("  ... and {} more; --json has all\n", findings.size() - most_lines);
}

void print(const DataSet& set, const DataCheck& check, const std::string& name) {
  fmt::print("{}: {}; cases: {}; {} files, {:.1f} MB\n", printable(name), set.layout,
             cases_text(set), check.files, static_cast<double>(check.bytes) / 1e6);
  for (const DataKind& kind : data_kinds()) {
    std::vector<const Finding*> findings;
    for (const Finding& f : check.findings)
      if (f.kind == kind.name) findings.push_back(&f);
    if (!findings.empty()) print_kind(kind, findings);
  }
  fmt::print("{} errors, {} warnings\n", check.faults, check.warnings);
}

int check_command(const Json& request) {
  const DataSet set = data_set_of(request);
  const std::optional<Manifest> manifest = manifest_of(set);
  const DataCheck check = check_data(set, manifest ? &*manifest : nullptr);
  if (request.value("json", false))
    std::cout << json_of(set, check).dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  else
    print(set, check, request.at("graphs").front().get<std::string>());
  return static_cast<int>(check.faults > 0 ? Exit::data : Exit::done);
}

}  // namespace

void require_alone(const Json& request) {
  if (request.at("graphs").size() > 1)
    throw Error(Exit::usage, "one folder at a time; several files are merged to one graph");
  if (!request.at("set").empty())
    throw Error(Exit::usage, "--set changes a graph, and " +
                                 request.at("graphs").front().get<std::string>() + " is none");
}

int data_command(const Json& request) {
  const std::string action = request.at("action");
  if (action == "index") return index_data(request);
  if (action == "diff") return diff_data(request);
  return check_command(request);
}

}  // namespace sluice
