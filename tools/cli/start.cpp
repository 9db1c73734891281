// Loads the runtime library and hands the options over: `sluice run` and `sluice profile`, and
// through run_in_runtime() whatever else works on data.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <utility>

#include "engine/base/openmp.h"
#include "engine/base/stop_signals.h"
#include "engine/group/too_few_shards.h"
#include "engine/group/world.h"
#include "tools/cli/cli.h"
#include "tools/cli/current_folder.h"
#include "tools/runs/files.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

std::atomic<int> signal_number{0};
std::atomic<bool> silent{false};
pid_t parent = 0;

// Until the runtime's stands, which does the same and knows what is on the screen.
extern "C" void on_early_signal(int number) {
  if (signal_number.exchange(number) != 0) _exit(128 + number);
  if (silent) return;
  static const char text[] = "\nstopping: as soon as the run has begun (again: at once)\n";
  if (write(2, text, sizeof text - 1) < 0) return;
}

}  // namespace

void set_parent(int process) { parent = process; }
void leave_signals_to_first() { silent = true; }

void keep_signals() {
  silent = !speaks_for_all();
  struct sigaction action {};
  action.sa_handler = on_early_signal;
  for (const int number : stop_signals)
    if (!is_ignored(number)) sigaction(number, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

std::string runtime_file() {
  if (const char* given = std::getenv("SLUICE_RUNTIME"); given && *given) return given;
  std::error_code problem;
  const fs::path folder = fs::read_symlink("/proc/self/exe", problem).parent_path();
  const fs::path name = "libsluice_runtime.so", lib = folder.parent_path() / "lib";
  std::vector<fs::path> places{folder / name, lib / name};
  for (const auto& entry : fs::directory_iterator(lib, problem))  // that of a wheel
    if (entry.path().filename().string().starts_with("python3"))
      places.push_back(entry.path() / "site-packages" / "sluice" / name);
  const auto found = std::find_if(places.begin(), places.end(),
                                  [&](const fs::path& p) { return fs::exists(p, problem); });
  return (found == places.end() ? places.front() : *found).string();
}

namespace {

// Of the instructions that the kernels are compiled for the first that this processor lacks, or "".
std::string missing_instructions() {
#if defined(__x86_64__)
  if (std::string(SLUICE_MARCH) != "x86-64-v3") return "";
  if (!__builtin_cpu_supports("avx2")) return "AVX2";
  if (!__builtin_cpu_supports("fma")) return "FMA";
  if (!__builtin_cpu_supports("bmi2")) return "BMI2";
#endif
  return "";
}

Json document(const std::string& command, const Options& options) {
  return {{"command", command},
          {"graphs", options.graphs},
          {"set", options.set},
          {"out", options.out},
          {"threads", options.threads},
          {"step_threads", options.step_threads},
          {"io_threads", options.io_threads},
          {"what_if", options.what_if},
          {"verify", options.verify},
          {"isolate", options.isolate},
          {"all", options.all},
          {"resume", options.resume},
          {"overwrite", options.overwrite},
          {"force", options.force},
          {"quiet", options.quiet},
          {"json", options.json},
          {"trace", options.trace},
          {"steps", options.steps},
          {"seconds", command == "run" ? 60 * options.minutes : options.seconds}};
}

}  // namespace

namespace {

// The run's own graph, and its working folder, from which the graph's relative paths count.
void take_graph_of_run(Options& o) {
  const fs::path run = o.resume;
  const Json environment = runs::read_json(run / "environment.json");
  const std::string folder =
      environment.is_object() ? environment.value("folder", std::string()) : std::string();
  std::error_code unknown;
  if (!folder.empty() && fs::is_directory(folder, unknown) &&
      !fs::equivalent(folder, ".", unknown)) {
    o.resume = fs::absolute(run).lexically_normal().string();
    if (!o.out.empty()) o.out = fs::absolute(o.out).lexically_normal().string();
    std::cerr << "note: relative paths count from " + folder + ", where the run was begun\n";
    fs::current_path(folder);
  }
  o.graphs = {(fs::path(o.resume) / "graph.json").string()};
}

// runs/NAME-1, runs/NAME-2, ... without the number.
std::string numbered_base(const Options& o) {
  fs::path graph = fs::absolute(o.graphs.front()).lexically_normal();
  if (!graph.has_filename()) graph = graph.parent_path();  // "package/", "."
  return ("runs" / graph.stem()).string();
}

}  // namespace

// Said once here, and not by each of the processes.
static void require_shards(const Checked& checked, int processes) {
  if (!checked.plan->turns) return;
  if (const auto why = too_few_shards(checked.graph->run.shards, processes); !why.empty())
    throw Error(Exit::usage, why);
}

int start(const std::string& command, const Options& given) {
  require_current_folder();
  if (!given.each.empty()) return run_each(given, signal_number);
  Options options = given;
  if (options.go_on && fs::exists(fs::path(options.out) / "run.json"))
    options.resume = std::exchange(options.out, "");
  const bool own_graph = options.graphs.empty();
  if (own_graph && options.resume.empty()) {
    print_error("a graph is required, or --resume DIR, which has one");
    return code(Exit::usage);
  }
  const std::string runtime = fs::absolute(runtime_file()).string();
  if (own_graph) {
    if (!fs::exists(fs::path(options.resume) / "graph.json")) {
      print_error(options.resume + " holds no graph.json, so there is no run to go on with");
      return code(Exit::io);
    }
    take_graph_of_run(options);
  }
  Checked checked;
  check_graph(options.graphs, options, checked);
  if (!checked.plan) {
    print(checked.diagnostics);
    return code(Exit::usage);
  }
  Json request = document(command, options);
  request["own_graph"] = own_graph;
  if (command == "run" && options.out.empty() && options.resume.empty() && !options.no_out)
    request["out_base"] = numbered_base(options);
  if (options.processes > 1) require_shards(checked, options.processes);
  if (options.processes > 1)
    if (const auto code = divide(options.processes, signal_number)) return *code;
  return run_in_runtime(request, runtime);
}

int measure(const Options& options, const std::string& folder) {
  Json request = document("run", options);
  request["out"] = folder;
  request["quiet"] = true;
  request["json"] = false;
  request["seconds"] = options.seconds;
  return run_in_runtime(request);
}

int advise(const Options& options) {
  Json request = document("advise", options);
  request["out"] = "";
  request["write"] = options.out;
  request["exact"] = options.exact;
  request["precision"] = options.precision;
  request["memory"] = options.budget.value_or(0);
  return run_in_runtime(request);
}

int run_in_runtime(const Json& request, const std::string& runtime) {
  require_current_folder();
  const std::string file = runtime.empty() ? runtime_file() : runtime;
  if (const std::string lacks = missing_instructions(); !lacks.empty()) {
    print_error("this processor has no " + lacks +
                ", which the kernels are compiled for (x86-64-v3: "
                "Intel since Haswell, AMD since Excavator); build with -DSLUICE_MARCH=x86-64");
    return code(Exit::usage);
  }
  let_openmp_sleep();
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const std::string why = dlerror();
    print_error("cannot load the runtime: " + why);
    return code(why.find(std::strerror(ENOMEM)) != why.npos ? Exit::memory : Exit::io);
  }
  using Main = int (*)(int, char**, std::atomic<int>*);
  const auto main = reinterpret_cast<Main>(dlsym(library, "sluice_runtime_main"));
  if (!main) {
    print_error(file + " is not Sluice's runtime: " + dlerror());
    return code(Exit::io);
  }
  std::string name = "sluice", json;
  try {
    Json whole = request;
    whole["parent"] = parent;
    json = whole.dump();
  } catch (const Json::type_error&) {
    print_error("the command line is not valid UTF-8");
    return code(Exit::usage);
  }
  char* argv[] = {name.data(), json.data(), nullptr};
  const std::string command = request.value("command", "");
  const auto obeys = {"run",    "profile",   "advise", "serve",
                      "verify", "calibrate", "package"};  // the others just end
  const bool runs = std::find(obeys.begin(), obeys.end(), command) != obeys.end();
  return main(2, argv, runs ? &signal_number : nullptr);
}

}  // namespace sluice::cli
