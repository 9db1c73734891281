// `sluice run --each PATH=A,B,...`: one run after the other, or --at-once so many, each with
// another value and a folder of its own below --out. One that fails leaves the others to their
// turn; a signal ends them all. each.json there lists them, with those of earlier commands.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <thread>

#include "engine/base/machine.h"
#include "engine/base/message.h"
#include "engine/group/world.h"
#include "tools/cli/cli.h"
#include "tools/runs/files.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

struct Each {
  std::string path;                 // "vars.fold"
  std::vector<std::string> values;  // as they stand behind the "="

  // "fold=0"
  std::string folder(const std::string& value) const {
    std::string name = path.substr(path.rfind('.') + 1) + "=" + value;
    for (char& c : name)
      if (c == '/' || c == '\0') c = '_';
    return name;
  }
};

// Commas inside of [], {} and "" separate nothing.
std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts{""};
  int depth = 0;
  bool quoted = false;
  for (const char c : list) {
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '[' || c == '{')) ++depth;
    if (!quoted && (c == ']' || c == '}')) --depth;
    if (c == ',' && depth == 0 && !quoted)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

Each parse(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error(Exit::usage, "--each is PATH=A,B,...: vars.fold=0,1,2,3,4, and not " + text);
  Each each{text.substr(0, equals), split(text.substr(equals + 1))};
  for (std::size_t i = 0; i < each.values.size(); ++i) {
    if (each.values[i].empty()) throw Error(Exit::usage, "--each " + text + " has an empty value");
    for (std::size_t k = 0; k < i; ++k)
      if (each.folder(each.values[k]) == each.folder(each.values[i]))
        throw Error(Exit::usage, "--each " + text + " has " + each.values[i] + " twice");
  }
  return each;
}

// In a process group of its own, so that a terminal's Ctrl-C comes by way of this process, once.
// With --json its document is a part of this process's.
pid_t begin(const Options& options, const std::string& name) {
  const pid_t own = getpid(), child = fork();
  if (child < 0) throw Error(Exit::memory, std::string("no process: ") + std::strerror(errno));
  if (child > 0) return child;
  set_parent(own);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (options.json) dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
  setenv(run_of_each, ("/" + name).c_str(), 1);
  int result = 0;
  try {
    result = flushed(start("run", options));
  } catch (const Error& e) {
    print_error(e.what());
    result = code(e.exit);
  }
  std::exit(result);
}

// `at_once` runs at a time share the cores.
void share_cores(Options& options, int at_once) {
  if (at_once < 2) return;
  const int share = std::max(1, own_cores() / at_once);
  if (options.threads == 0) options.threads = share;
  if (options.step_threads == 0) options.step_threads = share;
}

// The last value of the first metric that is a mean, else of the first that is no loss.
std::optional<std::pair<std::string, double>> metric_of(const fs::path& run) {
  const Json summary = runs::read_json(run / "summary.json");
  std::optional<std::pair<std::string, double>> found;
  if (!summary.is_object() || !summary.contains("metrics")) return found;
  for (const auto& [name, value] : summary["metrics"].items()) {
    if (name.find("loss") != std::string::npos || name.ends_with(".lr") ||
        name.ends_with(".grad_norm") || !value.is_object() || !value["last"].is_number())
      continue;
    if (!found || name.ends_with(".mean")) found = {name, value["last"].get<double>()};
    if (name.ends_with(".mean")) break;
  }
  return found;
}

// A line a run, the mean of what those came to that are done, and how the others go on.
void tell_outcome(const fs::path& out, const Json& runs, bool go_on) {
  std::string metric;
  double sum = 0;
  int n = 0;
  bool all_done = true;
  for (const Json& run : runs) {
    const std::string folder = run["folder"];
    const int result = run["exit"];
    const auto found = metric_of(out / folder);
    tell(folder + ": " + (result ? "exit " + std::to_string(result) : "done") +
         (found ? ", " + found->first + " " + Json(found->second).dump() : ""));
    all_done &= result == 0;
    if (result || !found || (n > 0 && found->first != metric)) continue;
    metric = found->first;
    sum += found->second;
    ++n;
  }
  if (n > 1) tell("mean of " + std::to_string(n) + ": " + metric + " " + Json(sum / n).dump());
  if (!all_done && !go_on)
    tell("the same command with --continue goes on with what is not finished");
}

// Those that have ended, in the values' order.
Json list_of(const Each& each, const std::vector<std::optional<int>>& results) {
  Json runs = Json::array();
  for (std::size_t i = 0; i < results.size(); ++i)
    if (results[i])
      runs.push_back({{"value", each.values[i]},
                      {"folder", each.folder(each.values[i])},
                      {"exit", *results[i]}});
  return runs;
}

// What each.json holds from earlier commands: rows with a folder; those of another path name it.
Json earlier_runs(const fs::path& out, const Each& each) {
  const Json list = runs::read_json(out / "each.json");
  Json kept = Json::array();
  if (!list.is_object() || !list.value("runs", Json()).is_array()) return kept;
  const std::string path = runs::text(list, "path");
  for (Json run : list["runs"]) {
    if (runs::text(run, "folder").empty()) continue;
    if (!run.contains("path") && path != each.path) run["path"] = path;
    if (runs::text(run, "path") == each.path) run.erase("path");
    kept.push_back(std::move(run));
  }
  return kept;
}

// A run in the folder of an earlier one takes its row.
void write_list(const fs::path& out, const Each& each, const Json& earlier, const Json& ended) {
  if (!fs::is_directory(out)) return;
  Json all = earlier;
  for (const Json& run : ended) {
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const Json& r) { return r["folder"] == run["folder"]; });
    if (same != all.end())
      *same = run;
    else
      all.push_back(run);
  }
  write_whole((out / "each.json").string(),
              Json{{"path", each.path}, {"runs", all}}.dump(2) + "\n");
}

// Of --json: a row a run of this command, with its summary.
void print_document(const fs::path& out, const Each& each, Json ended) {
  for (Json& run : ended)
    run["summary"] = runs::read_json(out / run["folder"].get<std::string>() / "summary.json");
  std::cout << dump({{"path", each.path}, {"runs", std::move(ended)}});
}

}  // namespace

int run_each(const Options& given, const std::atomic<int>& signal) {
  const Each each = parse(given.each);
  if (given.out.empty())
    throw Error(Exit::usage, "--each keeps its runs below one folder: name it by --out");
  const Json earlier = earlier_runs(given.out, each);
  std::vector<std::optional<int>> results(each.values.size());
  std::map<pid_t, std::size_t> under_way;
  std::size_t next = 0;
  int sent = 0;
  while (!under_way.empty() || (signal == 0 && next < each.values.size())) {
    if (signal == 0 && next < each.values.size() && std::ssize(under_way) < given.at_once) {
      const std::string& value = each.values[next];
      Options one = given;
      one.each.clear();
      one.set.push_back(each.path + "=" + value);
      one.out = (fs::path(given.out) / each.folder(value)).string();
      share_cores(one, given.at_once);
      tell(each.path + "=" + value + " in " + one.out);
      under_way[begin(one, each.folder(value))] = next++;
      continue;
    }
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended < 0 && errno != EINTR)
      throw Error(Exit::io, std::string("waiting: ") + std::strerror(errno));
    if (const auto run = under_way.find(ended); run != under_way.end()) {
      results[run->second] = exit_code_of(status);
      under_way.erase(run);
      write_list(given.out, each, earlier, list_of(each, results));
      continue;
    }
    if (signal != sent) {
      sent = signal;
      for (const auto& [child, index] : under_way) kill(child, sent);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  int worst = 0;
  for (const auto& result : results)
    if (worst == 0) worst = result.value_or(0);
  if (given.json) print_document(given.out, each, list_of(each, results));
  if (signal != 0) return worst ? worst : 128 + signal;
  tell_outcome(given.out, list_of(each, results), given.go_on);
  return worst;
}

}  // namespace sluice::cli
