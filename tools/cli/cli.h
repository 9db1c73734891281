// The subcommands that the binary answers itself, from the catalogue alone, and the door to the
// runtime library for those that run something.
//
// Invariant: nothing here loads LibTorch or touches data, so `check`, `dot`, `inspect` and
// `explain` answer in milliseconds. Data goes to stdout, messages to stderr; each function returns
// the process's exit code.
#pragma once

#include <sys/wait.h>

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tools/assist/analysis.h"
#include "tools/runs/files.h"

namespace sluice::cli {

struct Options {
  std::vector<std::string> graphs;
  std::vector<std::string> set;  // "path=value"
  std::string run, out, resume;
  bool no_out = false, overwrite = false, force = false;
  bool go_on = false;  // run: --continue
  // inspect, apply: TYPE; explain: CODE; graphs: NAME; new: KIND; trace: DIR; cache, data: what to
  // do
  std::string name;
  std::vector<std::string> ins, outs, param;  // apply: "key=FILE", "name=value"
  std::vector<std::string> grads, out_grads;  // apply: "key=FILE"
  bool check_grad = false, train = false;
  std::int64_t seed = 0;
  std::string sample, from, to, chrome, merged;  // trace
  int epoch = -1;
  std::vector<std::string> configs;  // new bundle
  std::string task;
  bool strict = false, partial = false;
  std::string data, weights;            // new: the folder with data; cache: its folder
  std::vector<std::string> predictors;  // new prediction: what segments
  // new segmentation --recipe nnunet
  std::string recipe, planner, fingerprint, write_fingerprint;
  std::optional<double> gpu_memory;
  std::int64_t folds = 5;
  bool plan_only = false, probabilities = false;
  std::string key, strip_prefix;                            // weights, convert
  bool brief = false;                                       // convert
  std::string precision_name = "float32", head = "logits";  // export
  std::vector<std::int64_t> size;
  std::int64_t outputs = 1, samples = 32;  // export; calibrate
  std::string scales, method = "minmax";
  bool asymmetric = false;
  std::string package, selftest;  // export, verify, serve
  bool map = false;               // export
  std::string host = "127.0.0.1";
  int port = 8080, queue = 8;
  double timeout = 600, share = 0.5;
  std::int64_t multiple = 1;     // prune
  std::string sort = "started";  // runs
  bool csv = false;
  bool read_only = false, no_browser = false;  // open
  int page_port = 0;
  std::string page_socket;
  int threads = 0, step_threads = 0, io_threads = 0;
  int processes = 1;
  std::string each;  // run: "vars.fold=0,1,2"
  int at_once = 1;   // so many of these at a time
  // plan
  std::vector<int> ranks;
  int node = 1, cores = 0;  // ranks on a machine; its cores, 0: this one's
  std::string link = "12.5GB/s", inside, latency;
  std::vector<std::string> what_if;
  std::optional<std::uint64_t> budget;  // cache, advise
  std::optional<double> days;
  bool exact = false, precision = false;  // advise
  bool verify = false, isolate = false, all = false, check = false;
  double seconds = 30;
  double minutes = 0;       // run: how long; 0: to the end
  std::uint64_t steps = 0;  // run: how many; 0: all
  bool json = false, quiet = false, trace = false, merge = false, markdown = false;
};

int check(const Options& options);
int draw(const Options& options);
int report(const Options& options);
int inspect(const Options& options);
int explain(const Options& options);
int graphs(const Options& options);
int schema();
int lsp();
int format(const Options& options);
int apply(const Options& options);
int doctor(const Options& options);
int trace(const Options& options);
int new_graph(const Options& options);
int cache(const Options& options);
int data(const Options& options);
int weights(const Options& options);
int convert(const Options& options);
int export_network(const Options& options);
int verify_package(const Options& options);
int serve(const Options& options);
int prune(const Options& options);
int list_runs(const Options& options);
int compare_runs(const Options& options);
int open_page(const Options& options);
int calibrate(const Options& options);
// From here on, signals that ask for the end are kept until there is a run to be ended, and a
// reader of our output that goes, or a file that may not grow, ends nothing.
void keep_signals();
// Whose child this process is: told as it begins, and again behind a fork. A launcher that ends
// while the libraries load is missed by this alone.
void set_parent(int process);
// Of a run's processes, and the one that started them, the first says that a signal came.
void leave_signals_to_first();
// `command`: "run" or "profile". The graph is checked first, so that what is wrong with it is said
// before the libraries are loaded.
int start(const std::string& command, const Options& options);
// Of a child that waitpid() tells of: 128 and the signal's number where one ended it.
inline int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
// Starts the processes of a run and waits for them: their exit code; in each of them nothing, and
// the environment says which it is. `signal`: the number of one that goes on to them.
std::optional<int> divide(int processes, const std::atomic<int>& signal);
// One run a value of --each, --at-once so many at a time. `signal`: the number of one that ends
// them.
int run_each(const Options& options, const std::atomic<int>& signal);
// Does not check first: a cache where none can stand is what it mends.
int advise(const Options& options);
// What training would take on more processes.
int plan_ranks(const Options& options);
// Runs the graph quietly for options.seconds, its results in `folder`.
int measure(const Options& options, const std::string& folder);

// ---- shared -------------------------------------------------------------------------------------

// The runtime library: beside the executable, in lib/ beside its folder, or in the Python package
// beside it; SLUICE_RUNTIME overrides.
std::string runtime_file();
// Hands a request to the runtime library, which does it; says why where it cannot be loaded.
int run_in_runtime(const Json& request, const std::string& runtime = "");

// Every node and network type of this build.
const Catalogue& catalogue();

struct Checked : assist::Checked {
  std::string file;
};
// The graph that the files make together, with the overrides; a plan where nothing is wrong.
// `may_be_stdin`: "-" as the first file is what stands on stdin. Its name is "graph", and its parts
// are relative to the current folder.
void check_graph(std::vector<std::string> files, const Options& options, Checked& checked,
                 bool may_be_stdin = false);

// The plan as a run had it: credits that nobody sets follow its threads, which profile.json says.
void plan_as_run(const Json& profile, Checked& checked);

void print(const Diagnostics& diagnostics);    // to stderr, in colour where it may be
void print_error(const std::string& message);  // "error: ..." to stderr
using runs::write_whole;
// What a command ends with: 4 and a word where its output did not reach stdout.
int flushed(int code);
std::string dump(const Json& json);  // for stdout; replaces invalid UTF-8
constexpr int code(Exit exit) { return static_cast<int>(exit); }

}  // namespace sluice::cli
