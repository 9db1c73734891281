// The machine's side of `sluice doctor`: processor, memory, disks.
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "engine/base/cpu.h"
#include "tools/cli/doctor.h"

namespace sluice::cli {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024;
constexpr double none = std::numeric_limits<double>::infinity();

std::string in_gib(double bytes) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f GiB", bytes / gib);
  return text;
}

std::string short_number(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%g", v);
  return text;
}

// The value of "key<blanks>: value" in a file of /proc, the first one.
std::string value_in(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    if (line.find_first_not_of(" \t", key.size()) != colon) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

bool has_word(const std::string& text, const std::string& word) {
  return (" " + text + " ").find(" " + word + " ") != std::string::npos;
}

// "max 100000" or "200000 100000" of version 2, "-1" or "200000" of version 1; infinity: no limit.
double parse_limit(const std::string& line, double period) {
  std::istringstream in(line);
  double value = 0;
  if (!(in >> value) || value < 0) return none;
  in >> period;
  return value / period;
}

// Where this process stands in the hierarchy of a controller: "0::/a/b" or "4:cpu,cpuacct:/a/b".
std::string cgroup_path(const std::string& controller) {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty()
                           : ("," + names + ",").find("," + controller + ",") != std::string::npos)
      return line.substr(second + 1);
  }
  return "/";
}

// The smallest limit from the process's own group up to the root.
double limit_under(const std::string& root, std::string path, const std::string& file,
                   double period) {
  double least = none;
  for (;;) {
    const std::string line = first_line_of(root + path + "/" + file);
    if (!line.empty()) least = std::min(least, parse_limit(line, period));
    const auto slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return least;
    path.resize(slash);
  }
}

}  // namespace

double cgroup_limit(const std::string& v2_file, const std::string& v1_controller,
                    const std::string& v1_file) {
  const double v2 = limit_under("/sys/fs/cgroup", cgroup_path(""), v2_file, 1);
  const double v1 = limit_under("/sys/fs/cgroup/" + v1_controller, cgroup_path(v1_controller),
                                v1_file, v1_controller == "cpu" ? 100000 : 1);
  return std::min(v1, v2);
}

static void look_at_cores(Findings& findings) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  const int usable =
      ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : static_cast<int>(online);
  const double quota = cgroup_limit("cpu.max", "cpu", "cpu.cfs_quota_us");
  Finding f{Finding::Level::ok, "cores", std::to_string(usable) + " cores", ""};
  if (usable < online) f.text += " of the machine's " + std::to_string(online);
  f.data = {{"usable", usable},
            {"online", online},
            {"quota", std::isfinite(quota) ? Json(quota) : Json()}};
  if (quota < usable) {
    f.level = Finding::Level::note;
    f.text += ", of which the container may use " + short_number(quota);
    f.advice = "give --threads and --step-threads at most " +
               short_number(std::max(1.0, std::floor(quota))) +
               ": more threads than that are stopped in the middle of their work";
  }
  findings.push_back(std::move(f));
}

// Of the loops that convolutions have, those that this process takes.
void look_at_loops(Findings& findings) {
  const char* wanted = std::getenv("SLUICE_CPU");
  const std::string level = name_of(cpu_level());
  Finding f{Finding::Level::ok,
            "convolutions",
            cpu_level() == CpuLevel::none ? "LibTorch's" : level + ", float32 and bfloat16",
            "",
            {{"level", level}, {"SLUICE_CPU", wanted ? Json(wanted) : Json()}}};
  if (wanted && level != wanted) {
    f.level = Finding::Level::note;
    f.advice = "SLUICE_CPU=" + std::string(wanted) +
               " is no level that this processor has: " + cpu_levels();
  } else if (wanted) {
    f.text += " (SLUICE_CPU)";
  }
  findings.push_back(std::move(f));
}

struct InstructionSet {
  const char *name, *flag;
};
#if defined(__aarch64__)
constexpr const char* flags_line = "Features";
constexpr InstructionSet instruction_sets[] = {{"NEON", "asimd"}};
#else
constexpr const char* flags_line = "flags";
constexpr InstructionSet instruction_sets[] = {{"AVX2", "avx2"},
                                               {"FMA", "fma"},
                                               {"AVX-512", "avx512f"},
                                               {"AVX-512 bf16", "avx512_bf16"},
                                               {"AMX bf16", "amx_bf16"}};
#endif

void look_at_cpu(Findings& findings) {
  const std::string flags = value_in("/proc/cpuinfo", flags_line);
  std::string model = value_in("/proc/cpuinfo", "model name");
  if (model.empty()) model = "unknown processor";
  findings.push_back({Finding::Level::ok, "processor", model, ""});
  look_at_cores(findings);

  Json has = Json::object();
  std::string text;
  for (const auto& [name, flag] : instruction_sets) {
    has[flag] = has_word(flags, flag);
    text += (text.empty() ? "" : ", ") + std::string(name) + (has[flag] ? " yes" : " no");
  }
  Finding f{Finding::Level::ok, "instructions", text, "", has};
  if (!has.value("avx2", true) || !has.value("fma", true)) {
    f.level = Finding::Level::problem;
    f.advice = "the kernels are built for AVX2 and FMA: configure with -DSLUICE_MARCH=x86-64-v2";
  }
  findings.push_back(std::move(f));
  look_at_loops(findings);
}

void look_at_memory(Findings& findings) {
  const auto bytes = [](const std::string& key) {
    return 1024 * std::strtod(value_in("/proc/meminfo", key).c_str(), nullptr);
  };
  const double total = bytes("MemTotal"), available = bytes("MemAvailable");
  const double limit = cgroup_limit("memory.max", "memory", "memory.limit_in_bytes");
  Finding f{Finding::Level::ok, "memory", in_gib(available) + " available of " + in_gib(total), ""};
  f.data = {
      {"total", total}, {"available", available}, {"limit", limit < total ? Json(limit) : Json()}};
  if (limit < total) f.text += ", the container's limit is " + in_gib(limit);
  if (std::min(available, limit) < 2 * gib) {
    f.level = Finding::Level::note;
    f.advice = "caches hold every volume in memory: little is left for them";
  }
  findings.push_back(std::move(f));

  const std::string pages = first_line_of("/sys/kernel/mm/transparent_hugepage/enabled");
  if (pages.find("[never]") != std::string::npos)
    findings.push_back({Finding::Level::note, "huge pages", "off",
                        "reading large volumes is slower without them: set "
                        "/sys/kernel/mm/transparent_hugepage/enabled to madvise"});
}

static void look_at_disk(Findings& findings, const std::string& name, const std::string& folder) {
  struct statvfs s {};
  Finding f{Finding::Level::ok, name, "", ""};
  if (::statvfs(folder.c_str(), &s) != 0) {
    f.level = Finding::Level::problem;
    f.text = folder + " is not there";
    findings.push_back(std::move(f));
    return;
  }
  const double free = static_cast<double>(s.f_bavail) * static_cast<double>(s.f_frsize);
  f.text = in_gib(free) + " free in " + folder;
  f.data = {{"folder", folder}, {"free", free}, {"writable", ::access(folder.c_str(), W_OK) == 0}};
  if (free < 1 * gib) {
    f.level = free < 0.1 * gib ? Finding::Level::problem : Finding::Level::note;
    f.advice = "checkpoints and results may not fit: give --out a folder on another disk";
  } else if (!f.data["writable"]) {
    f.level = Finding::Level::note;
    f.advice = "it may not be written to: give --out another folder";
  }
  findings.push_back(std::move(f));
}

void look_at_disks(Findings& findings) {
  look_at_disk(findings, "disk here", ".");
  const char* given = std::getenv("TMPDIR");
  look_at_disk(findings, "disk for temporary files", given && *given ? given : "/tmp");

  struct rlimit files {};
  ::getrlimit(RLIMIT_NOFILE, &files);
  Finding f{Finding::Level::ok, "open files",
            files.rlim_cur == RLIM_INFINITY ? "no limit" : std::to_string(files.rlim_cur), ""};
  if (files.rlim_cur < 1024) {
    f.level = Finding::Level::note;
    f.advice = "`ulimit -n 4096` lets more files be open at a time";
  }
  findings.push_back(std::move(f));
}

}  // namespace sluice::cli
