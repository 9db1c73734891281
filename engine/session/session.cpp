#include "engine/session/session.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <span>
#include <thread>

#include "engine/base/cause.h"
#include "engine/base/message.h"
#include "engine/base/warnings.h"
#include "engine/graph/metric_mode.h"
#include "engine/judge/dot.h"
#include "engine/session/environment.h"
#include "engine/session/hand_over.h"
#include "engine/session/sampler.h"
#include "engine/session/save_interval.h"
#include "engine/state/tensor_device.h"
#include "engine/trace/trace_file.h"

namespace sluice {

namespace fs = std::filesystem;

Session::~Session() = default;

// Names may come from files, so they need not be UTF-8.
static std::string dump(const Json& j) {
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Outcome Session::run() {
  RunOptions o;
  o.threads = thread_counts().compute;
  o.io_threads = thread_counts().io;
  o.watchdog_s = options_.guest ? 0 : graph_->run.watchdog_s;  // a guest's loop may take its time
  if (options_.guest) o.first_epoch = options_.guest->to->begin().epoch;
  o.seed = static_cast<std::uint64_t>(graph_->run.seed);
  o.resume = resume_;
  o.quarantined = bad_before_;
  o.rank = ranks_->world.rank;
  o.processes = ranks_->world.size;
  o.device = find_device().get();
  // A LibTorch call on a data thread must not open an OpenMP pool there. get_num_threads first:
  // it runs the thread's lazy initialisation, which would overwrite what we set.
  o.on_thread = [step = step_threads_, guest = options_.guest.has_value()](LaneKind lane) {
    at::get_num_threads();
    if (guest)
      omp_set_num_threads(1);  // of this thread alone: LibTorch's setting is the whole process's
    else
      at::set_num_threads(lane == LaneKind::step ? step : 1);
    at::GradMode::set_enabled(lane == LaneKind::step);
  };
  if (options_.steps > 0) last_step_ = steps_ + options_.steps;
  saved_at_ = std::chrono::steady_clock::now();
  ranks_->steps_wanted = options_.steps;
  std::vector<Node*> nodes;
  for (auto& n : nodes_) nodes.push_back(n.get());
  if (folder_) begin_folder();
  scheduler_ = std::make_unique<Scheduler>(*plan_, std::move(nodes), o, *this);
  ranks_->cut = [this] {
    if (!ranks_->has_all_steps()) note_other_wish();
    scheduler_->stop();
  };
  ranks_->pause = [this] { scheduler_->pause(); };
  gpus_ = std::make_unique<GpuWatch>();
  begin_ = ProcessUse::now();
  running_ = scheduler_.get();
  std::optional<Sampler> sampler;
  if (folder_)
    sampler.emplace(*plan_, *scheduler_, thread_counts(), *folder_,
                    [this] { return profile(false); });
  std::unique_ptr<TraceFile> trace = begin_trace();
  Outcome outcome = scheduler_->run();
  stop_with_others();  // it may have been too short for that
  is_over_ = true;
  end_ = ProcessUse::now();
  tell_measured();
  gpus_->end();
  trace.reset();
  sampler.reset();
  // Nothing here goes on any more, and the others would be waited for in vain.
  if (outcome.status == Outcome::Status::stalled && !ranks_->alone()) stalled(outcome.stall);
  gather_ends(outcome);
  if (plan_->turns && steps_ == 0 && outcome.status == Outcome::Status::done &&
      ranks_->world.rank == 0)
    warn("no step was taken: no batch reached nodes." +
         plan_->nodes[static_cast<std::size_t>(plan_->turns->updaters.front())].path());
  const auto saving = [&] {
    return plan_->turns &&
           (outcome.status == Outcome::Status::done || outcome.status == Outcome::Status::cut);
  };
  if (saving()) compare_weights(outcome);
  const bool saves = saving();
  if (saves) bring_state();
  if (folder_) keep_end(outcome, saves);
  if (!ranks_->alone() && outcome.status != Outcome::Status::failed) ranks_->wire->end("");
  dump_picture(outcome);
  return outcome;
}

// A run that was left nothing to go on from has failed, however it ended; and where its folder was
// taken, that is why a node could not write there.
void Session::keep_end(Outcome& outcome, bool saves) {
  const bool has_failed = outcome.status == Outcome::Status::failed;
  if (!has_failed || outcome.failure.exit == Exit::io) try {
      if (saves) try_save("last", outcome.position, Keeps::all);
      require_folder();
      if (!has_failed) warn_of_changed_files();
    } catch (const Error& e) {
      outcome.status = Outcome::Status::failed;
      outcome.failure = {.exit = e.exit, .message = e.what()};
      if (!has_failed && !ranks_->alone()) ranks_->wire->end(outcome.failure.str());
    }
  end_folder(outcome);
}

// Rank 0's in the run's folder, another's in one of its own there. Rank 0 has emptied these before
// the ranks compare their clocks.
std::unique_ptr<TraceFile> Session::begin_trace() {
  TraceOrigin origin{.behind_ns = behind_first(*ranks_)};
  if (!options_.trace || out_dir_.empty()) return nullptr;
  std::filesystem::path folder = out_dir_;
  if (!ranks_->alone()) origin.rank = ranks_->world.rank;
  if (origin.rank > 0) {
    folder /= "ranks/" + std::to_string(origin.rank);
    std::error_code said_by_the_file;
    std::filesystem::create_directories(folder, said_by_the_file);
  }
  return std::make_unique<TraceFile>(
      folder / "trace.pftrace", *plan_, scheduler_->events(),
      [this] { return scheduler_->readings(); }, origin);
}

// What is known before the first sample, so that a run that is killed leaves it too.
void Session::begin_folder() {
  folder_->begin(run_, lengths_);
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

void Session::require_folder() const {
  if (const std::string taken = folder_->taken(); !taken.empty()) throw IoError(taken);
}

bool Session::can_resume() const {
  std::error_code unknown;
  return folder_ && std::filesystem::exists(out_dir_ / "graph.json", unknown);
}

// Of a rank that is gone the step and the wire's own threads hear at once, and each ends the run.
void Session::end_folder(const Outcome& outcome) {
  std::call_once(ended_, [&] { write_end(outcome); });
}

void Session::write_end(const Outcome& outcome) {
  if (!folder_->taken().empty()) return;
  const Json s = summary(outcome);
  folder_->write("summary.json", dump(s));
  folder_->session_line({{"event", "end"},
                         {"time", utc_now()},
                         {"status", s["status"]},
                         {"epochs", s["epochs"]},
                         {"steps", s["steps"]},
                         {"wall_s", s["wall_s"]}});
  for (std::size_t r = 1; r < of_others_.size(); ++r) {
    const std::string of_rank = "ranks/" + std::to_string(r);
    std::error_code said_by_the_file;
    for (const std::string& made : {std::string("ranks"), of_rank})
      std::filesystem::create_directory(out_dir_ / made, said_by_the_file);
    folder_->write(of_rank + "/profile.json", dump(of_others_[r]["profile"]));
  }
  folder_->write("profile.json", dump(profile()));
  folder_->write("graph.dot", picture(outcome, out_dir_));
  if (outcome.status == Outcome::Status::failed && !ranks_->alone()) try {
      take_quarantine_lines();
    } catch (const Error&) {  // the launcher that keeps them is gone too
    }
}

// Sharded steps end alike on all ranks, so the wish to stop goes into the next one's header.
bool Session::ends_by_agreement() const { return shards() > 1; }

void Session::stop() noexcept {
  Scheduler* s = running_.load();
  if (!s) return;
  ranks_->wish = true;
  if (!ends_by_agreement()) s->stop();
}

void Session::stop_with_others() noexcept try {
  constexpr const char* asked = "stop";
  if (ranks_->alone() || ends_by_agreement() || !running_.load()) return;
  if (ranks_->wish) {
    if (!stop_is_told_.exchange(true)) ranks_->wire->put(asked, "");
  } else if (!is_over_ && ranks_->wire->has(asked)) {
    stop_is_told_ = true;
    note_other_wish();
    stop();
  }
} catch (...) {  // of a process that is gone the wire's own threads tell
}

// The signal of another process alone, of which nothing has been said here.
void Session::note_other_wish() {
  const bool knows = ranks_->wish || (options_.signal && options_.signal() != 0);
  if (ranks_->world.rank > 0 || knows || options_.seconds > 0) return;
  if (!other_wish_is_told_.exchange(true)) tell("stopping: another process was asked to end");
}

// Of ranks that differ the first one's weights are no better than the others'.
void Session::compare_weights(Outcome& outcome) {
  if (!ranks_->alone()) try {
      require_same_weights(*ranks_, weights_sha256(weights()));
    } catch (const Error& e) {
      outcome.status = Outcome::Status::failed;
      outcome.failure = {.exit = e.exit, .message = e.what()};
    }
}

// After the run: what each rank counted, and what rank 0 alone keeps.
void Session::gather_ends(Outcome& outcome) {
  if (ranks_->alone()) return;
  if (outcome.status == Outcome::Status::failed) {
    if (outcome.failure.exit != Exit::peer) ranks_->wire->end(outcome.failure.str());
    return;
  }
  for (const auto& [i, node] : parted_) node->hand_over(at_end);
  unite_states(kept_nodes(Keeps::all, outcome.position), at_end);
  if (options_.signal) ended_by_ = options_.signal();
  of_others_ = told(*ranks_, "end",
                    {{"samples", samples_json(*plan_, *scheduler_)},
                     {"profile", profile()},
                     {"signal", ended_by_},
                     {"cut", outcome.status == Outcome::Status::cut}});
  for (std::size_t r = 1; r < of_others_.size(); ++r) {
    if (of_others_[r]["cut"]) outcome.status = Outcome::Status::cut;
    if (ended_by_ == 0) ended_by_ = of_others_[r]["signal"];
  }
  // All end with one code, whoever got the signal.
  if (ranks_->world.rank == 0)
    ranks_->wire->put("ended by", std::to_string(ended_by_));
  else
    ended_by_ = std::stoi(ranks_->wire->get("ended by"));
}

// What a process that stands still tells the others, who end with its exit code.
constexpr const char* stands_still = "stalled: ";

static Exit exit_of(Exit own, const std::string& words) {
  const bool other_stalled = own == Exit::peer && words.find(stands_still) != std::string::npos;
  return other_stalled ? Exit::stalled : own;
}

int Session::exit_code(const Outcome& outcome) const {
  const std::lock_guard lock(mutex_);
  switch (outcome.status) {
    case Outcome::Status::failed:
      return static_cast<int>(exit_of(outcome.failure.exit, outcome.failure.message));
    case Outcome::Status::stalled:
      return static_cast<int>(Exit::stalled);
    default:
      return static_cast<int>(not_saved_.empty() ? Exit::done : not_saved_.begin()->second.exit);
  }
}

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
    p.metric_mode = mode_of(*graph_, p.metric);
  }
  return p;
}

std::vector<std::optional<std::uint64_t>> Session::epoch_sizes() const {
  std::vector<std::optional<std::uint64_t>> sizes;
  for (const PlanStream& s : plan_->streams)
    sizes.push_back(nodes_[static_cast<std::size_t>(s.source)]->epoch_size());
  return sizes;
}

std::vector<std::optional<std::uint64_t>> Session::item_counts() const {
  std::vector<std::optional<std::uint64_t>> counts;
  for (const PlanStream& s : plan_->streams)
    counts.push_back(nodes_[static_cast<std::size_t>(s.source)]->item_count());
  return counts;
}

std::map<std::string, double> Session::bytes_kept() const {
  std::map<std::string, double> bytes;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (const CacheStore* store = nodes_[i] ? nodes_[i]->store() : nullptr)
      if (const auto held = store->held(); held.entries > 0)
        bytes[plan_->nodes[i].path()] =
            static_cast<double>(held.bytes) / static_cast<double>(held.entries);
  return bytes;
}

void Session::metric(int node, std::uint32_t epoch, const std::string& name, double value) {
  const PlanNode& n = plan_->nodes[static_cast<std::size_t>(node)];
  const std::string full = n.path() + "." + name;
  std::lock_guard lock(mutex_);
  Metric& m = metrics_.try_emplace(full, Metric{value, value, epoch, epoch}).first->second;
  m.last = value;
  m.epoch = epoch;
  if (improves(mode_of(*graph_, full), value, m.best)) {
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
      folder_->metric_line({{"epoch", o.epoch},
                            {"step", o.step},
                            {"metric", o.name},
                            {"value", o.value},
                            {"mode", mode_of(*graph_, o.name)}});
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
    if (++steps_ == last_step_ && !ends_by_agreement()) stop();
    if (is_time_to_save()) ask_for_pause();
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
  const auto sequence = plan_->sequence();
  const bool epoch_over =
      position >= sequence.size() || sequence[position].train_epoch != ended.train_epoch;
  const bool others = ends_by_agreement() && any_wish(*ranks_);
  if (others) note_other_wish();
  const bool wished = others || (ends_by_agreement() && ranks_->has_all_steps());
  judge_bad_of_all(ended);
  const Resume here{position, 0};
  const auto save_in_time = [&] {
    prepare_save(Keeps::region, here);
    if (folder_) try_save("last", here, Keeps::region);
  };
  const bool pauses = scheduler_->pausing() && !wished;
  if (!epoch_over) {
    if (pauses) save_in_time();
    return wished;
  }
  warn_of_missing_metrics();
  const bool stop = stop_rule_met();
  if (stop) stopped_by_rule_ = true;
  {
    std::lock_guard lock(mutex_);
    epochs_done_ = ended.train_epoch + 1;
    epoch_ends_s_.push_back(scheduler_->wall_s());
  }
  const auto every = graph_->run.checkpoint_every;
  const bool periodic = every > 0 && (ended.train_epoch + 1) % every == 0, best = is_best(ended);
  if (periodic || best) prepare_save(Keeps::region, here);
  // First: whoever goes on from another one is told by its state that this one is kept.
  if (folder_ && best) try_save("best", here, Keeps::region);
  if (folder_ && periodic) {
    char name[32];
    std::snprintf(name, sizeof name, "epoch_%05u", ended.train_epoch + 1);
    try_save(name, here, Keeps::region);
  }
  if (pauses && !periodic && !best && !stop) save_in_time();
  return stop || wished;
}

// Collective: bad samples count together, whichever process finds them.
void Session::judge_bad_of_all(const Turn& ended) {
  if (ranks_->alone()) return;
  const auto counts = scheduler_->bad_counts(ended.stream, ended.epoch);
  if (counts.empty()) return;  // on all ranks
  std::vector<std::int64_t> mine;
  for (const auto& count : counts) mine.push_back(count.here);
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(ranks_->world.size));
  ranks_->wire->gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  for (std::size_t k = 0; k < counts.size(); ++k) {
    std::int64_t bad = counts[k].before;
    for (std::size_t i = k; i < all.size(); i += mine.size()) bad += all[i];
    if (bad > counts[k].budget)
      throw Error(Exit::data, "nodes." +
                                  plan_->nodes[static_cast<std::size_t>(counts[k].node)].path() +
                                  ": " + std::to_string(bad) +
                                  " samples are bad in all processes together (more than "
                                  "the " +
                                  std::to_string(counts[k].budget) + " allowed)");
  }
}

// Of rank 0, whose clock is everybody's.
bool Session::is_time_to_save() const {
  const std::chrono::duration<double> every(save_interval_s(graph_->run));
  return folder_ && std::chrono::steady_clock::now() - saved_at_ >= every;
}

void Session::ask_for_pause() {
  if (ends_by_agreement())
    ranks_->pause_wish = true;
  else
    scheduler_->pause();
}

void Session::paused(const Resume& at) {
  prepare_save(Keeps::region, at);
  if (folder_) try_save("last", at, Keeps::region);
}

// Collective: before rank 0 saves while the run goes on.
void Session::prepare_save(Keeps which, const Resume& position) {
  if (ranks_->alone()) return;
  require_same_weights(*ranks_, weights_sha256(weights()));
  bring_state();
  if (out_dir_.empty()) return;
  const std::vector<int> kept = kept_nodes(which, position);
  const std::string when = "at/" + std::to_string(++unions_);
  for (const auto& [i, node] : parted_)
    if (std::ranges::find(kept, i) != kept.end()) node->hand_over(when);
  unite_states(kept, when);
}

// Collective: what other ranks alone have comes to rank 0, where the run has a folder to save it
// in.
void Session::bring_state() {
  if (out_dir_.empty()) return;  // on all ranks
  for (const auto& bring : ranks_->before_save) bring();
}

// Line by line, so that none is lost with its process.
static std::string quarantine_line_name(int rank, std::size_t number) {
  return "quarantine/" + std::to_string(rank) + "/" + std::to_string(number);
}

void Session::quarantined(const Quarantined& q) {
  {
    std::lock_guard lock(mutex_);
    ++bad_;
  }
  tell("quarantined " + q.sample + ": " + q.node + ": " + q.message);
  const Json line = {
      {"node", q.node}, {"sample", q.sample}, {"stamp", q.stamp.str()}, {"message", q.message}};
  if (folder_) return folder_->quarantine_line(line);
  if (ranks_->world.rank == 0) return;
  std::unique_lock lock(mutex_);
  const std::size_t number = quarantine_told_++;
  lock.unlock();
  try {
    ranks_->wire->put(quarantine_line_name(ranks_->world.rank, number), line.dump());
  } catch (const Error&) {  // of a process that is gone the wire's own threads tell
  }
}

// On rank 0: what the others have told, also where they are gone.
void Session::take_quarantine_lines() {
  quarantine_read_.resize(static_cast<std::size_t>(ranks_->world.size));
  for (int r = 1; r < ranks_->world.size; ++r)
    for (std::size_t& next = quarantine_read_[static_cast<std::size_t>(r)];; ++next) {
      const std::string name = quarantine_line_name(r, next);
      if (!ranks_->wire->has(name)) break;
      {
        std::lock_guard lock(mutex_);
        ++bad_;
      }
      if (folder_) folder_->quarantine_line(Json::parse(ranks_->wire->get(name)));
      ranks_->wire->remove(name);
    }
}

std::uint64_t Session::progress_elsewhere(std::uint64_t here) try {
  if (ranks_->alone()) return 0;
  const auto name = [](int rank) { return "progress/" + std::to_string(rank); };
  Wire& wire = *ranks_->wire;
  wire.put(name(ranks_->world.rank), std::to_string(here));
  std::uint64_t all = 0;
  for (int r = 0; r < ranks_->world.size; ++r)
    if (r != ranks_->world.rank && wire.has(name(r))) all += std::stoull(wire.get(name(r)));
  return all;
} catch (const Error&) {  // of a process that is gone the wire's own threads tell
  return 0;
}

// The stuck body cannot be unwound: say who waits for what and end the process.
void Session::stalled(const std::string& report) {
  tell("error: stalled: " + report);
  Outcome outcome;
  outcome.status = Outcome::Status::stalled;
  outcome.stall = report;
  if (!ranks_->alone()) ranks_->wire->end(stands_still + report);
  end_at_once(outcome, Exit::stalled);
}

// Nor can a step that waits for another process.
void Session::lost(const std::string& who) {
  tell("error: another process failed: " + who);
  Outcome outcome;
  outcome.status = Outcome::Status::failed;
  outcome.failure = {.exit = Exit::peer, .message = "another process failed: " + who};
  const Exit exit = exit_of(Exit::peer, who);
  if (!running_.load()) _exit(static_cast<int>(exit));
  end_at_once(outcome, exit);
}

// What is stuck may hold a lock, or be a device or a disk that everything here waits for too.
void Session::end_at_once(const Outcome& outcome, Exit exit) {
  end_ = ProcessUse::now();
  std::promise<void> written;
  std::thread([&] {
    try {
      dump_picture(outcome);
      if (folder_) end_folder(outcome);
    } catch (...) {
      tell("error: " + cause(Exit::io).text);
    }
    written.set_value();
  }).detach();
  written.get_future().wait_for(std::chrono::seconds(5));
  _exit(static_cast<int>(exit));
}

}  // namespace sluice
