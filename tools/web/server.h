// `sluice open`: the page's files, what it asks for, and what it hears of.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "engine/graph/catalogue.h"

namespace sluice::web {

struct Request {
  std::string what;    // a graph, a run's folder, a folder; "": here
  int port = 0;        // 0: any
  std::string socket;  // a file to listen on in the port's place
  bool read_only = false;
  bool browser = true;  // open one
  const Catalogue* catalogue = nullptr;
  std::function<std::string(const std::string&)> draw;  // DOT text to SVG, "" where nothing can
  const std::atomic<int>* signal = nullptr;             // not 0: the end
};

// Until a signal comes. Returns the process's exit code.
int serve(const Request& request);

// What `sluice open` finds in the library by its name.
using Serve = int (*)(const Request&);

}  // namespace sluice::web
