// The runtime's one door: the binary dlopens this library and calls sluice_runtime_main.
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "engine/base/cause.h"
#include "engine/base/message.h"
#include "engine/session/options.h"
#include "engine/session/ranks.h"
#include "kernels/base/allocator.h"
#include "tools/runtime/advise/advise.h"
#include "tools/runtime/apply.h"
#include "tools/runtime/calibrate.h"
#include "tools/runtime/data/data_command.h"
#include "tools/runtime/export.h"
#include "tools/runtime/net_picture.h"
#include "tools/runtime/new/new.h"
#include "tools/runtime/nnunet/folds.h"
#include "tools/runtime/package.h"
#include "tools/runtime/prune.h"
#include "tools/runtime/run/supervise.h"
#include "tools/runtime/serve.h"
#include "tools/runtime/weights.h"

namespace sluice {

Options Options::from_json(const Json& j) {
  Options o;
  o.command = j.at("command");
  o.graphs = j.at("graphs").get<std::vector<std::string>>();
  o.out = j.value("out", "");
  o.resume = j.value("resume", "");
  o.out_base = j.value("out_base", "");
  o.overwrite = j.value("overwrite", false);
  o.force = j.value("force", false);
  o.own_graph = j.value("own_graph", false);
  o.set = j.value("set", std::vector<std::string>{});
  o.threads = j.value("threads", 0);
  o.step_threads = j.value("step_threads", 0);
  o.io_threads = j.value("io_threads", 0);
  o.what_if = j.value("what_if", std::vector<std::string>{});
  o.verify = j.value("verify", false);
  o.isolate = j.value("isolate", false);
  o.all = j.value("all", false);
  o.seconds = j.value("seconds", 0.0);
  o.steps = j.value("steps", std::uint64_t{0});
  o.quiet = j.value("quiet", false);
  o.json = j.value("json", false);
  o.trace = j.value("trace", false);
  return o;
}

}  // namespace sluice

// Without destructors: a group's may wait for processes that are gone.
[[noreturn]] static void end_process(int code) {
  std::cout << std::flush;
  std::fflush(nullptr);
  _exit(code);
}

// Whose variables contradict each other has joined nobody.
static bool is_one_of_several() {
  try {
    return !sluice::this_world().alone();
  } catch (const sluice::Error&) {
    return false;
  }
}

// `signal`: the number of the signal that asks for the end, 0 until one comes.
extern "C" int sluice_runtime_main(int argc, char** argv, std::atomic<int>* signal) {
  using namespace sluice;
  if (argc < 2) return static_cast<int>(Exit::usage);
  exit_when_memory_is_out();
  try {
    const Json request = Json::parse(argv[1]);
    if (signal) obey(*signal, request.at("parent"));
    tune_allocator();
    if (request.at("command") == "apply") return apply_command(request);
    if (request.at("command") == "new") return new_command(request);
    if (request.at("command") == "folds") return folds_command(request);
    if (request.at("command") == "data") return data_command(request);
    if (request.at("command") == "weights") return weights_command(request);
    if (request.at("command") == "export") return export_command(request);
    if (request.at("command") == "package") return package_command(request);
    if (request.at("command") == "prune") return prune_command(request);
    if (request.at("command") == "calibrate") return calibrate_command(request);
    if (request.at("command") == "verify") return verify_command(request);
    if (request.at("command") == "serve") return serve_command(request);
    if (request.at("command") == "net_picture") return net_picture_command(request);
    Options options = Options::from_json(request);
    options.signal = signal_received;
    open_packages(options);
    if (options.command == "advise")
      return advise_command({.run = options,
                             .write = request.value("write", ""),
                             .exact = request.value("exact", false),
                             .precision = request.value("precision", false),
                             .memory = request.value("memory", std::uint64_t{0})});
    const int code = options.command == "profile" ? profile_command(options) : run_command(options);
    if (is_one_of_several()) end_process(code);
    return code;
  } catch (...) {
    const Cause why = cause(Exit::usage);
    tell("error: " + why.text);
    if (is_one_of_several()) end_process(static_cast<int>(why.exit));
    return static_cast<int>(why.exit);
  }
}
