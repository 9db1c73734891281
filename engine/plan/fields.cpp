#include "engine/plan/fields.h"

#include <algorithm>
#include <set>

#include "engine/graph/field_names.h"
#include "engine/graph/networks_of.h"
#include "engine/plan/field_walk.h"

namespace sluice {

std::string FieldInfo::text(std::int64_t batch) const {
  if (form == Form::record) return "path";
  std::string out = dtype.empty() ? "" : dtype + " ";
  if (form == Form::scalar) return out + "[]";
  if (form == Form::any) return dtype;
  const auto number = [](std::int64_t n) { return n > 0 ? std::to_string(n) : std::string("?"); };
  out += '[';
  if (form == Form::batch) out += number(batch) + ", ";
  out += number(channels);
  for (int a = 0; a < spatial; ++a)
    out += ", " + number(extents.empty() ? 0 : extents[static_cast<std::size_t>(a)]);
  return out + (spatial ? "]" : ", ...]");
}

void FieldInfo::forget_extents() {
  extents.clear();
  most.clear();
  every_extent = 0;
}

bool FieldInfo::has_known_extents() const {
  return !extents.empty() && std::find(extents.begin(), extents.end(), 0) == extents.end();
}

const FieldInfo* Flow::find(std::string_view name) const {
  for (const FieldInfo& f : fields)
    if (f.name == name) return &f;
  return nullptr;
}
FieldInfo* Flow::find(std::string_view name) {
  return const_cast<FieldInfo*>(std::as_const(*this).find(name));
}

bool Flow::same(const Flow& other) const {
  return std::equal(fields.begin(), fields.end(), other.fields.begin(), other.fields.end(),
                    [&](const FieldInfo& a, const FieldInfo& b) {
                      return a.name == b.name && a.text(batch) == b.text(other.batch);
                    });
}

namespace {

// The i-th entry of a setting given per key; the last where there are fewer.
std::string per_key(const std::vector<std::string>& settings, std::size_t i) {
  return settings.empty() ? "" : settings[std::min(i, settings.size() - 1)];
}

}  // namespace

// ---- the walk -----------------------------------------------------------------------------------

std::vector<Flow> find_flows(const Plan& plan, Diagnostics& diagnostics) {
  std::vector<Flow> flows(plan.nodes.size());
  for (int i : plan.order) {
    const PlanNode& n = plan.nodes[static_cast<std::size_t>(i)];
    Flow in;
    if (!n.inputs.empty()) in = flows[static_cast<std::size_t>(n.inputs.front().from)];
    flows[static_cast<std::size_t>(i)] = Walk(plan, i, std::move(in), diagnostics).leave();
  }
  return flows;
}

std::vector<std::string> read_on_host(const Plan& plan, int index) {
  Diagnostics silent;
  return Walk(plan, index, {}, silent).read_on_host();
}

std::vector<std::string> Walk::read_on_host() const {
  std::vector<std::string> all;
  for (const FieldRule& rule : spec_.rules)
    if (rule.act == FieldRule::Act::stays && holds(rule))
      for (std::string& name : names(rule.fields)) all.push_back(std::move(name));
  for (const GraphNode& inner : node_.graph->step) {
    const PlanNode node = node_of_step(inner);
    for (std::string& name : Walk(plan_, index_, node, {}, diagnostics_).read_on_host())
      all.push_back(std::move(name));
  }
  return all;
}

Flow Walk::leave() {
  device();
  if (spec_.rules.empty()) return unknown();
  flow_.no_gradient.clear();
  step();
  gather();
  for (const FieldRule& rule : spec_.rules)
    if (holds(rule)) apply(rule);
  if (spec_.is_differentiable && !takes_gradient_) flow_.no_gradient = takes_ended_;
  return std::move(flow_);
}

void Walk::step() const {
  Flow flow = flow_;
  for (const GraphNode& inner : node_.graph->step) {
    const PlanNode node = node_of_step(inner);
    flow = Walk(plan_, index_, node, std::move(flow), diagnostics_).leave();
  }
}

PlanNode Walk::node_of_step(const GraphNode& node) {
  PlanNode inner;
  inner.graph = &node;
  inner.spec = node.spec;
  return inner;
}

Flow Walk::unknown() {
  flow_.open = true;
  flow_.fields.clear();
  return std::move(flow_);
}

void Walk::apply(const FieldRule& rule) {
  using Act = FieldRule::Act;
  switch (rule.act) {
    case Act::passes:
    case Act::stays:    // read_on_host()
    case Act::couples:  // plan_shards.cpp
      return;
    case Act::takes:
      return takes(rule);
    case Act::gives:
      return gives(rule);
    case Act::changes:
      return changes(rule);
    case Act::crops:
    case Act::resizes:
    case Act::pads:
      return resizes(rule);
    case Act::per_axis:
    case Act::axis_count:
      return per_axis(rule);
    case Act::axes:
      return axes(rule);
    case Act::network:
      return network(rule);
    case Act::keeps:
      return keeps(rule);
    case Act::prefixes:
      return prefixes(rule);
    case Act::decollates:
      for (FieldInfo& f : flow_.fields)
        if (f.form == Form::batch) f.form = Form::image;
      flow_.batch = 0;
      flow_.batched_by = -1;
      return;
    case Act::moves:
      if (params_.value(rule.param, "auto") != "cpu")
        flow_.moved_by = index_;
      else
        flow_.moved_by = -1;
      return;
  }
}

// ---- what rules refer to ------------------------------------------------------------------------

bool Walk::holds(const FieldRule& rule) const { return sluice::holds(rule, param(rule.when)); }

const Json& Walk::param(const std::string& name) const {
  static const Json none;
  const auto found = params_.find(name);
  return found == params_.end() ? none : *found;
}

std::vector<std::string> Walk::names(const std::string& text) const {
  return field_names(text, params_);
}

const GraphModel* Walk::model(const std::string& name) const {
  const Json& given = param(name);
  for (const GraphModel& m : plan_.graph->models)
    if (given.is_string() && m.name == given.get_ref<const std::string&>()) return &m;
  return nullptr;
}

std::int64_t Walk::number(const std::string& text) const {
  if (text.empty()) return 0;
  if (!text.starts_with('@')) return std::stoll(text);
  if (const auto plus = text.find('+'); plus != std::string::npos) {  // @param+2
    const std::int64_t n = number(text.substr(0, plus));
    return n > 0 ? n + std::stoll(text.substr(plus + 1)) : 0;
  }
  const auto dot = text.find('.');
  const Json* from = &params_;
  if (dot != std::string::npos) {
    const GraphModel* m = model(text.substr(1, dot - 1));
    if (!m) return 0;
    from = &m->params;
  }
  const auto found = from->find(text.substr(dot == std::string::npos ? 1 : dot + 1));
  return found != from->end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

// "@net.out_channels", where that network declares that what it gives is no image.
bool Walk::classifies(const std::string& channels) const {
  const auto dot = channels.find('.');
  if (!channels.starts_with('@') || dot == std::string::npos) return false;
  const GraphModel* m = model(channels.substr(1, dot - 1));
  if (!m || !m->spec) return false;
  return std::any_of(m->spec->rules.begin(), m->spec->rules.end(), [&](const FieldRule& r) {
    return r.act == FieldRule::Act::gives && r.form == Form::any &&
           sluice::holds(r, m->params.value(r.when, Json()));
  });
}

// ---- rules that change what flows ---------------------------------------------------------------

void Walk::gather() {
  const bool pairs = std::any_of(spec_.rules.begin(), spec_.rules.end(), [](const FieldRule& r) {
    return r.act == FieldRule::Act::prefixes;
  });
  if (spec_.arity != Arity::gather || pairs) return;
  for (FieldInfo& f : flow_.fields) {
    if (f.form == Form::batch) {
      error("SL0603", "",
            quoted(node_.path()) + " would make batches of batches: " + quoted(f.name) +
                " is a batch already" + since_batch(),
            "remove one of the two");
      f.form = Form::any;
    }
    if (f.form == Form::image) f.form = Form::batch;
    if (!f.varies_since.empty() && node_.count > 1) varies(f);
    f.varies_since.clear();
  }
  flow_.batch = node_.count;
  flow_.batched_by = index_;
}

void Walk::prefixes(const FieldRule& rule) {
  std::vector<FieldInfo> all;
  for (const std::string& prefix : strings_in(param(rule.param)))
    for (FieldInfo f : flow_.fields) {
      f.name = prefix + f.name;
      all.push_back(std::move(f));
    }
  flow_.fields = std::move(all);
}

// Whether a node reads a network that the graph trains.
bool Walk::reads_a_learner() const {
  return spec_.access == Access::read && uses_a_learner(*plan_.graph, *node_.graph);
}

void Walk::differentiate(FieldInfo& f) const {
  f.gradient = spec_.is_differentiable && (takes_gradient_ || reads_a_learner());
  f.gradient_ends = f.gradient              ? ""
                    : !takes_ended_.empty() ? takes_ended_
                    : takes_gradient_       ? node_.path()
                                            : "";
}

void Walk::varies(const FieldInfo& f) {
  if (!said_.insert("SL0612").second) return;  // of several fields the first is named
  diagnostics_.warning("SL0612",
                       quoted(node_.path()) + " stacks samples of one shape, but " +
                           quoted(f.varies_since) + " makes " + quoted(f.name) +
                           " of a size that depends on the sample",
                       node_.graph->place.child("in"), "nodes." + node_.path() + ".in",
                       "put a crop or resize_with_pad_or_crop between them");
}

std::string Walk::said_by(const FieldInfo& f) {
  return f.spatial_from.empty() ? "" : " (" + f.spatial_from + ")";
}

void Walk::learn(FieldInfo& f, int axes, std::string from) {
  f.spatial = axes;
  f.spatial_from = std::move(from);
  f.extents.assign(f.every_extent ? static_cast<std::size_t>(axes) : 0, f.every_extent);
  f.every_extent = 0;
}

// One for all fields of the rule, or one each.
std::vector<std::string> Walk::dtypes_of(const FieldRule& rule) const {
  return rule.dtype.starts_with('@') ? strings_in(param(rule.dtype.substr(1)))
                                     : std::vector<std::string>{rule.dtype};
}

void Walk::gives(const FieldRule& rule) {
  const auto given = names(rule.fields);
  const auto dtypes = dtypes_of(rule);
  if (spec_.arity == Arity::source) flow_.open = false;
  for (std::size_t i = 0; i < given.size(); ++i) {
    FieldInfo info;
    if (!rule.like.empty()) {
      const auto models = names(rule.like);
      const std::size_t at = rule.each && !models.empty() ? i % models.size() : 0;
      if (const FieldInfo* model = models.empty() ? nullptr : flow_.find(models[at]))
        info = *model;
      else
        info.form = rule.form;
    } else {
      info.form = rule.form;
    }
    info.name = given[i];
    info.channels = number(rule.channels);
    if (!rule.dtype.empty()) info.dtype = per_key(dtypes, i);
    if (classifies(rule.channels)) {
      info.form = Form::any;
      info.spatial = 0;
      info.forget_extents();
    }
    info.made_of_batch = flow_.batched_by >= 0;
    info.maybe = false;
    differentiate(info);
    if (FieldInfo* old = flow_.find(given[i]))
      *old = std::move(info);
    else if (!flow_.open || rule.like.empty() || info.form != Form::any)
      flow_.fields.push_back(std::move(info));
  }
}

void Walk::changes(const FieldRule& rule) {
  const auto changed = names(rule.fields);
  const auto dtypes = dtypes_of(rule);
  for (std::size_t i = 0; i < changed.size(); ++i) {
    FieldInfo* f = flow_.find(changed[i]);
    if (!f || f->form == Form::record) continue;
    if (!rule.dtype.empty()) f->dtype = per_key(dtypes, i);
    if (!rule.channels.empty()) f->channels = number(rule.channels);
    differentiate(*f);
  }
}

std::vector<std::int64_t> Walk::extents_of(const Json& value, int spatial) {
  const auto extent = [](const Json& n) {
    return n.is_number_integer() ? std::max<std::int64_t>(n.get<std::int64_t>(), 0) : 0;
  };
  const auto axes = static_cast<std::size_t>(spatial);
  if (!value.is_array()) return std::vector<std::int64_t>(axes, extent(value));
  std::vector<std::int64_t> out;
  for (const Json& n : value) out.push_back(extent(n));
  if (out.size() == 1) out.resize(axes, out.front());
  return out.size() == axes ? out : std::vector<std::int64_t>{};
}

// One positive number fixes every axis, however many there are; else 0.
static std::int64_t every_extent(const Json& value) {
  const Json& one = value.is_array() && value.size() == 1 ? value.front() : value;
  return one.is_number_integer() ? std::max<std::int64_t>(one.get<std::int64_t>(), 0) : 0;
}

void Walk::resizes(const FieldRule& rule) {
  if (rule.param.empty()) return chooses_extents(rule);
  per_axis(rule);
  const std::int64_t every = every_extent(param(rule.param));
  const bool pads = rule.act == FieldRule::Act::pads, crops = rule.act == FieldRule::Act::crops;
  for (const std::string& name : names(rule.fields)) {
    FieldInfo* f = flow_.find(name);
    if (!f || f->form == Form::record) continue;
    const auto wanted = extents_of(param(rule.param), f->spatial);
    std::vector<std::int64_t> extents(wanted.size());
    for (std::size_t a = 0; a < wanted.size(); ++a) {
      const auto before = f->extents.empty() ? 0 : f->extents[a];
      const auto most = before > 0 ? before : f->most.empty() ? 0 : f->most[a];
      if (pads)
        extents[a] = before > wanted[a] ? before : most > 0 && most <= wanted[a] ? wanted[a] : 0;
      else if (crops && wanted[a] > 0)
        extents[a] = std::min(before, wanted[a]);
      else
        extents[a] = wanted[a] > 0 ? wanted[a] : before;
    }
    f->extents = std::move(extents);
    f->most = crops ? wanted : std::vector<std::int64_t>{};
    if (pads)
      f->every_extent = f->every_extent > 0 ? std::max(f->every_extent, every) : 0;
    else if (crops)
      f->every_extent = std::min(f->every_extent, every);
    else if (!f->spatial && every > 0)
      f->every_extent = every;
    if (f->has_known_extents() || (!pads && !crops && every > 0)) {
      f->one_shape = true;
      f->varies_since.clear();
    } else if (crops && !f->one_shape) {
      f->varies_since = node_.path();
    }
  }
}

// The node knows the extents and the plan does not, but where equal ones change places. Samples of
// one shape are taken to stay so.
void Walk::chooses_extents(const FieldRule& rule) {
  for (const std::string& name : names(rule.fields)) {
    FieldInfo* f = flow_.find(name);
    if (!f || f->form == Form::record) continue;
    if (spec_.rearranges && f->has_known_extents() && exchanges_equal(f->extents)) continue;
    if (!f->one_shape) f->varies_since = node_.path();
    f->forget_extents();
  }
}

// Whether the axes that the node names, or all of them, have one extent.
bool Walk::exchanges_equal(std::vector<std::int64_t> extents) const {
  for (const FieldRule& rule : spec_.rules) {
    const Json& named = rule.act == FieldRule::Act::axes ? param(rule.param) : Json();
    if (!named.is_array()) continue;
    std::vector<std::int64_t> of_named;
    for (const Json& axis : named) {
      const auto a = axis.get<std::int64_t>();
      const auto at = static_cast<std::size_t>(a < 0 ? a + std::ssize(extents) : a);
      if (at < extents.size()) of_named.push_back(extents[at]);
    }
    extents = std::move(of_named);
  }
  return std::set<std::int64_t>(extents.begin(), extents.end()).size() <= 1;
}

void Walk::keeps(const FieldRule& rule) {
  const auto kept = names(rule.fields);
  std::erase_if(flow_.fields, [&](const FieldInfo& f) {
    return std::find(kept.begin(), kept.end(), f.name) == kept.end();
  });
  flow_.open = false;
}

}  // namespace sluice
