#include "tools/cli/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <map>
#include <set>

#include "engine/base/error.h"
#include "engine/base/version.h"
#include "engine/judge/verdict.h"
#include "engine/trace/trace_reader.h"
#include "tools/cli/chrome.h"
#include "tools/runs/files.h"
#include "tools/runs/metrics.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_slices = 3000;  // of a trace, in the page

using runs::number;
using runs::read_lines;
using runs::sessions_of;
using runs::text;
using runs::text_of;

std::string base64(const std::string& bytes) {
  static constexpr char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k)
      out += i + k <= bytes.size() ? digits[three >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::string utc_now() {
  char now[32];
  const std::time_t t = std::time(nullptr);
  std::tm tm{};
  std::strftime(now, sizeof now, "%FT%TZ", gmtime_r(&t, &tm));
  return now;
}

// ---- metrics ------------------------------------------------------------------------------------

struct Series {
  std::vector<double> x, step, y;
  std::string mode;
};

// At most `most` points: each the mean of as many neighbours. Returns how many.
std::size_t thin(Series& s, std::size_t most) {
  const std::size_t each = (s.y.size() + most - 1) / most;
  if (each <= 1) return 1;
  Series t;
  for (std::size_t i = 0; i < s.y.size(); i += each) {
    const std::size_t end = std::min(i + each, s.y.size());
    double sum = 0;
    for (std::size_t k = i; k < end; ++k) sum += s.y[k];
    t.x.push_back(s.x[end - 1]);
    t.y.push_back(sum / static_cast<double>(end - i));
  }
  s = std::move(t);
  return each;
}

Json column(const std::vector<double>& values) {
  Json all = Json::array();
  for (double v : values) all.push_back(std::isfinite(v) ? Json(v) : Json());
  return all;
}

void add_metrics(Json& data, const fs::path& folder) {
  std::map<std::string, Series> epoch, batch;
  double epochs = 0, steps = 0;
  for (const Json& line : read_lines(folder / "metrics.jsonl")) {
    const std::string metric = text(line, "metric"), log = text(line, "log");
    if (metric.empty() && log.empty()) continue;
    const double e = number(line, "epoch") + 1, step = number(line, "step");
    const double y = number(line, "value", std::nan(""));
    epochs = std::max(epochs, metric.empty() ? 0 : e);
    steps = std::max(steps, step);
    Series& s = metric.empty() ? batch[log] : epoch[metric];
    s.x.push_back(metric.empty() ? step : e);
    s.step.push_back(step);
    s.y.push_back(y);
    s.mode = text(line, "mode");
  }
  data["epochs"] = epochs;
  data["steps"] = steps;
  data["best"] = Json::object();
  Json by_epoch = Json::array(), by_batch = Json::array();
  for (const auto& [name, s] : epoch) {
    const int best = runs::best_of(name, s.mode, s.y);
    by_epoch.push_back({{"name", name},
                        {"x", column(s.x)},
                        {"step", column(s.step)},
                        {"y", column(s.y)},
                        {"best", best}});
    if (best >= 0)
      data["best"][name] = {{"last", s.y.back()},
                            {"best", s.y[static_cast<std::size_t>(best)]},
                            {"best_epoch", s.x[static_cast<std::size_t>(best)] - 1}};
  }
  for (auto& [name, s] : batch) {
    const std::size_t each = thin(s, 1500);
    by_batch.push_back({{"name", name}, {"x", column(s.x)}, {"y", column(s.y)}, {"each", each}});
  }
  data["metrics"] = {{"epoch", std::move(by_epoch)}, {"batch", std::move(by_batch)}};
}

// ---- pictures -----------------------------------------------------------------------------------

// The first, the last and others in even steps.
std::vector<double> some_of(const std::set<double>& all, std::size_t most) {
  const std::vector<double> v(all.begin(), all.end());
  if (v.size() <= most) return v;
  std::vector<double> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(v[i * (v.size() - 1) / (most - 1)]);
  return some;
}

// The file's bytes where it is a PNG inside of the folder.
std::string read_png(const fs::path& folder, const std::string& name) {
  const fs::path path = fs::path(name).lexically_normal();
  if (path.is_absolute() || path.empty() || *path.begin() == "..") return "";
  std::error_code error;
  if (fs::file_size(folder / path, error) > (4u << 20) || error) return "";
  std::string bytes = text_of(folder / path);
  return bytes.starts_with("\x89PNG\r\n") ? bytes : "";
}

// Rows of samples, columns of epochs. At most `rows` and `columns`, so that the report stays small.
void add_previews(Json& data, const fs::path& folder) {
  constexpr std::size_t most_rows = 12, most_columns = 8;
  struct Row {
    std::string sample;
    Json slice;
    std::map<double, Json> images;  // by epoch
  };
  std::vector<std::pair<std::string, Row>> rows;
  std::set<double> epochs;
  std::set<std::string> files;
  for (const Json& line : read_lines(folder / "previews" / "index.jsonl")) {
    const std::string file = text(line, "file"), sample = text(line, "sample");
    if (file.empty() || !line.contains("epoch") || !line["epoch"].is_number()) continue;
    const std::string key = text(line, "node") + '\n' + file.substr(file.find('/') + 1);
    auto it = std::find_if(rows.begin(), rows.end(), [&](auto& r) { return r.first == key; });
    if (it == rows.end()) it = rows.insert(rows.end(), {key, Row{sample, Json(), {}}});
    it->second.slice = line.value("slice", Json());
    it->second.images[line["epoch"].get<double>()] = line;  // one that was written again replaces
    epochs.insert(line["epoch"].get<double>());
    files.insert(file);
  }
  const std::vector<double> shown = some_of(epochs, most_columns);
  // Samples that come in many epochs first: a shuffled stream brings others each time.
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.images.size() > b.second.images.size();
  });
  Json out = Json::array();
  std::size_t used = 0;
  for (std::size_t r = 0; r < std::min(rows.size(), most_rows); ++r) {
    Json images = Json::array();
    for (double e : shown) {
      const auto it = rows[r].second.images.find(e);
      const std::string png = it == rows[r].second.images.end()
                                  ? ""
                                  : read_png(folder / "previews", text(it->second, "file"));
      if (png.empty()) {
        images.push_back(Json());
        continue;
      }
      ++used;
      images.push_back({{"png", base64(png)},
                        {"classes", it->second.value("classes", Json::array())},
                        {"colors", it->second.value("colors", Json::array())}});
    }
    out.push_back({{"sample", rows[r].second.sample},
                   {"slice", rows[r].second.slice},
                   {"images", std::move(images)}});
  }
  data["previews"] = {
      {"epochs", shown}, {"rows", std::move(out)}, {"left_out", files.size() - used}};
}

// ---- sessions and what became of the run --------------------------------------------------------

// Whether a curve is as nodes/metric/curve_file.h writes it.
bool is_curve(const Json& j) {
  const auto numbers = [](const Json& of, const char* key) {
    return of.is_object() && of.contains(key) && of[key].is_array() &&
           std::ranges::all_of(of[key], [](const Json& v) { return v.is_number(); });
  };
  const auto all = [&](const char* key, auto&& fits) {
    return j.contains(key) && j[key].is_array() && std::ranges::all_of(j[key], fits);
  };
  const std::string kind = j.is_object() ? text(j, "kind") : "";
  if (kind == "froc") return numbers(j, "x") && numbers(j, "y");
  if (kind == "roc")
    return all("lines", [&](const Json& l) {
      return numbers(l, "x") && numbers(l, "y") && l.contains("name");
    });
  return kind == "confusion" && all("names", [](const Json& n) { return n.is_string(); }) &&
         all("counts",
             [&](const Json& row) { return row.is_array() && row.size() == j["names"].size(); });
}

// What metrics and slide_overview leave beside their numbers: curves/NODE.json, overviews/NAME.png.
void add_scores(Json& data, const fs::path& folder) {
  constexpr std::size_t most_overviews = 24;
  const auto sorted = [&](const char* sub, const char* extension) {
    std::vector<fs::path> files;
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(folder / sub, ignored))
      if (entry.path().extension() == extension) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
  };
  data["scores"] = Json::array();
  for (const fs::path& file : sorted("curves", ".json")) {
    Json curve = runs::read_json(file);
    if (!is_curve(curve)) continue;
    curve["node"] = file.lexically_relative(folder / "curves").replace_extension("").string();
    data["scores"].push_back(std::move(curve));
  }
  data["overviews"] = Json::array();
  const auto pictures = sorted("overviews", ".png");
  for (std::size_t i = 0; i < std::min(pictures.size(), most_overviews); ++i) {
    const std::string png = read_png(folder / "overviews", pictures[i].filename().string());
    if (!png.empty())
      data["overviews"].push_back({{"name", pictures[i].stem().string()}, {"png", base64(png)}});
  }
}

void add_status(Json& data) {
  const Json sessions = data["sessions"];  // a copy: what is added to `data` moves its members
  std::string status = data["summary"].is_object() ? text(data["summary"], "status") : "open";
  double all = 0;
  for (const Json& s : sessions) all += number(s, "wall_s");
  if (!sessions.empty() && !sessions.back().contains("status")) {
    status = "open";
    data["summary"] = Json();  // of an earlier process
  }
  data["status"] = status;
  data["wall_s"] = Json();
  if (data["summary"].is_object()) {
    data["wall_s"] = number(data["summary"], "wall_s");
  } else if (data["timeline"].is_object() && data["timeline"].contains("cpu")) {
    data["wall_s"] = number(data["timeline"], "interval_s") *
                     static_cast<double>(data["timeline"]["cpu"].size());
  }
  if (sessions.size() > 1) {
    data["sessions_n"] = sessions.size();
    data["sessions_s"] = all;
  }
}

void add_plan(Json& data, const std::optional<Plan>& plan) {
  static constexpr std::array<const char*, 4> lanes{"compute", "io", "step", "copy"};
  data["order"] = Json::array();
  data["lanes"] = Json::object();
  if (!plan) return;
  for (const PlanNode& n : plan->nodes) {
    data["order"].push_back(n.path());
    data["lanes"][n.path()] = lanes[static_cast<std::size_t>(n.lane)];
  }
  data["planned_epochs"] = plan->graph->run.epochs;
  if (!data["profile"].is_object()) return;
  const Verdict v = judge(*plan, Figures::from_json(*plan, data["profile"]));
  if (v.node >= 0) data["bottleneck"] = plan->nodes[static_cast<std::size_t>(v.node)].path();
  if (!data["profile"].contains("verdict")) data["profile"]["verdict"] = v.text;
}

// What is in the middle of a trace, as Chrome's JSON; null where there is none.
Json trace_of(const fs::path& file) {
  if (!fs::exists(file)) return nullptr;
  const TraceData trace = read_trace({file.string()});
  if (trace.slices.empty()) return nullptr;
  const Window window = middle_of(trace, most_slices);
  const std::uint64_t first = trace.slices.front().begin;
  Json events = Json::array();
  chrome_events(trace, window, [&](const Json& event) { events.push_back(event); });
  return {{"from_s", static_cast<double>(std::max(window.begin, first) - first) * 1e-9},
          {"slices", trace.slices.size()},
          {"traceEvents", std::move(events)}};
}

}  // namespace

Json folds_data(const fs::path& folder, const fs::path& work) {
  Json data = runs::read_json(work / "folds.json");
  for (Json& picture : data["pictures"])
    picture["png"] = base64(read_png(work, text(picture, "file")));
  data["folder"] = folder.string();
  data["made"] = utc_now();
  data["version"] = version;
  return data;
}

Json report_data(const fs::path& folder, const std::optional<Plan>& plan) {
  static const std::pair<const char*, const char*> files[] = {
      {"summary", "how the run ended, which is written then"},
      {"profile", "what was measured at the nodes"},
      {"timeline", "what was measured over time"},
      {"environment", "what the run ran on"}};
  Json data = {{"folder", folder.string()}, {"made", utc_now()}, {"missing", Json::array()}};
  bool any = false;
  for (const auto& [name, holds] : files) {
    const std::string file = std::string(name) + ".json";
    data[name] = runs::read_json(folder / file);
    any |= data[name].is_object();
    if (!data[name].is_object()) data["missing"].push_back(file + ": " + holds);
  }
  Json graph = runs::read_json(folder / "graph.json");
  any |= graph.is_object();
  if (!any)
    throw IoError(folder.string() + ": no run folder: it holds no graph.json and no summary.json");
  if (!graph.is_object()) data["missing"].push_back("graph.json: the resolved graph");
  if (graph.is_object() && !plan)
    data["missing"].push_back("the picture: graph.json is no graph that this version can read");
  data["graph"] = {{"name", graph.is_object() ? text(graph, "name") : ""},
                   {"desc", graph.is_object() ? text(graph, "desc") : ""}};
  data["graph"]["json"] = std::move(graph);
  try {
    data["trace"] = trace_of(folder / "trace.pftrace");
  } catch (const Error&) {
    data["trace"] = Json();
    data["missing"].push_back("trace.pftrace: when each body ran, which cannot be read");
  }
  data["version"] = version;
  data["sessions"] = sessions_of(folder);
  data["quarantine"] = read_lines(folder / "quarantine.jsonl");
  if (!fs::exists(folder / "metrics.jsonl"))
    data["missing"].push_back("metrics.jsonl: losses and metrics");
  add_metrics(data, folder);
  add_previews(data, folder);
  add_scores(data, folder);
  add_status(data);
  add_plan(data, plan);
  return data;
}

}  // namespace sluice::cli
