// `sluice check`: every diagnostic at once.
#include <iostream>

#include "engine/base/counted.h"
#include "engine/base/message.h"
#include "engine/plan/cache_need.h"
#include "engine/plan/device_need.h"
#include "tools/cli/cli.h"

namespace sluice::cli {

// What each cache will hold, where that is known.
static Json needs_json(const Plan& plan) {
  Json all = Json::object();
  for (int i = 0; i < static_cast<int>(plan.nodes.size()); ++i) {
    const PlanNode& n = plan.nodes[static_cast<std::size_t>(i)];
    if (!n.spec->is_cache) continue;
    const CacheNeed need = cache_need(plan, i);
    if (need.item_bytes == 0) continue;
    all[n.path()] = {{"item_bytes", need.item_bytes}, {"exact", need.exact}};
    if (need.items > 0) all[n.path()]["items"] = need.items;
    all[n.path()]["text"] = need.text();
  }
  return all;
}

// What samples take of a GPU's memory, where that is known.
static Json device_json(const Plan& plan) {
  const DeviceNeed need = device_need(plan);
  Json flights = Json::object();
  for (const auto& f : need.in_flight) flights[f.gate] = {{"packets", f.packets}, {"each", f.each}};
  return {{"in_flight", std::move(flights)}, {"bytes", need.flying()},   {"exact", need.exact},
          {"budgets", need.budgets},         {"caches", need.unbounded}, {"text", need.text()}};
}

// Transforms that are done together, by the names of the nodes.
static Json fused_json(const Plan& plan) {
  Json all = Json::array();
  for (const PlanRun& run : plan.runs) {
    Json nodes = Json::array();
    for (int i : run.nodes) nodes.push_back(plan.nodes[static_cast<std::size_t>(i)].path());
    all.push_back({{"nodes", std::move(nodes)},
                   {"resamplings", run.resamplings},
                   {"batched", run.batched},
                   {"text", text(plan, run)}});
  }
  return all;
}

int check(const Options& options) {
  bool ok = true;
  Json all = Json::array();
  std::vector<std::vector<std::string>> sets;
  if (options.merge)
    sets.push_back(options.graphs);
  else
    for (const auto& file : options.graphs) sets.push_back({file});
  for (const auto& files : sets) {
    Checked checked;
    check_graph(files, options, checked, /*may_be_stdin=*/true);
    ok &= checked.diagnostics.ok();
    Json j = {{"file", checked.file}, {"ok", checked.diagnostics.ok()}};
    const Json needs = checked.plan ? needs_json(*checked.plan) : Json::object();
    const Json device = checked.plan ? device_json(*checked.plan) : Json::object();
    if (checked.plan) {
      j["nodes"] = checked.plan->nodes.size();
      j["streams"] = checked.plan->streams.size();
      j["caches"] = needs;
      j["device"] = device;
      j["fused"] = fused_json(*checked.plan);
    }
    j["diagnostics"] = checked.diagnostics.to_json();
    all.push_back(std::move(j));
    if (options.json) continue;
    if (checked.plan)
      std::cout << "ok: " << printable(checked.file) << " ("
                << counted(std::ssize(checked.plan->nodes), "node") << ", "
                << counted(std::ssize(checked.plan->streams), "stream") << ")\n";
    for (const auto& [path, need] : needs.items())
      std::cout << "  " << printable(path) << " keeps " << need["text"].get<std::string>() << "\n";
    if (const std::string flying = device.value("text", ""); !flying.empty())
      std::cout << "  on a GPU fly " << printable(flying) << "\n";
    if (checked.plan)
      for (const PlanRun& run : checked.plan->runs)
        std::cout << "  done together: " << printable(text(*checked.plan, run)) << "\n";
    std::cout << std::flush;
    print(checked.diagnostics);
  }
  if (options.json) std::cout << dump({{"ok", ok}, {"graphs", all}});
  return ok ? code(Exit::done) : code(Exit::usage);
}

}  // namespace sluice::cli
