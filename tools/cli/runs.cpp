// `sluice runs` and `sluice compare`: run folders beside each other, without a browser.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <set>

#include "engine/base/csv.h"
#include "engine/base/message.h"
#include "engine/base/missing_folder.h"
#include "tools/cli/cli.h"
#include "tools/runs/runs.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;
using Rows = std::vector<std::vector<std::string>>;

std::size_t width_of(const std::string& s) {
  return static_cast<std::size_t>(
      std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Columns from `numbers` on are to the right.
void print_table(const Rows& rows, std::size_t numbers) {
  std::vector<std::size_t> width;
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (width.size() <= c) width.push_back(0);
      width[c] = std::max(width[c], width_of(row[c]));
    }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string room(width[c] - width_of(row[c]), ' ');
      line += (c > 0 ? "  " : "") + (c < numbers ? row[c] + room : room + row[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::cout << line << '\n';
  }
}

std::string short_number(const Json& value) {
  if (!value.is_number()) return "–";
  const double v = value;
  char text[32];
  std::snprintf(text, sizeof text, v != 0 && std::fabs(v) < 1e-3 ? "%.3g" : "%.4f", v);
  if (v == std::floor(v) && std::fabs(v) < 1e15) std::snprintf(text, sizeof text, "%.0f", v);
  return text;
}

std::string seconds(const Json& value) {
  const double s = value.is_number() ? value.get<double>() : 0;
  char text[32];
  if (s < 100)
    std::snprintf(text, sizeof text, "%.1f s", s);
  else if (s < 6000)
    std::snprintf(text, sizeof text, "%.0f min", s / 60);
  else
    std::snprintf(text, sizeof text, "%.1f h", s / 3600);
  return text;
}

std::string field(const Json& j, const char* key) {
  const auto& v = j.at(key);
  return printable(v.is_string() ? v.get<std::string>() : v.dump());
}

// What a table has room for: means and losses of whole epochs, the metric that sorts first.
std::vector<std::string> shown_metrics(const Json& rows, const std::string& first) {
  std::set<std::string> all;
  for (const Json& r : rows)
    for (const auto& [name, values] : r["metrics"].items())
      if (!name.ends_with(".lr") && !name.ends_with(".grad_norm")) all.insert(name);
  std::vector<std::string> shown;
  const auto take = [&](const auto& wanted) {
    for (const auto& name : all)
      if (shown.size() < 3 && wanted(name) &&
          std::find(shown.begin(), shown.end(), name) == shown.end())
        shown.push_back(name);
  };
  take([&](const std::string& n) { return n == first; });
  take([](const std::string& n) { return n.ends_with(".mean"); });
  take([](const std::string& n) { return n.find("loss") != n.npos; });
  take([](const std::string&) { return true; });
  return shown;
}

// "2026-01-04T10:00:00Z" as the minute that a clock here showed.
std::string local_minute(const std::string& utc) {
  std::tm time{};
  const char* rest = ::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%SZ", &time);
  if (!rest || *rest) return utc;
  const std::time_t seconds = ::timegm(&time);
  char text[32];
  if (!::localtime_r(&seconds, &time)) return utc;
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &time)};
}

void print_runs(const Json& rows, const std::string& sorted_by) {
  const auto metrics = shown_metrics(rows, sorted_by);
  Rows table{{"run", "status", "started", "epochs", "steps", "time"}};
  for (const auto& name : metrics) table[0].push_back(printable(name));
  for (const Json& r : rows) {
    std::vector<std::string> row{
        field(r, "name"),          field(r, "status"),       local_minute(field(r, "started")),
        short_number(r["epochs"]), short_number(r["steps"]), seconds(r["wall_s"])};
    for (const auto& name : metrics)
      row.push_back(r["metrics"].contains(name)
                        ? short_number(r["metrics"][name].value("best", Json()))
                        : "–");
    table.push_back(std::move(row));
  }
  print_table(table, 3);
}

void print_csv(const Json& rows) {
  std::set<std::string> metrics, set;
  for (const Json& r : rows) {
    for (const auto& [name, values] : r["metrics"].items()) metrics.insert(name);
    for (const auto& [path, value] : r["set"].items()) set.insert(path);
  }
  static constexpr const char* plain[] = {"name",   "title", "status", "started",
                                          "epochs", "steps", "wall_s", "note"};
  for (const char* key : plain) std::cout << (key == plain[0] ? "" : ",") << key;
  for (const auto& path : set) std::cout << ',' << csv_field(path);
  for (const auto& name : metrics)
    std::cout << ',' << csv_field(name + " last") << ',' << csv_field(name + " best");
  std::cout << '\n';
  const auto cell = [](const Json& j) {
    return j.is_null() ? "" : csv_field(j.is_string() ? j.get<std::string>() : j.dump());
  };
  for (const Json& r : rows) {
    for (const char* key : plain) std::cout << (key == plain[0] ? "" : ",") << cell(r[key]);
    for (const auto& path : set) std::cout << ',' << cell(r["set"].value(path, Json()));
    for (const auto& name : metrics) {
      const Json values = r["metrics"].value(name, Json::object());
      std::cout << ',' << cell(values.value("last", Json())) << ','
                << cell(values.value("best", Json()));
    }
    std::cout << '\n';
  }
}

std::string setting(const Json& s, std::size_t i) {
  const Json& in = s["in"];
  return std::find(in.begin(), in.end(), i) == in.end() ? "–" : printable(s["values"][i].dump());
}

void print_comparison(const Json& j) {
  const std::size_t n = j["runs"].size();
  Rows table{{"setting"}};
  for (const Json& r : j["runs"]) table[0].push_back(field(r, "name"));
  for (const Json& s : j["settings"]) {
    table.push_back({field(s, "path")});
    for (std::size_t i = 0; i < n; ++i) table.back().push_back(setting(s, i));
  }
  if (table.size() > 1)
    print_table(table, 1);
  else
    std::cout << "all settings are the same\n";
  for (const char* what : {"best", "last", "min"}) {
    Rows rows{{what}};
    for (const Json& r : j["runs"]) rows[0].push_back(field(r, "name"));
    for (const Json& f : j["figures"]) {
      rows.push_back({field(f, "name")});
      for (const Json& v : f["values"])
        rows.back().push_back(v.is_object() ? short_number(v.value(what, Json())) : "–");
    }
    if (rows.size() == 1) continue;
    std::cout << '\n';
    print_table(rows, 1);
  }
}

std::string name_in(const fs::path& folder, const fs::path& root) {
  const std::string name = folder.lexically_relative(root).string();
  return name.empty() || name == "." ? fs::weakly_canonical(folder).filename().string() : name;
}

// As it was given; of ".." and "." what the folder is called.
std::string name_of(const fs::path& folder) {
  const fs::path last = folder.filename();
  return (last == ".." || last == "." ? fs::weakly_canonical(folder).filename() : folder).string();
}

}  // namespace

int list_runs(const Options& options) {
  std::error_code none;
  const fs::path root = !options.run.empty()             ? fs::path(options.run)
                        : fs::is_directory("runs", none) ? fs::path("runs")
                                                         : fs::path(".");
  if (!fs::is_directory(root, none))
    throw IoError(root.string() + ": no such folder" + missing_folder(root));
  Json rows = Json::array();
  for (const auto& folder : runs::find(root))
    rows.push_back(runs::row(folder, name_in(folder, root)));
  runs::sort(rows, options.sort);
  if (options.json)
    std::cout << dump({{"folder", root.string()}, {"runs", rows}});
  else if (options.csv)
    print_csv(rows);
  else if (rows.empty())
    tell("no runs in " + root.string() + "; `sluice run GRAPH` makes one");
  else
    print_runs(rows, options.sort);
  return code(Exit::done);
}

int compare_runs(const Options& options) {
  std::vector<fs::path> folders;
  std::vector<std::string> names;
  for (const auto& name : options.graphs) {
    fs::path folder = fs::path(name).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();  // "runs/a/"
    if (!runs::is_run(folder)) throw IoError(name + " holds no run");
    folders.push_back(folder);
    names.push_back(name_of(folder));
  }
  const Json j = runs::compare(folders, names);
  if (options.json)
    std::cout << dump(j);
  else
    print_comparison(j);
  return code(Exit::done);
}

}  // namespace sluice::cli
