// What a page asks for below /api/, as JSON.
#pragma once

#include <memory>
#include <string>

#include "tools/runs/metrics.h"
#include "tools/web/events.h"
#include "tools/web/http.h"
#include "tools/web/jobs.h"
#include "tools/web/look.h"
#include "tools/web/places.h"
#include "tools/web/server.h"
#include "tools/web/volumes.h"
#include "tools/web/watch.h"

namespace sluice::web {

class Api {
 public:
  Api(const Request& request, const std::filesystem::path& root, const std::filesystem::path& graph,
      const std::filesystem::path& run);
  void add(httplib::Server& http);
  void close() { events_.close(); }

 private:
  using Answer = std::function<Json(const httplib::Request&, const Json& body)>;
  httplib::Server::Handler handler(Answer answer) const;
  void add_graphs(httplib::Server& http);
  void add_assist(httplib::Server& http);
  void add_runs(httplib::Server& http);
  void add_files_of_runs(httplib::Server& http);
  void add_events(httplib::Server& http);

  Json open() const;
  Json start(const Json& body);
  Json run_page(const std::string& id);
  Json curves(const Json& body);
  std::string file_of(const Json& body) const;  // the path of the graph that a body names
  std::filesystem::path new_run(const std::string& graph) const;

  struct Course {
    explicit Course(const std::filesystem::path& file) : metrics(file) {}
    std::mutex mutex;
    runs::Metrics metrics;
  };
  std::shared_ptr<Course> course(const std::string& run);

  const Request& request_;
  Places places_;
  Events events_;
  Look look_;
  Volumes volumes_;
  Json opened_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Course>> courses_;
  Jobs jobs_;
  Watch watch_;
};

}  // namespace sluice::web
