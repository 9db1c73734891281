// What a session keeps to go on from, and how it does.
#include <torch/version.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "engine/base/cause.h"
#include "engine/base/message.h"
#include "engine/base/shell_word.h"
#include "engine/base/version.h"
#include "engine/base/warnings.h"
#include "engine/graph/merge.h"
#include "engine/plan/turn_place.h"
#include "engine/session/differences.h"
#include "engine/session/not_written.h"
#include "engine/session/session.h"
#include "engine/session/source_files.h"
#include "engine/session/weights.h"
#include "engine/state/packed_state.h"
#include "engine/state/safetensors.h"

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

// Of lists of several ranks, each sample once a node.
static void add_quarantined(std::vector<Quarantined>& bad, const std::vector<Quarantined>& more) {
  std::set<std::pair<std::string, std::string>> known;
  for (const Quarantined& q : bad) known.emplace(q.node, q.item);
  for (const Quarantined& q : more)
    if (known.emplace(q.node, q.item).second) bad.push_back(q);
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

// Metrics, and what was decided by them.
void Session::load_judgements() {
  const Json& state = checkpoint_->state;
  lengths_ = {state.value("metrics_bytes", std::int64_t{0}),
              state.value("quarantine_bytes", std::numeric_limits<std::int64_t>::max())};
  for (const auto& [name, m] : state.at("metrics").items())
    metrics_[name] = {m.at("last"), m.at("best"), m.at("epoch"), m.at("best_epoch")};
  if (state.contains("stopping") && state.value("stops_by", stops_by()) == stops_by())
    stopping_.load(state["stopping"]);
  if (const Json best = state.value("best_kept", Json());
      !best.is_null() && state.value("keeps_best_by", keeps_best_by()) == keeps_best_by())
    best_kept_ = best;
  for (const Json& m : state.value("measured", Json::array())) {
    const int i = graph_->find(m.at("node").get<std::string>());
    if (i < 0) continue;
    const std::uint32_t epoch = m.at("epoch");
    measured_.emplace_back(i, Observation{m.at("metric"), m.at("value"), 0, epoch, true});
    if (m.contains("step")) steps_at_end_.try_emplace(epoch, m["step"].get<std::uint64_t>());
  }
}

// Where it goes on. A run that is past its end, or that its stop rule has ended, does nothing, and
// its place stays as it is: more epochs, or another rule, go on from there.
void Session::load_position() {
  const Json &turn = checkpoint_->state.at("turn"), &batch = checkpoint_->state.at("batch");
  resume_.turn = turn_at(*plan_, turn);
  resume_.batch = batch;
  if (!plan_->turns) return;
  const auto sequence = plan_->sequence();
  const bool is_over = resume_.turn >= sequence.size();
  if (!is_over)
    epochs_done_ = sequence[resume_.turn].train_epoch;
  else
    epochs_done_ = turn.is_object() ? turn.at("epoch").get<std::uint32_t>()
                                    : sequence[sequence.size() - 1].train_epoch + 1;
  const bool begins_epoch = !is_over && resume_.batch == 0 && resume_.turn > 0 &&
                            sequence[resume_.turn - 1].train_epoch != epochs_done_;
  if (in_place_ && begins_epoch) stopped_by_rule_ = stop_rule_met();
  if (!is_over && !stopped_by_rule_) return;
  stays_ = {{"turn", turn}, {"batch", batch}};
  resume_ = {sequence.size(), 0};
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
  steps_ = c.state.at("steps");
  if (in_place_) load_judgements();
  load_position();
  if (const auto bad = c.optimizer.find(saved_quarantined); bad != c.optimizer.end())
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
  for (const std::string& change :
       source_changes(c.state.value("sources", Json::object()), files_, options_.resume))
    note(change);
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

// A node's state among those of others.
static void put_state(const std::string& path, State state, Tensors& tensors, Json& values) {
  for (auto& [key, t] : state.tensors) tensors[path + ":" + key] = std::move(t);
  values[path] = std::move(state.values);
}
static State state_of(const std::string& path, const Tensors& tensors, const Json& values) {
  State state;
  const std::string prefix = path + ":";
  for (const auto& [key, tensor] : tensors)
    if (key.starts_with(prefix)) state.tensors[key.substr(prefix.size())] = tensor;
  state.values = values.at(path);
  return state;
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
    try {
      State state = state_of(n.path(), c.optimizer, values);
      // A node that misses something in it refuses, or begins anew.
      if (options_.force && state.values.is_object()) state.values["force"] = true;
      nodes_[i]->load(state);
    } catch (...) {
      rethrow_with(checkpoint_path_.string() + ": the state of nodes." + n.path(), Exit::data);
    }
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
  return of_sources([](const Node& source) { return source_digests(source); });
}

// A resume would say so too; a run that is at its end has none.
void Session::warn_of_changed_files() const {
  const Json now = source_files();
  for (const auto& [source, digests] : files_.items())
    if (now.value(source, digests) != digests)
      warn("the files of " + source +
           " were written to while the run went on: what it read may be neither the old ones nor "
           "the new");
}

bool Session::nothing_left() const {
  if (!in_place_ || stays_.is_null()) return false;
  std::ifstream in(out_dir_ / "summary.json");
  const Json summary = Json::parse(in, nullptr, false);
  const std::string status = summary.is_object() ? summary.value("status", "") : "";
  return (status == "done" || status == "stopped") &&
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

std::vector<int> Session::kept_nodes(Keeps which, const Resume& position) const {
  const int anew = begins_anew(position);
  const std::vector<int> region = training_region(*plan_);
  std::vector<int> kept;
  for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
    const PlanNode& n = plan_->nodes[static_cast<std::size_t>(i)];
    const bool also =
        which == Keeps::all ? n.stream != anew : std::ranges::find(region, i) != region.end();
    if (also || n.spec->access == Access::update) kept.push_back(i);
  }
  return kept;
}

// Collective, before rank 0 saves: what each rank alone knows, sums of metrics apart (Parted).
void Session::unite_states(const std::vector<int>& kept, const std::string& when) {
  const auto name = [&](int rank) { return "states/" + when + "/" + std::to_string(rank); };
  Wire& wire = *ranks_->wire;
  const int rank = ranks_->world.rank;
  State all;
  if (rank > 0) {
    for (const int i : kept) {
      const PlanNode& n = plan_->nodes[static_cast<std::size_t>(i)];
      const bool is_known = n.spec->access == Access::update || n.spec->merging;
      State state;
      if (!is_known) nodes_[static_cast<std::size_t>(i)]->save(state);
      if (!state.tensors.empty()) put_state(n.path(), std::move(state), all.tensors, all.values);
    }
    all.tensors[saved_quarantined] = packed_json(json_of(scheduler_->quarantined()));
    wire.put(name(rank), packed_state(all));
    const std::string before = std::exchange(united_, name(rank));
    if (!before.empty() && when != at_end) wire.remove(before);  // rank 0 has read it
    return;
  }
  bad_elsewhere_.clear();
  for (int r = 1; r < ranks_->world.size; ++r) {
    all = unpacked_state(wire.get(name(r)));
    for (const int i : kept)
      if (const std::string& path = plan_->nodes[static_cast<std::size_t>(i)].path();
          all.values.contains(path))
        nodes_[static_cast<std::size_t>(i)]->merge(state_of(path, all.tensors, all.values));
    add_quarantined(bad_elsewhere_,
                    quarantined_from(unpacked_json(all.tensors.at(saved_quarantined))));
  }
  take_quarantine_lines();
}

void Session::save(const std::string& name, const Resume& position, Keeps which) {
  Checkpoint c;
  c.model = weights();
  Json nodes = Json::object();
  for (const int i : kept_nodes(which, position)) {
    const PlanNode& n = plan_->nodes[static_cast<std::size_t>(i)];
    State state;
    nodes_[static_cast<std::size_t>(i)]->save(state);
    if (n.spec->access != Access::update && state.values.empty() && state.tensors.empty()) continue;
    put_state(n.path(), std::move(state), c.optimizer, nodes);
  }
  auto bad = scheduler_->quarantined();
  add_quarantined(bad, bad_elsewhere_);
  if (!bad.empty()) c.optimizer[saved_quarantined] = packed_json(json_of(bad));
  std::lock_guard lock(mutex_);
  const RunFolder::Lengths lengths = folder_->lengths();
  Json metrics = Json::object();
  for (const auto& [key, m] : metrics_)
    metrics[key] = {
        {"last", m.last}, {"best", m.best}, {"epoch", m.epoch}, {"best_epoch", m.best_epoch}};
  Json measured = Json::array();  // and not told yet
  for (const auto& [node, o] : measured_) {
    measured.push_back({{"node", plan_->nodes[static_cast<std::size_t>(node)].path()},
                        {"epoch", o.epoch},
                        {"metric", o.name},
                        {"value", o.value}});
    if (const auto end = steps_at_end_.find(o.epoch); end != steps_at_end_.end())
      measured.back()["step"] = end->second;
  }
  Json updaters = Json::object();
  for (const PlanNode& n : plan_->nodes)
    if (n.spec->access == Access::update) updaters[n.path()] = n.spec->name;
  c.state = {{"run", run_.id},
             {"graph_sha256", run_.graph_sha256},
             {"versions", versions_json()},
             {"turn", stays_.is_null() ? turn_place(*plan_, position.turn) : stays_["turn"]},
             {"batch", stays_.is_null() ? Json(position.batch) : stays_["batch"]},
             {"items", items()},
             {"sources", files_},
             {"updaters", updaters},
             {"steps", steps_},
             {"seed", graph_->run.seed},
             {"step_threads", step_threads_},
             {"shards", shards()},
             {"nodes", nodes},
             {"metrics", metrics},
             {"measured", measured},
             {"stopping", stopping_.save()},
             {"stops_by", stops_by()},
             {"best_kept", best_kept_ ? Json(*best_kept_) : Json()},
             {"keeps_best_by", keeps_best_by()},
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

// A run whose folder was taken from it ends, since no checkpoint of it would be of use.
// A checkpoint that cannot be written (disk full) does not end the training: the last good one
// stands, and the next may succeed. The run's exit code tells if the final one failed.
// The best one is no other's place to go on from, so no later one makes up for it but a better one.
void Session::try_save(const std::string& name, const Resume& position, Keeps which) {
  const std::string kind = name == "best" ? name : "last";
  require_folder();
  std::optional<Cause> failed;
  try {
    save(name, position, which);
    prune_checkpoints(folder_->checkpoints(), graph_->run.checkpoint_keep);
  } catch (...) {
    failed = cause(Exit::io);
    require_folder();
    tell("error: " + not_written(name, *failed));
  }
  ranks_->pause_wish = false;
  std::lock_guard lock(mutex_);
  if (failed)
    not_saved_[kind] = *failed;
  else
    not_saved_.erase(kind);
  saved_at_ = std::chrono::steady_clock::now();
}

}  // namespace sluice
