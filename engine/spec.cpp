#include "engine/spec.h"

#include <cmath>

namespace sluice {

std::string describe_json(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return value.dump() + " (bool)";
    case Json::value_t::string:
      return value.dump() + " (string)";
    case Json::value_t::number_float:
      return value.dump() + " (float)";
    case Json::value_t::array:
      return "a list of " + std::to_string(value.size());
    case Json::value_t::object:
      return "an object";
    default:
      return value.dump() + " (int)";
  }
}

namespace {
[[noreturn]] void mismatch(const char* expected, const Json& found) {
  throw TypeError(std::string("expected ") + expected + ", found " + describe_json(found));
}
}  // namespace

bool ParamType<bool>::parse(const Json& j) {
  if (!j.is_boolean()) mismatch("bool (true or false)", j);
  return j.get<bool>();
}

std::int64_t ParamType<std::int64_t>::parse(const Json& j) {
  if (!j.is_number_integer()) mismatch("int", j);
  if (j.is_number_unsigned() &&
      j.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    mismatch("int below 2^63", j);
  return j.get<std::int64_t>();
}

double ParamType<double>::parse(const Json& j) {
  if (!j.is_number()) mismatch("float", j);
  return j.get<double>();
}

std::string ParamType<std::string>::parse(const Json& j) {
  if (!j.is_string()) mismatch("string", j);
  return j.get<std::string>();
}

namespace {

// Parses `value` as `type` alone, for a spec from the catalogue, which has no setters.
void parse_as(std::string_view type, const Json& value) {
  if (type.ends_with('?')) {
    if (!value.is_null()) parse_as(type.substr(0, type.size() - 1), value);
  } else if (type.starts_with("list<")) {
    const auto inner = type.substr(5, type.size() - 6);
    if (!value.is_array()) return parse_as(inner, value);
    for (const auto& e : value) parse_as(inner, e);
  } else if (type == "bool") {
    ParamType<bool>::parse(value);
  } else if (type == "int") {
    ParamType<std::int64_t>::parse(value);
  } else if (type == "float") {
    ParamType<double>::parse(value);
  } else if (type == "string") {
    ParamType<std::string>::parse(value);
  }
}

// Applies `check` to a value or to every leaf of a list.
template <class F>
std::optional<std::string> each_leaf(const Json& value, F&& check) {
  if (!value.is_array()) return check(value);
  for (const auto& e : value)
    if (auto why = each_leaf(e, check)) return why;
  return std::nullopt;
}

// 1 and not 1.0: bounds are written as people write them.
std::string number(double v) {
  const bool whole = std::abs(v) < 1e15 && v == std::floor(v);
  return whole ? std::to_string(static_cast<std::int64_t>(v)) : Json(v).dump();
}

}  // namespace

std::optional<std::string> ParamSpec::reject(const Json& value) const {
  try {
    parse_as(type, value);
  } catch (const TypeError& e) {
    return e.what();
  }
  return each_leaf(value, [&](const Json& leaf) -> std::optional<std::string> {
    if (leaf.is_string() && !choices.empty()) {
      std::string known;
      for (const auto& c : choices) {
        if (c == leaf.get<std::string>()) return std::nullopt;
        known += (known.empty() ? "\"" : ", \"") + c + "\"";
      }
      return "expected one of " + known + ", found " + leaf.dump();
    }
    if (leaf.is_number()) {
      const double v = leaf.get<double>();
      if (min && v < *min) return "expected at least " + number(*min) + ", found " + leaf.dump();
      if (max && v > *max) return "expected at most " + number(*max) + ", found " + leaf.dump();
    }
    return std::nullopt;
  });
}

const ParamSpec* Spec::find_param(std::string_view key) const {
  for (const auto& p : params)
    if (p.name == key) return &p;
  return nullptr;
}

static int find_port(const std::vector<PortSpec>& ports, std::string_view name) {
  for (std::size_t i = 0; i < ports.size(); ++i)
    if (ports[i].name == name) return static_cast<int>(i);
  return -1;
}
int Spec::find_in(std::string_view port) const { return find_port(ins, port); }
int Spec::find_out(std::string_view port) const { return find_port(outs, port); }

void Spec::apply(void* target, const Json& values) const {
  for (const auto& [key, value] : values.items())
    if (const ParamSpec* p = find_param(key); p && p->set) p->set(target, value);
}

// ---- catalogue form -----------------------------------------------------------------------------

namespace {

Json ports_json(const std::vector<PortSpec>& ports) {
  Json j = Json::array();
  for (const auto& p : ports)
    j.push_back({{"name", p.name}, {"doc", p.doc}, {"optional", p.optional}});
  return j;
}

std::vector<PortSpec> ports_from(const Json& j) {
  std::vector<PortSpec> ports;
  for (const auto& p : j) ports.push_back({p.at("name"), p.at("doc"), p.at("optional")});
  return ports;
}

Json rules_json(const std::vector<FieldRule>& rules) {
  Json list = Json::array();
  for (const FieldRule& r : rules)
    list.push_back({{"act", static_cast<int>(r.act)},
                    {"fields", r.fields},
                    {"param", r.param},
                    {"form", static_cast<int>(r.form)},
                    {"least", r.least},
                    {"most", r.most},
                    {"like", r.like},
                    {"channels", r.channels},
                    {"dtype", r.dtype},
                    {"window", r.window},
                    {"when", r.when},
                    {"value", r.value},
                    {"unless", r.unless}});
  return list;
}

std::vector<FieldRule> rules_from(const Json& list) {
  std::vector<FieldRule> rules;
  for (const auto& j : list) {
    FieldRule r;
    r.act = static_cast<FieldRule::Act>(j.at("act").get<int>());
    r.fields = j.at("fields");
    r.param = j.at("param");
    r.form = static_cast<Form>(j.at("form").get<int>());
    r.least = j.at("least");
    r.most = j.at("most");
    r.like = j.at("like");
    r.channels = j.at("channels");
    r.dtype = j.at("dtype");
    r.window = j.at("window");
    r.when = j.at("when");
    r.value = j.at("value");
    r.unless = j.at("unless");
    rules.push_back(std::move(r));
  }
  return rules;
}

}  // namespace

Json Spec::to_json() const {
  Json j = {{"name", name},
            {"doc", doc},
            {"family", family},
            {"network", is_network},
            {"in", ports_json(ins)},
            {"out", ports_json(outs)},
            {"lane", static_cast<int>(lane_kind)},
            {"arity", static_cast<int>(arity)},
            {"concurrency", concurrency},
            {"random", is_random},
            {"ordered", is_ordered},
            {"gate", is_gate},
            {"cache", is_cache},
            {"credits_param", credits_param},
            {"count_param", count_param},
            {"drop_last_param", drop_last_param},
            {"network_param", network_param},
            {"access", static_cast<int>(access)},
            {"rules", rules_json(rules)},
            {"multiple_of", multiple_of},
            {"host_only", host_only}};
  Json list = Json::array();
  for (const auto& p : params) {
    Json q = {{"name", p.name},
              {"type", p.type},
              {"doc", p.doc},
              {"default", p.fallback},
              {"required", p.required}};
    if (!p.choices.empty()) q["choices"] = p.choices;
    if (p.min) q["min"] = *p.min;
    if (p.max) q["max"] = *p.max;
    list.push_back(std::move(q));
  }
  j["params"] = std::move(list);
  return j;
}

Spec Spec::from_json(const Json& j) {
  Spec s(j.at("name"), j.at("doc"));
  s.family = j.at("family");
  s.is_network = j.at("network");
  s.ins = ports_from(j.at("in"));
  s.outs = ports_from(j.at("out"));
  s.lane_kind = static_cast<LaneKind>(j.at("lane").get<int>());
  s.arity = static_cast<Arity>(j.at("arity").get<int>());
  s.concurrency = j.at("concurrency");
  s.is_random = j.at("random");
  s.is_ordered = j.at("ordered");
  s.is_gate = j.at("gate");
  s.is_cache = j.at("cache");
  s.credits_param = j.at("credits_param");
  s.count_param = j.at("count_param");
  s.drop_last_param = j.at("drop_last_param");
  s.network_param = j.at("network_param");
  s.access = static_cast<Access>(j.at("access").get<int>());
  s.rules = rules_from(j.at("rules"));
  s.multiple_of = j.at("multiple_of");
  s.host_only = j.at("host_only");
  for (const auto& q : j.at("params")) {
    ParamSpec p;
    p.name = q.at("name");
    p.type = q.at("type");
    p.doc = q.at("doc");
    p.fallback = q.at("default");
    p.required = q.at("required");
    if (q.contains("choices")) p.choices = q["choices"].get<std::vector<std::string>>();
    if (q.contains("min")) p.min = q["min"].get<double>();
    if (q.contains("max")) p.max = q["max"].get<double>();
    s.params.push_back(std::move(p));
  }
  return s;
}

}  // namespace sluice
