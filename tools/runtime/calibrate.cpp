#include "tools/runtime/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <map>
#include <mutex>

#include "engine/base/error.h"
#include "engine/base/scratch.h"
#include "engine/base/shell_word.h"
#include "engine/state/checkpoint.h"
#include "kernels/lists/data_list.h"
#include "kernels/net/conv_1d.h"
#include "nodes/network/built_network.h"
#include "tools/runtime/network.h"
#include "tools/runtime/package.h"
#include "tools/runtime/run/supervise.h"
#include "tools/runtime/write_text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using onnx::Range;

Range::Method method_of(const std::string& name) {
  return name == "percentile" ? Range::Method::percentile
         : name == "mse"      ? Range::Method::mse
                              : Range::Method::minmax;
}

Options options_of(const Json& request) {
  Options o;
  o.command = "run";
  o.graphs = {request.at("graph")};
  o.set = request.at("set").get<std::vector<std::string>>();
  o.step_threads = request.at("step_threads");
  o.quiet = true;
  o.warnings = false;
  open_packages(o);
  return o;
}

// The graph as it is calibrated with: the network in float32 with these weights, so many samples.
void narrow(Options& o, const Json& request) {
  std::optional<Graph> graph;
  std::optional<Plan> plan;
  if (!load_plan(o, graph, plan)) throw Error(Exit::usage, o.graphs[0] + ": is not right");
  const GraphModel& m = model_of(*graph, request.at("net"));
  for (const PlanNode& n : plan->nodes) {
    if (n.spec->access == Access::update)
      throw Error(Exit::usage, "nodes." + n.path() +
                                   " trains: calibrate with a graph that predicts "
                                   "or validates");
    if (!n.is_source()) continue;
    if (!n.spec->find_param("limit"))
      throw Error(Exit::usage,
                  "nodes." + n.path() + ": a source of type " + n.spec->name +
                      " has no \"limit\"; file_list, file_patterns, csv_list, decathlon "
                      "and nnunet have");
    o.set.push_back("nodes." + n.path() + ".limit=" + request.at("samples").dump());
  }
  if (m.spec->find_param("precision")) o.set.push_back("models." + m.name + ".precision=float32");
  if (const std::string weights = request.at("weights"); !weights.empty())
    o.set.push_back("models." + m.name + ".weights=" + Json(weights).dump());
}

struct Observed {
  std::mutex mutex;
  Range range;
};

bool is_of_signals(const Net& net) {
  return std::ranges::any_of(net.steps, [](const auto& s) { return is_conv_1d(*s); });
}

// By the weight of the convolution that reads the value.
std::map<std::string, Observed> observe(Session& session, const Options& o, Net& net) {
  std::map<std::string, Observed> all;
  for (const auto& step : net.steps)
    if (const auto name = onnx::convolved_with(net, *step); !name.empty()) all[name];
  net.observer = [&](const Step& step, const Frame& f) {
    const auto found = all.find(onnx::convolved_with(net, step));
    if (found == all.end()) return;
    const std::lock_guard lock(found->second.mutex);
    found->second.range.add(f.values[step.inputs[0]]);
  };
  const Outcome outcome = run_for(session, o);
  net.observer = nullptr;
  for (const auto& step : net.steps)  // the first that saw one; what follows from it comes later
    if (const auto found = all.find(onnx::convolved_with(net, *step));
        found != all.end() && found->second.range.saw_nan())
      throw DataError("what " + found->first + " reads is not finite");
  if (outcome.status == Outcome::Status::failed)
    throw Error(outcome.failure.exit, outcome.failure.str());
  if (outcome.status != Outcome::Status::done || stopping())
    throw Error(static_cast<Exit>(128 + signal_received()), "calibrating was ended by a signal");
  return all;
}

std::uint64_t samples_seen(const Session& session) {
  const Json all = samples_json(session.plan(), session.scheduler());
  const std::uint64_t emitted = all.at("emitted"), bad = all.at("quarantined");
  return emitted - std::min(bad, emitted);  // crops of one sample may be bad by themselves
}

// A Json::exception where one of the two is no number.
onnx::Scale scale_in(const Json& value, bool symmetric, const std::string& where) {
  const auto scale = value.at("scale").get<double>(), zero = value.at("zero_point").get<double>();
  const double least = std::numeric_limits<float>::min(), most = std::numeric_limits<float>::max();
  if (!(scale >= least && scale <= most))
    throw DataError(where + ".scale: expected a number above 0 that float32 holds, found " +
                    value["scale"].dump());
  if (!(zero >= 0 && zero <= (symmetric ? 0 : 255) && zero == std::floor(zero)))
    throw DataError(where + ".zero_point: expected " +
                    (symmetric ? "0, as scales are symmetric" : "a whole number from 0 to 255") +
                    ", found " + value["zero_point"].dump());
  return {scale, static_cast<std::int64_t>(zero)};
}

}  // namespace

int calibrate_command(const Json& request) {
  const fs::path out = request.at("out").get<std::string>();
  Options o = options_of(request);
  narrow(o, request);
  const Scratch scratch;
  o.out = (scratch.path / "run").string();
  const auto session = Session::open(o);
  if (!session) throw Error(Exit::usage, o.graphs[0] + ": is not right");
  const std::string name = model_of(*session->plan().graph, request.at("net")).name;
  Network& network = *session->resources().network(name);
  auto* built = dynamic_cast<BuiltNetwork*>(&network);
  if (!built)
    throw Error(Exit::usage, "models." + name + " is a file of its own, whose steps are not known");
  const bool symmetric = !request.at("asymmetric").get<bool>();
  const auto all_observed = observe(*session, o, built->net());
  Json values = Json::object();
  for (const auto& [conv, observed] : all_observed) {
    const Range& r = observed.range;
    if (r.empty()) continue;  // of an output that the graph does not ask for, as deep supervision's
    if (r.only_zeros()) throw DataError("what " + conv + " reads is zero everywhere");
    const onnx::Scale s = scale_of(r, method_of(request.at("method")), symmetric);
    values[conv] = {
        {"scale", s.scale}, {"zero_point", s.zero_point}, {"min", r.low()}, {"max", r.high()}};
  }
  if (values.empty())
    throw DataError(is_of_signals(built->net())
                        ? "models." + name + ": 1-D convolutions are not calibrated; an int8 " +
                              "export rounds those of 2-D and 3-D networks"
                        : "no convolution of models." + name + " was asked");
  std::map<std::string, at::Tensor> tensors;
  for (const auto& named : {network.parameters(), network.buffers()})
    for (const auto& [key, t] : named) tensors[key] = t;
  const Json all = {{"weights_sha256", weights_sha256(tensors)},
                    {"method", request.at("method")},
                    {"symmetric", symmetric},
                    {"samples", samples_seen(*session)},
                    {"values", values}};
  write_text(out, all.dump(2) + "\n");
  std::cout << fmt::format(
      "{}: scales of what {} convolutions read; `sluice export RUN --precision "
      "int8 --scales {}` rounds with them\n",
      out.string(), values.size(), shell_word(out.string()));
  return static_cast<int>(Exit::done);
}

onnx::Scales read_scales(const fs::path& file, const std::string& weights_sha256) {
  const Json all = read_json(file);
  if (!all.is_object() || !all.contains("values") || !all.contains("weights_sha256"))
    throw DataError(file.string() + ": is no file of `sluice calibrate`");
  if (all["weights_sha256"] != weights_sha256)
    throw DataError(file.string() +
                    ": was calibrated with other weights: run `sluice calibrate` again");
  onnx::Scales scales;
  try {
    scales.symmetric = all.value("symmetric", true);
    for (const auto& [name, v] : all["values"].items())
      scales.values[name] = scale_in(v, scales.symmetric, file.string() + ": values." + name);
  } catch (const Json::exception&) {
    throw DataError(file.string() + ": is no file of `sluice calibrate`");
  }
  return scales;
}

}  // namespace sluice
