// Nodes and networks against their Specs: types, parameters, the settings every node has.
#include <algorithm>
#include <cctype>

#include "engine/graph_reader.h"

namespace sluice::reading {

const std::vector<std::string> node_keys{"type",     "part",         "in",       "desc",
                                         "disabled", "lane",         "on_error", "max_bad",
                                         "after",    "every_epochs", "requires"};

namespace {

bool contains(const std::vector<std::string>& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

std::vector<std::string> types(const Catalogue& catalogue, bool network) {
  std::vector<std::string> names;
  for (const auto& spec : catalogue.all())
    if (spec->is_network == network) names.push_back(spec->name);
  return names;
}

// MONAI's "RandCropByPosNegLabeld" -> "rand_crop_by_pos_neg_label".
std::string snake_case(const std::string& name) {
  std::string out;
  const auto is = [&](std::size_t i, int (*kind)(int)) {
    return i < name.size() && kind(static_cast<unsigned char>(name[i]));
  };
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool begins =
        i > 0 && is(i, std::isupper) && (is(i - 1, std::islower) || is(i + 1, std::islower));
    if (begins) out += '_';
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
  }
  return out;
}

std::string suggest_type(const std::string& type, const std::vector<std::string>& known) {
  if (std::any_of(type.begin(), type.end(), [](unsigned char c) { return std::isupper(c); })) {
    std::string name = snake_case(type);
    if (!contains(known, name) && name.ends_with('d')) name.pop_back();
    if (contains(known, name)) return "here it is called \"" + name + "\"";
  }
  return did_you_mean(type, known);
}

std::string a_kind(bool network) { return network ? "network" : "node type"; }

}  // namespace

const Spec* find_spec(const Reading& reading, const Written& written, bool network) {
  const Field* field = written.find("type");
  if (!field) {
    const std::string name = written.path.substr(written.path.find('.') + 1);
    reading.error("SL0208",
                  "\"" + name + "\" has no \"type\"" + (network ? "" : " and no \"part\""),
                  written.place.key(), written.path);
    return nullptr;
  }
  if (!field->value) return nullptr;
  const std::string path = written.path + ".type";
  if (!field->value->is_string()) {
    reading.error_at(
        *field, "SL0201",
        "expected the name of a " + a_kind(network) + ", found " + describe_json(*field->value),
        path);
    return nullptr;
  }
  const auto& type = field->value->get_ref<const std::string&>();
  const Spec* spec = reading.catalogue.find(type);
  if (spec && spec->is_network == network) return spec;
  if (spec)
    reading.error_at(*field, "SL0212",
                     "\"" + type + "\" is a " + a_kind(!network) + ", not a " + a_kind(network),
                     path,
                     network ? "nodes stand under \"nodes\""
                             : "declare it under \"models\" and name it in a \"model\" node");
  else
    reading.error_at(*field, network ? "SL0213" : "SL0203",
                     "unknown " + a_kind(network) + " \"" + type + "\"", path,
                     suggest_type(type, types(reading.catalogue, network)));
  return nullptr;
}

bool accepts(const Reading& reading, const Field& field, const ParamSpec& spec,
             const std::string& path) {
  if (!field.value) return false;
  const auto why = spec.reject(*field.value);
  if (!why) return true;
  ParamSpec bare;  // the type alone
  bare.type = spec.type;
  const bool wrong_type = bare.reject(*field.value).has_value();
  std::string hint;
  if (field.value->is_string() && !wrong_type)
    hint = did_you_mean(field.value->get<std::string>(), spec.choices);
  reading.error_at(field, wrong_type ? "SL0222" : "SL0223", "\"" + spec.name + "\": " + *why, path,
                   hint);
  return false;
}

namespace {

void check_network_param(const Reading& reading, const Spec& spec, const Written& written,
                         const Json& params) {
  const Field* field = written.find(spec.network_param);
  if (spec.network_param.empty() || !field || !params.contains(spec.network_param)) return;
  const Json& value = params[spec.network_param];
  if (!value.is_string()) return;
  const auto& name = value.get_ref<const std::string&>();
  if (reading.model_names.count(name)) return;
  const std::vector<std::string> known(reading.model_names.begin(), reading.model_names.end());
  reading.error_at(*field, "SL0225", "no network is called \"" + name + "\"",
                   written.path + "." + field->key,
                   known.empty() ? "the graph has no \"models\"" : did_you_mean(name, known));
}

void check_count(const Reading& reading, const Spec& spec, const Written& written,
                 const Json& params) {
  if (spec.count_param.empty() || !params.contains(spec.count_param)) return;
  const Json& value = params[spec.count_param];
  if (!value.is_number_integer() || value.get<std::int64_t>() >= 1) return;
  const Field* field = written.find(spec.count_param);
  const std::string message =
      "\"" + spec.count_param + "\" must be at least 1, found " + value.dump();
  if (field)
    reading.error_at(*field, "SL0226", message, written.path + "." + field->key);
  else
    reading.error("SL0226", message, written.place.key(), written.path);
}

}  // namespace

void read_params(const Reading& reading, const Spec& spec, const Written& written,
                 const std::vector<std::string>& reserved, Json& params,
                 std::vector<std::string>& given) {
  for (const Field& field : written.fields) {
    if (contains(reserved, field.key) || spec.find_param(field.key)) continue;
    std::vector<std::string> known;
    for (const auto& p : spec.params) known.push_back(p.name);
    known.insert(known.end(), reserved.begin(), reserved.end());
    reading.error("SL0221", "\"" + spec.name + "\" has no parameter \"" + field.key + "\"",
                  field.place.key(), written.path + "." + field.key,
                  did_you_mean(field.key, known));
  }
  for (const ParamSpec& p : spec.params) {
    if (contains(reserved, p.name)) continue;
    const Field* field = written.find(p.name);
    if (field) {
      if (!accepts(reading, *field, p, written.path + "." + p.name)) continue;
      params[p.name] = *field->value;
      given.push_back(p.name);
    } else if (p.required) {
      reading.error("SL0224", "\"" + spec.name + "\" needs \"" + p.name + "\" (" + p.type + ")",
                    written.place.key(), written.path);
    } else {
      params[p.name] = p.fallback;
    }
  }
  check_network_param(reading, spec, written, params);
  check_count(reading, spec, written, params);
}

namespace {

// The settings that every node has, declared as a Spec like any other.
struct Settings {
  std::string desc, lane, on_error, after;
  std::vector<std::string> needs;
  bool disabled = false;
  std::int64_t max_bad = -1, every_epochs = 1;

  static const Spec& spec() {
    static const Spec s =
        Spec("node", "Settings of every node.")
            .param("desc", &Settings::desc, "What it is for.")
            .param("lane", &Settings::lane, "Where its body runs.")
            .choices({"compute", "io", "step"})
            .param("on_error", &Settings::on_error, "What a failing sample does.")
            .choices({"fail", "quarantine"})
            .param("max_bad", &Settings::max_bad, "Quarantined samples before the run fails.")
            .at_least(0)
            .param("after", &Settings::after, "The updater that a source waits for.")
            .param("every_epochs", &Settings::every_epochs, "How often a source with after runs.")
            .range(1, 1e9)
            .param("requires", &Settings::needs, "Nodes to open before it.")
            .param("disabled", &Settings::disabled, "Leaves the node out.");
    return s;
  }
};

}  // namespace

GraphNode read_node(const Reading& reading, const WrittenNode& written, bool& disabled) {
  Settings settings;
  for (const ParamSpec& p : Settings::spec().params)
    if (const Field* field = written.find(p.name))
      if (accepts(reading, *field, p, written.path + "." + p.name)) p.set(&settings, *field->value);
  GraphNode node;
  node.path = written.name;
  node.place = written.place;
  node.desc = settings.desc;
  node.lane = settings.lane;
  node.on_error = settings.on_error == "quarantine" ? OnError::quarantine : OnError::fail;
  node.max_bad = static_cast<int>(std::min<std::int64_t>(settings.max_bad, 1'000'000'000));
  node.after = settings.after;
  node.needs = settings.needs;
  node.every_epochs = static_cast<int>(settings.every_epochs);
  disabled = settings.disabled;
  node.spec = find_spec(reading, written, false);
  if (node.spec) read_params(reading, *node.spec, written, node_keys, node.params, node.given);
  return node;
}

}  // namespace sluice::reading
