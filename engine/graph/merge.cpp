#include "engine/graph/merge.h"

#include <filesystem>

#include "engine/base/diagnostic.h"
#include "engine/graph/spec.h"

namespace sluice {
namespace {

// An object whose members the file names itself, so that "type" and "part" may be among them.
bool holds_names(const std::string& pointer) {
  if (pointer == "/vars" || pointer == "/nodes" || pointer == "/models" || pointer == "/parts")
    return true;
  if (!pointer.starts_with("/parts/")) return false;
  const auto end = pointer.find('/', 7);
  return end != std::string::npos && (pointer.compare(end, std::string::npos, "/nodes") == 0 ||
                                      pointer.compare(end, std::string::npos, "/params") == 0);
}

// Another node, not the same one changed: its old parameters would mean nothing.
bool is_another(const Json& base, const Json& over, const std::string& pointer) {
  if (holds_names(pointer)) return false;
  for (const char* key : {"type", "part"})
    if (over.contains(key) && (!base.contains(key) || base[key] != over[key]) &&
        (base.contains("type") || base.contains("part")))
      return true;
  return false;
}

// `at` is the place of both: the pointer is the same in the merged and in the second document.
void merge(Json& base, const Json& over, const Place& at, Document& merged) {
  for (const auto& [key, value] : over.items()) {
    const Place here = at.child(key);
    const bool is_in_both = base.contains(key);
    if (is_in_both && base[key].is_object() && value.is_object() &&
        !is_another(base[key], value, here.pointer)) {
      merge(base[key], value, here, merged);
    } else {
      base[key] = value;
      set_origin(merged, here.pointer, here);
    }
  }
}

DocumentPtr read(const std::string& file, const OpenFiles* open, Diagnostics& diagnostics) {
  if (const std::string* text = open_text(open, file))
    return parse_document(file, *text, diagnostics);
  return read_document(file, diagnostics);
}

// "parts": {"name": "file"} becomes "parts": {"name": {...}}. False where a file cannot be read.
bool pull_parts(const std::shared_ptr<Document>& merged, const OpenFiles* open,
                Diagnostics& diagnostics) {
  const auto parts = merged->root.find("parts");  // the end where the root is no object
  if (parts == merged->root.end() || !parts->is_object()) return true;
  bool complete = true;
  for (auto& [name, part] : parts->items()) {
    if (!part.is_string()) continue;
    const Place place = Place{merged, "/parts"}.child(name);
    const auto folder = std::filesystem::path(place.origin().document->file).parent_path();
    const std::string file = (folder / part.get<std::string>()).string();
    DocumentPtr found;
    std::error_code why;
    const auto status = std::filesystem::status(file, why);
    if (open_text(open, file) || std::filesystem::is_regular_file(status))
      found = read(file, open, diagnostics);
    else
      diagnostics.error(
          "SL0108",
          "part \"" + name + "\" is to be read from " + file +
              (std::filesystem::status_known(status) ? ", which is no file" : ": " + why.message()),
          place, "parts." + name, "the path is relative to the file that names it");
    complete = complete && found;
    if (!found) continue;
    part = found->root;
    set_origin(*merged, place.pointer, {found, ""});
  }
  return complete;
}

// A run's folder stands for the graph that it holds.
std::string graph_file(const std::string& file) {
  const auto in_folder = std::filesystem::path(file) / "graph.json";
  std::error_code ignored;
  return std::filesystem::is_regular_file(in_folder, ignored) ? in_folder.string() : file;
}

}  // namespace

void set_origin(Document& document, const std::string& pointer, const Place& place) {
  auto& origins = document.origins;
  // Pointers below begin with "pointer/", and '0' is the character that follows '/'.
  origins.erase(origins.lower_bound(pointer + "/"), origins.lower_bound(pointer + "0"));
  origins[pointer] = place;
}

const std::string* open_text(const OpenFiles* open, const std::string& file) {
  if (!open) return nullptr;
  const auto at = open->find(std::filesystem::path(file).lexically_normal().string());
  return at == open->end() ? nullptr : &at->second;
}

DocumentPtr read_graph_files(const std::vector<std::string>& files, Diagnostics& diagnostics,
                             const std::string* text, const OpenFiles* open) {
  std::shared_ptr<Document> merged;
  for (const std::string& file : files) {
    const DocumentPtr document = text && !merged ? parse_document(file, *text, diagnostics)
                                                 : read(graph_file(file), open, diagnostics);
    if (!document) return nullptr;
    if (!merged) {
      merged = std::make_shared<Document>(*document);
    } else if (!document->root.is_object() || !merged->root.is_object()) {
      diagnostics.error("SL0201", "a graph is an object, found " + describe_json(document->root),
                        {document, ""});
      return nullptr;
    } else {
      merge(merged->root, document->root, {document, ""}, *merged);
    }
  }
  return merged && pull_parts(merged, open, diagnostics) ? merged : nullptr;
}

}  // namespace sluice
