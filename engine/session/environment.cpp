#include "engine/session/environment.h"

#include <sys/utsname.h>
#include <tbb/version.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "engine/base/version.h"

extern char** environ;

namespace sluice {

// What stands after `key` and the separator in a file of "key : value" lines.
static std::string look_up(const char* file, const std::string& key, char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    std::string value = line.substr(std::min(line.size(), line.find(separator) + 1));
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.erase(0, 1);
    if (value.size() > 1 && value.front() == '"') value = value.substr(1, value.size() - 2);
    return value;
  }
  return "";
}

static Json command_line() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  Json words = Json::array();
  for (std::size_t at = 0; at < all.size();) {
    words.push_back(std::string(all.c_str() + at));
    at += words.back().get_ref<const std::string&>().size() + 1;
  }
  return words;
}

static Json settings() {
  Json all = Json::object();
  for (char** e = environ; *e; ++e) {
    const std::string entry = *e;
    if (!entry.starts_with("SLUICE_") && !entry.starts_with("OMP_")) continue;
    if (entry.starts_with("SLUICE_STORE_SOCKET=")) continue;  // --processes' own
    all[entry.substr(0, entry.find('='))] = entry.substr(entry.find('=') + 1);
  }
  return all;
}

std::string utc_now() {
  char text[32];
  const std::time_t now = std::time(nullptr);
  std::tm tm{};
  std::strftime(text, sizeof text, "%FT%TZ", gmtime_r(&now, &tm));
  return text;
}

std::string itk_version() { return SLUICE_ITK_VERSION; }

Json environment() {
  utsname kernel{};
  uname(&kernel);
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  std::error_code ignored;
  return {{"started", utc_now()},
          {"command", command_line()},
          {"folder", std::filesystem::current_path(ignored).string()},
          {"cpu", look_up("/proc/cpuinfo", "model name", ':')},
          {"cores", std::thread::hardware_concurrency()},
          {"memory_gb", std::round(memory / 1e8) / 10},
          {"system", look_up("/etc/os-release", "PRETTY_NAME", '=')},
          {"kernel", std::string(kernel.sysname) + " " + kernel.release + " " + kernel.machine},
          {"versions",
           {{"sluice", version},
            {"torch", TORCH_VERSION},
            {"tbb", TBB_runtime_version()},
            {"itk", itk_version()}}},
          {"variables", settings()}};
}

}  // namespace sluice
