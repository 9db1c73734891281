#include "tools/assist/analysis.h"

#include <algorithm>
#include <filesystem>

#include "engine/base/error.h"
#include "engine/base/read_file.h"
#include "engine/judge/dot_text.h"

namespace sluice::assist {
namespace {

constexpr std::size_t largest = std::size_t{16} << 20;  // what document.cpp reads

bool holds_a_part(const Tree& tree) {
  const Value& root = tree.root;
  return root.find("nodes") && (root.find("in") || root.find("out") || root.find("params")) &&
         !root.find("run") && !root.find("models") && !root.find("parts");
}

bool looks_like_a_graph(const Tree& tree) {
  return tree.root.find("nodes") || tree.root.find("x-base") ||
         tree.root.text_of("$schema").ends_with("graph.schema.json");
}

// A part's file alone: the part of a graph in which nothing uses it, and of whose variables nothing
// is known.
void check_part(const DocumentPtr& document, const Catalogue& catalogue, Checked& checked) {
  if (!document) return;
  auto around = std::make_shared<Document>();
  const std::string name = std::filesystem::path(document->file).stem().string();
  around->file = document->file;
  around->root["parts"][name] = document->root;
  around->root["nodes"] = Json::object();
  const Place part = Place{around, "/parts"}.child(name);
  around->origins[part.pointer] = Place{document, ""};
  Checked whole;
  check_document(around, catalogue, {}, whole);
  for (const Diagnostic& d : whole.diagnostics.all()) {
    const bool within = d.place.pointer.starts_with(part.pointer + "/");
    if (within && d.code != "SL0205") checked.diagnostics.add(d);
  }
}

Flows flows_of(const Plan& plan) {
  Flows flows;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const PlanNode& n = plan.nodes[i];
    Leaving leaving;
    for (const FieldInfo& f : n.flow.fields)
      leaving.fields.emplace_back(f.name, f.text(n.flow.batch) + (f.maybe ? " (not in all)" : ""));
    if (!n.spec->outs.empty()) leaving.changed = dot::changed_fields(plan, static_cast<int>(i), 3);
    flows.try_emplace(n.graph->place.pointer, std::move(leaving));
  }
  return flows;
}

std::vector<std::string> bases_of(const Source& source) {
  std::vector<std::string> files;
  const Value* base = source.tree.root.find("x-base");
  if (!base) return files;
  const auto folder = std::filesystem::path(source.file).parent_path();
  if (base->is(Value::Kind::text)) files.push_back((folder / base->text).string());
  for (const Value& one : base->members)
    if (one.is(Value::Kind::text)) files.push_back((folder / one.text).string());
  return files;
}

// False where there is no such file.
bool read_source(Source& source, const OpenFiles& open) {
  std::error_code ignored;
  if (const std::string* text = open_text(&open, source.file)) {
    source.text = *text;
  } else if (!std::filesystem::is_regular_file(source.file, ignored)) {
    return false;
  } else {
    try {
      source.text = read_text(source.file, largest);
    } catch (const Error&) {
      return false;  // check says so
    }
  }
  source.tree = read_tree(source.text);
  return true;
}

void read_parts(Analysis& a, const OpenFiles& open) {
  std::vector<Source> found;
  for (const std::string& file : bases_of(a.main())) {
    Source base;
    base.file = file;
    if (read_source(base, open)) found.push_back(std::move(base));
  }
  const std::size_t graphs = found.size() + 1;
  for (std::size_t i = 0; i < graphs; ++i) {
    const Source& graph = i == 0 ? a.main() : found[i - 1];
    const auto folder = std::filesystem::path(graph.file).parent_path();
    const Value* parts = graph.tree.root.find("parts");
    if (!parts) continue;
    std::vector<Source> more;
    for (const Value& part : parts->members) {
      if (!part.is(Value::Kind::text) || more.size() == 64) continue;
      Source source;
      source.file = (folder / part.text).string();
      source.part = part.name;
      if (read_source(source, open)) more.push_back(std::move(source));
    }
    for (Source& s : more) found.push_back(std::move(s));
  }
  for (Source& s : found) a.sources.push_back(std::move(s));
}

// Of the sum of several files what this one is to blame for, and files that cannot be read.
void take_own(const std::string& file, const Diagnostics& all, Diagnostics& own) {
  for (const Diagnostic& d : all.all()) {
    const DocumentPtr at = d.place.document ? d.place.origin().document : nullptr;
    if ((at && at->file == file) || d.code.starts_with("SL01")) own.add(d);
  }
}

}  // namespace

void check_document(const DocumentPtr& document, const Catalogue& catalogue,
                    const std::vector<Override>& overrides, Checked& checked) {
  checked.graph = load_graph(document, catalogue, overrides, checked.diagnostics);
  if (!checked.graph) return;
  PlanOptions plan;
  if (const auto asked = checked.graph->run.threads; asked > 0)
    plan.threads = static_cast<int>(asked);
  checked.plan = make_plan(*checked.graph, plan, checked.diagnostics);
}

const Value* Analysis::member(std::string_view group, std::string_view name) const {
  for (const Source& s : sources) {
    if (!s.part.empty()) continue;
    const Value* all = s.tree.root.find(group);
    if (const Value* found = all ? all->find(name) : nullptr) return found;
  }
  return nullptr;
}

std::unique_ptr<Analysis> analyse(const std::string& file, std::string text,
                                  const Catalogue& catalogue, const OpenFiles& open,
                                  const Analysis* before) {
  auto a = std::make_unique<Analysis>();
  a->catalogue = &catalogue;
  const bool too_large = text.size() > largest;
  Tree tree = too_large ? Tree() : read_tree(text);
  // A file that was a graph stays one while it is being typed.
  a->is_graph = looks_like_a_graph(tree) || (before && before->is_graph);
  a->sources.push_back({file, std::move(text), std::move(tree), ""});
  if (!a->is_graph) return a;
  const bool is_part = holds_a_part(a->tree());
  if (is_part) a->sources.front().part = std::filesystem::path(file).stem().string();
  Diagnostics& found = a->said.diagnostics;
  OpenFiles all = open;
  const std::string normal = std::filesystem::path(file).lexically_normal().string();
  all[normal] = a->text();
  std::vector<std::string> files = bases_of(a->main());
  files.push_back(file);
  if (is_part) {
    check_part(parse_document(file, a->text(), found), catalogue, a->said);
  } else {
    if (files.size() == 1) {
      check_document(read_graph_files(files, found, nullptr, &all), catalogue, {}, a->said);
    } else {
      Diagnostics sum;
      std::swap(a->said.diagnostics, sum);
      check_document(read_graph_files(files, a->said.diagnostics, nullptr, &all), catalogue, {},
                     a->said);
      std::swap(a->said.diagnostics, sum);
      take_own(file, sum, found);
    }
    read_parts(*a, all);
  }
  Checked rest;  // what the mended text says: of what is not right no word
  const Plan* plan = a->said.plan ? &*a->said.plan : nullptr;
  if (!plan && !is_part) {
    all[normal] = mended(a->tree());
    check_document(read_graph_files(files, rest.diagnostics, nullptr, &all), catalogue, {}, rest);
    if (rest.plan) plan = &*rest.plan;
  }
  if (plan) {
    a->flows = flows_of(*plan);
    a->nodes = plan->nodes.size();
    a->streams = plan->streams.size();
  } else if (before) {
    a->flows = before->flows;
  }
  return a;
}

Span span_of(const Diagnostic& d, const Analysis& a, const Bytes& bytes) {
  if (!d.place.document) return {};
  const Place origin = d.place.origin();
  if (origin.document->file == a.main().file) return bytes.of(d.place.mark());
  const Value* named = at_pointer(a.tree(), d.place.pointer, false);
  if (named != &a.tree().root) return named->span;
  const Value* base = named->find("x-base");
  return base ? base->span : Span{};
}

}  // namespace sluice::assist
