// `sluice open`: loads the library that serves the page.
#include <dlfcn.h>
#include <signal.h>

#include <atomic>
#include <filesystem>

#include "tools/cli/cli.h"
#include "tools/cli/graphviz.h"
#include "tools/web/server.h"

namespace sluice::cli {
namespace {

std::atomic<int> ended_by{0};

extern "C" void on_end(int number) { ended_by = number; }

// Graphviz's; "" where it is not there.
std::string drawn(const std::string& dot) {
  try {
    const std::string svg = graphviz(dot, "svg", "");
    const auto begin = svg.find("<svg");
    return begin == svg.npos ? "" : svg.substr(begin);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

int open_page(const Options& options) {
  const std::string file =
      (std::filesystem::path(runtime_file()).parent_path() / "libsluice_web.so").string();
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* found = library ? dlsym(library, "sluice_web_serve") : nullptr;
  if (!found) {
    print_error(std::string("cannot load the page's server: ") + dlerror());
    return code(Exit::io);
  }
  struct sigaction action {};
  action.sa_handler = on_end;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
  web::Request request;
  request.what = options.run;
  request.port = options.page_port;
  request.socket = options.page_socket;
  request.read_only = options.read_only;
  request.browser = !options.no_browser;
  request.catalogue = &catalogue();
  request.draw = drawn;
  request.signal = &ended_by;
  return reinterpret_cast<web::Serve>(found)(request);
}

}  // namespace sluice::cli
