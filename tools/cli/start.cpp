// Loads the runtime library and hands the options over: `sluice run` and `sluice profile`, and
// through run_in_runtime() whatever else works on data.
#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tools/cli/cli.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string runtime_file() {
  if (const char* given = std::getenv("SLUICE_RUNTIME"); given && *given) return given;
  std::error_code problem;
  const fs::path folder = fs::read_symlink("/proc/self/exe", problem).parent_path();
  const char* name = "libsluice_runtime.so";
  const fs::path installed = folder.parent_path() / "lib" / name;
  return fs::exists(folder / name, problem) || !fs::exists(installed, problem)
             ? (folder / name).string()
             : installed.string();
}

namespace {

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
          {"resume", options.resume},
          {"quiet", options.quiet},
          {"json", options.json},
          {"trace", options.trace},
          {"seconds", command == "run" ? 0.0 : options.seconds}};
}

}  // namespace

int start(const std::string& command, const Options& options) {
  Checked checked;
  check_graph(options.graphs, options, checked);
  if (!checked.plan) {
    print(checked.diagnostics);
    return code(Exit::usage);
  }
  return run_in_runtime(document(command, options));
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

int run_in_runtime(const Json& request) {
  const std::string file = runtime_file();
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const std::string why = dlerror();
    print_error("cannot load the runtime: " + why);
    return code(why.find(std::strerror(ENOMEM)) != why.npos ? Exit::memory : Exit::io);
  }
  using Main = int (*)(int, char**);
  const auto main = reinterpret_cast<Main>(dlsym(library, "sluice_runtime_main"));
  if (!main) {
    print_error(file + " is not Sluice's runtime: " + dlerror());
    return code(Exit::io);
  }
  std::string name = "sluice", json;
  try {
    json = request.dump();
  } catch (const Json::type_error&) {
    print_error("the command line is not valid UTF-8");
    return code(Exit::usage);
  }
  char* argv[] = {name.data(), json.data(), nullptr};
  return main(2, argv);
}

}  // namespace sluice::cli
