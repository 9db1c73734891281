#include "tools/runtime/session.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <thread>

#include "engine/device_need.h"
#include "engine/dot.h"
#include "engine/lineage.h"
#include "engine/merge.h"
#include "engine/open_context.h"
#include "engine/override.h"
#include "engine/random.h"
#include "engine/tensor_device.h"
#include "engine/trace_file.h"
#include "engine/windowed_source.h"
#include "tools/runtime/environment.h"
#include "tools/runtime/isolate.h"
#include "tools/runtime/sampler.h"
#include "tools/runtime/what_if.h"

namespace sluice {

namespace fs = std::filesystem;

Session::~Session() = default;

// ---- opening
// --------------------------------------------------------------------------------------

static int cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

static int first_set(int a, std::int64_t b, int otherwise) {
  return a > 0 ? a : b > 0 ? static_cast<int>(b) : otherwise;
}

int data_threads(const Options& options, const Graph& graph) {
  return first_set(options.threads, graph.run.threads, cores());
}

// A graph without to_device is right, and slow where there is a GPU.
static void say_unused(const Plan& plan, const TensorDevice& device) {
  for (const PlanNode& n : plan.nodes) {
    const bool begins = n.gate && n.turns >= 0 && n.training;
    if (!begins || plan.nodes[static_cast<std::size_t>(n.inputs.front().from)].flow.moved_by >= 0)
      continue;
    std::cerr << "note: the network of \"" << n.path() << "\" trains on the CPU, though "
              << device.name() << " is here: put a to_device in front of it\n";
  }
}

std::unique_ptr<Session> Session::open(const Options& options) {
  std::unique_ptr<Session> s(new Session(options));
  if (!load_plan(options, s->graph_, s->plan_)) return nullptr;
  if (const auto device = find_device(); device && options.warnings) say_unused(*s->plan_, *device);
  s->threads_ = sluice::thread_counts(options, *s->plan_).compute;
  s->step_threads_ = sluice::thread_counts(options, *s->plan_).step;
  s->out_dir_ = !options.out.empty() ? options.out : options.resume;
  s->read_checkpoint();
  s->set_arithmetic();
  s->make_networks();
  s->make_nodes();
  s->resume();
  return s;
}

bool load_plan(const Options& options, std::optional<Graph>& graph, std::optional<Plan>& plan) {
  Diagnostics diagnostics;
  const auto overrides = parse_overrides(options.set, diagnostics);
  if (DocumentPtr document =
          read_graph_files(options.graphs, diagnostics, options.text ? &*options.text : nullptr))
    graph = load_graph(document, Registry::global().catalogue(), overrides, diagnostics);
  if (graph)
    plan = make_plan(*graph, {data_threads(options, *graph), !!find_device()}, diagnostics);
  const char* term = std::getenv("TERM");
  const bool color = isatty(2) && !std::getenv("NO_COLOR") && !(term && fs::path(term) == "dumb");
  if (!diagnostics.all().empty() && (options.warnings || !plan))
    diagnostics.print(std::cerr, color);
  return plan.has_value();
}

// "runs/x", "runs/x/checkpoints/epoch_3" or "net.safetensors": the tensors of one network.
static std::map<std::string, at::Tensor> read_weights(const fs::path& from) {
  if (fs::is_regular_file(from)) return read_safetensors(from);
  if (fs::is_directory(from / "checkpoints"))
    return load_checkpoint(newest_checkpoint(from / "checkpoints")).model;
  if (fs::is_directory(from)) return load_checkpoint(from).model;
  throw IoError(from.string() +
                ": no weights here: give a run folder, a checkpoint folder or a "
                ".safetensors file");
}

// Copies every tensor of the network from `tensors`; all must be there and fit.
static void fill(Network& network, const std::string& name,
                 const std::map<std::string, at::Tensor>& tensors, const std::string& from) {
  at::NoGradGuard no_grad;
  auto all = network.parameters();
  for (auto& b : network.buffers()) all.push_back(b);
  for (auto& [key, tensor] : all) {
    auto it = tensors.find(name + "." + key);
    if (it == tensors.end()) it = tensors.find(key);
    if (it == tensors.end())
      throw Error(Exit::usage, from + ": no tensor \"" + key + "\" for network \"" + name + "\"");
    if (it->second.sizes() != tensor.sizes())
      throw Error(Exit::usage, from + ": \"" + key + "\" has another shape than network \"" + name +
                                   "\" declares");
    tensor.copy_(it->second);
  }
}

// LibTorch's switches are the process's.
void Session::set_arithmetic() {
  at::Context& torch = at::globalContext();
  torch.setAllowTF32CuDNN(graph_->run.tf32);
  torch.setBenchmarkCuDNN(graph_->run.cudnn_benchmark);
  torch.setDeterministicCuDNN(graph_->run.deterministic);
}

// Those that share each batch: as many as run.devices says, or as are there.
static std::vector<at::Device> sharing(std::int64_t wanted) {
  const auto device = find_device();
  if (!device) return {at::kCPU};
  std::vector<at::Device> all = device->places();
  const auto there = static_cast<std::int64_t>(all.size());
  if (wanted > 0 && wanted < there) all.erase(all.begin() + wanted, all.end());
  return all;
}

void Session::make_networks() {
  const std::vector<at::Device> devices = sharing(graph_->run.devices);
  devices_ = devices.size();
  for (const GraphModel& m : graph_->models) {
    auto network = Registry::global().make_network(m.spec->name, m.params);
    network->spread(devices);
    network->initialise(
        random_key(static_cast<std::uint64_t>(graph_->run.seed), "models/" + m.name));
    if (!m.weights.empty()) fill(*network, m.name, read_weights(m.weights), m.weights);
    resources_->add(m.name, std::move(network));
  }
}

// Half of what is free: of the rest the networks' largest part, their activations, is not known
// yet.
static std::optional<std::uint64_t> share_of_caches(const Plan& plan,
                                                    const std::optional<std::int64_t>& budget) {
  const auto device = find_device();
  if (!device) return std::nullopt;
  if (budget) return device_need(plan).share(static_cast<std::uint64_t>(*budget));
  const auto free = device->free_bytes();
  if (!free) return std::nullopt;
  return device_need(plan).share(*free / 2);
}

void Session::make_nodes() {
  device_share_ = share_of_caches(*plan_, graph_->run.device_budget);
  nodes_.resize(plan_->nodes.size());
  for (int i : plan_->order) open_node(i);
  window_sources(*plan_, nodes_);
  if (graph_->run.cuda_graphs && find_device())
    recorded_ = record_steps(*plan_, find_device(), nodes_);
  for (const auto& path : options_.free)
    if (const int i = graph_->find(path); i >= 0) {
      auto& node = nodes_[static_cast<std::size_t>(i)];
      node = free_of_cost(std::move(node));
    }
  captured_.resize(options_.isolate ? nodes_.size() : 0);
  for (std::size_t i = 0; i < captured_.size(); ++i) {
    if (!stands_alone(plan_->nodes[i])) continue;
    auto captured = std::make_unique<Captured>(std::move(nodes_[i]));
    captured_[i] = captured.get();
    nodes_[i] = std::move(captured);
  }
}

// Those that it requires first; check has seen to it that this ends.
void Session::open_node(int i) {
  auto& node = nodes_[static_cast<std::size_t>(i)];
  if (node) return;
  const PlanNode& n = plan_->nodes[static_cast<std::size_t>(i)];
  for (const auto& path : n.graph->needs) open_node(graph_->find(path));
  node = Registry::global().make_node(n.spec->name, n.graph->params);
  OpenContext context = planned_context(*plan_, i);
  context.step_threads = step_threads_;
  context.out_dir = out_dir_;
  context.resumed = checkpoint_ && (options_.out.empty() || options_.out == options_.resume);
  if (checkpoint_) context.steps_done = checkpoint_->state.at("steps");
  context.resources = resources_;
  context.device = find_device();
  context.cache_budget = device_share_;
  if (n.spec->is_cache)
    context.upstream = upstream_of(
        *plan_, i, [this](int other) { return nodes_[static_cast<std::size_t>(other)].get(); });
  try {
    node->open(context);
  } catch (const Error& e) {
    throw Error(e.exit, n.graph->place.str() + ": nodes." + n.path() + ": " + e.what());
  } catch (const std::exception& e) {
    throw Error(Exit::usage, n.graph->place.str() + ": nodes." + n.path() + ": " + e.what());
  }
}

void Session::read_checkpoint() {
  if (options_.resume.empty()) return;
  checkpoint_path_ = newest_checkpoint(fs::path(options_.resume) / "checkpoints");
  checkpoint_ = load_checkpoint(checkpoint_path_);
}

void Session::resume() {
  std::int64_t metrics_bytes = -1;
  if (checkpoint_) {
    const fs::path& from = checkpoint_path_;
    const Checkpoint& c = *checkpoint_;
    for (const auto& [name, network] : resources_->networks())
      fill(*network, name, c.model, from.string());
    resume_.turn = c.state.at("turn");
    resume_.batch = c.state.at("batch");
    steps_ = c.state.at("steps");
    metrics_bytes = c.state.value("metrics_bytes", std::int64_t{-1});
    if (options_.out.empty() || options_.out == options_.resume) {
      for (const auto& [name, m] : c.state.at("metrics").items())
        metrics_[name] = {m.at("last"), m.at("best"), m.at("epoch"), m.at("best_epoch")};
    } else {
      metrics_bytes = -1;
    }
    if (c.state.at("seed") != graph_->run.seed)
      throw Error(Exit::usage, from.string() + ": was made with run.seed " +
                                   c.state.at("seed").dump() + ", this graph has " +
                                   std::to_string(graph_->run.seed));
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const std::string prefix = plan_->nodes[i].path() + ":";
      State state;
      for (const auto& [key, tensor] : c.optimizer)
        if (key.starts_with(prefix)) state.tensors[key.substr(prefix.size())] = tensor;
      const auto& values = c.state.at("nodes");
      if (values.contains(plan_->nodes[i].path())) {
        state.values = values.at(plan_->nodes[i].path());
        nodes_[i]->load(state);
      }
    }
    if (!options_.quiet) std::cerr << "resuming from " << from.string() << "\n";
  }
  checkpoint_.reset();
  if (!out_dir_.empty()) folder_ = std::make_unique<RunFolder>(out_dir_, metrics_bytes);
}

// ---- running
// --------------------------------------------------------------------------------------

Threads thread_counts(const Options& options, const Plan& plan) {
  const RunSettings& run = plan.graph->run;
  Threads t;
  t.cores = cores();
  t.compute = data_threads(options, *plan.graph);
  t.io = first_set(options.io_threads, run.io_threads, std::max({2, t.compute, plan.io_threads}));
  t.step = first_set(options.step_threads, run.step_threads, t.cores);
  return t;
}

Threads Session::thread_counts() const { return sluice::thread_counts(options_, *plan_); }

// Names may come from files, so they need not be UTF-8.
static std::string dump(const Json& j) {
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Outcome Session::run() {
  RunOptions o;
  o.threads = thread_counts().compute;
  o.io_threads = thread_counts().io;
  o.watchdog_s = graph_->run.watchdog_s;
  o.seed = static_cast<std::uint64_t>(graph_->run.seed);
  o.resume = resume_;
  o.device = find_device().get();
  // A LibTorch call on a data thread must not open an OpenMP pool there. get_num_threads first:
  // it runs the thread's lazy initialisation, which would overwrite what we set.
  o.on_thread = [step = step_threads_](LaneKind lane) {
    at::get_num_threads();
    at::set_num_threads(lane == LaneKind::step ? step : 1);
    at::GradMode::set_enabled(lane == LaneKind::step);
  };
  std::vector<Node*> nodes;
  for (auto& n : nodes_) nodes.push_back(n.get());
  if (folder_) begin_folder();
  scheduler_ = std::make_unique<Scheduler>(*plan_, std::move(nodes), o, *this);
  gpus_ = std::make_unique<GpuWatch>();
  begin_ = ProcessUse::now();
  running_ = scheduler_.get();
  std::optional<Sampler> sampler;
  if (folder_)
    sampler.emplace(*plan_, *scheduler_, thread_counts(), *folder_,
                    [this] { return profile(false); });
  std::unique_ptr<TraceFile> trace;
  if (folder_ && options_.trace)
    trace = std::make_unique<TraceFile>(out_dir_ / "trace.pftrace", *plan_, scheduler_->events(),
                                        [this] { return scheduler_->readings(); });
  Outcome outcome = scheduler_->run();
  end_ = ProcessUse::now();
  tell_measured();
  gpus_->end();
  trace.reset();
  sampler.reset();
  const bool trained = !plan_->turns.empty();
  if (folder_ && trained &&
      (outcome.status == Outcome::Status::done || outcome.status == Outcome::Status::cut))
    try_save("last", outcome.position, true);
  if (folder_) end_folder(outcome);
  dump_picture(outcome);
  return outcome;
}

// What is known before the first sample, so that a run that is killed leaves it too.
void Session::begin_folder() {
  folder_->write("graph.json", graph_text());
  folder_->write("graph.dot", to_dot(*plan_));
  Json e = environment();
  e.update(where());
  folder_->write("environment.json", dump(e));
  Json line = {{"event", "begin"}, {"time", e["started"]}, {"steps", steps_}};
  if (!checkpoint_path_.empty()) line["resumed_from"] = checkpoint_path_.string();
  line["command"] = e["command"];
  folder_->session_line(line);
}

void Session::end_folder(const Outcome& outcome) {
  const Json s = summary(outcome);
  folder_->write("summary.json", dump(s));
  folder_->write("profile.json", dump(profile()));
  folder_->write("graph.dot", picture(outcome, out_dir_));
  folder_->session_line({{"event", "end"},
                         {"time", utc_now()},
                         {"status", s["status"]},
                         {"epochs", s["epochs"]},
                         {"steps", s["steps"]},
                         {"wall_s", s["wall_s"]}});
}

void Session::stop() noexcept {
  if (Scheduler* s = running_.load()) s->stop();
}

int Session::exit_code(const Outcome& outcome) const {
  switch (outcome.status) {
    case Outcome::Status::failed:
      return static_cast<int>(outcome.failure.exit);
    case Outcome::Status::stalled:
      return static_cast<int>(Exit::stalled);
    default:
      return checkpoint_error_.empty() ? 0 : static_cast<int>(Exit::io);
  }
}

// ---- what it says of itself ----

Progress Session::progress() const {
  std::lock_guard lock(mutex_);
  Progress p;
  p.epochs = static_cast<std::uint64_t>(std::max<std::int64_t>(graph_->run.epochs, 1));
  p.steps = steps_;
  p.bad = bad_;
  p.loss = last_loss_;
  const auto& rule = graph_->run.stop;
  p.metric = rule ? rule->metric : last_metric_;
  if (auto it = metrics_.find(p.metric); it != metrics_.end()) {
    p.metric_last = it->second.last;
    p.metric_best = it->second.best;
  }
  return p;
}

std::vector<std::optional<std::uint64_t>> Session::epoch_sizes() const {
  std::vector<std::optional<std::uint64_t>> sizes;
  for (const PlanStream& s : plan_->streams)
    sizes.push_back(nodes_[static_cast<std::size_t>(s.source)]->epoch_size());
  return sizes;
}

// ---- events
// ---------------------------------------------------------------------------------------

// Larger is better, but for losses and learning rates.
static bool better(const std::string& name, double a, double b) {
  return name.find("loss") != std::string::npos ? a < b : a > b;
}

void Session::metric(int node, std::uint32_t epoch, const std::string& name, double value) {
  const std::string full = plan_->nodes[static_cast<std::size_t>(node)].path() + "." + name;
  std::lock_guard lock(mutex_);
  auto [it, fresh] = metrics_.try_emplace(full, Metric{value, value, epoch, epoch});
  Metric& m = it->second;
  m.last = value;
  m.epoch = epoch;
  if (fresh || better(full, value, m.best)) {
    m.best = value;
    m.best_epoch = epoch;
  }
  if (name == "mean" || last_metric_.empty()) last_metric_ = full;
  measured_.emplace_back(node, Observation{full, value, 0, epoch, true});
}

// Told where a turn ends, in the nodes' order: which of two metrics ends its epoch first, and how
// many steps of the next one have been logged by then, depends on timing.
void Session::tell_measured() {
  std::lock_guard lock(mutex_);
  std::stable_sort(measured_.begin(), measured_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [node, o] : measured_) {
    const auto epoch_end = steps_at_end_.find(o.epoch);
    o.step = epoch_end == steps_at_end_.end() ? steps_ : epoch_end->second;
    if (folder_)
      folder_->metric_line(
          {{"epoch", o.epoch}, {"step", o.step}, {"metric", o.name}, {"value", o.value}});
    publish(o);
  }
  measured_.clear();
}

void Session::publish(const Observation& observation) {
  for (auto& node : nodes_)
    if (node) node->observe(observation);
}

void Session::log(int node, const Stamp& stamp, const std::string& name, double value) {
  const PlanNode& n = plan_->nodes[static_cast<std::size_t>(node)];
  std::lock_guard lock(mutex_);
  if (n.spec->access == Access::update && name == "loss") {
    ++steps_;
    last_loss_ = value;
  }
  if (folder_)
    folder_->metric_line({{"epoch", stamp.epoch},
                          {"step", steps_},
                          {"batch", stamp.index},
                          {"log", n.path() + "." + name},
                          {"value", value}});
  publish({n.path() + "." + name, value, steps_, stamp.epoch, false});
}

bool Session::between(const Turn& ended, std::size_t position) {
  {
    std::lock_guard lock(mutex_);
    steps_at_end_.try_emplace(ended.train_epoch, steps_);  // by the first of the epoch's turns
  }
  tell_measured();
  const auto sequence = plan_->sequence(0);
  const bool epoch_over =
      position >= sequence.size() || sequence[position].train_epoch != ended.train_epoch;
  if (!epoch_over) return false;
  const bool stop = stop_rule_met();
  if (stop) stopped_by_rule_ = true;
  {
    std::lock_guard lock(mutex_);
    epochs_done_ = ended.train_epoch + 1;
  }
  const auto every = graph_->run.checkpoint_every;
  if (folder_ && every > 0 && (ended.train_epoch + 1) % every == 0) {
    char name[32];
    std::snprintf(name, sizeof name, "epoch_%05u", ended.train_epoch + 1);
    try_save(name, {position, 0}, false);
  }
  return stop;
}

bool Session::stop_rule_met() const {
  const auto& rule = graph_->run.stop;
  if (!rule) return false;
  std::lock_guard lock(mutex_);
  auto it = metrics_.find(rule->metric);
  if (it == metrics_.end()) return false;
  const double v = it->second.last;
  return (rule->at_least && v >= *rule->at_least) || (rule->at_most && v <= *rule->at_most);
}

void Session::quarantined(const Quarantined& q) {
  {
    std::lock_guard lock(mutex_);
    ++bad_;
  }
  std::cerr << "quarantined " << q.sample << ": " << q.node << ": " << q.message << "\n";
  if (folder_)
    folder_->quarantine_line(
        {{"node", q.node}, {"sample", q.sample}, {"stamp", q.stamp.str()}, {"message", q.message}});
}

// The stuck body cannot be unwound: say who waits for what and end the process.
void Session::stalled(const std::string& report) {
  std::cerr << "error: stalled: " << report;
  Outcome outcome;
  outcome.status = Outcome::Status::stalled;
  outcome.stall = report;
  dump_picture(outcome);
  _exit(static_cast<int>(Exit::stalled));
}

// ---- checkpoints
// ----------------------------------------------------------------------------------

std::map<std::string, at::Tensor> Session::weights() const {
  std::map<std::string, at::Tensor> all;
  for (const auto& [name, network] : resources_->networks()) {
    for (const auto& [key, t] : network->parameters()) all[name + "." + key] = t.detach();
    for (const auto& [key, t] : network->buffers()) all[name + "." + key] = t.detach();
  }
  return all;
}

// `all_nodes` at the end of a run only: between turns, nodes other than updaters may still work.
// The stream of the validation turn that a cut left unfinished, or -1. It begins anew, so what its
// nodes hold of it is not kept: it would count twice.
int Session::begins_anew(const Resume& position) const {
  if (plan_->turns.empty()) return -1;
  const auto sequence = plan_->sequence(0);
  if (position.turn >= sequence.size()) return -1;
  const int stream = sequence[position.turn].stream;
  return plan_->streams[static_cast<std::size_t>(stream)].trains ? -1 : stream;
}

void Session::save(const std::string& name, const Resume& position, bool all_nodes) {
  Checkpoint c;
  c.model = weights();
  const int anew = begins_anew(position);
  Json nodes = Json::object();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const PlanNode& n = plan_->nodes[i];
    const bool is_stateful = all_nodes && n.ordered && n.stream != anew;
    if (n.spec->access != Access::update && !is_stateful) continue;
    State state;
    nodes_[i]->save(state);
    for (auto& [key, t] : state.tensors) c.optimizer[n.path() + ":" + key] = t;
    nodes[n.path()] = state.values;
  }
  std::lock_guard lock(mutex_);
  Json metrics = Json::object();
  for (const auto& [key, m] : metrics_)
    metrics[key] = {
        {"last", m.last}, {"best", m.best}, {"epoch", m.epoch}, {"best_epoch", m.best_epoch}};
  c.state = {{"turn", position.turn},
             {"batch", position.batch},
             {"steps", steps_},
             {"seed", graph_->run.seed},
             {"step_threads", step_threads_},
             {"nodes", nodes},
             {"metrics", metrics},
             {"metrics_bytes", folder_->metrics_bytes()}};
  save_checkpoint(folder_->checkpoints(), name, c);
}

// Keeps the newest `keep` of the periodic checkpoints; "last" is not one of them.
static void prune_checkpoints(const fs::path& folder, std::int64_t keep) {
  std::vector<fs::path> periodic;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().filename().string().starts_with("epoch_")) periodic.push_back(entry.path());
  std::sort(periodic.begin(), periodic.end());
  for (std::int64_t i = 0; i + keep < static_cast<std::int64_t>(periodic.size()); ++i)
    fs::remove_all(periodic[static_cast<std::size_t>(i)], ignored);
}

// A checkpoint that cannot be written (disk full) does not end the training: the last good one
// stands, and the next may succeed. The run's exit code tells if the final one failed.
void Session::try_save(const std::string& name, const Resume& position, bool all_nodes) {
  try {
    save(name, position, all_nodes);
    checkpoint_error_.clear();
    prune_checkpoints(folder_->checkpoints(), graph_->run.checkpoint_keep);
  } catch (const Error& e) {
    checkpoint_error_ = e.what();
    std::cerr << "error: checkpoint " << name << " was not written: " << e.what() << "\n";
  }
}

}  // namespace sluice
