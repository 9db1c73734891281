#include "engine/graph/spec.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "engine/base/diagnostic.h"
#include "engine/graph/named_choice.h"

namespace sluice {

std::string describe_json(const Json& value) {
  // Long strings are told from their beginning.
  const auto text = [&] {
    constexpr std::size_t most = 60;
    std::string t = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (t.size() <= most) return t;
    std::size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(t[end]) & 0xC0) == 0x80) --end;
    return t.substr(0, end) + "...\"";
  };
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return value.dump() + " (bool)";
    case Json::value_t::string:
      return text() + " (string)";
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

// 2.0 and 1e3 are ints, as in JSON Schema.
bool is_whole(const Json& j) {
  if (!j.is_number_float()) return j.is_number_integer();
  const double v = j.get<double>();
  return v == std::floor(v) && v >= -0x1p63 && v < 0x1p63;
}

bool too_large(const Json& j) {
  return j.is_number_unsigned() &&
         j.get<std::uint64_t>() >
             static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
}

}  // namespace

bool ParamType<bool>::parse(const Json& j) {
  if (!j.is_boolean()) mismatch("bool (true or false)", j);
  return j.get<bool>();
}

std::int64_t ParamType<std::int64_t>::parse(const Json& j) {
  if (!is_whole(j)) mismatch("int", j);
  if (too_large(j)) mismatch("int below 2^63", j);
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

// ---- why a value is refused ---------------------------------------------------------------------

namespace {

using Why = Refusal::Why;
using Refused = std::optional<Refusal>;

// 1 and not 1.0: bounds are written as people write them.
std::string number(double v) {
  const bool whole = std::abs(v) < 1e15 && v == std::floor(v);
  return whole ? std::to_string(static_cast<std::int64_t>(v)) : Json(v).dump();
}

std::string in_quotes(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& w : words) out += (out.empty() ? "\"" : ", \"") + w + "\"";
  return out;
}

std::string_view inner(std::string_view list) { return list.substr(5, list.size() - 6); }

bool is_a(std::string_view type, const Json& value) {
  if (type == "bool") return value.is_boolean();
  if (type == "int") return is_whole(value) && !too_large(value);
  if (type == "float") return value.is_number();
  if (type == "string") return value.is_string();
  return true;
}

// The value is not of the type: which of the usual slips is it?
Refusal explain(std::string_view type, const Json& value, bool or_list) {
  const std::string expected = "expected " + std::string(type == "bool" ? "true or false" : type) +
                               (or_list ? " or a list of them" : "");
  Refusal r{Why::type, expected + ", found " + describe_json(value), "", {}};
  if (value.is_null()) {
    r.why = Why::null;
  } else if (value.is_string() && type != "string") {
    const Json bare = Json::parse(value.get_ref<const std::string&>(), nullptr, false);
    if (!bare.is_discarded() && bare.is_primitive() && !bare.is_string() && is_a(type, bare)) {
      r.why = Why::quoted;
      r.hint = "write " + bare.dump() + " without quotes";
    }
  } else if (type == "int" && value.is_number_float()) {
    r.why = Why::fraction;
  } else if (type == "bool" && value.is_number() && (value == 0 || value == 1)) {
    r.hint = value == 0 ? "write false" : "write true";
  } else if (type == "string" && (value.is_number() || value.is_boolean())) {
    r.hint = "strings stand in quotes: \"" + value.dump() + "\"";
  } else if (value.is_array() && !or_list) {
    r.hint = "one value, no list";
  }
  return r;
}

// Parses `value` as `type` alone, for a spec from the catalogue, which has no setters.
Refused wrong_type(std::string_view type, const Json& value, bool or_list = false) {
  if (type.ends_with('?')) {
    if (value.is_null()) return std::nullopt;
    return wrong_type(type.substr(0, type.size() - 1), value, or_list);
  }
  if (!type.starts_with("list<"))
    return is_a(type, value) ? std::nullopt : Refused(explain(type, value, or_list));
  if (!value.is_array()) return wrong_type(inner(type), value, true);
  for (std::size_t i = 0; i < value.size(); ++i)
    if (auto refused = wrong_type(inner(type), value[i])) {
      refused->at.insert(refused->at.begin(), i);
      return refused;
    }
  return std::nullopt;
}

Refused out_of_range(const ParamSpec& p, const Json& value) {
  const double v = value.get<double>();
  std::string expected;
  if (p.min && v < *p.min) expected = "at least " + number(*p.min);
  if (p.max && v > *p.max) expected = "at most " + number(*p.max);
  if (p.above && v <= *p.above) expected = "more than " + number(*p.above);
  if (p.below && v >= *p.below) expected = "less than " + number(*p.below);
  if (!expected.empty() && p.min && p.max) expected = number(*p.min) + " to " + number(*p.max);
  if (p.odd && expected.empty() && std::fmod(v, 2) == 0) expected = "an odd number";
  if (expected.empty()) return std::nullopt;
  return Refusal{Why::range, "expected " + expected + ", found " + value.dump(), "", {}};
}

// Where case does not matter: in capitals if the word is written so, for the most part.
std::string nearest_choice(const std::string& word, const ParamSpec& p) {
  if (!takes_a_name(p)) return did_you_mean(word, p.choices);
  const auto capital = [](unsigned char c) { return std::isupper(c) != 0; };
  const bool capitals = 2 * std::count_if(word.begin(), word.end(), capital) > std::ssize(word);
  const auto spelled = capitals ? upper_case : lower_case;
  std::vector<std::string> known = p.choices;
  for (std::string& one : known) one = spelled(one);
  return did_you_mean(spelled(word), known);
}

Refusal no_choice(const ParamSpec& p, const Json& value) {
  return Refusal{Why::choice,
                 "expected " + std::string(p.choices.size() > 1 ? "one of " : "") +
                     in_quotes(p.choices) + ", found " + value.dump(),
                 nearest_choice(value.get<std::string>(), p),
                 {}};
}

Refused unknown_name(const ParamSpec& p, const Json& value) {
  const bool has_arguments = value.is_array() && !value.empty();
  const Json& name = has_arguments ? value[0] : value;
  if (!name.is_string()) return std::nullopt;  // whoever reads it says what is wrong
  const std::string wanted = lower_case(name.get<std::string>());
  if (std::any_of(p.choices.begin(), p.choices.end(),
                  [&](const auto& one) { return lower_case(one) == wanted; }))
    return std::nullopt;
  Refusal refused = no_choice(p, name);
  if (has_arguments) refused.at = {0};
  return refused;
}

// Bounds and choices hold for a value and for every leaf of a list.
Refused not_allowed(const ParamSpec& p, const Json& value) {
  if (takes_a_name(p)) return unknown_name(p, value);
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      if (auto refused = not_allowed(p, value[i])) {
        refused->at.insert(refused->at.begin(), i);
        return refused;
      }
    return std::nullopt;
  }
  if (value.is_number()) return out_of_range(p, value);
  if (!value.is_string() || p.choices.empty()) return std::nullopt;
  if (std::find(p.choices.begin(), p.choices.end(), value.get_ref<const std::string&>()) !=
      p.choices.end())
    return std::nullopt;
  return no_choice(p, value);
}

Refused falls(const ParamSpec& p, const Json& value) {
  if (!p.rising || !value.is_array()) return std::nullopt;
  for (std::size_t i = 1; i < value.size(); ++i)
    if (value[i].is_number() && value[i - 1].is_number() && value[i] < value[i - 1])
      return Refusal{
          Why::order,
          "expected at least the " + value[i - 1].dump() + " before it, found " + value[i].dump(),
          "",
          {i}};
  return std::nullopt;
}

Refused wrong_length(const ParamSpec& p, const Json& value) {
  if (value.is_null() || !(p.shortest || p.longest)) return std::nullopt;
  const auto n = value.is_array() ? static_cast<std::int64_t>(value.size()) : 1;
  if (n >= p.shortest.value_or(0) && n <= p.longest.value_or(n)) return std::nullopt;
  const auto least = p.shortest.value_or(0);
  std::string expected = std::to_string(least);
  if (!p.longest)
    expected += " or more";
  else if (*p.longest != least)
    expected += " to " + std::to_string(*p.longest);
  return Refusal{
      Why::length, "expected a list of " + expected + ", found " + describe_json(value), "", {}};
}

}  // namespace

std::optional<Refusal> ParamSpec::reject(const Json& value) const {
  if (auto refused = wrong_type(type, value)) return refused;
  if (auto refused = not_allowed(*this, value)) return refused;
  if (auto refused = wrong_length(*this, value)) return refused;
  return falls(*this, value);
}

const ParamSpec* Spec::off_device(const Json& values) const {
  for (const ParamSpec& p : params) {
    if (p.on_device.empty()) continue;
    const Json given = values.contains(p.name) ? values.at(p.name) : p.fallback;
    for (const Json& one : given.is_array() ? given : Json::array({given}))
      if (one.is_string() && std::find(p.on_device.begin(), p.on_device.end(),
                                       one.get_ref<const std::string&>()) == p.on_device.end())
        return &p;
  }
  return nullptr;
}

Spec& Spec::add_param(std::string_view key, std::string type, std::string_view text, Json fallback,
                      std::function<void(void* params, const Json& value)> set,
                      std::function<Json(const void* params)> read) {
  ParamSpec p;
  p.name = key;
  p.type = std::move(type);
  p.doc = text;
  p.fallback = std::move(fallback);
  p.set = std::move(set);
  p.read = std::move(read);
  params.push_back(std::move(p));
  return *this;
}

ParamUse& Spec::use() {
  ParamSpec& p = params.back();
  const auto use = p.use ? std::make_shared<ParamUse>(*p.use) : std::make_shared<ParamUse>();
  p.use = use;
  return *use;
}

std::vector<std::string> Spec::params_with_networks() const {
  std::vector<std::string> all = network_params;
  if (!follows_param.empty()) all.push_back(follows_param);
  return all;
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

// Each member with its name in the catalogue: what writes it and what reads it go by this one list.
template <class Fn>
void each_member(PortSpec& p, const Fn& fn) {
  fn("name", p.name);
  fn("doc", p.doc);
  fn("optional", p.optional);
}

template <class Fn>
void each_member(FieldRule& r, const Fn& fn) {
  fn("act", r.act);
  fn("fields", r.fields);
  fn("param", r.param);
  fn("form", r.form);
  fn("least", r.least);
  fn("most", r.most);
  fn("like", r.like);
  fn("each", r.each);
  fn("channels", r.channels);
  fn("dtype", r.dtype);
  fn("window", r.window);
  fn("when", r.when);
  fn("value", r.value);
  fn("unless", r.unless);
}

template <class Fn>
void each_member(ParamRule& r, const Fn& fn) {
  fn("kind", r.kind);
  fn("a", r.a);
  fn("b", r.b);
  fn("shift", r.shift);
}

template <class Fn>
void each_member(ParamUse& u, const Fn& fn) {
  fn("reader", u.reader);
  fn("read_at", u.read_at);
  fn("needed", u.needed);
  fn("needs", u.needs);
  fn("never_begun", u.never_begun);
}

// All but the parameters and what holds between them.
template <class Fn>
void each_member(Spec& s, const Fn& fn) {
  fn("name", s.name);
  fn("doc", s.doc);
  fn("family", s.family);
  fn("network", s.is_network);
  fn("in", s.ins);
  fn("out", s.outs);
  fn("lane", s.lane_kind);
  fn("arity", s.arity);
  fn("concurrency", s.concurrency);
  fn("random", s.is_random);
  fn("rearranges", s.rearranges);
  fn("fuses", s.fusing);
  fn("ordered", s.is_ordered);
  fn("gate", s.is_gate);
  fn("cache", s.is_cache);
  fn("chooses", s.chooses_items);
  fn("credits_param", s.credits_param);
  fn("count_param", s.count_param);
  fn("drop_last_param", s.drop_last_param);
  fn("network_params", s.network_params);
  fn("follows_param", s.follows_param);
  fn("metric_param", s.metric_param);
  fn("file_params", s.file_params);
  fn("access", s.access);
  fn("rules", s.rules);
  fn("merges", s.merging);
  fn("differentiable", s.is_differentiable);
  fn("multiple_of", s.multiple_of);
  fn("host_only", s.host_only);
  fn("metrics", s.metrics);
}

template <class T>
concept HasMembers = requires(T& value) {
  each_member(value, [](const char*, auto&) {});
};
template <class T>
constexpr bool is_list = false;
template <class T>
constexpr bool is_list<std::vector<T>> = true;

// Enumerators are numbers there.
template <class T>
Json catalogue_json(T& value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<int>(value);
  } else if constexpr (HasMembers<T>) {
    Json j = Json::object();
    each_member(value, [&](const char* key, auto& member) { j[key] = catalogue_json(member); });
    return j;
  } else if constexpr (is_list<T>) {
    Json list = Json::array();
    for (auto& one : value) list.push_back(catalogue_json(one));
    return list;
  } else {
    return value;
  }
}

template <class T>
void read_catalogue(const Json& j, T& value) {
  if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(j.get<int>());
  } else if constexpr (HasMembers<T>) {
    each_member(value, [&](const char* key, auto& member) { read_catalogue(j.at(key), member); });
  } else if constexpr (is_list<T>) {
    for (const Json& one : j) read_catalogue(one, value.emplace_back());
  } else {
    value = j.get<T>();
  }
}

}  // namespace

Json Spec::to_json() const {
  Spec copy = *this;
  Json j = catalogue_json(copy);
  Json list = Json::array();
  for (const auto& p : params) {
    Json q = {{"name", p.name},
              {"type", p.type},
              {"doc", p.doc},
              {"default", p.fallback},
              {"required", p.required}};
    if (!p.choices.empty()) q["choices"] = p.choices;
    if (!p.on_device.empty()) q["on_device"] = p.on_device;
    if (p.min) q["min"] = *p.min;
    if (p.max) q["max"] = *p.max;
    if (p.above) q["above"] = *p.above;
    if (p.below) q["below"] = *p.below;
    if (p.odd) q["odd"] = true;
    if (p.rising) q["rising"] = true;
    if (p.use) {
      ParamUse use = *p.use;
      q["use"] = catalogue_json(use);
    }
    if (p.shortest) q["shortest"] = *p.shortest;
    if (p.longest) q["longest"] = *p.longest;
    if (p.members)
      for (const Spec& member : *p.members) q["members"].push_back(member.to_json());
    list.push_back(std::move(q));
  }
  j["params"] = std::move(list);
  j["param_rules"] = catalogue_json(copy.param_rules);
  return j;
}

Spec Spec::from_json(const Json& j) {
  Spec s;
  read_catalogue(j, s);
  read_catalogue(j.at("param_rules"), s.param_rules);
  for (const auto& q : j.at("params")) {
    ParamSpec p;
    p.name = q.at("name");
    p.type = q.at("type");
    p.doc = q.at("doc");
    p.fallback = q.at("default");
    p.required = q.at("required");
    if (q.contains("choices")) p.choices = q["choices"].get<std::vector<std::string>>();
    if (q.contains("on_device")) p.on_device = q["on_device"].get<std::vector<std::string>>();
    const auto get = [&](const char* key, auto& target) {
      if (q.contains(key))
        target = q[key].get<typename std::decay_t<decltype(target)>::value_type>();
    };
    get("min", p.min);
    get("max", p.max);
    get("above", p.above);
    get("below", p.below);
    p.odd = q.contains("odd");
    p.rising = q.contains("rising");
    if (q.contains("use")) {
      const auto use = std::make_shared<ParamUse>();
      read_catalogue(q["use"], *use);
      p.use = use;
    }
    get("shortest", p.shortest);
    get("longest", p.longest);
    if (q.contains("members")) {
      std::vector<Spec> members;
      for (const Json& member : q["members"]) members.push_back(from_json(member));
      p.members = std::make_shared<const std::vector<Spec>>(std::move(members));
    }
    s.params.push_back(std::move(p));
  }
  return s;
}

}  // namespace sluice
