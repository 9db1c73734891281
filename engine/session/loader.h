// Samples of one node of a graph for a program that brings its own training loop: the graph is cut
// to what stands upstream of the node, runs on threads of its own, and hands over in order what
// `sluice run` would make, bit for bit.
//
//   Loader loader({.run = {.graphs = {"g.json"}}, .node = "batch"});
//   Taken batch;
//   while (loader.next(100ms, batch) != Loader::Next::end) ...
//
// Invariant: the process is somebody else's. Nothing here changes its signal handlers, LibTorch's
// settings, its threads' or its allocator, writes to stderr, or ends it. One thread at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "engine/run/standstill.h"
#include "engine/session/hand_over.h"
#include "engine/session/session.h"
#include "engine/state/sample.h"

namespace sluice {

// A sample that was handed over. Its tensors are the taker's own: nobody else reads or writes them.
struct Taken {
  std::string name;
  std::vector<std::string> members;  // the names of its samples: of a batch, else its own
  Stamp stamp;
  struct Field {
    std::string name;
    at::Tensor tensor;
    std::vector<MetaPtr> meta;  // one a member
  };
  std::vector<Field> fields;
};

struct LoaderOptions {
  Options run;  // graphs, text, set, threads
  std::string node;
  std::int64_t prefetch = 2;
  bool share = false;  // tensors that a cache holds too are handed over without a copy
  Json state;          // of an earlier loader: to go on behind what that one's loop had taken
  bool force = false;  // though its graph was another
};

// What ended a run, and the sample that it was about.
struct LoaderError : Error {
  std::string node, sample;
  LoaderError(const Failure& f) : Error(f.exit, f.str()), node(f.node), sample(f.sample) {}
};

class Loader {
 public:
  // Throws GraphError, and Error where files, weights or the state are not right.
  explicit Loader(LoaderOptions options);
  ~Loader();  // ends the run; what was taken stays

  enum class Next { sample, nothing_yet, epoch_end, end };
  // The run begins with the first call. Throws LoaderError where it failed.
  Next next(std::chrono::milliseconds wait, Taken& to);

  // What was taken, for LoaderOptions::state; what was prefetched is made again.
  Json state() const;
  Json profile() const;  // null before the first sample

 private:
  void start();
  void judge_waiting();
  Json settings() const;

  LoaderOptions options_;
  Position at_;
  std::shared_ptr<HandOver> hand_over_;
  std::unique_ptr<Session> session_;
  std::thread thread_;
  std::atomic<bool> ended_{false};
  std::exception_ptr failure_;  // of the run; once it has ended
  Standstill standstill_;
};

}  // namespace sluice
