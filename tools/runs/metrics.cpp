#include "tools/runs/metrics.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/lower_is_better.h"
#include "engine/base/read_file.h"

namespace sluice::runs {
namespace {

// The text after "key": in a line that a run wrote: it has no spaces.
std::string_view after(std::string_view line, std::string_view key) {
  const auto at = line.find(key);
  return at == line.npos ? std::string_view() : line.substr(at + key.size());
}

double number_in(std::string_view line, std::string_view key) {
  const std::string_view rest = after(line, key);
  char text[40] = {};
  std::memcpy(text, rest.data(), std::min(rest.size(), sizeof text - 1));
  char* end = text;
  const double value = std::strtod(text, &end);
  return end == text ? std::nan("") : value;  // null
}

Series& at(std::map<std::string, Series, std::less<>>& all, std::string_view name) {
  const auto it = all.find(name);
  return it != all.end() ? it->second : all[std::string(name)];
}

}  // namespace

bool Metrics::update() {
  const int fd = open_to_read(file_.c_str());
  if (fd < 0) return false;
  struct stat s {};
  if (::fstat(fd, &s) == 0 &&
      (s.st_ino != inode_ || static_cast<std::uint64_t>(s.st_size) < read_)) {
    by_epoch.clear();
    by_step.clear();
    read_ = 0;
    inode_ = s.st_ino;
  }
  const std::uint64_t before = read_;
  std::string kept;
  std::vector<char> buffer(1 << 20);
  for (ssize_t n; (n = ::pread(fd, buffer.data(), buffer.size(),
                               static_cast<off_t>(read_ + kept.size()))) > 0;) {
    kept.append(buffer.data(), static_cast<std::size_t>(n));
    std::size_t done = 0;
    for (std::size_t end; (end = kept.find('\n', done)) != kept.npos; done = end + 1)
      take(std::string_view(kept).substr(done, end - done));
    kept.erase(0, done);
    read_ += done;
  }
  ::close(fd);
  return read_ != before;
}

// Of a name with escapes, such as a class's with quotes.
static std::string name_in(std::string_view line, const char* key) {
  const Json j = Json::parse(line, nullptr, false);
  return j.is_object() && j.contains(key) && j[key].is_string() ? j[key].get<std::string>() : "";
}

// Hundreds of thousands of lines are read while somebody waits, so they are not parsed as JSON but
// for names with escapes, which are rare.
void Metrics::take(std::string_view line) {
  const std::string_view metric = after(line, "\"metric\":\""), log = after(line, "\"log\":\"");
  const std::string_view rest = metric.empty() ? log : metric;
  const auto quote = rest.find('"');
  if (line.empty() || line.back() != '}' || quote == rest.npos) return;
  std::string whole;
  std::string_view name = rest.substr(0, quote);
  if (name.find('\\') != name.npos) name = whole = name_in(line, metric.empty() ? "log" : "metric");
  Series& s = at(metric.empty() ? by_step : by_epoch, name);
  const double step = number_in(line, "\"step\":");
  // A turn that was repeated after a kill.
  while (!s.step.empty() && s.step.back() > step) {
    s.step.pop_back();
    s.epoch.pop_back();
    s.value.pop_back();
  }
  const std::string_view mode = after(line, "\"mode\":\"");
  s.mode = mode.substr(0, std::min(mode.find('"'), mode.size()));
  s.step.push_back(step);
  s.epoch.push_back(number_in(line, "\"epoch\":") + 1);
  s.value.push_back(number_in(line, "\"value\":"));
}

bool less_is_better(const std::string& name, const std::string& mode) {
  return mode.empty() ? lower_is_better(name) : mode == "min";
}

// The first of those that are the least, or the most.
static int outermost(const std::vector<double>& values, bool least) {
  int found = -1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double v = values[i];
    if (!std::isfinite(v)) continue;
    const double so_far = found < 0 ? v : values[static_cast<std::size_t>(found)];
    if (found < 0 || (least ? v < so_far : v > so_far)) found = static_cast<int>(i);
  }
  return found;
}

int best_of(const std::string& name, const std::string& mode, const std::vector<double>& values) {
  return name.ends_with(".lr") ? -1 : outermost(values, less_is_better(name, mode));
}

Json figures(const std::string& name, const Series& s) {
  Json j = {{"n", s.value.size()}};
  if (s.value.empty()) return j;
  const auto value = [&](int i) { return s.value[static_cast<std::size_t>(i)]; };
  j["last"] = std::isfinite(s.value.back()) ? Json(s.value.back()) : Json();
  if (const int least = outermost(s.value, true); least >= 0) j["min"] = value(least);
  if (const int most = outermost(s.value, false); most >= 0) j["max"] = value(most);
  if (const int best = best_of(name, s.mode, s.value); best >= 0) {
    j["best"] = value(best);
    j["best_epoch"] = s.epoch[static_cast<std::size_t>(best)];
  }
  return j;
}

Json thinned(const Series& s, const std::string& by, std::size_t columns) {
  const std::vector<double>& from = by == "epoch" ? s.epoch : s.step;
  const std::size_t n = from.size();
  Json x = Json::array(), y = Json::array();
  const auto add = [&](std::size_t i) {
    x.push_back(from[i]);
    y.push_back(std::isfinite(s.value[i]) ? Json(s.value[i]) : Json());
  };
  const std::size_t each = n <= 2 * columns ? 1 : (n + columns - 1) / columns;
  if (each == 1) {
    for (std::size_t i = 0; i < n; ++i) add(i);
    return {{"x", x}, {"y", y}};
  }
  for (std::size_t i = 0; i < n; i += each) {
    const std::size_t end = std::min(i + each, n);
    std::size_t low = i, high = i;
    for (std::size_t k = i; k < end; ++k) {
      if (!(s.value[k] >= s.value[low])) low = k;  // a NaN too, so that it is seen
      if (s.value[k] > s.value[high]) high = k;
    }
    add(std::min(low, high));
    if (low != high) add(std::max(low, high));
  }
  return {{"x", x}, {"y", y}};
}

}  // namespace sluice::runs
