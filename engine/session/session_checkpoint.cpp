// What a session keeps to go on from, and how it does.
#include <torch/version.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>

#include "engine/base/cause.h"
#include "engine/base/message.h"
#include "engine/base/shell_word.h"
#include "engine/base/version.h"
#include "engine/graph/merge.h"
#include "engine/plan/turn_place.h"
#include "engine/session/differences.h"
#include "engine/session/session.h"
#include "engine/session/source_files.h"
#include "engine/session/weights.h"
#include "engine/state/packed_state.h"

namespace sluice {

namespace fs = std::filesystem;

static Json versions_json() { return {{"sluice", version}, {"torch", TORCH_VERSION}}; }

// Of several processes the first says it.
void Session::note(const std::string& text) const {
  if (ranks_->world.rank == 0) tell("note: " + text);
}

// ---- before nodes are opened --------------------------------------------------------------------

void Session::read_checkpoint() {
  run_ = {.id = new_run_id(), .graph_sha256 = sha256_of(graph_text()), .graphs = options_.graphs};
  if (options_.resume.empty()) return;
  const fs::path from = options_.resume;
  const RunId before = read_run_id(from);
  if (const auto found = newest_checkpoint_of(before.id, from / "checkpoints")) {
    checkpoint_path_ = *found;
    checkpoint_ = load_checkpoint(checkpoint_path_);
  } else if (!in_place_) {
    throw IoError("no complete checkpoint in " + (from / "checkpoints").string());
  } else if (before.id.empty() && holds_checkpoint(from)) {
    throw IoError((from / "run.json").string() +
                  ": it is missing, and says whose the checkpoints beside it are: put it back, or "
                  "begin anew with --out " +
                  shell_word(from.string()) + " --overwrite");
  } else {
    note(from.string() + (holds_run(from) ? ": its run wrote no checkpoint yet" : " holds no run") +
         ", so it begins at the beginning");
  }
  compare(before);
  take_step_threads(before);
  if (!in_place_) return;
  if (checkpoint_ || !before.id.empty()) run_.id = before.id;
  if (options_.own_graph && !before.graphs.empty()) run_.graphs = before.graphs;
}

// Throws unless --force says to go on with a state that means nothing here.
void Session::refuse(const std::string& what) const {
  if (!options_.force)
    throw Error(Exit::usage, options_.resume + ": " + what + "; --force goes on all the same");
  note(what);
}

static std::string listed(const std::vector<Difference>& all, bool reorders) {
  std::string text;
  for (const Difference& c : all)
    if (c.reorders == reorders) text += "\n  " + c.path + ": " + c.before + " -> " + c.after;
  return text;
}

// What the graph says otherwise than the one that the run had.
void Session::compare(const RunId& before) {
  const fs::path file = fs::path(options_.resume) / "graph.json";
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}}, digest = sha256_of(text);
  const bool is_known = before.graph_sha256.empty() || digest == before.graph_sha256;
  std::optional<Graph> was;
  Diagnostics unseen;
  if (DocumentPtr document = read_graph_files({file.string()}, unseen, &text))
    was = load_graph(document, Registry::global().catalogue(), {}, unseen);
  if (!checkpoint_ && options_.own_graph && !is_known)
    throw Error(Exit::usage, file.string() + " is not the graph that this run began with: give it");
  if (!was && holds_run(options_.resume)) note(file.string() + " says no settings to compare with");
  if (was) {
    const auto changed = differences(*was, *graph_);
    if (const auto list = listed(changed, false); !list.empty())
      note("settings differ from those of " + options_.resume + ":" + list);
    if (const auto list = listed(changed, true); !list.empty() && checkpoint_)
      refuse("its place in the data means nothing with these settings:" + list + "\n");
  }
  if (!checkpoint_) return;
  const Json& state = checkpoint_->state;
  const std::string of_checkpoint = state.value("graph_sha256", digest);
  if (!is_known || of_checkpoint != digest)
    note(checkpoint_path_.string() + " was written with other settings than those in " +
         file.string());
  if (const Json versions = versions_json(); state.value("versions", versions) != versions)
    note(checkpoint_path_.string() + " was written by " + state["versions"].dump() + ", this is " +
         versions.dump());
}

// The bits of the weights depend on it, so it stays what it was unless somebody says otherwise.
void Session::take_step_threads(const RunId& before) {
  const int was = checkpoint_ ? checkpoint_->state.value("step_threads", 0) : before.step_threads;
  if (was <= 0) return;
  if (options_.step_threads == 0 && graph_->run.step_threads == 0) options_.step_threads = was;
  if (const int now = thread_counts().step; checkpoint_ && now != was)
    note("goes on with " + std::to_string(now) + " step threads where the run had " +
         std::to_string(was) + ": the weights' bits will differ from those of an unbroken run");
}

// ---- after that ---------------------------------------------------------------------------------

// As a tensor: there may be many, and a checkpoint's JSON has a bound.
constexpr const char* saved_quarantined = "quarantined";

static Json json_of(const std::vector<Quarantined>& bad) {
  Json all = Json::array();
  for (const Quarantined& q : bad)
    all.push_back(
        {{"node", q.node}, {"item", q.item}, {"stream", q.stamp.stream}, {"epoch", q.stamp.epoch}});
  return all;
}

static std::vector<Quarantined> quarantined_from(const Json& all) {
  std::vector<Quarantined> bad;
  for (const Json& q : all)
    bad.push_back({.node = q.at("node"),
                   .sample = "",
                   .message = "a sample was bad before the run was resumed",
                   .stamp = Stamp::first(q.at("stream"), q.at("epoch"), 0),
                   .item = q.at("item")});
  return bad;
}

void Session::resume() {
  if (folder_ || checkpoint_) files_ = source_files();  // else nobody will ask
  if (!checkpoint_) return;
  const fs::path& from = checkpoint_path_;
  const Checkpoint& c = *checkpoint_;
  for (const auto& [name, network] : resources_->networks())
    fill(*network, name, c.model, from.string());
  const auto known = weights();
  for (const auto& [name, tensor] : c.model)
    if (!known.contains(name)) {
      refuse("its networks are others: nothing here takes \"" + name + "\"");
      break;
    }
  resume_.turn = turn_at(*plan_, c.state.at("turn"));
  resume_.batch = c.state.at("batch");
  steps_ = c.state.at("steps");
  if (plan_->turns) {
    const auto sequence = plan_->sequence();
    epochs_done_ = resume_.turn < sequence.size() ? sequence[resume_.turn].train_epoch
                                                  : sequence[sequence.size() - 1].train_epoch + 1;
  }
  if (in_place_) {
    lengths_ = {c.state.value("metrics_bytes", std::int64_t{0}),
                c.state.value("quarantine_bytes", std::numeric_limits<std::int64_t>::max())};
    for (const auto& [name, m] : c.state.at("metrics").items())
      metrics_[name] = {m.at("last"), m.at("best"), m.at("epoch"), m.at("best_epoch")};
    if (c.state.contains("stopping")) stopping_.load(c.state["stopping"]);
    if (const Json best = c.state.value("best_kept", Json()); !best.is_null()) best_kept_ = best;
  }
  // Each rank counts its own, and the checkpoint is rank 0's.
  if (const auto bad = c.optimizer.find(saved_quarantined);
      bad != c.optimizer.end() && ranks_->world.rank == 0)
    bad_before_ = quarantined_from(unpacked_json(bad->second));
  if (c.state.at("seed") != graph_->run.seed)
    refuse("was made with run.seed " + c.state.at("seed").dump() + ", this graph has " +
           std::to_string(graph_->run.seed));
  if (c.state.value("shards", shards()) != shards())
    refuse("its steps had " + c.state["shards"].dump() + " shards (run.shards), now they have " +
           std::to_string(shards()));
  const Json had = c.state.value("items", Json::object()), has = items();
  for (const auto& [source, count] : had.items())
    if (has.contains(source) && has[source] != count)
      refuse("its place in the data means nothing any more: " + source + " had " + count.dump() +
             " items and has " + has[source].dump());
  const Json files = c.state.value("files", Json::object());
  for (const auto& [source, digest] : files.items())
    if (files_.contains(source) && files_[source] != digest)
      note("the files of " + source + " are others than those of " + options_.resume +
           ", or were written to since");
  load_nodes();
  if (!options_.quiet) tell("resuming from " + from.string());
  checkpoint_.reset();
}

// Ranks that differ would train something that nobody asked for, or wait for each other for ever.
void Session::require_same_run() {
  if (ranks_->alone()) return;  // digests of lists and weights are work
  require_same(*ranks_, {{"graph", sha256_of(graph_text())},
                         {"version", versions_json()},
                         {"list of items", items()},
                         {"order of items", of_sources([](const Node& source) {
                            return Json(names_digest(source));
                          })},
                         {"number of step threads", step_threads_},
                         {"checkpoint", checkpoint_path_.filename().string()},
                         {"first weights", weights_sha256(weights())}});
}

void Session::load_nodes() {
  const Checkpoint& c = *checkpoint_;
  const Json types = c.state.value("updaters", Json::object());
  for (const auto& [path, type] : types.items()) {
    const int i = graph_->find(path);
    if (i < 0 || plan_->nodes[static_cast<std::size_t>(i)].spec->name != type)
      refuse("the state of " + path + ", a node of type " + type.dump() + ", would be lost");
  }
  const Json& values = c.state.at("nodes");
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const PlanNode& n = plan_->nodes[i];
    if (!values.contains(n.path())) continue;
    if (types.contains(n.path()) && types[n.path()] != n.spec->name) continue;  // --force
    State state;
    const std::string prefix = n.path() + ":";
    for (const auto& [key, tensor] : c.optimizer)
      if (key.starts_with(prefix)) state.tensors[key.substr(prefix.size())] = tensor;
    state.values = values.at(n.path());
    nodes_[i]->load(state);
  }
}

// What the sources of training say, by path; null and "" are left out.
Json Session::of_sources(const std::function<Json(const Node&)>& what) const {
  Json all = Json::object();
  if (!plan_->turns) return all;
  const auto stream = static_cast<std::size_t>(plan_->turns->train_stream);
  const auto i = static_cast<std::size_t>(plan_->streams[stream].source);
  if (const Json said = what(*nodes_[i]); !said.is_null() && said != "")
    all[plan_->nodes[i].path()] = said;
  return all;
}
std::int64_t Session::shards() const {
  for (const PlanStream& s : plan_->streams)
    if (s.division.sharded()) return s.division.parts;
  return 1;
}

Json Session::items() const {
  return of_sources([](const Node& source) {
    const auto size = source.epoch_size();
    return size ? Json(*size) : Json();
  });
}
Json Session::source_files() const {
  return of_sources([](const Node& source) { return Json(source_digest(source)); });
}

bool Session::nothing_left() const {
  if (!in_place_ || !plan_->turns || resume_.turn < plan_->sequence().size()) return false;
  std::ifstream in(out_dir_ / "summary.json");
  const Json summary = Json::parse(in, nullptr, false);
  return summary.is_object() && summary.value("status", "") == "done" &&
         summary.value("weights_sha256", "") == weights_sha256(weights());
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
  if (!plan_->turns) return -1;
  const auto sequence = plan_->sequence();
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
    const bool is_updater = n.spec->access == Access::update;
    if (!is_updater && !(all_nodes && n.stream != anew)) continue;
    State state;
    nodes_[i]->save(state);
    if (!is_updater && state.values.empty() && state.tensors.empty()) continue;
    for (auto& [key, t] : state.tensors) c.optimizer[n.path() + ":" + key] = t;
    nodes[n.path()] = state.values;
  }
  if (const auto bad = scheduler_->quarantined(); !bad.empty())
    c.optimizer[saved_quarantined] = packed_json(json_of(bad));
  std::lock_guard lock(mutex_);
  const RunFolder::Lengths lengths = folder_->lengths();
  Json metrics = Json::object();
  for (const auto& [key, m] : metrics_)
    metrics[key] = {
        {"last", m.last}, {"best", m.best}, {"epoch", m.epoch}, {"best_epoch", m.best_epoch}};
  Json updaters = Json::object();
  for (const PlanNode& n : plan_->nodes)
    if (n.spec->access == Access::update) updaters[n.path()] = n.spec->name;
  c.state = {{"run", run_.id},
             {"graph_sha256", run_.graph_sha256},
             {"versions", versions_json()},
             {"turn", turn_place(*plan_, position.turn)},
             {"batch", position.batch},
             {"items", items()},
             {"files", files_},
             {"updaters", updaters},
             {"steps", steps_},
             {"seed", graph_->run.seed},
             {"step_threads", step_threads_},
             {"shards", shards()},
             {"nodes", nodes},
             {"metrics", metrics},
             {"stopping", stopping_.save()},
             {"best_kept", best_kept_ ? Json(*best_kept_) : Json()},
             {"metrics_bytes", lengths.metrics},
             {"quarantine_bytes", lengths.quarantine}};
  save_checkpoint(folder_->checkpoints(), name, c);
}

// Keeps the newest `keep` of the periodic checkpoints; "last" is not one of them.
static void prune_checkpoints(const fs::path& folder, std::int64_t keep) {
  std::vector<fs::path> periodic;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().filename().string().starts_with("epoch_")) periodic.push_back(entry.path());
  const auto epoch = [](const fs::path& p) {  // a sixth digit makes the name longer
    return std::pair(p.filename().string().size(), p);
  };
  std::ranges::sort(periodic, {}, epoch);
  for (std::int64_t i = 0; i + keep < static_cast<std::int64_t>(periodic.size()); ++i)
    fs::remove_all(periodic[static_cast<std::size_t>(i)], ignored);
}

// A checkpoint that cannot be written (disk full) does not end the training: the last good one
// stands, and the next may succeed. The run's exit code tells if the final one failed.
void Session::try_save(const std::string& name, const Resume& position, bool all_nodes) {
  try {
    save(name, position, all_nodes);
    not_saved_.reset();
    prune_checkpoints(folder_->checkpoints(), graph_->run.checkpoint_keep);
  } catch (...) {
    not_saved_ = cause(Exit::io);
    tell("error: checkpoint " + name + " was not written: " + not_saved_->text);
  }
}

}  // namespace sluice
