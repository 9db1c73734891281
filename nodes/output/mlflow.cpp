// mlflow: a run as MLflow's file store has it: settings, metrics and logged values by step, tags,
// and where the run's folder is.
#include <cmath>
#include <fstream>
#include <mutex>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "engine/run/registry.h"
#include "kernels/files/mlflow_store.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

Json read_json(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return Json::parse(in, nullptr, false);
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// As the tracker counts: a run without updates has no steps; its epochs are counted instead.
std::int64_t step_of(std::uint64_t step, std::uint32_t epoch) {
  return step > 0 ? static_cast<std::int64_t>(step) : epoch + 1;
}

struct Mlflow final : Node {
  struct Params {
    std::string tracking_dir = "mlruns", experiment, run_name;
    Json tags = Json::object();
  } p;

  static Spec spec() {
    return Spec(
               "mlflow",
               "Writes the run into a file store of MLflow's: its resolved settings as params, "
               "every metric under epoch/ and every logged value under batch/ by step, and its "
               "folder as the artifacts' place. A resumed run goes on in the same MLflow run, "
               "each point once. MLflow 3.17 reads a file store where MLFLOW_ALLOW_FILE_STORE=true "
               "is set.")
        .in("sample", "Any of the run's: nothing of it is written.")
        .param("tracking_dir", &Params::tracking_dir,
               "The store's folder; a relative one counts from the working directory, as MLflow's "
               "own.")
        .param("experiment", &Params::experiment, "Its name; \"\": the graph's.")
        .param("run_name", &Params::run_name, "\"\": that of the run's folder.")
        .param("tags", &Params::tags, "An object of strings, such as {\"team\": \"liver\"}.")
        .ordered()
        .lane(LaneKind::io)
        .passes()
        .any_device();
  }

  void open(const OpenContext& context) override {
    if (!p.tags.is_object()) throw Error(Exit::usage, "\"tags\" is an object of strings");
    if (context.out_dir.empty())
      tell("nodes." + context.node + ": no run folder (--out), so MLflow is told nothing");
    else
      folder_ = fs::absolute(context.out_dir).lexically_normal();
  }

  void process(Firing&) override {}

  void observe(const Observation& o) override {
    if (folder_.empty()) return;
    std::lock_guard lock(mutex_);
    if (!run_) {
      begin();
      return retell();  // this value is among them
    }
    metric(o.of_epoch, o.name, o.value, step_of(o.step, o.epoch));
  }

  // The run's folder knows by now how it ended.
  ~Mlflow() override {
    using Status = MlflowRun::Status;
    if (run_) try {
        const Json summary = read_json(folder_ / "summary.json");
        const std::string how = summary.is_object() ? summary.value("status", "") : "";
        run_->status(how == "done" || how == "stopped" ? Status::finished
                     : how == "cut"                    ? Status::killed
                                                       : Status::failed);
      } catch (const std::exception& e) {
        tell(std::string("MLflow: ") + e.what());
      }
  }

 private:
  // With the first value, so that a run that fails early leaves nothing. The folder has its files
  // by then.
  void begin() {
    const Json run = read_json(folder_ / "run.json"), graph = read_json(folder_ / "graph.json");
    if (!run.is_object() || !graph.is_object())
      throw IoError(folder_.string() + ": run.json or graph.json cannot be read");
    const std::string name = graph.value("name", "");
    run_ = std::make_unique<MlflowRun>(
        p.tracking_dir,
        MlflowRun::About{run.at("id"),
                         p.run_name.empty() ? folder_.filename().string() : p.run_name,
                         !p.experiment.empty() ? p.experiment
                         : name.empty()        ? "Default"
                                               : name,
                         folder_.string()});
    for (const char* group : {"run", "models", "nodes"})
      if (graph.contains(group)) settings(group, graph[group]);
    if (const std::string desc = graph.value("desc", ""); !desc.empty())
      run_->tag("mlflow.note.content", desc);
    for (const auto& [key, value] : p.tags.items()) run_->tag(key, text_of(value));
  }

  void settings(const std::string& path, const Json& value) {
    if (!value.is_object() || value.empty()) return run_->param(path, text_of(value));
    for (const auto& [key, inner] : value.items()) settings(path + "." + key, inner);
  }

  // All that metrics.jsonl holds: a resumed run's was cut back to its checkpoint.
  void retell() {
    run_->retell();
    std::ifstream lines(folder_ / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const Json j = Json::parse(line, nullptr, false);
      if (!j.is_object() || !j.contains("value")) continue;
      const bool of_epoch = j.contains("metric");
      const Json& value = j["value"];
      metric(of_epoch, j.value(of_epoch ? "metric" : "log", ""),
             value.is_number() ? value.get<double>() : std::nan(""),
             step_of(j.value("step", std::uint64_t{0}), j.value("epoch", 0u)));
    }
  }

  void metric(bool of_epoch, const std::string& name, double value, std::int64_t step) {
    run_->metric((of_epoch ? "epoch/" : "batch/") + name, value, step);
  }

  fs::path folder_;
  std::mutex mutex_;  // what follows; observe() is called from any thread
  std::unique_ptr<MlflowRun> run_;
};

const Register<Mlflow> registered;

}  // namespace
}  // namespace sluice
