// `sluice plan G --ranks 8,32`: what a training step would take on so many processes
// (engine/judge/scaling.h), from a run's profile or a short run of its own.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "engine/base/machine.h"
#include "engine/base/message.h"
#include "engine/base/missing_folder.h"
#include "engine/base/scratch.h"
#include "engine/base/seconds_since.h"
#include "engine/judge/scaling.h"
#include "tools/cli/cli.h"
#include "tools/runs/files.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

std::string decimal(double value, int places) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", places, value);
  return text;
}

// ---- the command line ---------------------------------------------------------------------------

struct Unit {
  const char* name;
  double factor;
};

// "12.5GB/s": a positive number and one of the units.
double quantity(const std::string& option, const std::string& text, std::initializer_list<Unit> all,
                const std::string& example) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  for (const Unit& u : all)
    if (end != text.c_str() && number > 0 && std::isfinite(number) && std::strcmp(end, u.name) == 0)
      return number * u.factor;
  throw Error(Exit::usage, option + " " + text + ": want " + example);
}

double rate(const std::string& option, const std::string& text) {
  return quantity(option, text,
                  {{"GB/s", 1e9},
                   {"MB/s", 1e6},
                   {"kB/s", 1e3},
                   {"B/s", 1},
                   {"Gbit/s", 1e9 / 8},
                   {"Mbit/s", 1e6 / 8},
                   {"kbit/s", 1e3 / 8}},
                  "a rate such as 12.5GB/s or 100Mbit/s");
}

double duration(const std::string& option, const std::string& text) {
  return quantity(option, text, {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}},
                  "a time such as 5us");
}

int first_set(int a, std::int64_t b, int otherwise) {
  return a > 0 ? a : b > 0 ? static_cast<int>(b) : otherwise;
}

// Bytes a second that a core of this machine copies, of what no cache holds.
double copy_rate() {
  std::vector<float> from(8 << 20, 1), to(from.size());
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    best = std::min(best, seconds_since(begin));
  }
  return 2 * static_cast<double>(from.size() * sizeof(float)) / std::max(best, 1e-9);
}

Cluster cluster_of(const Options& o, bool on_device) {
  Cluster c;
  c.node = o.node;
  c.cores = first_set(o.cores, own_cores(), 1);
  c.link = rate("--link", o.link);
  c.inside = rate("--nvlink", !o.inside.empty() ? o.inside : on_device ? "200GB/s" : "1GB/s");
  c.latency = duration("--latency", !o.latency.empty() ? o.latency : on_device ? "5us" : "50us");
  c.memory = copy_rate();
  return c;
}

// Of a rank, whose share of its machine's cores it is.
Threads threads_of(const Options& o, const RunSettings& run, const Cluster& c) {
  Threads t;
  t.cores = std::max(1, c.cores / c.node);
  t.compute = first_set(o.threads, run.threads, t.cores);
  t.io = first_set(o.io_threads, run.io_threads, std::max(2, t.compute));
  t.step = first_set(o.step_threads, run.step_threads, t.cores);
  return t;
}

// ---- the measured run ---------------------------------------------------------------------------

Json profile_in(const fs::path& folder) {
  const Json profile = runs::read_json(folder / "profile.json");
  if (!fs::is_directory(folder))
    throw IoError(folder.string() + ": no such folder" + missing_folder(folder));
  if (!profile.is_object())
    throw Error(Exit::usage, folder.string() + " holds no profile.json; the run has not ended");
  return profile;
}

Json measured(const Options& given, const Threads& threads) {
  const Scratch scratch;
  Options o = given;
  o.threads = threads.compute;
  o.step_threads = threads.step;
  if (!o.json)
    std::cerr << "measuring one process for " + decimal(o.seconds, 0) + " s, with " +
                     std::to_string(threads.step) + " step threads\n";
  const int code = measure(o, (scratch.path / "run").string());
  if (code != 0)  // above 128: by a signal
    throw Error(static_cast<Exit>(code), std::string("the run that was to be measured ") +
                                             (code > 128 ? "was ended" : "failed"));
  return profile_in(scratch.path / "run");
}

StepCosts costs_of(const Plan& plan, const Json& profile, const Threads& threads,
                   const fs::path& run) {
  try {
    return StepCosts::of(plan, profile, threads);
  } catch (const Json::exception&) {
    throw DataError((run / "profile.json").string() + ": is not as a run writes it");
  }
}

// ---- the answer ---------------------------------------------------------------------------------

// Items of the source in a batch of one process, which need not be divisible.
std::int64_t items_of_batch(const Plan& plan, int stream) {
  std::int64_t children = 1;
  for (const int i : plan.order) {
    const PlanNode& n = plan.nodes[static_cast<std::size_t>(i)];
    if (n.stream != stream) continue;
    if (n.spec->arity == Arity::expand) children *= std::max(n.count, 1);
    if (n.spec->arity == Arity::gather) return std::max<std::int64_t>(1, n.count / children);
  }
  return 1;
}

// How the batch would be divided: what a run of so many processes itself would refuse is said.
std::optional<Training> training_on(int ranks, const Graph& graph, const Figures& figures,
                                    std::string& refused) {
  const auto& shards = graph.run.shards;
  if (shards && *shards < ranks) {
    refused = "run.shards is " + std::to_string(*shards) + ": at most one process a shard";
    return std::nullopt;
  }
  Diagnostics problems;
  const auto plan = make_plan(graph, {.processes = ranks}, problems);
  if (!plan) {
    for (const Diagnostic& d : problems.all())
      if (d.severity == Severity::error && refused.empty()) refused = d.message;
    return std::nullopt;
  }
  const auto stream = static_cast<std::size_t>(pace_stream(*plan));
  const Division& division = plan->streams[stream].division;
  Training t;
  t.items = division.by_place() ? division.items : items_of_batch(*plan, pace_stream(*plan));
  t.shards = shards.value_or(ranks);
  const auto source = static_cast<std::size_t>(plan->streams[stream].source);
  if (source < figures.nodes.size())
    t.epoch = std::max<std::int64_t>(figures.nodes[source].epoch_size, 0);
  t.halves = graph.run.transfer == "bfloat16";
  return t;
}

std::string percent(double share) { return decimal(100 * share, 0) + "%"; }

// Columns of numbers, the last one of text; a row of two has text in the place of numbers.
void print_rows(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> width(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size() && row.size() > 2; ++i)
      width[i] = std::max(width[i], row[i].size());
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      line += std::string(width[i] - std::min(width[i], row[i].size()), ' ') + row[i] + "  ";
    std::printf("%s\n", (line + row.back()).c_str());
  }
}

std::vector<std::string> row_of(const Json& r) {
  const std::string ranks = std::to_string(r["ranks"].get<int>());
  if (r.contains("refused")) return {ranks, printable(r["refused"].get<std::string>())};
  const auto number = [&](const char* key) { return r[key].get<double>(); };
  const auto ms = [&](const char* key) { return decimal(number(key), 1); };
  const bool epoch = r.contains("steps_an_epoch");
  return {
      ranks,
      std::to_string(r["busiest_shards"].get<int>()) + "/" + std::to_string(r["shards"].get<int>()),
      ms("step_ms"),
      ms("passes_ms"),
      ms("update_ms"),
      ms("wait_ms"),
      decimal(number("header_ms") + number("exposed_ms"), 1),
      ms("data_ms"),
      percent(number("au")),
      percent(number("efficiency")),
      decimal(number("memory_mb"), 0),
      decimal(1e-6 * number("sent_bytes"), 1),
      epoch ? decimal(number("steps_an_epoch"), 0) : "-",
      epoch ? percent(number("lost_to_last_batch")) : "-",
      r["limit"].get<std::string>()};
}

constexpr const char* rules =
    "shards      of the busiest rank, of a step: rank r of W has shards Kr/W to K(r+1)/W - 1\n"
    "step ms     passes + update + waits + exposed; or data, where that is more\n"
    "passes      of the busiest rank's items, one after the other; update: the optimizer's. Both\n"
    "            slower by ranks x step threads / cores of a machine where that is above 1\n"
    "waits       what the slowest of W ranks is expected to take more (by p50 and p95 of a pass)\n"
    "exposed     the header, W-1 messages, and the sum: partial sums to the owners of pieces,\n"
    "            additions, pieces to all; 2(W-1) messages\n"
    "data        the busiest rank's items by its data threads, or all work by a machine's cores\n"
    "AU          (passes + update) / step\n"
    "efficiency  step of one rank / (W x step)\n"
    "MB a rank   at most, as measured, and the sum's buffers; MB sent: of gradients, a step\n"
    "steps, lost of an epoch; the share of them that a last batch loses that is not full\n";

void print_table(const Json& j) {
  std::vector<std::vector<std::string>> rows{{"ranks", "shards", "step ms", "passes", "update",
                                              "waits", "exposed", "data", "AU", "efficiency",
                                              "MB a rank", "MB sent", "steps", "lost", "limit"}};
  for (const Json& r : j["rows"]) rows.push_back(row_of(r));
  print_rows(rows);
  const Json &m = j["measured"], &c = j["cluster"];
  const auto of = [](const Json& from, const char* key) { return from[key].get<double>(); };
  std::printf(
      "\nmeasured on one process: %.2f ms of passes an item of the source (a batch has %.0f), "
      "%.2f ms an update,\n  %.0f trained values, %.2f ms of cores to load and transform an item, "
      "at most %.1f items a second\n"
      "machines: %.0f ranks and %.0f cores each; %.3g GB/s between machines, %.3g GB/s inside, "
      "%.3g us a message,\n  %.3g GB/s of copies\n\n%s",
      of(m, "item_ms"), of(j, "items"), of(m, "update_ms"), of(m, "values"), of(m, "item_cpu_ms"),
      of(m, "items_a_s"), of(c, "node"), of(c, "cores"), 1e-9 * of(c, "link"),
      1e-9 * of(c, "nvlink"), 1e6 * of(c, "latency_s"), 1e-9 * of(c, "memory"), rules);
}

}  // namespace

int plan_ranks(const Options& given) {
  Options o = given;
  const bool is_run = o.graphs.size() == 1 && fs::is_directory(o.graphs.front());
  if (is_run) {
    if (o.run.empty()) o.run = o.graphs.front();
    o.graphs = {(fs::path(o.graphs.front()) / "graph.json").string()};
  }
  cluster_of(o, false);  // what is wrong with it is said before a run begins
  Checked checked;
  check_graph(o.graphs, o, checked);
  if (!checked.plan) {
    print(checked.diagnostics);
    return code(Exit::usage);
  }
  const Plan& plan = *checked.plan;
  const int stream = pace_stream(plan);
  if (stream < 0 || !plan.streams[static_cast<std::size_t>(stream)].trains)
    throw Error(Exit::usage, checked.file + " trains nothing: there is no step to be divided");
  const Threads here = threads_of(o, checked.graph->run, cluster_of(o, false));
  const Json profile = o.run.empty() ? measured(o, here) : profile_in(o.run);
  const Json world = o.run.empty() ? Json() : runs::read_json(fs::path(o.run) / "summary.json");
  if (world.is_object() && world.contains("world"))
    throw Error(Exit::usage, o.run + " was a run of several processes; a profile of one is needed");
  StepCosts costs = costs_of(plan, profile, here, o.run);
  if (costs.item_s <= 0)
    throw Error(Exit::usage, (o.run.empty() ? "the measured run" : o.run) +
                                 " took no step of this graph, so nothing says what one costs" +
                                 (o.run.empty() ? ": give more --seconds" : ""));
  const Cluster cluster = cluster_of(o, costs.on_device);
  const int had = static_cast<int>(runs::number(profile, "step_threads", here.step));
  if (!costs.on_device && had != here.step) {
    std::cerr << "note: measured with " + std::to_string(had) + " step threads; a rank has " +
                     std::to_string(here.step) + ", and its passes are taken to scale with them\n";
    costs.item_s *= static_cast<double>(had) / here.step;
  }
  const Figures figures = Figures::from_json(plan, profile);
  Json rows = Json::array();
  std::int64_t items = 0;
  for (const int ranks : o.ranks) {
    std::string refused;
    const auto training = training_on(ranks, *checked.graph, figures, refused);
    if (!training) {
      rows.push_back({{"ranks", ranks}, {"refused", refused}});
      continue;
    }
    items = training->items;
    rows.push_back(Scaling::of(*training, costs, cluster, ranks).to_json());
  }
  const Json all = {{"rows", rows},
                    {"items", items},
                    {"measured",
                     {{"item_ms", 1e3 * costs.item_s},
                      {"spread", costs.spread},
                      {"update_ms", 1e3 * costs.update_s},
                      {"item_cpu_ms", 1e3 * costs.item_cpu_s},
                      {"items_a_s", costs.items_a_s},
                      {"memory_mb", costs.memory_mb},
                      {"values", costs.values},
                      {"moments", costs.moments},
                      {"step_threads", here.step}}},
                    {"cluster",
                     {{"node", cluster.node},
                      {"cores", cluster.cores},
                      {"link", cluster.link},
                      {"nvlink", cluster.inside},
                      {"latency_s", cluster.latency},
                      {"memory", cluster.memory}}}};
  if (o.json)
    std::cout << dump(all);
  else
    print_table(all);
  return code(Exit::done);
}

}  // namespace sluice::cli
