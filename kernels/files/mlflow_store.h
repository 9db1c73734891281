// MLflow's file store, as mlflow 3.17's FileStore lays it out; its clients are Python, so it is
// written by hand:
//
//   mlruns/EXPERIMENT/meta.yaml                       name: "brain"
//   mlruns/EXPERIMENT/RUN/meta.yaml                   status, times, where artifacts lie
//   mlruns/EXPERIMENT/RUN/params/nodes.step.lr        the value's text
//   mlruns/EXPERIMENT/RUN/metrics/epoch/dice.mean     lines "milliseconds value step"
//   mlruns/EXPERIMENT/RUN/tags/mlflow.user            the value's text
//
// Invariant: a metric's file only grows by whole lines; meta.yaml is replaced whole.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sluice {

class MlflowRun {
 public:
  enum class Status { running = 1, finished = 3, failed = 4, killed = 5 };
  struct About {
    std::string id, name, experiment;
    std::string artifacts;  // the folder where they are
  };

  // Makes the experiment, where there is none of that name, and the run's folder; of a run that is
  // there already, the time of its begin stays.
  MlflowRun(const std::filesystem::path& store, About about);
  ~MlflowRun();
  MlflowRun(const MlflowRun&) = delete;
  MlflowRun& operator=(const MlflowRun&) = delete;

  // A name's characters that MLflow does not take become "_"; a value's text ends after 6000 bytes,
  // its limit.
  void param(const std::string& name, const std::string& value);
  void tag(const std::string& name, const std::string& value);
  void metric(const std::string& name, double value, std::int64_t step);
  // Forgets the metrics' points: they are told again, and those that come with their old place in
  // the file keep their time.
  void retell();
  void status(Status status);

 private:
  struct Points {
    std::FILE* file = nullptr;
    std::size_t written = 0;
    std::vector<std::string> times;  // of the points that the file had before retell()
  };
  void write(const char* kind, const std::string& name, const std::string& value);
  Points& points(const std::string& name);

  const About about_;
  std::string experiment_;  // its number
  std::filesystem::path folder_;
  std::int64_t began_ = 0;
  std::map<std::string, Points> points_;
};

}  // namespace sluice
