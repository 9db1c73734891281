#include "tools/web/api.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/utf8.h"
#include "engine/base/version.h"
#include "tools/assist/format.h"
#include "tools/runs/files.h"
#include "tools/runs/runs.h"

namespace sluice::web {
namespace {

namespace fs = std::filesystem;
using HttpRequest = httplib::Request;
using httplib::Response;

std::string dump(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string text_in(const Json& body, const char* key) {
  const auto it = body.find(key);
  if (it == body.end() || !it->is_string())
    throw Refusal{400, std::string("\"") + key + "\" is missing"};
  return it->get<std::string>();
}

Json position_in(const Json& body) {
  const Json at = body.value("at", Json());
  if (!at.is_object() || !at.value("line", Json()).is_number_unsigned() ||
      !at.value("character", Json()).is_number_unsigned())
    throw Refusal{400, "\"at\" is {\"line\", \"character\"}"};
  return at;
}

std::vector<std::string> texts_in(const Json& body, const char* key, std::size_t most) {
  std::vector<std::string> all;
  const Json list = body.value(key, Json::array());
  if (!list.is_array() || list.size() > most)
    throw Refusal{400, std::string("\"") + key + "\" is a list of at most " + std::to_string(most)};
  for (const Json& one : list) {
    if (!one.is_string()) throw Refusal{400, std::string("\"") + key + "\" holds texts"};
    all.push_back(one.get<std::string>());
  }
  return all;
}

double number_in(const HttpRequest& q, const char* key, double otherwise) {
  if (!q.has_param(key)) return otherwise;
  const std::string text = q.get_param_value(key);
  char* end = nullptr;
  const double v = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0') throw Refusal{400, std::string(key) + " is a number"};
  return v;
}

}  // namespace

Api::Api(const Request& request, const fs::path& root, const fs::path& graph, const fs::path& run)
    : request_(request),
      places_(root),
      look_(*request.catalogue, request.draw),
      jobs_([this](const Json& job) { events_.send("job", job); }),
      watch_(places_, events_) {
  opened_ = {{"kind", "folder"}, {"id", ""}};
  if (!graph.empty()) opened_ = {{"kind", "graph"}, {"id", places_.add_graph(graph)}};
  if (!run.empty()) opened_ = {{"kind", "run"}, {"id", places_.add_run(run)}};
}

httplib::Server::Handler Api::handler(Answer answer) const {
  return [answer = std::move(answer)](const HttpRequest& q, Response& r) {
    Json out;
    try {
      Json body = Json::object();
      if (q.method != "GET" && q.method != "DELETE") {
        body = Json::parse(q.body, nullptr, false);
        if (!body.is_object()) throw Refusal{400, "the body is no JSON object"};
      }
      out = answer(q, body);
      r.status = 200;
    } catch (const Refusal& why) {
      out = why.more;
      out["error"] = why.why;
      r.status = why.status;
    } catch (const Error& e) {
      out = {{"error", e.what()}};
      r.status = e.exit == Exit::usage ? 422 : 500;
    } catch (const Json::exception& e) {
      out = {{"error", e.what()}};
      r.status = 400;
    } catch (const std::exception& e) {
      out = {{"error", e.what()}};
      r.status = 500;
    }
    r.set_content(dump(out), "application/json");
  };
}

void Api::add(httplib::Server& http) {
  http.Get("/api/open", handler([this](auto&, auto&) { return open(); }));
  add_graphs(http);
  add_assist(http);
  add_runs(http);
  add_files_of_runs(http);
  add_events(http);
  http.Post("/api/jobs", handler([this](auto&, const Json& body) { return start(body); }));
  http.Get(R"(/api/jobs/([0-9]+))",
           handler([this](auto& q, auto&) { return jobs_.to_json(q.matches[1].str(), true); }));
  http.Delete(R"(/api/jobs/([0-9]+))", handler([this](auto& q, auto&) {
                jobs_.stop(q.matches[1].str());
                return jobs_.to_json(q.matches[1].str(), false);
              }));
}

Json Api::open() const {
  return {{"version", version},
          {"root", places_.root().filename().string()},
          {"opened", opened_},
          {"read_only", request_.read_only},
          {"jobs", jobs_.all()}};
}

// ---- graphs -------------------------------------------------------------------------------------

void Api::add_graphs(httplib::Server& http) {
  http.Get("/api/graphs", handler([this](auto&, auto&) {
             return Json{{"graphs", places_.graphs()}};
           }));
  http.Post("/api/graphs", handler([this](auto&, const Json& body) {
              return Json{{"id", places_.create(text_in(body, "beside"), text_in(body, "name"),
                                                text_in(body, "text"))}};
            }));
  http.Get(R"(/api/graph/([0-9a-f]+))", handler([this](auto& q, auto&) {
             const std::string id = q.matches[1].str(), name = places_.graph(id);
             const std::string text = places_.read(name), digest = sha256_of(text);
             if (!is_utf8(text))  // an editor would not hold it as it is
               throw Refusal{422, name + ": is not UTF-8; save it as UTF-8"};
             watch_.known(id, digest);
             return Json{{"id", id}, {"name", name}, {"text", text}, {"sha256", digest}};
           }));
  http.Put(R"(/api/graph/([0-9a-f]+))", handler([this](auto& q, const Json& body) {
             const std::string id = q.matches[1].str(), text = text_in(body, "text");
             if (!q.has_header("If-Match"))
               throw Refusal{428, "If-Match: the digest of what was read is missing"};
             places_.write(places_.graph(id), text, q.get_header_value("If-Match"));
             const std::string digest = sha256_of(text);
             watch_.known(id, digest);
             events_.send("file", {{"graph", id}, {"sha256", digest}});  // to other pages
             return Json{{"sha256", digest}};
           }));
}

std::string Api::file_of(const Json& body) const {
  return (places_.root() / places_.graph(text_in(body, "graph"))).string();
}

void Api::add_assist(httplib::Server& http) {
  const auto serial = [](const Json& body, Json answer) {
    if (answer.is_object()) answer["serial"] = body.value("serial", Json());
    return answer;
  };
  http.Post("/api/check", handler([this, serial](auto&, const Json& body) {
              return serial(body, look_.check(file_of(body), text_in(body, "text")));
            }));
  http.Post("/api/picture", handler([this, serial](auto&, const Json& body) {
              if (!body.contains("run"))
                return serial(body, look_.picture(file_of(body), text_in(body, "text")));
              const fs::path run = places_.run(text_in(body, "run"));
              return look_.picture((run / "graph.json").string(), runs::text_of(run / "graph.json"),
                                   runs::read_json(run / "profile.json"));
            }));
  http.Post("/api/node", handler([this](auto&, const Json& body) {
              return look_.node(file_of(body), text_in(body, "text"), text_in(body, "pointer"));
            }));
  http.Post("/api/edit", handler([this](auto&, const Json& body) {
              return look_.edit(file_of(body), text_in(body, "text"), body.value("edits", Json()));
            }));
  http.Post(R"(/api/assist/([a-z]+))", handler([this](auto& q, const Json& body) -> Json {
              const std::string what = q.matches[1].str(), text = text_in(body, "text");
              if (what == "format") {
                if (!assist::is_json(text)) throw Refusal{422, "this is no JSON yet"};
                return {{"text", assist::formatted(text)}};
              }
              const std::string file = file_of(body);
              const Json at = position_in(body);
              if (what == "complete") return look_.complete(file, text, at);
              if (what == "hover") return look_.hover(file, text, at);
              if (what == "define") return look_.define(file, text, at);
              if (what == "rename") return look_.rename(file, text, at, text_in(body, "name"));
              throw Refusal{404, "nothing is called " + what};
            }));
  http.Get("/api/types", handler([this](auto&, auto&) { return look_.types(); }));
  http.Get(R"(/api/types/([A-Za-z0-9_]+))", handler([this](auto& q, auto&) {
             Json page = look_.type(q.matches[1].str());
             if (page.is_null()) throw Refusal{404, "no such type"};
             return page;
           }));
}

// ---- jobs ---------------------------------------------------------------------------------------

// The first free folder, which is made, so that of two runs that begin at once each has its own.
fs::path Api::new_run(const std::string& graph) const {
  const fs::path base = places_.root() / "runs" / fs::path(graph).stem();
  fs::create_directories(base.parent_path());
  for (int n = 1;; ++n) {
    const fs::path folder = base.string() + "-" + std::to_string(n);
    if (fs::create_directory(folder)) return folder;
  }
}

Json Api::start(const Json& body) {
  const std::string kind = text_in(body, "kind");
  const auto sets = texts_in(body, "set", 100);
  Job job;
  job.kind = kind;
  std::vector<std::string> words;
  fs::path made;  // the folder of a new run
  if (kind == "resume") {
    const std::string id = text_in(body, "run");
    words = {"run", "--resume", places_.run(id).string()};
    job.run = id;
    job.title = places_.run_name(id);
  } else {
    const std::string name = places_.graph(text_in(body, "graph"));
    const std::string file = (places_.root() / name).string();
    job.title = name;
    const double seconds = body.value("seconds", 20.0);
    if (!(seconds >= 0.5 && seconds <= 3600)) throw Refusal{400, "seconds is from 0.5 to 3600"};
    const std::string s = std::to_string(seconds);
    if (kind == "run") {
      made = new_run(name);
      job.run = places_.add_run(made);
      words = {"run", file, "--out", made.string()};
    } else if (kind == "profile") {
      words = {"profile", file, "--json", "--seconds", s};
    } else if (kind == "what_if") {
      words = {"profile", file, "--json", "--seconds", s};
      for (const auto& change : texts_in(body, "changes", 20)) {
        words.push_back("--what-if=" + change);
      }
      if (body.value("verify", false)) words.push_back("--verify");
    } else if (kind == "advise") {
      job.extra = volumes_.scratch_file(".json").string();
      job.graph = text_in(body, "graph");
      job.before = places_.read(name);
      words = {"advise", file, "--json", "--seconds", s, "--write", job.extra};
    } else if (kind == "data_check") {
      words = {"data", "check", file, "--json"};
    } else {
      throw Refusal{400, "no job is called \"" + kind + "\""};
    }
  }
  for (const auto& change : sets) words.push_back("--set=" + change);
  const std::string run = job.run;
  std::string id;
  try {
    id = jobs_.start(std::move(job), std::move(words));
  } catch (...) {
    std::error_code ignored;
    if (!made.empty()) fs::remove(made, ignored);
    throw;
  }
  if (!run.empty()) watch_.expect(run);
  return {{"id", id}, {"run", run}};
}

// ---- runs ---------------------------------------------------------------------------------------

std::shared_ptr<Api::Course> Api::course(const std::string& run) {
  const fs::path file = places_.run(run) / "metrics.jsonl";
  std::shared_ptr<Course> found;
  {
    const std::lock_guard lock(mutex_);
    if (courses_.size() > 64 && !courses_.contains(run)) courses_.clear();
    auto& kept = courses_[run];
    if (!kept) kept = std::make_shared<Course>(file);
    found = kept;
  }
  const std::lock_guard lock(found->mutex);
  found->metrics.update();
  return found;
}

// {"curves": {NAME: {RUN: {"x", "y"}}}}: names are those of epochs, or with "steps" those that
// nodes log at each step.
Json Api::curves(const Json& body) {
  const auto ids = texts_in(body, "runs", 100), names = texts_in(body, "names", 200);
  const std::string x = body.value("x", "step");
  const auto columns =
      static_cast<std::size_t>(std::clamp(body.value("columns", 400.0), 10.0, 4000.0));
  const bool steps = body.value("steps", false);
  Json all = Json::object();
  for (const auto& id : ids) {
    const auto c = course(id);
    const std::lock_guard lock(c->mutex);
    const auto& from = steps ? c->metrics.by_step : c->metrics.by_epoch;
    for (const auto& [name, series] : from)
      if (names.empty() || std::find(names.begin(), names.end(), name) != names.end())
        all[name][id] = runs::thinned(series, x, columns);
  }
  return {{"curves", all}};
}

Json Api::run_page(const std::string& id) {
  const fs::path folder = places_.run(id);
  Json row = runs::row(folder, places_.run_name(id));
  row["id"] = id;
  const Json profile = runs::read_json(folder / "profile.json");
  const auto c = course(id);
  const std::lock_guard lock(c->mutex);
  Json by_epoch = Json::array(), by_step = Json::array();
  for (const auto& [name, series] : c->metrics.by_epoch) by_epoch.push_back(name);
  for (const auto& [name, series] : c->metrics.by_step) by_step.push_back(name);
  Json pictures = Json::array();
  for (const Json& line : runs::read_lines(folder / "previews/index.jsonl")) {
    if (runs::text(line, "file").empty()) continue;
    pictures.push_back(line);
    pictures.back()["n"] = pictures.size() - 1;
  }
  if (pictures.size() > 400) pictures.erase(pictures.begin(), pictures.end() - 400);
  return {{"row", row},
          {"summary", runs::read_json(folder / "summary.json")},
          {"verdict", runs::text(profile, "verdict")},
          {"sessions", runs::sessions_of(folder)},
          {"by_epoch", by_epoch},
          {"by_step", by_step},
          {"pictures", pictures},
          {"quarantine", runs::read_lines(folder / "quarantine.jsonl").size()}};
}

void Api::add_runs(httplib::Server& http) {
  http.Get("/api/runs", handler([this](auto& q, auto&) {
             Json rows = places_.runs();
             runs::sort(rows, q.has_param("sort") ? q.get_param_value("sort") : "started");
             return Json{{"runs", std::move(rows)}};
           }));
  http.Get(R"(/api/runs/([0-9a-f]+))",
           handler([this](auto& q, auto&) { return run_page(q.matches[1].str()); }));
  http.Patch(R"(/api/runs/([0-9a-f]+))", handler([this](auto& q, const Json& body) {
               runs::change_notes(places_.run(q.matches[1].str()), body);
               return runs::notes(places_.run(q.matches[1].str()));
             }));
  http.Post("/api/curves", handler([this](auto&, const Json& body) { return curves(body); }));
  http.Post("/api/compare", handler([this](auto&, const Json& body) {
              std::vector<fs::path> folders;
              std::vector<std::string> names;
              for (const auto& id : texts_in(body, "runs", 100)) {
                folders.push_back(places_.run(id));
                names.push_back(places_.run_name(id));
              }
              return runs::compare(folders, names);
            }));
}

void Api::add_files_of_runs(httplib::Server& http) {
  http.Get(
      R"(/api/runs/([0-9a-f]+)/picture/([0-9]{1,6}))", [this](const HttpRequest& q, Response& r) {
        std::string bytes;
        handler([&](auto&, auto&) {
          const std::string id = q.matches[1].str();
          const auto lines = runs::read_lines(places_.run(id) / "previews/index.jsonl");
          const std::size_t n = std::stoul(q.matches[2].str());
          if (n >= lines.size()) throw Refusal{404, "no such picture"};
          bytes = places_.read(places_.run_name(id) + "/previews/" + runs::text(lines[n], "file"));
          if (!bytes.starts_with("\x89PNG\r\n")) throw Refusal{404, "this is no picture"};
          return Json();
        })(q, r);
        if (r.status == 200) r.set_content(bytes, "image/png");
      });
  http.Get(R"(/api/runs/([0-9a-f]+)/volumes)", handler([this](auto& q, auto&) {
             return Json{{"volumes", volumes_.list(places_.run(q.matches[1].str()))}};
           }));
  http.Get(R"(/api/runs/([0-9a-f]+)/volume)", handler([this](auto& q, auto&) {
             return volumes_.open(places_.run(q.matches[1].str()), q.get_param_value("name"),
                                  q.get_param_value("which"));
           }));
  http.Get(R"(/api/runs/([0-9a-f]+)/slice)", [this](const HttpRequest& q, Response& r) {
    std::string bytes;
    handler([&](auto&, auto&) {
      bytes = volumes_.slice(places_.run(q.matches[1].str()), q.get_param_value("name"),
                             q.get_param_value("which"), static_cast<int>(number_in(q, "plane", 2)),
                             static_cast<std::int64_t>(number_in(q, "at", 0)),
                             number_in(q, "low", 0), number_in(q, "high", 1));
      return Json();
    })(q, r);
    if (r.status == 200) r.set_content(bytes, "application/octet-stream");
  });
}

void Api::add_events(httplib::Server& http) {
  http.Get("/api/events", [this](const HttpRequest& q, Response& r) {
    const auto listener = std::make_shared<Events::Listener>(events_);
    if (q.has_header("Last-Event-ID"))
      listener->seen = std::strtoull(q.get_header_value("Last-Event-ID").c_str(), nullptr, 10);
    r.set_chunked_content_provider(
        "text/event-stream",
        [this, listener, begun = false](std::size_t, httplib::DataSink& sink) mutable {
          const std::string text = begun ? events_.wait(listener->seen) : ": here\n\n";
          begun = true;
          if (!text.empty()) return sink.write(text.data(), text.size());
          sink.done();
          return true;
        });
  });
}

}  // namespace sluice::web
