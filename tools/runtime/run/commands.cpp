// `sluice run` and `sluice profile`.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "engine/session/what_if.h"
#include "tools/runtime/run/supervise.h"

namespace sluice {
namespace {

void print_result(const Session& session, const Outcome& outcome, const Options& options) {
  const Json summary = session.summary(outcome);
  if (options.json) {
    std::cout << summary.dump(2) << "\n";
    return;
  }
  if (options.quiet) return;
  fmt::print("{}: {} epochs, {} steps, {:.1f} s\n", summary["status"].get<std::string>(),
             summary["epochs"].get<int>(), summary["steps"].get<std::uint64_t>(),
             summary["wall_s"].get<double>());
  for (const auto& [name, m] : summary["metrics"].items())
    if (!m["last"].is_null())
      fmt::print("  {:<28} {:.4f}   best {:.4f} (epoch {})\n", name, m["last"].get<double>(),
                 m["best"].get<double>(), m["best_epoch"].get<int>() + 1);
  fmt::print("  samples:");
  for (const auto& [name, n] : summary["samples"].items())
    if (n != 0) fmt::print(" {} {}", n.get<std::uint64_t>(), name);
  fmt::print("\n");
  if (!session.out_dir().empty()) fmt::print("  results in {}\n", session.out_dir().string());
}

std::string percent(double share) { return fmt::format("{:.0f}%", 100 * share); }

void print_gpu(const Json& g) {
  fmt::print("{}: {} busy, {:.0f} MB ({}), {:.0f} MHz, {:.0f} C, {:.0f} W",
             g["name"].get<std::string>(), percent(g["utilization"].get<double>()),
             g["memory_mb"].get<double>(), percent(g["memory"].get<double>()),
             g["sm_mhz"].get<double>(), g["temperature_c"].get<double>(),
             g["power_w"].get<double>());
  for (const Json& remark : g["remarks"]) fmt::print("; {}", remark.get<std::string>());
  fmt::print("\n");
}

// What was in the device's memory at most, and what the plan allows samples of that.
void print_device(double most_mb, const Json& plan) {
  fmt::print("device: at most {:.0f} MB in tensors; by the plan {}{:.0f} MB of samples in flight",
             most_mb, plan["exact"].get<bool>() ? "" : "at least ",
             plan["in_flight_mb"].get<double>());
  if (plan.contains("caches_mb"))
    fmt::print(" and at most {:.0f} MB in caches", plan["caches_mb"].get<double>());
  fmt::print("\n");
}

void print_table(const Plan& plan, const Figures& figures, const Json& profile) {
  std::size_t width = 4;
  for (const PlanNode& n : plan.nodes) width = std::max(width, n.path().size());
  fmt::print("{:<{}}  {:>8} {:>8} {:>9} {:>5} {:>5} {:>8} {:>8} {:>9} {:>9} {:>9} {:>8} {:>6}\n",
             "node", width, "fired", "passed", "rate/s", "busy", "cpu", "starved", "blocked",
             "p50 ms", "p95 ms", "p99 ms", "MB each", "queue");
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const NodeFigures& n = figures.nodes[i];
    fmt::print(
        "{:<{}}  {:>8} {:>8} {:>9.1f} {:>5} {:>5} {:>8} {:>8} {:>9.3f} {:>9.3f} {:>9.3f} {:>8.2f} "
        "{:>6}\n",
        plan.nodes[i].path(), width, n.fired, n.passed, n.rate, percent(n.busy), percent(n.cpu),
        percent(n.starved), percent(n.blocked), n.p50_ms, n.p95_ms, n.p99_ms, n.mb, n.queue_max);
  }
  const Json& seconds = profile["shares"]["seconds"];
  fmt::print("\ntime of bodies:");
  for (const auto& [name, s] : seconds.items()) fmt::print(" {} {:.2f} s", name, s.get<double>());
  if (profile["shares"].contains("au"))
    fmt::print("; the training region works {} of the time",
               percent(profile["shares"]["au"].get<double>()));
  const Json arithmetic = profile.value("arithmetic", Json::object());
  for (const auto& [name, a] : arithmetic.items())
    fmt::print("\n{}: {:.1f} G multiply-adds a forward pass, {} of them eligible for tensor cores",
               name, a["multiply_adds"].get<double>() * 1e-9,
               percent(a["tensor_core_eligible"].get<double>()));
  const Json& process = profile["process"];
  fmt::print(
      "\nprocess: {:.2f} of {} cores, {} page faults ({} from disk), at most {:.0f} MB\n",
      process["cores"].get<double>(), figures.threads.cores,
      process["minor_faults"].get<std::int64_t>() + process["major_faults"].get<std::int64_t>(),
      process["major_faults"].get<std::int64_t>(), process["most_mb"].get<double>());
  for (const Json& g : profile["gpus"]) print_gpu(g);
  if (profile.contains("device_mb"))
    print_device(profile["device_mb"].get<double>(), profile["device_plan"]);
  fmt::print("{}\n", profile["verdict"].get<std::string>());
}

// ---- what if ------------------------------------------------------------------------------------

// The rate of a run with the change; nullopt where it failed, and that was said.
std::optional<double> measure(const WhatIf& what) {
  auto session = Session::open(what.options);
  if (!session) return std::nullopt;
  const Outcome outcome = run_for(*session, what.options);
  if (finish(*session, outcome) != 0) return std::nullopt;
  return pace(session->plan(), session->figures());
}

Json answer(const std::string& text, const Session& session, const Options& options) {
  const WhatIf what = parse_what_if(text, session.plan(), options);
  const auto predicted = predict(what, session.plan(), session.figures());
  if (!predicted)
    throw Error(Exit::usage, "--what-if " + text + ": the changed graph is not right");
  Json j = {{"change", text}, {"before", predicted->before}, {"predicted", predicted->after}};
  if (options.verify && !stopping())
    if (const auto measured = measure(what)) j["measured"] = *measured;
  return j;
}

Json answers(const Session& session, const Json& profile, const Options& options) {
  Json all = Json::array();
  for (std::string text : options.what_if) {
    if (text == "verdict") text = profile["change"].get<std::string>();
    if (text.empty()) {
      std::cerr << "--what-if verdict: nothing limits, so there is nothing to change\n";
      continue;
    }
    all.push_back(answer(text, session, options));
  }
  return all;
}

void print_answers(const Json& all) {
  for (const Json& j : all) {
    const double before = j["before"], after = j["predicted"];
    fmt::print("with {}: about {:.1f}/s, now {:.1f}/s", j["change"].get<std::string>(), after,
               before);
    if (j.contains("measured")) {
      const double measured = j["measured"];
      fmt::print("; measured {:.1f}/s, the prediction is {:+.0f}% off", measured,
                 100 * (after / std::max(measured, 1e-9) - 1));
    }
    fmt::print("\n");
  }
}

void print_isolated(const Json& all) {
  if (all.empty()) return;
  fmt::print("\nalone, firings/s by threads\n");
  for (const auto& [name, rates] : all.items()) {
    fmt::print("  {:<24}", name);
    for (const auto& [threads, rate] : rates.items())
      fmt::print("  {}: {:.1f}", threads, rate.get<double>());
    fmt::print("\n");
  }
}

}  // namespace

int run_command(const Options& options) {
  auto session = Session::open(options);
  if (!session) return static_cast<int>(Exit::usage);
  const Outcome outcome = run_for(*session, options);
  print_result(*session, outcome, options);
  return finish(*session, outcome);
}

int profile_command(const Options& options) {
  auto session = Session::open(options);
  if (!session) return static_cast<int>(Exit::usage);
  for (const auto& text : options.what_if)  // before the run, which may take long
    if (text != "verdict") {
      std::optional<Graph> graph;
      std::optional<Plan> plan;
      if (!load_plan(parse_what_if(text, session->plan(), options).options, graph, plan))
        throw Error(Exit::usage, "--what-if " + text + ": the changed graph is not right");
    }
  Outcome outcome = run_for(*session, options);
  if (options.verify && !stopping() && finish(*session, outcome) == 0) {
    // The runs to come find files in the page cache and threads that exist; so must the one that
    // they are held against.
    Options again = options;
    again.warnings = false;
    session.reset();  // with what it keeps on a device
    session = Session::open(again);
    if (!session) return static_cast<int>(Exit::usage);
    outcome = run_for(*session, options);
  }
  Json profile = session->profile();
  if (options.isolate && !stopping()) profile["alone"] = session->isolate();
  if (!options.json) {
    print_table(session->plan(), session->figures(), profile);
    print_isolated(profile.value("alone", Json::object()));
  }
  profile["what_if"] = answers(*session, profile, options);
  if (options.json)
    std::cout << profile.dump(2) << "\n";
  else
    print_answers(profile["what_if"]);
  return finish(*session, outcome);
}

}  // namespace sluice
