// `sluice run --each PATH=A,B,...`: one run after the other, each with another value and a folder
// of its own below --out. One that fails leaves the others to their turn; a signal ends them all.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/base/message.h"
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

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw Error(Exit::io, std::string("waiting: ") + std::strerror(errno));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_one(const Options& options) {
  const pid_t child = fork();
  if (child < 0) throw Error(Exit::memory, std::string("no process: ") + std::strerror(errno));
  if (child > 0) return wait_for(child);
  int result = 0;
  try {
    result = flushed(start("run", options));
  } catch (const Error& e) {
    print_error(e.what());
    result = code(e.exit);
  }
  std::exit(result);
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

// A line a run, and the mean of what they came to.
void tell_outcome(const fs::path& out, const Json& runs) {
  std::string metric;
  double sum = 0;
  int n = 0;
  for (const Json& run : runs) {
    const std::string folder = run["folder"];
    const int result = run["exit"];
    const auto found = metric_of(out / folder);
    tell(folder + ": " + (result ? "exit " + std::to_string(result) : "done") +
         (found ? ", " + found->first + " " + Json(found->second).dump() : ""));
    if (!found || (n > 0 && found->first != metric)) continue;
    metric = found->first;
    sum += found->second;
    ++n;
  }
  if (n > 1) tell("mean of " + std::to_string(n) + ": " + metric + " " + Json(sum / n).dump());
}

}  // namespace

int run_each(const Options& given, const std::atomic<int>& signal) {
  const Each each = parse(given.each);
  if (given.out.empty())
    throw Error(Exit::usage, "--each keeps its runs below one folder: name it by --out");
  Json runs = Json::array();
  int worst = 0;
  for (const std::string& value : each.values) {
    Options one = given;
    one.each.clear();
    one.set.push_back(each.path + "=" + value);
    one.out = (fs::path(given.out) / each.folder(value)).string();
    tell(each.path + "=" + value + " in " + one.out);
    const int result = run_one(one);
    runs.push_back({{"value", value}, {"folder", each.folder(value)}, {"exit", result}});
    if (worst == 0) worst = result;
    if (fs::is_directory(given.out))
      write_whole((fs::path(given.out) / "each.json").string(),
                  Json{{"path", each.path}, {"runs", runs}}.dump(2) + "\n");
    if (signal != 0) return result ? result : 128 + signal;
  }
  tell_outcome(given.out, runs);
  return worst;
}

}  // namespace sluice::cli
