// `sluice run` and `sluice profile`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>

#include "engine/base/counted.h"
#include "engine/base/shell_word.h"
#include "engine/session/what_if.h"
#include "kernels/net/memory_plan.h"
#include "tools/runtime/amount.h"
#include "tools/runtime/run/supervise.h"

namespace sluice {
namespace {

// What four decimals would round to zeros has three digits.
std::string short_number(double v) {
  return v != 0 && std::abs(v) < 1e-3 ? fmt::format("{:.3g}", v) : fmt::format("{:.4f}", v);
}

void print_result(const Session& session, const Outcome& outcome, const Options& options) {
  if (session.ranks().world.rank > 0) return;
  const Json summary = session.summary(outcome);
  if (options.json) {
    std::cout << summary.dump(2) << "\n";
    return;
  }
  if (options.quiet) return;
  fmt::print("{}: {}, {}, {:.1f} s\n", summary["status"].get<std::string>(),
             counted(summary["epochs"], "epoch"), counted(summary["steps"], "step"),
             summary["wall_s"].get<double>());
  for (const auto& [name, m] : summary["metrics"].items())
    if (!m["last"].is_null())
      fmt::print("  {:<28} {}{}\n", name, short_number(m["last"]),
                 name.ends_with(".lr")
                     ? ""
                     : fmt::format("   best {} (epoch {})", short_number(m["best"]),
                                   m["best_epoch"].get<int>() + 1));
  fmt::print("  samples:");
  for (const auto& [name, n] : summary["samples"].items())
    if (n != 0) fmt::print(" {} {}", n.get<std::uint64_t>(), name);
  fmt::print("\n");
  if (const std::string who = session.profile().value("straggler", ""); !who.empty())
    fmt::print("  {}\n", who);
  const std::string folder = session.out_dir().string();
  if (!folder.empty()) fmt::print("  results in {}\n", folder);
  if (session.is_stopped_by_rule() && session.can_resume())
    fmt::print("  run.stop has ended it; with another run.stop `sluice run --resume {}` goes on\n",
               shell_word(folder));
  else if (outcome.status == Outcome::Status::cut && session.plan().turns && session.can_resume())
    fmt::print("  `sluice run --resume {}` goes on\n", shell_word(folder));
}

int print_nothing_left(const Session& session, const Options& options) {
  if (session.ranks().world.rank > 0) return static_cast<int>(Exit::done);
  if (options.json) {
    std::ifstream in(session.out_dir() / "summary.json");
    std::cout << in.rdbuf();
  } else if (!options.quiet) {
    if (session.is_stopped_by_rule())
      fmt::print("nothing is left: run.stop has ended it; with another run.stop it goes on\n");
    else
      fmt::print("nothing is left: epochs is {}; --set run.epochs=N goes on\n",
                 session.progress().epochs);
  }
  return static_cast<int>(Exit::done);
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

// "–" for what was not measured.
std::string or_dash(bool measured, const std::string& text) { return measured ? text : "–"; }

// A table whose first column is text and whose others are numbers. (fmt counts code points.)
void print_rows(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> width(rows.front().size(), 0);
  const auto long_is = [](const std::string& s) {
    return static_cast<std::size_t>(
        std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  };
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], long_is(row[i]));
  for (const auto& row : rows) {
    std::string line = row[0] + std::string(width[0] - long_is(row[0]), ' ');
    for (std::size_t i = 1; i < row.size(); ++i)
      line += std::string(2 + width[i] - long_is(row[i]), ' ') + row[i];
    fmt::print("{}\n", line);
  }
}

std::vector<std::string> row_of(const Plan& plan, const Figures& figures, std::size_t i) {
  const NodeFigures& n = figures.nodes[i];
  const int node = static_cast<int>(i);
  const bool in_other = done_in(plan, figures, node) >= 0;
  const bool timed = !in_other && (n.p50_ms > 0 || n.p99_ms > 0);
  const auto ms = [&](double value) { return or_dash(timed, fmt::format("{:.3f}", value)); };
  return {names_done_with(plan, figures, node),
          std::to_string(n.fired),
          std::to_string(n.passed),
          fmt::format("{:.1f}", n.rate),
          or_dash(!in_other && n.fired > 0, percent(n.busy)),
          or_dash(!in_other && n.clocked, percent(n.cpu)),
          percent(n.starved),
          percent(n.blocked),
          ms(n.p50_ms),
          ms(n.p95_ms),
          ms(n.p99_ms),
          or_dash(n.mb > 0, fmt::format("{:.2f}", n.mb)),
          std::to_string(n.queue_max)};
}

// What limits, then a row for each node that takes a part of the time, and the others' names.
void print_nodes(const Plan& plan, const Figures& figures, const Json& profile, bool all) {
  constexpr double little = 0.01;
  fmt::print("{}\n\n", profile["verdict"].get<std::string>());
  if (const std::string who = profile.value("straggler", ""); !who.empty())
    fmt::print("{}\n\n", who);
  std::vector<std::vector<std::string>> rows{{"node", "fired", "passed", "rate/s", "busy", "cpu",
                                              "starved", "blocked", "p50 ms", "p95 ms", "p99 ms",
                                              "MB each", "queue"}};
  std::string idle, elsewhere;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const std::string& path = plan.nodes[i].path();
    const int in = done_in(plan, figures, static_cast<int>(i));
    if (in >= 0)
      elsewhere += (elsewhere.empty() ? "" : ", ") + path + " (" +
                   plan.nodes[static_cast<std::size_t>(in)].path() + ")";
    if (all || (in < 0 && figures.nodes[i].busy >= little))
      rows.push_back(row_of(plan, figures, i));
    else if (in < 0)
      idle += (idle.empty() ? "" : ", ") + path;
  }
  if (rows.size() > 1) print_rows(rows);
  if (!elsewhere.empty()) fmt::print("done in the pass of another node: {}\n", elsewhere);
  if (!idle.empty()) fmt::print("busy less than 1%: {} (--all shows each)\n", idle);
}

// Values, their gradients and what steps save; without weights and work space.
void print_memory(const std::string& name, const Json& a) {
  const auto bytes = [&](const char* key) {
    return static_cast<std::int64_t>(a[key].get<double>());
  };
  if (const auto step = bytes("step_bytes"); step > 0) {
    const auto kept = bytes("step_bytes_all_kept");
    fmt::print("\n{}: activations of a training step: {}", name, bytes_text(kept));
    if (step != kept)
      fmt::print(" -> {}, {:.2f} forward passes again, {} moved to the host", bytes_text(step),
                 a["forward_again"].get<double>(), bytes_text(bytes("bytes_moved")));
  }
  if (const auto window = bytes("window_bytes"); window > 0)
    fmt::print("\n{}: activations of a forward pass alone: {}", name, bytes_text(window));
}

// A row for each stage of a network in parts.
void print_stages(const std::string& network, const Json& a) {
  const auto bytes = [](const Json& n) {
    return bytes_text(static_cast<std::int64_t>(n.get<double>()));
  };
  std::vector<std::vector<std::string>> rows{{network + ": stage", "from layer", "to layer",
                                              "forward ms", "backward ms", "comes in", "kept",
                                              "peak"}};
  for (const Json& s : a["stages"])
    rows.push_back({std::to_string(rows.size() - 1), s["first"], s["last"],
                    fmt::format("{:.3f}", s["forward_ms"].get<double>()),
                    fmt::format("{:.3f}", s["backward_ms"].get<double>()), bytes(s["bytes_in"]),
                    bytes(s["kept_bytes"]), bytes(s["peak_bytes"])});
  fmt::print("\n\n");
  print_rows(rows);
  fmt::print("{} micro-batches: stages of equal time on devices of their own wait {} of it",
             a["micro_batches"].get<std::int64_t>(), percent(a["expected_bubble"].get<double>()));
  if (a.contains("bubble")) fmt::print("; these waited {}", percent(a["bubble"].get<double>()));
  if (!a["balanced"].empty())
    fmt::print("\nequal by these times: \"stages\": {}", a["balanced"].dump());
}

// A row for each layer that takes a part of its network's time, in the network's order.
void print_layers(const std::string& network, const Json& layers, bool all) {
  const auto ms = [](const Json& layer) {
    return layer["forward_ms"].get<double>() + layer["backward_ms"].get<double>();
  };
  double sum = 0, kept = 0;
  for (const Json& layer : layers) {
    sum += ms(layer);
    kept += layer["kept_mb"].get<double>();
  }
  std::vector<std::vector<std::string>> rows{
      {network + ": layer", "kind", "forward ms", "backward ms", "share", "kept MB"}};
  std::size_t small = 0;
  for (const Json& layer : layers) {
    if (!all && ms(layer) < 0.01 * sum) {
      ++small;
      continue;
    }
    const std::string name = layer["name"];
    rows.push_back({name.empty() ? "–" : name, layer["kind"],
                    fmt::format("{:.3f}", layer["forward_ms"].get<double>()),
                    fmt::format("{:.3f}", layer["backward_ms"].get<double>()),
                    percent(ms(layer) / std::max(sum, 1e-12)),
                    fmt::format("{:.2f}", layer["kept_mb"].get<double>())});
  }
  fmt::print("\n\n");
  print_rows(rows);
  fmt::print("a sample, of all threads together: {:.2f} ms, {:.1f} MB kept", sum, kept);
  if (small > 0) fmt::print("; {} layers below 1% (--all shows each)", small);
}

void print_table(const Plan& plan, const Figures& figures, const Json& profile, bool all) {
  print_nodes(plan, figures, profile, all);
  const Json& seconds = profile["shares"]["seconds"];
  fmt::print("\ntime of bodies:");
  for (const auto& [name, s] : seconds.items()) fmt::print(" {} {:.2f} s", name, s.get<double>());
  if (profile["shares"].contains("au"))
    fmt::print("; the training region works {} of the time",
               percent(profile["shares"]["au"].get<double>()));
  const Json arithmetic = profile.value("arithmetic", Json::object());
  for (const auto& [name, a] : arithmetic.items())
    fmt::print("\n{}: {} multiply-adds forward for a sample, {} of them eligible for tensor cores",
               name, amount(a["sample_multiply_adds"].get<double>()),
               percent(a["tensor_core_eligible"].get<double>()));
  for (const auto& [name, a] : arithmetic.items()) print_memory(name, a);
  const Json stages = profile.value("stages", Json::object());
  for (const auto& [name, a] : stages.items()) print_stages(name, a);
  const Json layers = profile.value("layers", Json::object());
  for (const auto& [name, list] : layers.items()) print_layers(name, list, all);
  const Json& process = profile["process"];
  fmt::print(
      "\nprocess: {:.2f} of {} cores, {} page faults ({} from disk), at most {:.0f} MB\n",
      process["cores"].get<double>(), figures.threads.cores,
      process["minor_faults"].get<std::int64_t>() + process["major_faults"].get<std::int64_t>(),
      process["major_faults"].get<std::int64_t>(), process["most_mb"].get<double>());
  for (const Json& g : profile["gpus"]) print_gpu(g);
  if (profile.contains("device_mb"))
    print_device(profile["device_mb"].get<double>(), profile["device_plan"]);
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

// Where a node is to be free whose work is done in one pass with that of others: all their names.
std::string pass_of(const std::string& change, const Session& session) {
  const int i = change.starts_with("free:") ? session.plan().graph->find(change.substr(5)) : -1;
  if (i < 0) return "";
  const Figures figures = session.figures();
  const int in = done_in(session.plan(), figures, i);
  const std::string names = names_done_with(session.plan(), figures, in < 0 ? i : in);
  return names == change.substr(5) ? "" : names;
}

Json answer(const std::string& text, const Session& session, const Options& options) {
  const WhatIf what = parse_what_if(text, session.plan(), options);
  const auto predicted = predict(what, session.plan(), session.figures());
  if (!predicted)
    throw Error(Exit::usage, "--what-if " + text + ": the changed graph is not right");
  Json j = {{"change", text}, {"before", predicted->before}, {"predicted", predicted->after}};
  if (!what.left_out.empty()) j["left_out"] = what.left_out;
  if (const std::string pass = pass_of(text, session); !pass.empty()) j["in_one_pass"] = pass;
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
    if (j.contains("in_one_pass"))
      fmt::print("; one pass does {}: free them together", j["in_one_pass"].get<std::string>());
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
  if (session->nothing_left()) return print_nothing_left(*session, options);
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
    again.overwrite = true;
    session.reset();  // with what it keeps on a device
    session = Session::open(again);
    if (!session) return static_cast<int>(Exit::usage);
    outcome = run_for(*session, options);
  }
  Json profile = session->profile();
  if (options.isolate && !stopping()) profile["alone"] = session->isolate();
  if (!options.json) {
    print_table(session->plan(), session->figures(), profile, options.all);
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
