#include "tools/runtime/nnunet/run_settings.h"

#include <map>
#include <set>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "kernels/lists/data_list.h"
#include "tools/runs/run_of.h"
#include "tools/runtime/nnunet/plan_nodes.h"

namespace sluice::nnunet {
namespace {

namespace fs = std::filesystem;

// Whatever the order of an object's members.
bool is_same(const Json& a, const Json& b) {
  return nlohmann::json::parse(a.dump()) == nlohmann::json::parse(b.dump());
}

std::string shown(const Json& value) {
  return value.is_null() ? "not set" : printable(value.dump());
}

// A member of one of two objects, and its value in each; null: it is not there.
template <class Use>
void for_each_difference(const Json& expected, const Json& found, Use&& use) {
  std::set<std::string> keys;
  for (const Json* object : {&expected, &found})
    for (const auto& [key, value] : object->items()) keys.insert(key);
  for (const std::string& key : keys) {
    const Json a = expected.value(key, Json()), b = found.value(key, Json());
    if (!is_same(a, b)) use(key, a, b);
  }
}

class RunSettings {
 public:
  RunSettings(const TrainedModel& model, const fs::path& checkpoint)
      : model_(model), file_(run_of(checkpoint) / "graph.json") {
    if (!fs::exists(file_))
      throw DataError(file_.string() + ": no such file: the run was not begun");
    graph_ = read_json(file_);
    nodes_ = graph_.value("nodes", Json::object());
    read_network();
    read_loading();
    read_nodes();
    read_answer();
    if (!model.previous.empty())
      if (const Json before = node("v_cases").value("previous", Json()); before.is_string())
        previous = before.get<std::string>();
  }

  Json network;
  std::map<std::string, Json> changes;  // as TrainedModel's
  std::string previous;                 // of a cascade: where the stage before was trained

  // "nodes.v_pre/norm.schemes": what is otherwise than the plan.
  const std::map<std::string, Json>& by_name() const { return by_name_; }
  const fs::path& file() const { return file_; }

 private:
  [[noreturn]] void refuse(const std::string& setting, const std::string& why) const {
    throw DataError(file_.string() + ": " + setting + " " + why +
                    ", which the graph of a prediction cannot take over");
  }

  const Json& node(const std::string& name) const {
    const auto found = nodes_.find(name);
    if (found == nodes_.end() || !found->is_object()) refuse("nodes." + name, "is not there");
    return *found;
  }

  void must_read(const std::string& name, const std::string& from) const {
    if (const Json in = node(name).value("in", Json()); in != from)
      refuse("nodes." + name + ".in", "is " + shown(in) + " and not \"" + from + "\"");
  }

  void read_network() {
    const Json models = graph_.value("models", Json::object());
    network = models.value("net", Json());
    if (!network.is_object()) refuse("models.net", "is not there");
    // What training alone has, and what a prediction says itself.
    for (const char* key : {"deep_supervision", "memory", "memory_budget", "weights", "weights_key",
                            "strip_prefix", "partial"})
      network.erase(key);
    for_each_difference(model_.network, network, [&](const auto& key, const Json&, const Json& b) {
      by_name_["models.net." + key] = b;
    });
  }

  // From the files to what is prepared.
  void read_loading() const {
    const bool joined = node("v_keep").value("in", Json()) == "v_pair";
    must_read("v_load", "v_cases");
    if (joined) must_read("v_join", "v_load");
    if (joined) must_read("v_pair", "v_join");
    must_read("v_keep", joined ? "v_pair" : "v_load");
  }

  bool has_probabilities() const { return nodes_.contains("v_back"); }

  void read_nodes() {
    NodeList plan;
    plan.add("v_keep", {{"type", "copy_items"}});
    add_prepared(plan, model_, "label", "v_pre/");
    add_previous(plan, model_, "v_");
    add_inference(plan, model_, "v_", "net", has_probabilities());
    for (const auto& [name, why, expected] : plan.all())
      if (name != "v_keep") compare(name, expected);
  }

  void compare(const std::string& name, const Json& expected) {
    // Names of fields and nodes are the graph's own matter; a label is in no prediction.
    static const std::set<std::string> fixed{"type",     "in",        "net",        "key",
                                             "keys",     "name",      "label_key",  "label_keys",
                                             "mask_key", "more_keys", "output_key", "output"},
        silent{"desc",     "device",  "lane",     "threads",
               "on_error", "max_bad", "requires", "nonzero_label"};
    const std::string own = name.substr(name.starts_with("v_pre/") ? 6 : 2);
    for_each_difference(expected, node(name), [&](const auto& key, const Json& a, const Json& b) {
      if (silent.contains(key)) return;
      const std::string setting = "nodes." + name + "." + key;
      if (fixed.contains(key)) refuse(setting, "is " + shown(b) + " and not " + shown(a));
      by_name_[setting] = b;
      changes[own == "back" ? "label" : own][key] = b;
    });
  }

  // From the answer to the file.
  void read_answer() const {
    if (has_probabilities())
      for (const auto& [name, from] : {std::pair{"v_copy", "v_back"},
                                       {"v_probabilities", "v_copy"},
                                       {"v_drop", "v_probabilities"},
                                       {"v_label", "v_drop"}})
        must_read(name, from);
    must_read("v_save", "v_label");
  }

  const TrainedModel& model_;
  const fs::path file_;
  Json graph_, nodes_;
  std::map<std::string, Json> by_name_;
};

void must_be_alike(const RunSettings& a, const RunSettings& b) {
  const auto of = [](const RunSettings& s, const std::string& name) {
    const auto found = s.by_name().find(name);
    return found == s.by_name().end() ? "as planned" : shown(found->second);
  };
  const auto compare = [&](const std::string& name, const std::string& x, const std::string& y) {
    if (x != y)
      throw DataError(b.file().string() + ": " + name + " is " + y + ", in " + a.file().string() +
                      " " + x + "; of runs that differ in it no mean is taken: name one of them");
  };
  for (const RunSettings* each : {&a, &b})
    for (const auto& [name, value] : each->by_name()) compare(name, of(a, name), of(b, name));
  compare("nodes.v_cases.previous", shown(a.previous), shown(b.previous));
}

}  // namespace

void take_over_settings(TrainedModel& model) {
  const RunSettings first(model, model.checkpoints.front());
  for (const fs::path& checkpoint : model.checkpoints)
    must_be_alike(first, RunSettings(model, checkpoint));
  model.network = first.network;
  model.changes = first.changes;
  model.previous_runs = first.previous;
}

}  // namespace sluice::nnunet
