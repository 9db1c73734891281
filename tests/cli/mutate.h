// Graphs with a few things changed at random, by structure: types, numbers at and beyond bounds,
// unknown, missing and misplaced keys, null, lists for values and values for lists.
#pragma once

#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/cli/types.h"

namespace mutate {

using sluice::Json;

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  // What was done, for messages.
  std::vector<std::string> done;

  void operator()(Json& graph) {
    const std::size_t times = 1 + below(4) / 3 + below(6) / 5;
    for (std::size_t i = 0; i < times; ++i) once(graph);
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[below(all.size())];
  }
  bool chance(std::size_t n) { return below(n) == 0; }

  // A value and the object or list that holds it.
  struct Site {
    std::string pointer;
    Json* value;
    Json* parent;
  };
  static void collect(Json& value, const std::string& pointer, Json* parent,
                      std::vector<Site>& all) {
    all.push_back({pointer, &value, parent});
    if (!value.is_structured()) return;
    for (auto& [key, member] : value.items()) collect(member, pointer + "/" + key, &value, all);
  }

  void once(Json& graph) {
    std::vector<Site> all;
    collect(graph, "", nullptr, all);
    const Site site = one_of(all);
    const std::size_t kind = below(8);
    done.push_back(site.pointer + " " + std::to_string(kind));
    if (kind == 0) remove(site);
    if (kind == 1) *site.value = any_value();
    if (kind == 2) nudge(*site.value);
    if (kind == 3) rename(site);
    if (const auto places = objects(all); (kind == 4 || kind == 5) && !places.empty())
      add(one_of(places));
    if (kind == 6) wrap(*site.value);
    if (kind == 7) *site.value = *one_of(all).value;
  }

  static std::vector<Json*> objects(const std::vector<Site>& all) {
    std::vector<Json*> found;
    for (const Site& s : all)
      if (s.value->is_object()) found.push_back(s.value);
    return found;
  }

  void remove(const Site& site) {
    if (!site.parent || site.parent->empty()) return;
    const std::size_t at = below(site.parent->size());
    if (site.parent->is_array())
      site.parent->erase(at);
    else
      site.parent->erase(std::next(site.parent->begin(), static_cast<long>(at)).key());
  }

  Json any_value() {
    static const std::vector<Json> values{nullptr,
                                          true,
                                          false,
                                          0,
                                          1,
                                          2,
                                          -1,
                                          7,
                                          65,
                                          0.5,
                                          1.0,
                                          2.5,
                                          -0.5,
                                          1e3,
                                          1e300,
                                          "",
                                          "x",
                                          "image",
                                          "load",
                                          "train",
                                          "bilinear",
                                          "gaussian",
                                          "1",
                                          "true",
                                          "@seed",
                                          "@patch",
                                          "@nowhere",
                                          "compute",
                                          "quarantine",
                                          Json::array(),
                                          Json::array({1}),
                                          Json::array({1, 2, 3}),
                                          Json::array({0.5, 0.5}),
                                          Json::array({nullptr}),
                                          Json::array({"image", "label"}),
                                          Json::array({Json::array({1, 2})}),
                                          Json::object(),
                                          {{"a", 1}},
                                          {{"sample", "load"}}};
    return one_of(values);
  }

  // Near what it was, where a bound may lie in between.
  void nudge(Json& value) {
    if (value.is_number()) {
      static const std::vector<double> factors{-1, 0, 0.5, 2, 100};
      const double v = value.get<double>() * one_of(factors);
      value = chance(2) ? Json(v) : Json(static_cast<std::int64_t>(v));
    } else if (value.is_string()) {
      auto& text = value.get_ref<std::string&>();
      const std::size_t at = below(text.size() + 1);
      if (chance(2))
        text.insert(at, 1, "az_.@/0"[below(7)]);
      else if (at < text.size())
        text.erase(at, 1);
    } else if (value.is_array() && !value.empty()) {
      if (chance(2))
        value.push_back(value[0]);
      else
        value.erase(0);
    } else if (value.is_boolean()) {
      value = value.get<bool>() ? 1 : 0;
    }
  }

  // Keys that mean something somewhere, and some that never do.
  std::string any_key() {
    static const std::vector<std::string> keys = [] {
      std::vector<std::string> all{
          "type",       "part",         "in",       "out",          "params",   "nodes",    "desc",
          "name",       "vars",         "run",      "models",       "parts",    "disabled", "lane",
          "on_error",   "max_bad",      "after",    "every_epochs", "requires", "weights",  "stop",
          "checkpoint", "metric",       "at_least", "at_most",      "keep",     "epochs",   "seed",
          "watchdog_s", "step_threads", "x-note",   "ui",           "$schema",  "no such",  "a.b",
          "a/b",        "/a",           "",         "typ",          "ni",       "keyz"};
      for (const auto& spec : types::real().all())
        for (const auto& p : spec->params) all.push_back(p.name);
      return all;
    }();
    return one_of(keys);
  }

  void rename(const Site& site) {
    if (!site.parent || !site.parent->is_object() || site.parent->empty()) return;
    auto& members = site.parent->get_ref<Json::object_t&>();
    Json changed = Json::object();
    const std::size_t at = below(members.size());
    std::size_t i = 0;
    for (const auto& [key, value] : members) changed[i++ == at ? any_key() : key] = value;
    *site.parent = std::move(changed);
  }

  void add(Json* object) {
    std::string key = any_key();
    Json value = any_value();
    // More often than not a parameter or setting of this very object.
    const sluice::Spec* spec = nullptr;
    if (object->contains("type") && (*object)["type"].is_string())
      spec = types::real().find((*object)["type"].get<std::string>());
    if (spec && !spec->params.empty() && !chance(4)) {
      const auto& p = one_of(spec->params);
      key = p.name;
      if (!p.choices.empty() && chance(2)) value = one_of(p.choices);
      if (chance(4)) value = p.fallback;
    }
    (*object)[key] = std::move(value);
  }

  void wrap(Json& value) {
    if (value.is_array() && !value.empty())
      value = Json(value[0]);
    else
      value = Json::array({value});
  }

  std::mt19937 random_;
};

}  // namespace mutate
