// Nodes and networks against their Specs: types, parameters, the settings every node has.
#include <algorithm>
#include <regex>

#include "engine/graph/graph_reader.h"
#include "engine/graph/inner_nodes.h"
#include "engine/graph/param_names.h"
#include "engine/graph/parameter_groups.h"
#include "engine/graph/type_names.h"

namespace sluice::reading {

const std::vector<std::string> node_keys{"type",     "part",  "in",           "desc",
                                         "disabled", "lane",  "threads",      "on_error",
                                         "max_bad",  "after", "every_epochs", "requires"};

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

std::string a_kind(bool network) { return network ? "network" : "node type"; }

// "load" of "nodes.load"
std::string name_of(const Written& written) {
  return written.path.substr(written.path.find('.') + 1);
}

bool is_parameter(const Catalogue& catalogue, std::string_view key) {
  return std::any_of(catalogue.all().begin(), catalogue.all().end(),
                     [&](const auto& spec) { return spec->find_param(key) != nullptr; });
}

// "type", which names a `kind`. Null and an error where it is missing, with `besides` what else
// could have stood there, or no text; null alone where its value is already an error.
const Field* read_type(const Reading& reading, const Written& written, const std::string& kind,
                       const std::string& besides = "", const std::string& hint = "") {
  const Field* type = written.find("type");
  if (!type) {
    reading.error("SL0208", "\"" + name_of(written) + "\" has no \"type\"" + besides,
                  written.place.key(), written.path, hint);
    return nullptr;
  }
  if (!type->value) return nullptr;
  if (type->value->is_string()) return type;
  reading.error_at(*type, "SL0201",
                   "expected the name of a " + kind + ", found " + describe_json(*type->value),
                   written.path + ".type");
  return nullptr;
}

}  // namespace

void mend_kind(const Reading& reading, Written& written, bool network) {
  if (written.find("type") || (!network && written.find("part"))) return;
  std::vector<std::string> kinds{"type"};
  if (!network) kinds.push_back("part");
  for (Field& field : written.fields) {
    const std::string meant = nearest(field.key, kinds);
    if (meant.empty() || contains(node_keys, field.key) ||
        is_parameter(reading.catalogue, field.key))
      continue;
    reading.error("SL0202", "unknown key \"" + field.key + "\"", field.place.key(),
                  written.path + "." + field.key, "did you mean \"" + meant + "\"?");
    field.key = meant;
    return;
  }
}

const Spec* find_spec(const Reading& reading, Written& written, bool network) {
  mend_kind(reading, written, network);
  const Field* field =
      read_type(reading, written, a_kind(network), network ? "" : " and no \"part\"",
                "`sluice inspect` lists the types");
  if (!field) return nullptr;
  const std::string path = written.path + ".type";
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

static const char* code_of(Refusal::Why why) {
  switch (why) {
    case Refusal::Why::quoted:
      return "SL0227";
    case Refusal::Why::fraction:
      return "SL0228";
    case Refusal::Why::null:
      return "SL0229";
    case Refusal::Why::range:
      return "SL0223";
    case Refusal::Why::choice:
      return "SL0230";
    case Refusal::Why::length:
      return "SL0231";
    case Refusal::Why::order:
      return "SL0236";
    default:
      return "SL0222";
  }
}

bool accepts(const Reading& reading, const Field& field, const ParamSpec& spec,
             const std::string& path) {
  if (!field.value) return false;
  auto refused = spec.reject(*field.value);
  if (!refused) return true;
  std::string pointer, keys;
  for (std::size_t i : refused->at) {
    pointer += "/" + std::to_string(i);
    keys += "." + std::to_string(i);
  }
  if (refused->why == Refusal::Why::null && pointer.empty() && !spec.required)
    refused->hint = "leave it out for the default, " + spec.fallback.dump();
  reading.error_at(field, code_of(refused->why), "\"" + spec.name + "\": " + refused->text,
                   path + keys, refused->hint, pointer);
  return false;
}

void mend_keys(const Reading& reading, Written& written, const std::vector<std::string>& known,
               const std::vector<std::string>& structural, const std::string& code,
               const std::string& owner, const std::string& otherwise) {
  for (Field& field : written.fields) {
    if (contains(known, field.key) || is_ignored(field.key)) continue;
    const std::string meant = meant_param(field.key, known);
    reading.error(code,
                  owner + " has no " + (code == "SL0218" ? "setting" : "parameter") + " \"" +
                      field.key + "\"",
                  field.place.key(), written.path + "." + field.key,
                  meant.empty() ? otherwise : "did you mean \"" + meant + "\"?");
    if (meant.empty() || written.find(meant)) continue;
    field.key = meant;
    if (!contains(structural, meant)) field.value.reset();
  }
}

// ---- parameters ---------------------------------------------------------------------------------

namespace {

void check_network_param(const Reading& reading, const std::string& key, const Written& written,
                         const Json& params) {
  const Field* field = written.find(key);
  if (!field || !params.contains(key)) return;
  const Json& value = params[key];
  if (!value.is_string() || reading.models_partial) return;
  const auto& name = value.get_ref<const std::string&>();
  if (reading.model_names.count(name)) return;
  const std::vector<std::string> known(reading.model_names.begin(), reading.model_names.end());
  std::string hint = did_you_mean(name, known);
  if (hint.empty())
    hint = known.empty() ? "the graph has no \"models\"" : "there is " + listed(known);
  const std::string message = "no network is called \"" + name + "\"",
                    path = written.path + "." + field->key;
  if (field->origin(""))
    reading.error_at(*field, "SL0225", message, path, hint);
  else
    reading.diagnostics.error_once("SL0225", message, field->place, path, hint);
}

void check_count(const Reading& reading, const Spec& spec, const Written& written,
                 const Json& params) {
  const Field* field = written.find(spec.count_param);
  if (spec.count_param.empty() || !field || !params.contains(spec.count_param)) return;
  const Json& value = params[spec.count_param];
  if (!value.is_number_integer() || value.get<std::int64_t>() >= 1) return;
  reading.error_at(*field, "SL0226",
                   "\"" + spec.count_param + "\": expected at least 1, found " + value.dump(),
                   written.path + "." + field->key);
}

// Neither null nor what stands for "none".
bool is_set(const Json& value) {
  return !(value.is_null() || value == false || value == "" || (value.is_array() && value.empty()));
}

std::int64_t length(const Json& value) {
  return value.is_array() ? static_cast<std::int64_t>(value.size()) : 1;
}

class RuleCheck {
 public:
  RuleCheck(const Reading& reading, const Spec& spec, const Written& written, const Json& params,
            const ParamRule& rule)
      : reading_(reading), spec_(spec), written_(written), rule_(rule) {
    if (!params.contains(rule.a) || !params.contains(rule.b)) return;  // one is faulty
    const Json &a = params[rule.a], &b = params[rule.b];
    const bool both = is_set(a) && is_set(b), none = !is_set(a) && !is_set(b);
    const std::string names = "\"" + rule.a + "\" and \"" + rule.b + "\"";
    if (rule.kind == Kind::length || rule.kind == Kind::per)
      lengths(a, b);
    else if (rule.kind == Kind::below || rule.kind == Kind::at_most)
      order(a, b);
    else if (both)
      error("SL0232", names + " exclude each other", "remove one of them");
    else if (none && rule.kind == Kind::one_of)
      error("SL0233", "\"" + spec.name + "\" needs one of " + names, "add one of them");
  }

 private:
  using Kind = ParamRule::Kind;

  void lengths(const Json& a, const Json& b) {
    if (a.is_null() || b.is_null()) return;
    const std::int64_t wanted = length(b) + rule_.shift, found = length(a);
    const bool per = rule_.kind == Kind::per, by_default = !written_.find(rule_.a);
    // A longer list may be meant for a part that is used with several keys or with one.
    const bool enough = found == 1 || found > wanted || (by_default && found == 0);
    if (found == wanted || (per && enough)) return;
    error("SL0234",
          "\"" + rule_.a + "\": expected " + std::to_string(wanted) +
              (wanted == 1 ? " entry" : " entries") +
              (per && wanted != 1 ? ", or one for all" : "") + ", found " + std::to_string(found) +
              (by_default ? " (by default)" : ""),
          "\"" + rule_.b + "\" has " + std::to_string(length(b)));
  }

  void order(const Json& a, const Json& b) {
    const bool strictly = rule_.kind == Kind::below;
    // One for all; null behind a list's end.
    const auto entry = [](const Json& of, std::int64_t i) {
      if (!of.is_array()) return of;
      const auto at = of.size() == 1 ? 0 : static_cast<std::size_t>(i);
      return at < of.size() ? of[at] : Json();
    };
    for (std::int64_t i = 0; i < std::max(length(a), length(b)); ++i) {
      const Json low = entry(a, i), high = entry(b, i);
      if (!low.is_number() || !high.is_number() || low < high || (!strictly && low == high))
        continue;
      return error("SL0236",
                   "\"" + rule_.a + "\": expected " + (strictly ? "less than" : "at most") +
                       " the " + high.dump() + " of \"" + rule_.b + "\", found " + low.dump(),
                   "");
    }
  }

  void error(const char* code, const std::string& message, const std::string& hint) {
    const Field* a = written_.find(rule_.a);
    const Field* b = written_.find(rule_.b);
    const bool indirect = (a && a->origin("")) || (b && b->origin(""));
    const bool excludes = rule_.kind == Kind::exclusive || rule_.kind == Kind::one_of;
    const Field* at = a && (!excludes || !b) ? a : b;
    Diagnostic& d = at ? reading_.error_at(*at, code, message, written_.path + "." + at->key, hint)
                       : reading_.error(code, message, written_.place.key(), written_.path, hint);
    d.indirect |= indirect;
  }

  const Reading& reading_;
  const Spec& spec_;
  const Written& written_;
  const ParamRule& rule_;
};

void missing(const Reading& reading, const Spec& spec, const Written& written, const ParamSpec& p) {
  reading
      .error("SL0224", "\"" + spec.name + "\" needs \"" + p.name + "\" (" + p.type + ")",
             written.place.key(), written.path)
      .notes = {"\"" + p.name + "\": " + p.doc};
}

// The nodes inside a node, checked as those of the graph are.
void read_inner_nodes(const Reading& reading, const ParamSpec& param, const Field& field,
                      const std::string& path) {
  if (!field.value) return;
  if (field.value->is_array()) {
    for (std::size_t i = 0; i < field.value->size(); ++i) {
      const std::string number = std::to_string(i);
      read_inner_nodes(reading, param, field.member(number), path + "." + number);
    }
    return;
  }
  if (!field.value->is_object()) {
    reading.error_at(
        field, "SL0222",
        "expected {\"type\": ...} or a list of them, found " + describe_json(*field.value), path);
    return;
  }
  Written written;
  written.path = path;
  written.place = field.place;
  written.fields = field.members();
  const Spec* spec = find_spec(reading, written, false);
  if (!spec) return;
  const bool in_step = holds_a_step(param);
  if (in_step ? !may_stand_in_step(*spec) : !may_stand_inside(*spec)) {
    reading.error_at(*written.find("type"), "SL0222",
                     std::string("expected ") + (in_step ? "a node of a step" : "a transform") +
                         ", found \"" + spec->name + "\" (" + spec->family + ")",
                     path + ".type", "inside a node can stand what makes one sample of one");
    return;
  }
  Json params = Json::object();
  std::vector<std::string> given;
  read_params(reading, *spec, written, {"type"}, params, given);
}

// The nodes of a step, once each is known to be right, and its network as well.
void check_step(const Reading& reading, const Spec& spec, const Written& written,
                const Json& params) {
  const auto param = std::find_if(spec.params.begin(), spec.params.end(), holds_a_step);
  if (param == spec.params.end() || !params.contains(param->name)) return;
  const Field* field = written.find(param->name);
  const Json net = params.value("net", Json());
  if (!field || !net.is_string()) return;
  if (!reading.models_partial && !reading.model_names.count(net)) return;
  const auto fault = wrong_step(params[param->name], net, reading.catalogue);
  if (!fault) return;
  const std::string number = fault->node ? std::to_string(*fault->node) : "";
  reading.error_at(fault->node ? field->member(number) : *field, "SL0222",
                   "\"" + param->name + "\": " + fault->text,
                   written.path + "." + param->name + (fault->node ? "." + number : ""));
}

// Of a layer and its like: of which of the types it is.
const Spec* find_member(const Reading& reading, const std::vector<Spec>& types,
                        const Written& written) {
  const Field* type = read_type(reading, written, "type");
  if (!type) return nullptr;
  const auto& name = type->value->get_ref<const std::string&>();
  std::vector<std::string> known;
  for (const Spec& spec : types) {
    if (spec.name == name) return &spec;
    known.push_back(spec.name);
  }
  const std::string hint = did_you_mean(name, known);
  reading.error_at(*type, "SL0203", "unknown type \"" + name + "\"", written.path + ".type",
                   hint.empty() ? "there are " + listed(known) : hint);
  return nullptr;
}

// Objects by name, each of one of `types`. What they read, their maker looks up.
void read_members(const Reading& reading, const Field& field, const std::vector<Spec>& types,
                  const std::string& path) {
  if (!field.value->is_object()) {
    reading.error_at(field, "SL0222",
                     "expected {\"name\": {\"type\": ...}}, found " + describe_json(*field.value),
                     path);
    return;
  }
  for (const Field& member : field.members()) {
    Written written;
    written.path = path + "." + member.key;
    written.place = member.place;
    if (!member.value->is_object()) {
      reading.error_at(member, "SL0222",
                       "expected {\"type\": ...}, found " + describe_json(*member.value),
                       written.path);
      continue;
    }
    written.fields = member.members();
    const Spec* spec = find_member(reading, types, written);
    if (!spec) continue;
    Json params = Json::object();
    std::vector<std::string> given;
    read_params(reading, *spec, written, {"type", "in", "desc"}, params, given);
  }
}

// An optimizer's groups of parameters, whose names only the network knows.
void read_groups(const Reading& reading, const Field& field, const std::string& path) {
  if (!field.value || !field.value->is_array()) return;
  for (std::size_t i = 0; i < field.value->size(); ++i) {
    const Field entry = field.member(std::to_string(i));
    Written written;
    written.path = path + "." + std::to_string(i);
    if (!entry.value || !entry.value->is_object()) {
      reading.error_at(
          entry, "SL0222",
          "expected {\"match\": ...}, found " + describe_json(entry.value ? *entry.value : Json()),
          written.path);
      continue;
    }
    written.place = entry.place;
    written.fields = entry.members();
    Json params = Json::object();
    std::vector<std::string> given;
    read_params(reading, parameter_group_spec(), written, {}, params, given);
    const Field* match = written.find("match");
    if (!match || !match->value || !match->value->is_string()) continue;
    try {
      const std::regex pattern(match->value->get<std::string>());
    } catch (const std::regex_error& e) {
      reading.error_at(*match, "SL0222", std::string("this is no regular expression: ") + e.what(),
                       written.path + ".match");
    }
  }
}

void collect_inner(const Json& entries, const Catalogue& catalogue,
                   std::vector<std::pair<const Spec*, const Json*>>& found) {
  if (entries.is_array())
    for (const Json& entry : entries) collect_inner(entry, catalogue, found);
  if (!entries.is_object()) return;
  const auto type = entries.find("type");
  if (type == entries.end() || !type->is_string()) return;  // said already
  if (const Spec* spec = catalogue.find(type->get_ref<const std::string&>()))
    found.emplace_back(spec, &entries);
}

// One that holds others itself works where all of these do.
bool works_on_host_alone(const Spec& spec, const Json& params, const Catalogue& catalogue) {
  const ParamSpec* held = spec.find_param("transforms");
  if (!held || !holds_nodes(*held)) return spec.host_only || spec.off_device(params);
  const auto entries = params.find(held->name);
  if (entries == params.end()) return spec.host_only;  // said already
  std::vector<std::pair<const Spec*, const Json*>> inner;
  collect_inner(*entries, catalogue, inner);
  return std::ranges::any_of(
      inner, [&](const auto& of) { return works_on_host_alone(*of.first, *of.second, catalogue); });
}

// A node that holds others works where all of them do, and leaves pending what all of them can.
std::shared_ptr<const Spec> with_inner(const Spec& outer, const Json& entries,
                                       const Catalogue& catalogue) {
  std::vector<std::pair<const Spec*, const Json*>> inner;
  collect_inner(entries, catalogue, inner);
  auto own = std::make_shared<Spec>(outer);
  own->host_only = false;
  own->fusing = Fuses::moves;
  for (const auto& [s, params] : inner) {
    own->host_only |= works_on_host_alone(*s, *params, catalogue);
    if (s->fusing == Fuses::no || own->fusing == Fuses::no)
      own->fusing = Fuses::no;
    else if (s->fusing == Fuses::resamples)
      own->fusing = Fuses::resamples;
  }
  if (own->access != Access::none) own->fusing = Fuses::no;  // a network sees what is done
  return own;
}

// The nodes of a step as nodes of their own, so that the plan can follow fields through them. What
// is wrong with them has been said.
std::vector<GraphNode> nodes_of_step(const Reading& reading, const Written& written,
                                     const GraphNode& owner) {
  std::vector<GraphNode> nodes;
  const auto param =
      std::find_if(owner.spec->params.begin(), owner.spec->params.end(), holds_a_step);
  const Field* list = param == owner.spec->params.end() ? nullptr : written.find(param->name);
  if (!list || !list->value || !list->value->is_array()) return nodes;
  for (std::size_t i = 0; i < list->value->size(); ++i) {
    const Field entry = list->member(std::to_string(i));
    const Json type = entry.value->is_object() ? entry.value->value("type", Json()) : Json();
    GraphNode node;
    node.spec = type.is_string() ? reading.catalogue.find(type.get<std::string>()) : nullptr;
    if (!node.spec) continue;
    node.path = owner.path + "." + param->name + "." + entry.key;
    node.place = entry.place;
    for (const ParamSpec& p : node.spec->params) {
      const auto value = entry.value->find(p.name);
      if (value == entry.value->end()) {
        node.params[p.name] = p.fallback;
      } else {
        node.params[p.name] = *value;
        node.given.push_back(p.name);
      }
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace

void read_params(const Reading& reading, const Spec& spec, Written& written,
                 const std::vector<std::string>& reserved, Json& params,
                 std::vector<std::string>& given, const std::string& unknown) {
  std::vector<std::string> known;
  for (const auto& p : spec.params) known.push_back(p.name);
  known.insert(known.end(), reserved.begin(), reserved.end());
  const bool inspected = reading.catalogue.find(spec.name) == &spec;
  mend_keys(
      reading, written, known, reserved, unknown, "\"" + spec.name + "\"",
      inspected ? "`sluice inspect " + spec.name + "` lists them" : "known are " + listed(known));
  for (const ParamSpec& p : spec.params) {
    if (contains(reserved, p.name)) continue;
    if (const Field* field = written.find(p.name)) {
      if (!accepts(reading, *field, p, written.path + "." + p.name)) continue;
      if (holds_nodes(p)) read_inner_nodes(reading, p, *field, written.path + "." + p.name);
      if (holds_groups(p)) read_groups(reading, *field, written.path + "." + p.name);
      if (p.members) read_members(reading, *field, *p.members, written.path + "." + p.name);
      params[p.name] = *field->value;
      given.push_back(p.name);
    } else if (p.required) {
      missing(reading, spec, written, p);
    } else {
      params[p.name] = p.fallback;
    }
  }
  for (const std::string& key : spec.params_with_networks())
    check_network_param(reading, key, written, params);
  check_count(reading, spec, written, params);
  check_step(reading, spec, written, params);
  for (const ParamRule& rule : spec.param_rules) RuleCheck(reading, spec, written, params, rule);
}

// ---- what every node has ------------------------------------------------------------------------

namespace {

// The settings that every node has, declared as a Spec like any other.
struct Settings {
  std::string desc, lane, on_error, after;
  std::vector<std::string> needs;
  bool disabled = false;
  std::int64_t threads = 0, max_bad = -1, every_epochs = 1;

  static const Spec& spec() {
    static const Spec s =
        Spec("node", "Settings of every node.")
            .param("desc", &Settings::desc, "What it is for.")
            .param("lane", &Settings::lane, "Where its body runs.")
            .choices({"compute", "io", "step"})
            .param(
                "threads", &Settings::threads,
                "How many of its bodies may run at once; 0: as many as its lane has threads. The "
                "io lane gets that many.")
            .range(0, 1024)
            .param("on_error", &Settings::on_error, "What a failing sample does.")
            .choices({"fail", "quarantine"})
            .param("max_bad", &Settings::max_bad,
                   "Quarantined samples before the run fails, each counted once.")
            .at_least(0)
            .param("after", &Settings::after, "The updater that a source waits for.")
            .param("every_epochs", &Settings::every_epochs, "How often a source with after runs.")
            .range(1, 1e9)
            .param("requires", &Settings::needs, "Nodes to open before it.")
            .param("disabled", &Settings::disabled, "Leaves the node out.");
    return s;
  }
};

// A setting that changes nothing as the others stand.
void idle_settings(const Reading& reading, const Written& written, const Settings& settings) {
  const Field* budget = written.find("max_bad");
  if (!budget || settings.on_error == "quarantine" || !reading.diagnostics.ok()) return;
  reading.diagnostics.warning("SL0318", "\"max_bad\" has no effect here: a bad sample ends the run",
                              budget->place.key(), written.path + ".max_bad",
                              "add \"on_error\": \"quarantine\"");
}

}  // namespace

GraphNode read_node(const Reading& reading, WrittenNode& written, bool& disabled) {
  GraphNode node;
  node.path = written.name;
  node.place = written.place;
  node.spec = find_spec(reading, written, false);
  if (node.spec) read_params(reading, *node.spec, written, node_keys, node.params, node.given);
  if (node.spec && node.params.contains("transforms") &&
      holds_nodes(*node.spec->find_param("transforms"))) {
    node.own_spec = with_inner(*node.spec, node.params["transforms"], reading.catalogue);
    node.spec = node.own_spec.get();
  }
  if (node.spec) node.step = nodes_of_step(reading, written, node);
  Settings settings;
  for (const ParamSpec& p : Settings::spec().params)
    if (const Field* field = written.find(p.name))
      if (accepts(reading, *field, p, written.path + "." + p.name)) p.set(&settings, *field->value);
  idle_settings(reading, written, settings);
  node.desc = settings.desc;
  node.lane = settings.lane;
  node.threads = static_cast<int>(settings.threads);
  node.on_error = settings.on_error == "quarantine" ? OnError::quarantine : OnError::fail;
  node.max_bad = static_cast<int>(std::min<std::int64_t>(settings.max_bad, 1'000'000'000));
  node.after = settings.after;
  node.needs = settings.needs;
  node.every_epochs = static_cast<int>(settings.every_epochs);
  disabled = settings.disabled;
  return node;
}

}  // namespace sluice::reading

namespace sluice {
const Spec& node_settings_spec() { return reading::Settings::spec(); }
}  // namespace sluice
