// One run of one graph: loads and checks it, makes networks and nodes, runs the scheduler, keeps
// metrics, checkpoints and the run folder.
//
// Invariant: whatever happens between open() and the end of run(), the run folder holds whole
// files only, and a checkpoint is written at every cut.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/cause.h"
#include "engine/base/error.h"
#include "engine/base/file_owners.h"
#include "engine/graph/graph.h"
#include "engine/judge/figures.h"
#include "engine/plan/plan.h"
#include "engine/run/registry.h"
#include "engine/run/scheduler.h"
#include "engine/session/gpu_watch.h"
#include "engine/session/options.h"
#include "engine/session/process_use.h"
#include "engine/session/ranks.h"
#include "engine/session/run_folder.h"
#include "engine/session/stop_rule.h"
#include "engine/state/checkpoint.h"
#include "engine/state/recorded_step.h"
#include "engine/state/resource.h"

namespace sluice {

// The graph and its plan; false after printing what is wrong with them, which a guest is told by
// GraphError instead. `plan` points into `graph`.
bool load_plan(const Options& options, std::optional<Graph>& graph, std::optional<Plan>& plan);

struct GraphError : Error {
  Json diagnostics;
  GraphError(const std::string& text, Json all)
      : Error(Exit::usage, text), diagnostics(std::move(all)) {}
};

int data_threads(const Options& options, const Graph& graph);
Threads thread_counts(const Options& options, const Plan& plan);

// Samples over the whole graph: every source's and every sink's, and where the others went.
Json samples_json(const Plan& plan, const Scheduler& scheduler);

class Captured;
class TraceFile;

struct Metric {
  double last = 0, best = 0;
  std::uint32_t epoch = 0, best_epoch = 0;
};

// A snapshot for the progress display; taken from another thread.
struct Progress {
  std::uint64_t epochs = 1, steps = 0, bad = 0;
  std::optional<double> loss;
  std::string metric;       // of the stop rule, or the last one reported
  std::string metric_mode;  // "min" or "max": which of its values is the best
  std::optional<double> metric_last, metric_best;
};

class Session final : public RunEvents {
 public:
  // Nullptr after printing diagnostics where the graph is not right.
  static std::unique_ptr<Session> open(const Options& options);
  ~Session() override;

  Outcome run();
  void stop() noexcept;  // a cut; signal-safe
  // To be asked now and then: of processes without steps to agree on, one that is stopped tells the
  // others.
  void stop_with_others() noexcept;
  int exit_code(const Outcome& outcome) const;
  int ended_by() const { return ended_by_; }  // the signal that some process got, or 0
  // Whether a resumed run was at its end already, so that what stands in its folder is the result.
  bool nothing_left() const;
  bool is_stopped_by_rule() const { return stopped_by_rule_; }

  Progress progress() const;
  Json summary(const Outcome& outcome) const;
  Figures figures() const;  // since the run began
  Json profile(bool ended = true) const;
  Json isolate() const;  // after the run: each node alone on 1, 2, 4, ... threads
  // graph.dot as the run left it, or as it stands.
  std::string picture(const Outcome& outcome, const std::filesystem::path& folder) const;
  // The same into the folder that SLUICE_DUMP_DOT_DIR names, if it does: NAME.stalled.dot.
  void dump_picture(const Outcome& outcome) const;
  Threads thread_counts() const;
  const Plan& plan() const { return *plan_; }
  const Scheduler& scheduler() const { return *scheduler_; }
  // graph.json: the resolved graph, which runs again to the same result.
  std::string graph_text() const { return graph_->resolved.dump(2) + "\n"; }
  const Scheduler* running() const { return running_.load(); }    // null until run() has made it
  std::vector<std::optional<std::uint64_t>> epoch_sizes() const;  // of each stream's source
  std::vector<std::optional<std::uint64_t>> item_counts() const;  // what these choose from
  std::map<std::string, double> bytes_kept() const;               // a sample, on average; by cache
  const Resources& resources() const { return *resources_; }
  const std::filesystem::path& out_dir() const { return out_dir_; }
  bool ends_with_checkpoint() const { return plan_->turns && !out_dir_.empty(); }
  bool can_resume() const;  // its folder is there, with what a run begins with
  const Ranks& ranks() const { return *ranks_; }
  Json where() const;  // "device": its name or "cpu"; "devices": how many share each batch

  void metric(int node, std::uint32_t epoch, const std::string& name, double value) override;
  void log(int node, const Stamp& stamp, const std::string& name, double value) override;
  bool between(const Turn& ended, std::size_t position) override;
  void paused(const Resume& at) override;
  void quarantined(const Quarantined& what) override;
  std::uint64_t progress_elsewhere(std::uint64_t here) override;
  void stalled(const std::string& report) override;

 private:
  explicit Session(const Options& options) : options_(options) {}
  void join_others();
  void require_same_run();
  void open_all();
  bool ends_by_agreement() const;
  void note_other_wish();
  void judge_bad_of_all(const Turn& ended);
  void lost(const std::string& who);
  [[noreturn]] void end_at_once(const Outcome& outcome, Exit exit);
  void gather_ends(Outcome& outcome);
  void compare_weights(Outcome& outcome);
  void take_quarantine_lines();
  void claim_folder();
  void read_checkpoint();
  void compare(const RunId& before);
  void take_step_threads(const RunId& before);
  void note(const std::string& text) const;
  void refuse(const std::string& what) const;
  void set_arithmetic();
  void make_networks();
  std::shared_ptr<Network> make_network(const GraphModel& model) const;
  void make_nodes();
  void open_node(int i);
  void resume();
  void load_nodes();
  Json of_sources(const std::function<Json(const Node&)>& what) const;
  Json items() const;
  std::int64_t shards() const;  // of a training step
  Json source_files() const;
  int begins_anew(const Resume& position) const;
  // Beside updaters: the training region, while other nodes may be at work, or all.
  enum class Keeps : std::uint8_t { region, all };
  std::vector<int> kept_nodes(Keeps which, const Resume& position) const;
  void save(const std::string& name, const Resume& position, Keeps which);
  void try_save(const std::string& name, const Resume& position, Keeps which);
  bool is_time_to_save() const;
  void ask_for_pause();
  void tell_measured();
  void publish(const Observation& observation);
  void begin_folder();
  std::unique_ptr<TraceFile> begin_trace();
  void end_folder(const Outcome& outcome);
  void write_end(const Outcome& outcome);
  void keep_end(Outcome& outcome, bool saves);
  void require_folder() const;  // throws where it was taken from the run
  void warn_of_changed_files() const;
  std::map<std::string, at::Tensor> weights() const;
  void prepare_save(Keeps which, const Resume& position);
  void bring_state();
  void unite_states(const std::vector<int>& kept, const std::string& when);
  bool stop_rule_met();
  bool is_best(const Turn& ended);
  Json stops_by() const;
  Json keeps_best_by() const;
  void warn_of_missing_metrics();
  void load_judgements();
  void load_position();

  Options options_;
  std::optional<Graph> graph_;
  std::optional<Plan> plan_;
  std::shared_ptr<Ranks> ranks_ = std::make_shared<Ranks>();
  std::vector<std::pair<int, Parted*>> parted_;  // by plan index
  std::shared_ptr<Resources> resources_ = std::make_shared<Resources>();
  std::shared_ptr<FileOwners> owners_ = std::make_shared<FileOwners>();
  std::shared_ptr<const RecordedSteps> recorded_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Captured*> captured_;  // by plan index; with Options::isolate
  std::unique_ptr<Scheduler> scheduler_;
  std::atomic<Scheduler*> running_{nullptr};
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<GpuWatch> gpus_;  // from run() on
  ProcessUse begin_, end_;          // of run()
  std::filesystem::path out_dir_;
  bool in_place_ = false;  // goes on in the folder of the run that it resumes
  RunId run_;
  std::optional<RunFolder::Lengths> lengths_;  // at the checkpoint; none: the run begins here
  int threads_ = 2, step_threads_ = 2;
  std::size_t devices_ = 1;
  std::optional<std::uint64_t> device_share_;  // of a cache on the device without a budget
  Resume resume_;
  Json stays_;  // the place of a resumed run that has nothing left to do; null: it goes on
  std::vector<Quarantined> bad_before_;     // quarantined before the resume
  std::vector<Quarantined> bad_elsewhere_;  // rank 0: what the others' lists had at the last save
  std::optional<Checkpoint> checkpoint_;    // to go on from, until that is done
  std::filesystem::path checkpoint_path_;
  std::map<std::string, Cause> not_saved_;    // why the last checkpoint, or the best one, was not
  Json files_;                                // of the sources of training, as the run began
  std::vector<std::size_t> quarantine_read_;  // rank 0: how many lines of the others are kept
  std::vector<Json> of_others_;               // rank 0: what the others counted; after the run
  int ended_by_ = 0;
  std::uint64_t unions_ = 0;  // how often ranks have told each other what to save
  std::string united_;        // what this rank has told last
  Stopping stopping_;
  std::optional<double> best_kept_;  // the metric of checkpoints/best
  bool missing_is_told_ = false;     // of metrics that rules wait for
  std::atomic<bool> stopped_by_rule_{false};
  std::once_flag ended_;  // and the folder says how
  std::atomic<bool> stop_is_told_{false}, other_wish_is_told_{false};
  std::atomic<bool> is_over_{false};  // and nothing more to stop

  mutable std::mutex mutex_;  // what follows
  std::map<std::string, Metric> metrics_;
  std::vector<std::pair<int, Observation>> measured_;    // by a node, in this turn
  std::map<std::uint32_t, std::uint64_t> steps_at_end_;  // of training epochs
  std::string last_metric_;
  std::optional<double> last_loss_;
  std::size_t quarantine_told_ = 0;  // lines of a rank that keeps no folder
  std::uint64_t steps_ = 0, bad_ = 0;
  std::uint64_t last_step_ = 0;                     // a cut comes after it; 0: none asked for
  std::chrono::steady_clock::time_point saved_at_;  // or begun
  std::uint32_t epochs_done_ = 0;
  std::vector<double> epoch_ends_s_;  // since the beginning, in this process
};

}  // namespace sluice
