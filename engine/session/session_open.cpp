// From options to a session that can run: the plan, threads, devices, networks and nodes.
#include <ATen/Context.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <thread>

#include "engine/base/cause.h"
#include "engine/base/machine.h"
#include "engine/base/message.h"
#include "engine/base/random.h"
#include "engine/base/warnings.h"
#include "engine/graph/cut_graph.h"
#include "engine/graph/merge.h"
#include "engine/graph/metric_mode.h"
#include "engine/graph/networks_of.h"
#include "engine/graph/override.h"
#include "engine/group/too_few_shards.h"
#include "engine/plan/device_need.h"
#include "engine/run/arranged_source.h"
#include "engine/run/open_context.h"
#include "engine/session/hand_over.h"
#include "engine/session/isolate.h"
#include "engine/session/precision.h"
#include "engine/session/session.h"
#include "engine/session/weights.h"
#include "engine/session/what_if.h"
#include "engine/state/averaged_network.h"
#include "engine/state/tensor_device.h"
#include "engine/state/upstream.h"

namespace sluice {

namespace fs = std::filesystem;

// Of this process: a machine's are divided among those on it, and a launcher may bind each to some.
static int cores() {
  const int share = static_cast<int>(std::thread::hardware_concurrency()) / this_world().local_size;
  return std::max(1, std::min(share, own_cores()));
}

static int first_set(int a, std::int64_t b, int otherwise) {
  return a > 0 ? a : b > 0 ? static_cast<int>(b) : otherwise;
}

int data_threads(const Options& options, const Graph& graph) {
  return first_set(options.threads, graph.run.threads, cores());
}

// A graph without to_device is right, and slow where there is a GPU.
static void say_unused(const Plan& plan, const TensorDevice& device) {
  for (int i : plan.training_gates()) {
    const PlanNode& n = plan.nodes[static_cast<std::size_t>(i)];
    if (plan.nodes[static_cast<std::size_t>(n.inputs.front().from)].flow.moved_by >= 0) continue;
    tell("note: the network of \"" + n.path() + "\" trains on the CPU, though " + device.name() +
         " is here: put a to_device in front of it");
  }
}

std::unique_ptr<Session> Session::open(const Options& options) {
  forget_warnings();
  std::unique_ptr<Session> s(new Session(options));
  if (this_world().rank > 0) s->options_.warnings = false;  // rank 0 says them
  if (!load_plan(s->options_, s->graph_, s->plan_)) return nullptr;
  if (const auto device = find_device(); device && s->options_.warnings)
    say_unused(*s->plan_, *device);
  if (!options.guest) s->join_others();
  try {
    s->open_all();
  } catch (...) {
    if (!s->ranks_->alone()) s->ranks_->wire->end(cause(Exit::usage).text);
    throw;
  }
  return s;
}

void Session::open_all() try {
  claim_folder();
  read_checkpoint();
  threads_ = thread_counts().compute;
  step_threads_ = run_.step_threads = thread_counts().step;
  set_arithmetic();
  make_networks();
  make_nodes();
  resume();
  require_same_run();
} catch (const Json::exception& e) {  // nodes' own name their nodes
  if (checkpoint_path_.empty()) throw;
  throw DataError((checkpoint_path_ / "state.json").string() + " is damaged: " + e.what());
}

// The node, what stands upstream of it, and the guest's own at the end.
static Graph cut_for(const Guest& guest, Graph graph) {
  GraphNode sink;
  sink.path = HandOver::name;
  sink.spec = &HandOver::spec();
  sink.params = {{"prefetch", guest.prefetch}};
  sink.given = {"prefetch"};
  return cut_graph(std::move(graph), guest.node, std::move(sink));
}

void Session::join_others() {
  const World& world = this_world();
  if (const auto why = too_few_shards(graph_->run.shards, world.size); !why.empty() && plan_->turns)
    throw Error(Exit::usage, why);
  join(*ranks_, graph_->run, options_.signal, [this](const std::string& who) { lost(who); });
  ranks_->halves = graph_->run.transfer == "bfloat16";
  ranks_->bucket_values = static_cast<std::size_t>(std::ceil(graph_->run.bucket_mb * 1e6 / 4));
  ranks_->shard_optimizer = graph_->run.shard_optimizer;
  // Of two gates side by side no step is behind both: the run is cut between its turns.
  if (plan_->training_gates().size() == 1)
    for (const int u : plan_->turns->updaters) {
      const PlanNode& n = plan_->nodes[static_cast<std::size_t>(u)];
      if (n.spec->follows_param.empty()) ranks_->last_updater = n.path();
    }
  if (world.rank > 0) options_.quiet = true;
}

bool load_plan(const Options& options, std::optional<Graph>& graph, std::optional<Plan>& plan) {
  Diagnostics diagnostics;
  const auto overrides = parse_overrides(options.set, diagnostics);
  if (DocumentPtr document =
          read_graph_files(options.graphs, diagnostics, options.text ? &*options.text : nullptr))
    graph = load_graph(document, Registry::global().catalogue(), overrides, diagnostics);
  if (graph && options.guest) graph = cut_for(*options.guest, std::move(*graph));
  const auto device = find_device();
  if (graph) {
    choose_precision(*graph, device && device->place().is_cuda(),
                     options.warnings && !options.quiet);
    plan = make_plan(*graph,
                     {.threads = data_threads(options, *graph),
                      .device = !!device,
                      .apart = options.free,
                      .processes = options.guest ? 1 : this_world().size},
                     diagnostics);
  }
  if (options.guest && !plan) {
    std::ostringstream text;
    diagnostics.print(text, false);
    throw GraphError(text.str(), diagnostics.to_json());
  }
  const char* term = std::getenv("TERM");
  const bool color = isatty(2) && !std::getenv("NO_COLOR") && !(term && fs::path(term) == "dumb");
  if (!diagnostics.all().empty() && !options.guest && (options.warnings || !plan))
    diagnostics.print(std::cerr, color);
  return plan.has_value();
}

static bool same_folder(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return a.lexically_normal() == b.lexically_normal() || fs::equivalent(a, b, ignored);
}

// Before any node is opened, so that nothing is read or written in vain.
void Session::claim_folder() {
  using Use = RunFolder::Use;
  const Options& o = options_;
  in_place_ = !o.resume.empty() && (o.out.empty() || same_folder(o.out, o.resume));
  if (ranks_->world.rank > 0) {
    out_dir_ = ranks_->wire->get("folder");
    return;
  }
  if (in_place_ && o.overwrite)
    throw Error(Exit::usage, "--overwrite removes the run that --resume goes on with: give one");
  std::error_code ignored;
  if (!o.out.empty() && !in_place_ && !o.overwrite && !holds_run(o.out))
    for (const auto& file : o.graphs)
      if (fs::equivalent(file, fs::path(o.out) / "graph.json", ignored))
        throw Error(Exit::usage, "a run in " + o.out + " would replace the graph itself, " + file +
                                     ": give another --out");
  if (in_place_)
    folder_ = std::make_unique<RunFolder>(o.resume, Use::resume);
  else if (!o.out.empty())
    folder_ = std::make_unique<RunFolder>(o.out, o.overwrite ? Use::overwrite : Use::fresh);
  else if (!o.out_base.empty())
    folder_ = RunFolder::numbered(o.out_base);
  if (folder_) out_dir_ = folder_->path();
  if (!ranks_->alone())
    ranks_->wire->put("folder", out_dir_.empty() ? "" : fs::absolute(out_dir_).string());
  // Nobody else says where they are.
  if (!o.out_base.empty()) std::cerr << "results in " + out_dir_.string() + "\n";
}

// LibTorch's switches are the process's.
void Session::set_arithmetic() {
  if (options_.guest) return;
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

std::shared_ptr<Network> Session::make_network(const GraphModel& m) const {
  std::vector<std::shared_ptr<Network>> members;
  for (std::size_t i = 0; i <= m.weights.more.size(); ++i) {
    auto network = Registry::global().make_network(m.spec->name, m.params);
    network->initialise(
        random_key(static_cast<std::uint64_t>(graph_->run.seed), "models/" + m.name));
    WeightsFile from = m.weights;
    if (i > 0) from.file = m.weights.more[i - 1];
    if (!from.file.empty()) begin_with(*network, m.name, from, options_.quiet);
    members.push_back(std::move(network));
  }
  if (members.size() == 1) return members.front();
  if (const GraphNode* n = updater_of(*graph_, m.name))
    throw Error(Exit::usage, "is the mean of several weights, which node \"" + n->path +
                                 "\" cannot train: name one file in \"weights\"");
  return std::make_shared<AveragedNetwork>(std::move(members));
}

void Session::make_networks() {
  const std::vector<at::Device> devices = sharing(graph_->run.devices);
  devices_ = devices.size();
  for (const GraphModel& m : graph_->models) try {
      auto network = make_network(m);
      // What nobody trains keeps nothing for a backward pass: an encoder in front of a model.
      if (!updater_of(*graph_, m.name))
        for (const auto& [name, weight] : network->parameters())
          at::Tensor(weight).requires_grad_(false);
      network->spread(devices);
      resources_->add(m.name, std::move(network), !m.weights.file.empty());
    } catch (...) {
      rethrow_with(m.place.str() + ": models." + m.name, Exit::usage);
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
  arrange_sources(*plan_, static_cast<std::uint64_t>(graph_->run.seed), nodes_);
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
  node = n.spec == &HandOver::spec()
             ? options_.guest->to->make_node()
             : Registry::global().make_node(n.spec->name, made_with(*graph_, *n.graph));
  OpenContext context = planned_context(*plan_, i);
  context.step_threads = step_threads_;
  context.out_dir = out_dir_;
  context.ranks = ranks_;
  context.resumed = checkpoint_ && in_place_;
  if (checkpoint_) context.steps_done = checkpoint_->state.at("steps");
  context.resources = resources_;
  context.owners = owners_;
  context.device = find_device();
  context.cache_budget = device_share_;
  if (n.spec->is_cache || n.spec->chooses_items)
    context.upstream = upstream_of(
        *plan_, i, [this](int other) { return nodes_[static_cast<std::size_t>(other)].get(); });
  try {
    node->open(context);
  } catch (...) {
    rethrow_with(n.graph->place.str() + ": nodes." + n.path(), Exit::usage);
  }
  node = of_rank(std::move(node), n, ranks_);
  if (auto* parted = dynamic_cast<Parted*>(node.get())) parted_.emplace_back(i, parted);
}

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

}  // namespace sluice
