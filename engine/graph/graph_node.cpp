#include "engine/graph/graph_node.h"

#include <algorithm>

#include "engine/graph/graph_reader.h"

namespace sluice {
namespace {

// A place without a line that reads as `text`.
Place on_command_line(const std::string& text) {
  auto document = std::make_shared<Document>();
  document->file = text;
  return {document, ""};
}

reading::Field field_of(const Override& o, Diagnostics& diagnostics) {
  reading::Field field;
  field.key = o.path;
  field.place = on_command_line("--param " + o.path + "=" + o.value);
  Diagnostics found;
  field.value = override_value(o.value, found);
  for (const auto& d : found.all()) diagnostics.error(d.code, d.message, field.place, o.path);
  return field;
}

}  // namespace

LoneNode check_lone_node(const std::string& type, const std::vector<Override>& params,
                         const Catalogue& catalogue, Diagnostics& diagnostics) {
  const reading::Reading reading{nullptr, catalogue, diagnostics};
  reading::Written written;
  written.path = type;
  written.place = on_command_line("sluice apply " + type);
  written.fields.push_back({"type", Json(type), written.place, {}});
  LoneNode node;
  const Spec* known = catalogue.find(type);
  node.spec = reading::find_spec(reading, written, known && known->is_network);
  if (!node.spec) return node;
  for (const auto& o : params) {
    const bool again = written.find(o.path) && o.path != "type";
    reading::Field field = field_of(o, diagnostics);
    if (again) diagnostics.error("SL0502", "--param " + o.path + " is given twice", field.place);
    if (o.path == "type")
      diagnostics.error("SL0221", "\"" + type + "\" has no parameter \"type\"", field.place);
    if (!again && o.path != "type") written.fields.push_back(std::move(field));
  }
  reading::read_params(reading, *node.spec, written, {"type"}, node.params, node.given);
  return node;
}

}  // namespace sluice
