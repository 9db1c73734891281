#include "tools/assist/describe.h"

#include <algorithm>
#include <cstdlib>

namespace sluice::assist {
namespace {

const char* lane_name(LaneKind lane) {
  constexpr const char* names[] = {"compute", "io", "step", "copy"};
  return names[static_cast<int>(lane)];
}

std::string number(double v) {
  return v == static_cast<std::int64_t>(v) ? std::to_string(static_cast<std::int64_t>(v))
                                           : Json(v).dump();
}

// ---- fields -------------------------------------------------------------------------------------

// "@keys" -> keys, "@files{}" -> the keys of files, "loss" -> "loss", "@keys@=_b" -> keys + "_b".
std::string named(const std::string& text) {
  if (!text.starts_with('@')) return "\"" + text + "\"";
  if (const auto join = text.find('@', 1); join != std::string::npos)
    return named(text.substr(0, join)) + " + " + named(text.substr(join));
  if (text.starts_with("@=")) return "\"" + text.substr(2) + "\"";
  if (!text.ends_with("{}")) return text.substr(1);
  return "the keys of " + text.substr(1, text.size() - 3);
}

std::string shape_of(const FieldRule& r) {
  const std::string axes = r.least == 3 ? "X, Y, Z" : r.least == 2 ? "X, Y(, Z)" : "...";
  switch (r.form) {
    case Form::record:
      return "a path";
    case Form::scalar:
      return "a number";
    case Form::image:
      return "[C, " + axes + "]";
    case Form::batch:
      return "[N, C, " + axes + "]";
    case Form::value:
      return "anything";
    case Form::any:
      return r.act == FieldRule::Act::takes ? "[C, ...] or [N, C, ...]" : "";
  }
  return "";
}

std::string condition(const FieldRule& r) {
  if (r.when.empty()) return "";
  const std::string is = r.value.is_null() ? r.when + " is set" : r.when + " is " + r.value.dump();
  return (r.unless ? " unless " : " if ") + is;
}

std::string given(const FieldRule& r) {
  std::string out = r.like.empty() ? shape_of(r) : "as " + named(r.like);
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  const auto value = [](const std::string& t) { return t.starts_with('@') ? t.substr(1) : t; };
  if (!r.channels.empty()) add("channels " + value(r.channels));
  if (!r.dtype.empty()) add(value(r.dtype));
  return out;
}

std::vector<std::string> line(const FieldRule& r) {
  using Act = FieldRule::Act;
  const std::string what = named(r.fields);
  switch (r.act) {
    case Act::passes:
      return {"passes", "every field on", ""};
    case Act::takes:
      return {"needs", what, shape_of(r) + condition(r)};
    case Act::gives:
      return {"gives", what, given(r) + condition(r)};
    case Act::changes:
      return {"makes", what, given(r) + condition(r)};
    case Act::resizes:
      return {"sizes", what,
              (r.param.empty() ? "differ from what came in" : "become " + r.param) + condition(r)};
    case Act::pads:
      return {"sizes", what, "become at least " + r.param};
    case Act::crops:
      return {"sizes", what, "become at most " + r.param + condition(r)};
    case Act::keeps:
      return {"keeps", what, "and lets the others go"};
    case Act::moves:
      return {"moves", "every field", "to " + r.param};
    case Act::prefixes:
      return {"gives", "every field",
              "once for each of " + r.param + ", which is put before its name"};
    case Act::decollates:
      return {"makes", "every batch", "single samples"};
    case Act::stays:
      return {"reads", what, "on the host, wherever it works"};
    case Act::couples:
    case Act::per_axis:
    case Act::axis_count:
    case Act::axes:
    case Act::network:
      return {};  // checks: nothing that a reader must know
  }
  return {};
}

}  // namespace

std::vector<std::vector<std::string>> fields_of(const Spec& s) {
  std::vector<std::vector<std::string>> rows;
  for (const FieldRule& r : s.rules) {
    auto row = line(r);
    // A network's output has the name that a node gives it, whatever its rule is called.
    if (s.is_network && r.act == FieldRule::Act::gives)
      row = {
          "gives", "output_keys",
          "of the model node: no image" + (given(r).empty() ? "" : ", " + given(r)) + condition(r)};
    if (!row.empty()) rows.push_back(std::move(row));
  }
  return rows;
}

// ---- parameters and traits ----------------------------------------------------------------------

namespace {

std::string entries_of(const ParamSpec& p) {
  if (!p.shortest) return "";
  const std::string least = std::to_string(*p.shortest);
  if (p.longest == p.shortest) return ", " + least + " entries";
  return ", " + least + (p.longest ? " to " + std::to_string(*p.longest) : " or more") + " entries";
}

}  // namespace

std::string type_of(const ParamSpec& p) {
  std::string out = (p.odd ? "odd " : p.rising ? "rising " : "") + p.type;
  if (p.min && p.max) {
    out += " in " + number(*p.min) + ".." + number(*p.max);
  } else {
    if (p.min) out += " from " + number(*p.min);
    if (p.max) out += " up to " + number(*p.max);
  }
  if (p.above) out += " above " + number(*p.above);
  if (p.below) out += " below " + number(*p.below);
  out += entries_of(p);
  for (std::size_t i = 0; i < p.choices.size(); ++i) out += (i ? " | " : ": ") + p.choices[i];
  for (std::size_t i = 0; i < p.on_device.size(); ++i)
    out += (i ? ", " : " (on a GPU: ") + p.on_device[i];
  if (!p.on_device.empty()) out += ")";
  return out;
}

std::vector<std::vector<std::string>> rules_of(const Spec& s) {
  std::vector<std::vector<std::string>> rows;
  for (const ParamRule& r : s.param_rules) {
    const std::string both = r.a + ", " + r.b;
    switch (r.kind) {
      case ParamRule::Kind::exclusive:
        rows.push_back({"rule", both, "exclude each other"});
        break;
      case ParamRule::Kind::one_of:
        rows.push_back({"rule", both, "one of the two"});
        break;
      case ParamRule::Kind::length:
        rows.push_back({"rule", both,
                        r.shift == 0 ? "of one length"
                                     : "the first is " + std::to_string(std::abs(r.shift)) +
                                           (r.shift < 0 ? " shorter" : " longer")});
        break;
      case ParamRule::Kind::per:
        rows.push_back({"rule", both, "one entry each, or one for all"});
        break;
      case ParamRule::Kind::below:
        rows.push_back({"rule", both, "the first is below the second"});
        break;
      case ParamRule::Kind::at_most:
        rows.push_back({"rule", both, "the first is not above the second"});
        break;
    }
  }
  std::string names;
  for (const auto& name : s.metrics) names += (names.empty() ? "" : ", ") + name;
  if (!names.empty()) rows.push_back({"metrics", names, ""});
  return rows;
}

std::string default_of(const ParamSpec& p) {
  return p.required ? "required" : "default " + p.fallback.dump();
}

std::vector<std::string> traits(const Spec& s) {
  std::vector<std::string> words;
  if (s.is_network) {
    words.push_back("network");
  } else {
    words.push_back(s.family);
    words.push_back(std::string("lane ") + lane_name(s.lane_kind));
    switch (s.arity) {
      case Arity::source:
        words.push_back("source");
        break;
      case Arity::one_to_one:
        break;
      case Arity::expand:
        words.push_back(s.count_param.empty() ? "1:n" : "1:n, n = " + s.count_param);
        break;
      case Arity::gather:
        words.push_back("n:1, n = " + s.count_param);
        break;
      case Arity::shuffle:
        words.push_back("reorders within " + s.count_param);
        break;
    }
  }
  if (s.is_random) words.push_back("random");
  if (s.is_ordered) words.push_back("keeps state, in order");
  if (s.concurrency > 0 && !s.is_ordered && s.arity != Arity::source)
    words.push_back(std::to_string(s.concurrency) + " at a time");
  if (s.is_cache)
    words.push_back("cache");
  else if (s.is_gate)
    words.push_back("buffers" + (s.credits_param.empty() ? "" : " " + s.credits_param));
  if (s.access == Access::read) words.push_back("reads a network");
  if (s.access == Access::update) words.push_back("updates a network");
  std::erase(words, "");
  return words;
}

// ---- an example ---------------------------------------------------------------------------------

namespace {

// A value that a required parameter could have.
std::string sample_value(const ParamSpec& p) {
  if (!p.choices.empty()) return Json(p.choices.front()).dump();
  if (p.type == "string") return p.name == "net" ? "\"net\"" : "\"...\"";
  if (p.type == "int") return number(p.min.value_or(1));
  if (p.type == "float") return number(p.min.value_or(1));
  if (p.type == "bool") return "true";
  return p.type.starts_with("list<") ? "[...]" : "...";
}

}  // namespace

std::string example(const Spec& s) {
  std::string out =
      "\"" + std::string(s.is_network ? "net" : s.name) + "\": { \"type\": \"" + s.name + "\"";
  const std::string from = "\"" + std::string(s.family == "io" ? "cases" : "load") + "\"";
  const auto needed =
      std::count_if(s.ins.begin(), s.ins.end(), [](const PortSpec& p) { return !p.optional; });
  if (needed == 1 || (needed == 0 && !s.ins.empty())) {
    out += ", \"in\": " + from;
  } else if (needed > 1) {
    std::string list;
    for (const auto& p : s.ins)
      if (!p.optional) list += (list.empty() ? "\"" : ", \"") + p.name + "\": " + from;
    out += ", \"in\": { " + list + " }";
  }
  bool any = false;
  for (const auto& p : s.params)
    if (p.required) {
      out += ", \"" + p.name + "\": " + sample_value(p);
      any = true;
    }
  // One parameter shows where they stand: the first number, else the first of any kind.
  const ParamSpec* shown = nullptr;
  for (const auto& p : s.params)
    if (!shown && (p.type == "float" || p.type == "int")) shown = &p;
  if (!shown && !s.params.empty()) shown = &s.params.front();
  if (!any && shown) out += ", \"" + shown->name + "\": " + shown->fallback.dump();
  return out + " }";
}

}  // namespace sluice::assist
