#include "tools/runs/runs.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>

#include "engine/base/error.h"
#include "engine/base/machine.h"
#include "tools/runs/files.h"
#include "tools/runs/metrics.h"

namespace sluice::runs {
namespace {

namespace fs = std::filesystem;

constexpr int deepest = 4;
constexpr std::size_t most_entries = 500'000;
constexpr double fresh_s = 15;  // of live.json, which a run writes once a second

// `left`: how many entries may still be looked at, so that a folder of millions ends the search.
void find_below(const fs::path& folder, int depth, std::size_t& left,
                std::vector<fs::path>& found) {
  if (is_run(folder)) {
    found.push_back(folder);
    return;
  }
  std::error_code ignored;
  std::vector<fs::path> below;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (left == 0 || --left == 0) break;
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || entry.is_symlink(ignored) || !entry.is_directory(ignored))
      continue;
    below.push_back(entry.path());
  }
  std::sort(below.begin(), below.end());
  for (const auto& one : below) {
    if (found.size() >= most_runs || depth == 0) return;
    find_below(one, depth - 1, left, found);
  }
}

std::int64_t whole(const Json& object, const char* key) {
  return static_cast<std::int64_t>(std::clamp(number(object, key), 0.0, 9e15));
}

// On this machine its process says it; on another one the file's age has to.
bool is_alive(const Json& live, const fs::path& file) {
  if (live.is_null() || text(live, "host") == host_name()) {
    const int locked_by = std::atoi(text_of(file.parent_path() / ".lock").c_str());
    const pid_t pid = live.is_null() ? locked_by : static_cast<pid_t>(number(live, "pid"));
    const std::string name = text_of("/proc/" + std::to_string(pid) + "/comm");
    return pid > 0 && name.starts_with("sluice") && (::kill(pid, 0) == 0 || errno == EPERM);
  }
  std::error_code none;
  const auto written = fs::last_write_time(file, none);
  return !none &&
         fs::file_time_type::clock::now() - written < std::chrono::duration<double>(fresh_s);
}

// What --set said on the command line: "nodes.step.lr": "0.01".
Json set_of(const Json& command) {
  Json set = Json::object();
  if (!command.is_array()) return set;
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (!command[i].is_string()) continue;
    std::string word = command[i];
    if (word == "--set" && i + 1 < command.size() && command[i + 1].is_string())
      word = command[++i];
    else if (word.starts_with("--set="))
      word.erase(0, 6);
    else
      continue;
    if (const auto equals = word.find('='); equals != word.npos)
      set[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return set;
}

// Plain values by path; lists of plain values are one.
void flatten(const Json& value, const std::string& path, std::map<std::string, Json>& all) {
  const bool plain = !value.is_structured() || value.empty() ||
                     (value.is_array() && std::none_of(value.begin(), value.end(),
                                                       [](auto& v) { return v.is_structured(); }));
  if (plain) {
    all[path] = value;
    return;
  }
  std::size_t index = 0;
  for (const auto& [key, member] : value.items())
    flatten(member,
            (path.empty() ? "" : path + ".") +
                (value.is_array() ? std::to_string(index++) : std::string(key)),
            all);
}

Json differing(const std::vector<fs::path>& folders) {
  std::map<std::string, std::map<std::size_t, Json>> by_path;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    std::map<std::string, Json> all;
    const Json graph = read_json(folders[i] / "graph.json");
    if (graph.is_object()) flatten(graph, "", all);
    for (auto& [path, value] : all) by_path[path][i] = std::move(value);
  }
  Json settings = Json::array();
  for (const auto& [path, values] : by_path) {
    const bool same = values.size() == folders.size() &&
                      std::all_of(values.begin(), values.end(), [&](const auto& v) {
                        return v.second == values.begin()->second;
                      });
    if (same) continue;
    Json row = Json::array(), in = Json::array();
    for (std::size_t i = 0; i < folders.size(); ++i) {
      const auto it = values.find(i);
      row.push_back(it == values.end() ? Json() : it->second);
      if (it != values.end()) in.push_back(i);
    }
    settings.push_back({{"path", path}, {"values", std::move(row)}, {"in", std::move(in)}});
  }
  return settings;
}

}  // namespace

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {"run.json", "summary.json", "sessions.jsonl"})
    if (fs::is_regular_file(folder / name, ignored)) return true;
  return false;
}

std::vector<fs::path> find(const fs::path& root) {
  std::vector<fs::path> found;
  std::size_t left = most_entries;
  find_below(root, deepest, left, found);
  return found;
}

Json row(const fs::path& folder, const std::string& name) {
  const Json summary = read_json(folder / "summary.json");
  const Json sessions = sessions_of(folder), own = notes(folder);
  Json r = {{"name", name},
            {"title", text(own, "name")},
            {"note", text(own, "note")},
            {"tags", own.value("tags", Json::array())},
            {"archived", own.value("archived", false)},
            {"status", summary.is_object() ? text(summary, "status") : "open"},
            {"started", ""},
            {"set", Json::object()},
            {"epochs", whole(summary, "epochs")},
            {"steps", whole(summary, "steps")},
            {"wall_s", number(summary, "wall_s")},
            {"metrics", Json::object()}};
  if (summary.is_object() && summary.contains("metrics") && summary["metrics"].is_object())
    r["metrics"] = summary["metrics"];
  if (sessions.empty()) return r;
  double before = 0;  // of the processes before the last one; a killed one has not said its time
  for (std::size_t i = 0; i + 1 < sessions.size(); ++i) before += number(sessions[i], "wall_s");
  r["started"] = sessions.front()["time"];
  if (sessions.front().contains("command")) r["set"] = set_of(sessions.front()["command"]);
  const bool ended = sessions.back().contains("status");
  if (sessions.size() > 1) r["wall_s"] = before + (ended ? number(summary, "wall_s") : 0);
  if (ended) return r;
  // The last process has not said how it ended.
  const Json live = read_json(folder / "live.json");
  r["status"] = is_alive(live, folder / "live.json") ? "running" : "open";
  if (!live.is_object()) return r;
  r["live"] = live;
  r["steps"] = whole(live, "steps");
  r["epochs"] = whole(live, "epoch");
  r["wall_s"] = number(live, "wall_s") + before;
  if (const std::string metric = text(live, "metric"); !metric.empty())
    r["metrics"][metric] = {{"last", live.value("metric_last", Json())},
                            {"best", live.value("metric_best", Json())},
                            {"mode", text(live, "metric_mode")}};
  return r;
}

void sort(Json& rows, const std::string& column) {
  static constexpr const char* plain[] = {"name", "started", "steps", "epochs", "wall_s", "status"};
  const bool is_plain = std::find(std::begin(plain), std::end(plain), column) != std::end(plain);
  const auto has = [&](const Json& r) { return r["metrics"].contains(column); };
  if (!is_plain && !rows.empty() && std::none_of(rows.begin(), rows.end(), has)) {
    std::set<std::string> names;
    for (const Json& r : rows)
      for (const auto& [name, values] : r["metrics"].items()) names.insert(name);
    std::string known;
    for (const auto& name : names) known += (known.empty() ? "" : ", ") + name;
    throw Error(Exit::usage, "no run has a metric " + column + "; there are " +
                                 (known.empty() ? "none" : known) +
                                 ", and name, started, steps, epochs, wall_s, status");
  }
  const auto first = std::find_if(rows.begin(), rows.end(), has);
  const std::string mode =
      is_plain || first == rows.end() ? "" : text((*first)["metrics"][column], "mode");
  const bool up = is_plain ? column == "name" || column == "status" : less_is_better(column, mode);
  const auto key = [&](const Json& r) {
    if (is_plain) return r[column];
    return has(r) ? r["metrics"][column].value("best", Json()) : Json();
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const Json& a, const Json& b) {
    const Json x = key(a), y = key(b);
    if (x.is_null() || y.is_null()) return !x.is_null() && y.is_null();  // what lacks comes last
    return up ? x < y : y < x;
  });
}

Json compare(const std::vector<fs::path>& folders, const std::vector<std::string>& names) {
  Json rows = Json::array();
  std::map<std::string, Json> by_name;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    rows.push_back(row(folders[i], names[i]));
    Metrics metrics(folders[i] / "metrics.jsonl");
    metrics.update();
    for (const auto& [name, series] : metrics.by_epoch) {
      Json& values = by_name.try_emplace(name, Json(folders.size(), nullptr)).first->second;
      values[i] = figures(name, series);
    }
  }
  Json all = Json::array();
  for (auto& [name, values] : by_name) all.push_back({{"name", name}, {"values", values}});
  return {{"runs", rows}, {"settings", differing(folders)}, {"figures", all}};
}

Json notes(const fs::path& folder) {
  Json j = read_json(folder / "notes.json");
  if (!j.is_object()) return Json::object();
  if (j.contains("tags") && !j["tags"].is_array()) j.erase("tags");
  if (j.contains("archived") && !j["archived"].is_boolean()) j.erase("archived");
  return j;
}

void change_notes(const fs::path& folder, const Json& change) {
  if (!change.is_object()) throw Error(Exit::usage, "expected an object");
  Json j = notes(folder);
  for (const auto& [key, value] : change.items()) {
    const bool is_text = key == "name" || key == "note";
    const bool right = is_text ? value.is_string()
                       : key == "tags"
                           ? value.is_array() && std::all_of(value.begin(), value.end(),
                                                             [](auto& v) { return v.is_string(); })
                           : key == "archived" && value.is_boolean();
    if (!right)
      throw Error(Exit::usage, "notes.json holds name and note (texts), tags (texts), archived");
    j[key] = value;
  }
  const std::string text = j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (text.size() > (1u << 16)) throw Error(Exit::usage, "notes are at most 64 KB");
  write_whole(folder / "notes.json", text);
}

}  // namespace sluice::runs
