// The parsed graph file: variables replaced, parts expanded, names resolved, every parameter
// checked against its Spec. Pure data; what it means to run it is the Plan's business.
//
// Invariant: a Graph exists only without errors; every element knows its place in the file.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/diagnostic.h"
#include "engine/base/document.h"
#include "engine/graph/catalogue.h"
#include "engine/graph/spec.h"

namespace sluice {

struct GraphInput {
  int port = 0;       // in-port of this node
  int from = -1;      // index of the node it comes from
  int from_port = 0;  // its out-port
  Place place;
};

enum class OnError : std::uint8_t { fail, quarantine };

struct GraphNode {
  std::string path;  // "pre/load"
  const Spec* spec = nullptr;
  std::shared_ptr<const Spec> own_spec;  // `spec` of a node that holds others: narrowed by them
  Json params = Json::object();          // every parameter of the spec, defaults filled in, checked
  std::vector<std::string> given;        // those that the file names
  std::vector<GraphInput> inputs;        // one a connected in-port, by port
  OnError on_error = OnError::fail;
  int max_bad = -1;                // quarantine budget; -1: run.max_bad
  std::string lane;                // "" : the spec's
  int threads = 0;                 // bodies at once; 0: no limit of its own
  std::string after;               // sources: path of the updater to wait for; "" : none
  int every_epochs = 1;            // with after
  std::vector<std::string> needs;  // "requires": paths of nodes to open before this one
  std::string desc;
  Place place;                  // of the node's object
  std::vector<GraphNode> step;  // several_steps: the nodes of one step, in order

  bool is_given(const std::string& param) const {
    return std::find(given.begin(), given.end(), param) != given.end();
  }
};

// Where a network's first weights come from.
struct WeightsFile {
  std::string file;  // a file or a folder; "": none
  // Further ones: the network is the mean of as many as there are files, and only predicts.
  std::vector<std::string> more;
  std::string key;           // of the dictionary in it; "": the only one
  std::string strip_prefix;  // what its names begin with and the network's do not
  bool partial = false;      // what is not there, or has another shape, stays as it is drawn
};

struct GraphModel {
  std::string name;
  const Spec* spec = nullptr;
  Json params = Json::object();
  WeightsFile weights;  // to begin with
  Place place;
};

struct StopRule {
  std::string metric;  // "val_dice.mean"
  std::optional<double> at_least, at_most;
  std::optional<std::int64_t> patience;  // values in a row that are no better
  std::optional<std::string> mode;       // null: as the metric is better
  double min_delta = 0;
  bool cumulative_delta = false;
  Place place;
};

struct RunSettings {
  std::int64_t epochs = 1;
  std::int64_t seed = 0;
  std::optional<StopRule> stop;
  std::int64_t checkpoint_every = 0;  // epochs; 0: only at the end and at a cut
  std::optional<double> checkpoint_every_s;
  std::int64_t checkpoint_keep = 3;
  std::string checkpoint_best;                 // the metric whose best epoch is kept
  std::optional<std::string> checkpoint_mode;  // null: as the metric is better
  Place checkpoint_best_place;
  std::int64_t max_bad = 10;  // quarantine budget of a node that sets none
  // 0: the machine's cores. --threads, --io-threads and --step-threads override.
  std::int64_t threads = 0, io_threads = 0, step_threads = 0;
  std::optional<std::int64_t> shards;  // of each training batch; as many as processes
  std::string transfer = "float32";    // of gradients between processes
  double bucket_mb = 1;                // of gradients that go out together; 0: all at the end
  bool shard_optimizer = false;        // a rank keeps the moments of its part of the weights alone
  double join_timeout_s = 300;         // until all processes are there
  double peer_timeout_s = 30;          // silence after which another process counts as hung
  double watchdog_s = 300;             // no progress for so long: stall report, exit 7
  bool fuse = true;          // transforms one after the other are done together (plan.h's runs)
  bool lazy = false;         // ... and their resamplings become one: sharper, other numbers
  bool cuda_graphs = false;  // a device repeats the training step from a recording
  // Of LibTorch on a GPU: convolutions of float32 in TF32; cuDNN's algorithms chosen by timing
  // them; only those that give the same bits each time.
  bool tf32 = true, cudnn_benchmark = false, deterministic = true;
  std::int64_t devices = 1;                   // that share each batch of a training step; 0: all
  std::optional<std::int64_t> device_budget;  // bytes of a GPU's memory for data (device_need.h)
};

// The plain settings of `run` as a Spec of RunSettings, and `stop` and `checkpoint`, which stand
// beside them.
const Spec& run_spec();
const Spec& stop_spec();        // of StopRule
const Spec& checkpoint_spec();  // of RunSettings
// What every node, and every network, has beside its parameters; `type`, `part` and `in` apart.
const Spec& node_settings_spec();
const Spec& model_settings_spec();

struct Graph {
  std::string name, desc;
  std::vector<GraphNode> nodes;  // in file order, parts expanded in place
  std::vector<GraphModel> models;
  RunSettings run;
  std::vector<Diagnostic> remarks;  // warnings that make_plan passes on if nothing is wrong
  Json resolved;                    // the whole graph, variables replaced, as one runnable file
  DocumentPtr document;

  int find(std::string_view path) const;  // -1 where there is none
};

// `--set vars.root=/data`, `--set nodes.step.lr=3e-4`, `--set models.net.channels=[8,16]`,
// `--set run.epochs=2`: "path=value", the value JSON or, where it is none, a string. "+path=value"
// adds what is not there yet, "~path" removes.
struct Override {
  std::string path, value;
  enum class Act : std::uint8_t { set, add, remove } act = Act::set;
};

// Parses, expands and checks. Everything wrong goes to `diagnostics`; nullopt if there was an
// error. Paths in the graph (roots, weights) stay as written: relative to the working directory.
std::optional<Graph> load_graph(DocumentPtr document, const Catalogue& catalogue,
                                const std::vector<Override>& overrides, Diagnostics& diagnostics);

}  // namespace sluice
