#include "tools/runtime/bundle/translate.h"
#include "tools/runtime/new/starter.h"

namespace sluice::bundle {
namespace {

std::string commented(const std::string& text, const std::string& indent) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += indent + "// " + line + "\n";
  return out;
}

std::string section(const char* key, const std::vector<Entry>& entries) {
  std::string out = "  \"" + std::string(key) + "\": {\n";
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& e = entries[i];
    out += commented(e.comment, "    ") + "    " + json_text(e.name) + ": { " +
           members_of(e.body, "      ", e.name.size() + 10) + " }" +
           (i + 1 < entries.size() ? ",\n" : "\n");
  }
  return out + "  }";
}

}  // namespace

std::string graph_text(const GraphParts& parts) {
  std::string out = "{\n" + commented(parts.head, "  ");
  out += "  \"name\": " + json_text(parts.name) + ",\n";
  if (!parts.run.empty()) out += "  \"run\": { " + members_of(parts.run, "    ", 12) + " },\n";
  out += section("models", parts.models) + ",\n" + section("nodes", parts.nodes) + "\n}\n";
  return out;
}

}  // namespace sluice::bundle
