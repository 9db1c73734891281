// A Spec is what a node type (or a network type) declares about itself: name, documentation,
// ports, parameters and traits. Parser, checks, JSON Schema, `inspect` page and DOT label are all
// read from it; nothing is declared twice.
//
// Invariant: a Spec is plain data and survives a round trip through JSON, so `check` and `dot`
// work from the catalogue that the build writes, without loading the nodes (or LibTorch).
// Only the member setters do not survive; they are there where the nodes are linked.
//
//   static Spec spec() {
//     return Spec("rand_flip", "Flips along the given axes.")
//         .in("sample").out("sample")
//         .param("prob", &Params::prob, "Probability of a flip.").range(0, 1)
//         .random();
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/base/json.h"
#include "engine/graph/field_rule.h"

namespace sluice {

enum class LaneKind : std::uint8_t { compute, io, step, copy };

// How many packets leave for how many that enter.
enum class Arity : std::uint8_t {
  source,      // none enter; process() is called for index 0, 1, ... of every epoch
  one_to_one,  // emit at most one on every out-port; none means "filtered"
  expand,      // 1:n: emit any number of children
  gather,      // n:1: the engine collects `gather_size` samples in stamp order, then fires
  shuffle,     // n:n: the engine holds back window-1 packets and renumbers; process() never runs
};

enum class Access : std::uint8_t { none, read, update };

// What a node may leave pending, for the next one to do together with its own (plan.h's runs).
enum class Fuses : std::uint8_t {
  no,
  moves,      // flips, turns by right angles, crops: no voxel changes
  resamples,  // one interpolation
  values,     // voxel by voxel
  fields,     // chooses fields: nothing of its own
  batches,    // does what its members left, all at once
};
// Where a node of a run leaves its work pending: for a batch on a device alone.
enum class Leaves : std::uint8_t { nothing, always, on_device };

// ---- parameter types: JSON <-> C++, strict -----------------------------------------------------

// Thrown with a text such as "expected int, found 1.7"; the caller knows the place.
struct TypeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string describe_json(const Json& value);  // "1.7 (float)", "\"a\" (string)", "list of 3"

template <class T>
struct ParamType;  // name(), parse(const Json&), write(const T&)

template <>
struct ParamType<bool> {
  static std::string name() { return "bool"; }
  static bool parse(const Json& j);
  static Json write(bool v) { return v; }
};
template <>
struct ParamType<std::int64_t> {
  static std::string name() { return "int"; }
  static std::int64_t parse(const Json& j);
  static Json write(std::int64_t v) { return v; }
};
template <>
struct ParamType<double> {
  static std::string name() { return "float"; }
  static double parse(const Json& j);
  static Json write(double v) { return v; }
};
template <>
struct ParamType<std::string> {
  static std::string name() { return "string"; }
  static std::string parse(const Json& j);
  static Json write(const std::string& v) { return v; }
};
// Any JSON value; the node checks it in open(). For shapes that no simple type describes.
template <>
struct ParamType<Json> {
  static std::string name() { return "json"; }
  static Json parse(const Json& j) { return j; }
  static Json write(const Json& v) { return v; }
};
// A list; a single value is read as a list of one, as MONAI does for its sequences.
template <class T>
struct ParamType<std::vector<T>> {
  static std::string name() { return "list<" + ParamType<T>::name() + ">"; }
  static std::vector<T> parse(const Json& j) {
    std::vector<T> out;
    if (!j.is_array()) {
      out.push_back(ParamType<T>::parse(j));
      return out;
    }
    for (const auto& e : j) out.push_back(ParamType<T>::parse(e));
    return out;
  }
  static Json write(const std::vector<T>& v) {
    Json j = Json::array();
    for (const auto& e : v) j.push_back(ParamType<T>::write(e));
    return j;
  }
};
// null or a value.
template <class T>
struct ParamType<std::optional<T>> {
  static std::string name() { return ParamType<T>::name() + "?"; }
  static std::optional<T> parse(const Json& j) {
    if (j.is_null()) return std::nullopt;
    return ParamType<T>::parse(j);
  }
  static Json write(const std::optional<T>& v) { return v ? ParamType<T>::write(*v) : Json(); }
};

// Why a value cannot be a parameter's.
struct Refusal {
  enum class Why : std::uint8_t { type, quoted, fraction, null, range, choice, length, order } why;
  std::string text;             // "expected int, found 1.7 (float)"
  std::string hint;             // "write 3 without quotes", or ""
  std::vector<std::size_t> at;  // indices of the element of a list that is to blame
};

class Spec;

// What a node's parameter is for, as others stand (plan/idle_params.cpp).
struct ParamUse {
  std::string reader;                // it is read where this other one ("": always)
  std::vector<std::string> read_at;  // has one of these values
  bool needed = false;               // where it is read, it must be set
  std::vector<std::string> needs;    // where it is set, one of these must be, and be read
  std::string never_begun;  // of an epoch to begin at: what it means if the run ends before
};

struct ParamSpec {
  std::string name, type, doc;
  Json fallback;  // the default; meaningless where required
  bool required = false;
  std::vector<std::string> choices;               // for strings and lists of strings; empty: any
  std::vector<std::string> on_device;             // those done on a device too; empty: all
  std::optional<double> min, max;                 // for numbers and lists of numbers, inclusive
  std::optional<double> above, below;             // the same, exclusive
  bool odd = false;                               // whole numbers alone
  bool rising = false;                            // of a list no number is below the one before
  std::optional<std::int64_t> shortest, longest;  // elements of a list; a single value is one
  std::shared_ptr<const ParamUse> use;            // null: always read, and needs no other
  // Of an object {"name": {"type": ..., parameters}}: the types, such as a network's layers have.
  std::shared_ptr<const std::vector<Spec>> members;
  std::function<void(void* params, const Json& value)> set;
  std::function<Json(const void* params)> read;

  // Nothing where `value` can be this parameter's.
  std::optional<Refusal> reject(const Json& value) const;
};

// What parameters must hold between each other.
struct ParamRule {
  enum class Kind : std::uint8_t {
    exclusive,  // at most one of two is set (neither null, "" nor false)
    one_of,     // exactly one of two is set
    length,     // the list `a` has as many elements as the list `b`, plus `shift`
    per,        // ... or one for all of them; more do no harm
    below,      // `a` is below `b`, entry by entry or one for all; null is any
    at_most,    // ... or equal to it
  } kind;
  std::string a, b;
  std::int64_t shift = 0;
};

struct PortSpec {
  std::string name, doc;
  bool optional = false;
};

// ---- the Spec -----------------------------------------------------------------------------------

class Spec {
 public:
  std::string name, doc, family;  // family: the folder under nodes/, filled in by the registry
  bool is_network = false;        // an entry of "models" instead of "nodes"
  std::vector<PortSpec> ins, outs;
  std::vector<ParamSpec> params;
  std::vector<ParamRule> param_rules;
  std::vector<std::string> metrics;  // what flush() reports; "class_*": any that begins so
  LaneKind lane_kind = LaneKind::compute;
  Arity arity = Arity::one_to_one;
  int concurrency = 0;      // firings at a time; 0: no limit of its own
  bool is_random = false;   // draws depend on the stamp: not allowed before a cache
  bool rearranges = false;  // moves voxels and keeps their values, so it commutes with transforms
                            // that treat each voxel alone
  bool is_ordered = false;  // stateful: serial and in stamp order, flush() at every epoch's end
  bool merging = false;     // its state of an epoch can be made of several processes' (Node::merge)
  Fuses fusing = Fuses::no;
  bool is_gate = false;  // begins a segment with credits of its own
  bool is_cache = false;
  bool chooses_items = false;  // says which of its source's items an epoch has
  std::string credits_param;   // gate: the parameter that says how many credits
  std::string count_param;     // expand, gather, shuffle: the parameter with n, B or the window (of
                               // a list of names: how many these are); cache: how many samples
                               // may wait after it
  std::string drop_last_param;              // gather: says whether a rest is dropped
  std::vector<std::string> network_params;  // those that name networks of "models": of an updater
                                            // one, of a reader the main one first
  std::string follows_param;  // an updater: the network whose updater it stands behind
  std::string metric_param;   // the parameter that names a metric that the node waits for
  std::vector<std::string> file_params;  // whose values, one in the other, are the one file that it
                                         // writes
  Access access = Access::none;
  bool is_differentiable = false;  // gradients go through it, from what it gives to what it takes
  std::vector<FieldRule> rules;    // what becomes of the samples' fields; none: nobody knows
  std::string multiple_of;         // network: extents are multiples of this parameter's product
  bool host_only = true;           // works on host memory

  Spec() = default;
  Spec(std::string type_name, std::string documentation)
      : name(std::move(type_name)), doc(std::move(documentation)) {}

  static Spec network(std::string type_name, std::string documentation) {
    Spec s(std::move(type_name), std::move(documentation));
    s.is_network = true;
    return s;
  }

  Spec& in(std::string port, std::string text = "") { return add(ins, port, text, false); }
  Spec& in_optional(std::string port, std::string text = "") { return add(ins, port, text, true); }
  Spec& out(std::string port, std::string text = "") { return add(outs, port, text, false); }

  // The member gives type, default (its initialiser; of a base's the node's own Params may say
  // another, defaults_from) and setter.
  template <class P, class T>
  Spec& param(std::string_view key, T P::*member, std::string_view text) {
    return add_param(
        key, ParamType<T>::name(), text, ParamType<T>::write(defaults_of<P>().*member),
        [member](void* params, const Json& value) {
          static_cast<P*>(params)->*member = ParamType<T>::parse(value);
        },
        [member](const void* params) {
          return ParamType<T>::write(static_cast<const P*>(params)->*member);
        });
  }
  // The defaults are those that a node's parameters are made with.
  void defaults_from(const void* made) {
    for (ParamSpec& p : params)
      if (p.read) p.fallback = p.read(made);
  }
  // These refine the parameter declared last.
  Spec& required() {
    params.back().required = true;
    return *this;
  }
  Spec& choices(std::vector<std::string> c) {
    params.back().choices = std::move(c);
    return *this;
  }
  Spec& members(std::vector<Spec> types) {
    params.back().members = std::make_shared<const std::vector<Spec>>(std::move(types));
    return *this;
  }
  Spec& on_device(std::vector<std::string> c) {
    params.back().on_device = std::move(c);
    return *this;
  }
  Spec& range(double low, double high) {
    params.back().min = low;
    params.back().max = high;
    return *this;
  }
  Spec& at_least(double low) {
    params.back().min = low;
    return *this;
  }
  Spec& above(double low) {
    params.back().above = low;
    return *this;
  }
  Spec& below(double high) {
    params.back().below = high;
    return *this;
  }
  Spec& odd() {
    params.back().odd = true;
    return *this;
  }
  Spec& rising() {
    params.back().rising = true;
    return *this;
  }
  Spec& below(std::string other) {
    return rule_between(ParamRule::Kind::below, params.back().name, std::move(other));
  }
  Spec& at_most(std::string other) {
    return rule_between(ParamRule::Kind::at_most, params.back().name, std::move(other));
  }
  // It changes nothing where the parameter `other` has none of these values.
  Spec& read_when(std::string other, std::vector<std::string> values) {
    ParamUse& u = use();
    u.reader = std::move(other);
    u.read_at = std::move(values);
    return *this;
  }
  // The same, and where it is read, it must be set.
  Spec& needed_when(std::string other, std::vector<std::string> values) {
    use().needed = true;
    return read_when(std::move(other), std::move(values));
  }
  // Where it is set (neither null, "", false, 0 nor empty), one of these must be, and be read.
  Spec& needs(std::vector<std::string> others) {
    use().needs = std::move(others);
    return *this;
  }
  // An epoch, from 0; `otherwise`: what is so where the run ends before it.
  Spec& begins_at(std::string otherwise) {
    use().never_begun = std::move(otherwise);
    return *this;
  }
  Spec& length(std::int64_t least, std::optional<std::int64_t> most = {}) {
    params.back().shortest = least;
    params.back().longest = most;
    return *this;
  }
  // As many elements as the list `other`, plus `shift`; per: or one for all.
  Spec& length_of(std::string other, std::int64_t shift = 0) {
    return rule_between(ParamRule::Kind::length, params.back().name, std::move(other), shift);
  }
  Spec& per(std::string other) {
    return rule_between(ParamRule::Kind::per, params.back().name, std::move(other));
  }
  Spec& exclusive(std::string a, std::string b) {
    return rule_between(ParamRule::Kind::exclusive, std::move(a), std::move(b));
  }
  Spec& one_of(std::string a, std::string b) {
    return rule_between(ParamRule::Kind::one_of, std::move(a), std::move(b));
  }
  Spec& reports(std::vector<std::string> names) {
    metrics = std::move(names);
    return *this;
  }

  Spec& lane(LaneKind kind) {
    lane_kind = kind;
    return *this;
  }
  Spec& limit(int n) {
    concurrency = n;
    return *this;
  }
  Spec& random() {
    is_random = true;
    return *this;
  }
  Spec& rearranging() {
    rearranges = true;
    return *this;
  }
  Spec& fuses(Fuses what) {
    fusing = what;
    return *this;
  }
  Spec& ordered() {
    is_ordered = true;
    concurrency = 1;
    return *this;
  }
  Spec& merges() {
    merging = true;
    return *this;
  }
  Spec& source() {
    arity = Arity::source;
    concurrency = 1;
    return *this;
  }
  Spec& expands(std::string count) {
    arity = Arity::expand;
    count_param = std::move(count);
    return *this;
  }
  Spec& gathers(std::string count, std::string drop_last) {
    arity = Arity::gather;
    count_param = std::move(count);
    drop_last_param = std::move(drop_last);
    return *this;
  }
  Spec& shuffles(std::string window) {
    arity = Arity::shuffle;
    count_param = std::move(window);
    return *this;
  }
  Spec& gate(std::string credits = "") {
    is_gate = true;
    credits_param = std::move(credits);
    return *this;
  }
  // `ahead`: the parameter that says how many more samples than usual may wait after it.
  Spec& cache(std::string ahead = "") {
    is_cache = true;
    count_param = std::move(ahead);
    return gate();
  }
  Spec& chooses() {
    chooses_items = true;
    return *this;
  }
  Spec& reads(std::string param) {
    network_params.push_back(std::move(param));
    access = Access::read;
    return *this;
  }
  Spec& updates(std::string param) {
    network_params = {std::move(param)};
    access = Access::update;
    return *this;
  }
  Spec& follows(std::string param) {
    follows_param = std::move(param);
    return *this;
  }
  Spec& watches(std::string param) {
    metric_param = std::move(param);
    return *this;
  }

  Spec& writes(std::vector<std::string> path) {
    file_params = std::move(path);
    return *this;
  }

  Spec& differentiable() {
    is_differentiable = true;
    return *this;
  }

  // ---- fields (field_rule.h) ----
  Spec& passes() { return rule(FieldRule::Act::passes, "", ""); }
  Spec& takes(std::string fields, Form form, int least = 1, int most = 3) {
    rule(FieldRule::Act::takes, std::move(fields), "").rules.back().form = form;
    rules.back().least = least;
    rules.back().most = most;
    return *this;
  }
  Spec& gives(std::string fields, Form form) {
    rule(FieldRule::Act::gives, std::move(fields), "").rules.back().form = form;
    return *this;
  }
  Spec& changes(std::string fields) { return rule(FieldRule::Act::changes, std::move(fields), ""); }
  Spec& resizes(std::string fields, std::string param = "") {
    return rule(FieldRule::Act::resizes, std::move(fields), std::move(param));
  }
  Spec& pads(std::string fields, std::string param) {
    return rule(FieldRule::Act::pads, std::move(fields), std::move(param));
  }
  Spec& crops(std::string fields, std::string param) {
    return rule(FieldRule::Act::crops, std::move(fields), std::move(param));
  }
  Spec& per_axis(std::string fields, std::string param) {
    return rule(FieldRule::Act::per_axis, std::move(fields), std::move(param));
  }
  Spec& axis_count(std::string fields, std::string param) {
    return rule(FieldRule::Act::axis_count, std::move(fields), std::move(param));
  }
  Spec& axes(std::string fields, std::string param) {
    return rule(FieldRule::Act::axes, std::move(fields), std::move(param));
  }
  Spec& enters(std::string field, std::string network) {
    return rule(FieldRule::Act::network, std::move(field), std::move(network));
  }
  Spec& windows(std::string param) {
    rules.back().window = std::move(param);
    return *this;
  }
  Spec& keeps(std::string fields) { return rule(FieldRule::Act::keeps, std::move(fields), ""); }
  Spec& moves(std::string param) { return rule(FieldRule::Act::moves, "", std::move(param)); }
  Spec& prefixes(std::string param) { return rule(FieldRule::Act::prefixes, "", std::move(param)); }
  Spec& decollates() { return rule(FieldRule::Act::decollates, "", ""); }
  Spec& couples() { return rule(FieldRule::Act::couples, "", ""); }
  Spec& stays(std::string fields) { return rule(FieldRule::Act::stays, std::move(fields), ""); }
  // These refine the rule declared last.
  Spec& like(std::string field) {
    rules.back().like = std::move(field);
    return *this;
  }
  Spec& like_each(std::string fields) {
    rules.back().each = true;
    return like(std::move(fields));
  }
  Spec& channels(std::string number) {
    rules.back().channels = std::move(number);
    return *this;
  }
  Spec& dtype(std::string name) {
    rules.back().dtype = std::move(name);
    return *this;
  }
  Spec& when(std::string param, Json value = {}, bool unless = false) {
    rules.back().when = std::move(param);
    rules.back().value = std::move(value);
    rules.back().unless = unless;
    return *this;
  }
  Spec& unless(std::string param, Json value) {
    return when(std::move(param), std::move(value), true);
  }
  Spec& extents_multiple_of(std::string param) {
    multiple_of = std::move(param);
    return *this;
  }
  Spec& any_device() {
    host_only = false;
    return *this;
  }

  const ParamSpec* find_param(std::string_view key) const;
  std::vector<std::string> params_with_networks() const;  // every one that names a network
  // The first parameter with a value that is not done on a device; null: all are.
  const ParamSpec* off_device(const Json& params) const;
  int find_in(std::string_view port) const;  // -1 where there is none
  int find_out(std::string_view port) const;

  // Sets every member of `params` (a default-made Params) that `values` names.
  // Values were checked against this Spec before.
  void apply(void* target, const Json& values) const;

  Json to_json() const;
  static Spec from_json(const Json& j);

 private:
  // Not inline: thousands of parameters are declared, each once.
  template <class P>
  [[gnu::noinline]] static const P& defaults_of() {
    static const P params{};
    return params;
  }
  Spec& add_param(std::string_view key, std::string type, std::string_view text, Json fallback,
                  std::function<void(void* params, const Json& value)> set,
                  std::function<Json(const void* params)> read);
  ParamUse& use();  // of the parameter declared last
  Spec& rule(FieldRule::Act act, std::string fields, std::string param) {
    rules.push_back({act, std::move(fields), std::move(param)});
    return *this;
  }
  Spec& rule_between(ParamRule::Kind kind, std::string a, std::string b, std::int64_t shift = 0) {
    param_rules.push_back({kind, std::move(a), std::move(b), shift});
    return *this;
  }
  Spec& add(std::vector<PortSpec>& ports, std::string& port, std::string& text, bool optional) {
    ports.push_back({std::move(port), std::move(text), optional});
    return *this;
  }
};

}  // namespace sluice
