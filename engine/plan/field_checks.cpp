// The rules of a node that must hold, and what is said where they do not.
#include <algorithm>

#include "engine/plan/cache_need.h"
#include "engine/plan/field_walk.h"

namespace sluice {

namespace {

// The product of all numbers of an axis: strides [2, [2, 2, 1]] on axis 2 are 2.
std::int64_t product(const Json& list, int axis) {
  std::int64_t all = 1;
  if (!list.is_array()) return 1;
  for (const Json& entry : list) {
    const Json& one = entry.is_array() && entry.size() > static_cast<std::size_t>(axis)
                          ? entry[static_cast<std::size_t>(axis)]
                      : entry.is_array() && !entry.empty() ? entry.front()
                                                           : entry;
    if (one.is_number_integer() && one.get<std::int64_t>() > 0 && all < (1 << 20))
      all *= one.get<std::int64_t>();
  }
  return all;
}

std::string plural(std::int64_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

}  // namespace

// ---- what is said ----

const std::string& Walk::path(int n) const {
  return plan_.nodes[static_cast<std::size_t>(n)].path();
}

std::string Walk::quoted(const std::string& name) const { return "\"" + name + "\""; }

std::string Walk::parameter(const std::string& name) const { return node_.path() + "." + name; }

void Walk::error(const char* code, const std::string& name, std::string message, std::string hint,
                 const std::string& field) {
  const bool is_given = node_.graph->is_given(name);
  const bool in_step = node_.graph != plan_.nodes[static_cast<std::size_t>(index_)].graph;
  const std::string key = is_given ? name : in_step ? "type" : "in";
  Place place = node_.graph->place.child(key);
  if (!place.is_known()) place = node_.graph->place;  // a step that a variable holds
  // The field in a list of them, where the list stands in the file.
  const Json& names = is_given ? params_.at(name) : Json();
  const auto at = std::find(names.begin(), names.end(), field);
  if (is_given && names.is_array() && at != names.end()) {
    const Place element = place.child(static_cast<std::size_t>(at - names.begin()));
    if (element.is_known()) place = element;
  }
  if (!said_.insert(code + place.pointer + (is_given ? field : "")).second) return;
  diagnostics_.error_of_node(node_.path(), code, message, place,
                             "nodes." + node_.path() + "." + key, hint);
}

std::string Walk::source_of(const std::string& text) {
  if (!text.starts_with('@')) return "";
  return text.substr(1, text.ends_with("{}") ? text.size() - 3 : std::string::npos);
}

std::string Walk::since_batch() const {
  return flow_.batched_by < 0 ? "" : " since " + quoted(path(flow_.batched_by));
}

// ---- rules ----

void Walk::device() {
  if (spec_.is_cache && params_.value("store", "") == "device" && flow_.moved_by < 0)
    error(
        "SL0422", "store",
        quoted(node_.path()) + " keeps samples on a device, but nothing in front moves them there",
        "put it behind to_device, or leave \"store\" out");
  if (flow_.moved_by < 0) return;
  const std::string moved = ", but " + quoted(path(flow_.moved_by)) +
                            " moved the samples to the device",
                    in_front = "put it in front of " + quoted(path(flow_.moved_by));
  if (spec_.is_cache && keeps_for_later(node_))
    error("SL0608", "store",
          quoted(node_.path()) + " keeps samples of the host for later runs" + moved, in_front);
  if (const ParamSpec* p = spec_.off_device(params_)) {
    std::string list;
    for (const std::string& name : p->on_device) list += (list.empty() ? "" : ", ") + quoted(name);
    error("SL0608", p->name,
          quoted(parameter(p->name)) + " is " + params_.at(p->name).dump() +
              ", which is done on the host only" + moved,
          in_front + ", or use one of " + list);
  }
  if (!spec_.host_only) return;
  error("SL0608", "", quoted(node_.path()) + " works on host memory" + moved, in_front);
  flow_.moved_by = -1;
}

void Walk::takes(const FieldRule& rule) {
  const std::string by = source_of(rule.fields);
  const auto wanted = names(rule.fields);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (std::find(wanted.begin(), wanted.begin() + static_cast<long>(i), wanted[i]) !=
        wanted.begin() + static_cast<long>(i)) {
      error("SL0611", by, quoted(parameter(by)) + " names " + quoted(wanted[i]) + " twice");
      continue;
    }
    FieldInfo* f = flow_.find(wanted[i]);
    if (!f) {
      missing(wanted[i], by);
    } else {
      takes_gradient_ |= f->gradient;
      if (!f->gradient_ends.empty()) takes_ended_ = f->gradient_ends;
      if (form_fits(rule, *f, by)) spatial_fits(rule, *f);
    }
  }
}

void Walk::missing(const std::string& name, const std::string& by) {
  if (flow_.open || param("allow_missing_keys") == true) return;
  std::vector<std::string> there;
  std::string list;
  for (const FieldInfo& f : flow_.fields) {
    there.push_back(f.name);
    list += (list.empty() ? "" : ", ") + quoted(f.name);
  }
  const bool is_default = !by.empty() && !node_.graph->is_given(by);
  std::string hint = did_you_mean(name, there);
  if (hint.empty() && is_default) hint = "name the fields with " + quoted(by);
  error("SL0601", by,
        quoted(node_.path()) + " needs the field " + quoted(name) +
            (is_default ? " (by default)" : "") + ", but " +
            (list.empty() ? "no field arrives" : "what arrives is " + list),
        hint, name);
  FieldInfo unknown;
  unknown.name = name;
  flow_.fields.push_back(unknown);  // said once
}

bool Walk::form_fits(const FieldRule& rule, FieldInfo& f, const std::string& by) {
  const Form found = f.form;
  if (found == Form::any || found == rule.form || rule.form == Form::value) return true;
  if (rule.form == Form::any && (found == Form::image || found == Form::batch)) return true;
  const std::string is = f.text(flow_.batch);
  f.form = Form::any;
  if (found == Form::record)
    error("SL0602", by,
          quoted(node_.path()) + " works on " + quoted(f.name) + ", which is only a path here",
          "put load_image in front");
  else if (found == Form::batch && rule.form == Form::image)
    error("SL0603", by,
          quoted(node_.path()) + " takes single samples [C, X, Y, Z], but " + quoted(f.name) +
              " is a batch" + since_batch(),
          flow_.batched_by < 0 ? ""
          : f.made_of_batch    ? "put a decollate node in front"
                               : "put it in front of " + quoted(path(flow_.batched_by)));
  else if (found == Form::image && rule.form == Form::batch)
    error("SL0604", by,
          quoted(node_.path()) + " takes a batch [N, C, X, Y, Z], but " + quoted(f.name) +
              " is a single sample",
          "put a batch node in front");
  else if (rule.form == Form::record)
    f.form = found;  // loading again is useless, not wrong
  else
    error("SL0604", by,
          quoted(node_.path()) + " cannot take " + quoted(f.name) + ", which is " + is);
  return false;
}

void Walk::spatial_fits(const FieldRule& rule, FieldInfo& f) {
  if (f.form == Form::record || f.form == Form::scalar) return;
  if (f.spatial && (f.spatial < rule.least || f.spatial > rule.most)) {
    error("SL0605", source_of(rule.fields),
          quoted(node_.path()) + " takes " +
              plural(f.spatial < rule.least ? rule.least : rule.most, "spatial axis",
                     "spatial axes") +
              ", but " + quoted(f.name) + " has " + std::to_string(f.spatial) + said_by(f));
    f.spatial = 0;
  } else if (!f.spatial && rule.least == rule.most) {
    learn(f, rule.least, node_.path());
  }
}

int Walk::axes_of(const Json& value) {
  if (value.is_string()) return static_cast<int>(value.get_ref<const std::string&>().size());
  return value.is_array() && value.size() > 1 ? static_cast<int>(value.size()) : 0;
}

void Walk::per_axis(const FieldRule& rule) {
  const Json& value = param(rule.param);
  const bool is_count = rule.act == FieldRule::Act::axis_count;
  const int axes = !is_count ? axes_of(value) : value.is_number_integer() ? value.get<int>() : 0;
  if (axes < 1 || axes > 3) return;
  for (const std::string& name : names(rule.fields)) {
    FieldInfo* f = flow_.find(name);
    if (!f || f->form == Form::record) continue;
    if (f->spatial && f->spatial != axes) {
      error("SL0605", rule.param,
            quoted(parameter(rule.param)) + " is for " +
                plural(axes, "spatial axis", "spatial axes") + ", but " + quoted(name) + " has " +
                std::to_string(f->spatial) + said_by(*f));
      f->spatial = 0;
      f->forget_extents();
    } else if (!f->spatial && !is_count) {  // a count may be a default that nobody chose
      learn(*f, axes, parameter(rule.param));
    }
  }
}

void Walk::axes(const FieldRule& rule) {
  const Json& value = param(rule.param);
  for (const std::string& name : names(rule.fields)) {
    const FieldInfo* f = flow_.find(name);
    if (!f || !f->spatial) continue;
    for (const Json& axis : value.is_array() ? value : Json::array({value})) {
      if (!axis.is_number_integer()) continue;
      const auto a = axis.get<std::int64_t>();
      if (a >= -f->spatial && a < f->spatial) continue;
      return error("SL0606", rule.param,
                   quoted(parameter(rule.param)) + " names axis " + std::to_string(a) + ", but " +
                       quoted(name) + " has the spatial axes 0 to " +
                       std::to_string(f->spatial - 1) + said_by(*f));
    }
  }
}

void Walk::network(const FieldRule& rule) {
  const GraphModel* m = model(rule.param);
  const auto fields = names(rule.fields);
  FieldInfo* f = fields.empty() ? nullptr : flow_.find(fields.front());
  if (!m || !m->spec || !f || f->form == Form::record) return;
  const auto setting = [&](const char* name) {
    const auto found = m->params.find(name);
    return found != m->params.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
  };
  const std::string which = "network " + quoted(m->name);
  const auto dims = setting("spatial_dims"), channels = setting("in_channels");
  const std::string by = source_of(rule.fields);
  if (dims && f->spatial && dims != f->spatial) {
    error("SL0605", by,
          which + " has " + plural(dims, "spatial axis", "spatial axes") + ", but " +
              quoted(f->name) + " has " + std::to_string(f->spatial) + said_by(*f));
    return;
  }
  if (dims && !f->spatial) learn(*f, static_cast<int>(dims), "models." + m->name);
  if (channels && f->channels && channels != f->channels)
    error("SL0607", by,
          which + " takes " + plural(channels, "channel", "channels") + ", but " + quoted(f->name) +
              " has " + std::to_string(f->channels));
  if (!f->dtype.empty() && !f->dtype.starts_with("float") && f->dtype != "bfloat16")
    error("SL0610", by,
          which + " computes with float32, but " + quoted(f->name) + " is " + f->dtype,
          "let load_image or a transform make it float32");
  if (rule.window.empty()) return multiples(*m, *f, by);
  FieldInfo window = *f;
  window.name = parameter(rule.window);
  window.extents = extents_of(param(rule.window), f->spatial);
  multiples(*m, window, rule.window);
}

void Walk::multiples(const GraphModel& m, const FieldInfo& f, const std::string& by) {
  const auto strides = m.params.find(m.spec->multiple_of);
  if (m.spec->multiple_of.empty() || strides == m.params.end()) return;
  for (std::size_t a = 0; a < f.extents.size(); ++a) {
    const auto step = product(*strides, static_cast<int>(a));
    if (f.extents[a] % step == 0) continue;  // also where it is not known
    const auto up = (f.extents[a] / step + 1) * step;
    return error(
        "SL0609", by,
        "network " + quoted(m.name) +
            ((step & (step - 1)) == 0 ? " halves extents" : " divides extents by its strides") +
            ", so they must be multiples of " + std::to_string(step) + ", but axis " +
            std::to_string(a) + " of " + quoted(f.name) + " has " + std::to_string(f.extents[a]),
        "pad or crop to " + std::to_string(up) +
            (up > step ? " or " + std::to_string(up - step) : ""));
  }
}

}  // namespace sluice
