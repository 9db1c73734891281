// What a session keeps to go on from, and how it does.
#include <algorithm>

#include "engine/base/message.h"
#include "engine/session/session.h"
#include "engine/session/weights.h"

namespace sluice {

namespace fs = std::filesystem;

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
    if (!options_.quiet) tell("resuming from " + from.string());
  }
  checkpoint_.reset();
  if (!out_dir_.empty()) folder_ = std::make_unique<RunFolder>(out_dir_, metrics_bytes);
}

std::map<std::string, at::Tensor> Session::weights() const {
  std::map<std::string, at::Tensor> all;
  for (const auto& [name, network] : resources_->networks()) {
    for (const auto& [key, t] : network->parameters()) all[name + "." + key] = t.detach();
    for (const auto& [key, t] : network->buffers()) all[name + "." + key] = t.detach();
  }
  return all;
}

// The stream of the validation turn that a cut left unfinished, or -1. It begins anew, so what its
// nodes hold of it is not kept: it would count twice.
int Session::begins_anew(const Resume& position) const {
  if (plan_->turns.empty()) return -1;
  const auto sequence = plan_->sequence(0);
  if (position.turn >= sequence.size()) return -1;
  const int stream = sequence[position.turn].stream;
  return plan_->streams[static_cast<std::size_t>(stream)].trains ? -1 : stream;
}

// `all_nodes` at the end of a run only: between turns, nodes other than updaters may still work.
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
    tell("error: checkpoint " + name + " was not written: " + e.what());
  }
}

}  // namespace sluice
