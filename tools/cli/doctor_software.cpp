// The software's side of `sluice doctor`: the runtime library and what it loads, Graphviz, the
// environment.
#include <dlfcn.h>
#include <langinfo.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "engine/base/letter_case.h"
#include "tools/cli/cli.h"
#include "tools/cli/doctor.h"

extern char** environ;

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;
using Level = Finding::Level;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Json ask_runtime() {
  void* library = ::dlopen(runtime_file().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return {{"died", ::dlerror()}};
  using Versions = const char*();
  auto* versions = reinterpret_cast<Versions*>(::dlsym(library, "sluice_runtime_versions"));
  if (!versions) return {{"died", runtime_file() + " is not Sluice's runtime"}};
  return Json::parse(versions());
}

void look_at_runtime(Findings& findings) {
  const Json found = in_child(ask_runtime);
  if (found.contains("died")) {
    Finding f{Level::problem, "runtime", "cannot be loaded: " + found["died"].get<std::string>(),
              "run, profile, apply and new need it: build it with tools/quickstart.sh, or name it "
              "in SLUICE_RUNTIME"};
    if (f.text.find("libtorch") != std::string::npos || f.text.find("libc10") != std::string::npos)
      f.advice = "LibTorch has moved since the build: run tools/quickstart.sh again";
    findings.push_back(std::move(f));
    return;
  }
  findings.push_back({Level::ok, "runtime", runtime_file(), "", {{"file", runtime_file()}}});
  for (const auto& [key, name] :
       {std::pair{"libtorch", "LibTorch"}, {"tbb", "oneTBB"}, {"itk", "ITK"}}) {
    Finding f{Level::ok, name, found[key].get<std::string>(), "", {{"version", found[key]}}};
    if (std::string(key) == "libtorch")
      f.text += " in " + found["libtorch_folder"].get<std::string>();
    findings.push_back(std::move(f));
  }
}

// The program of that name in PATH; "" where there is none.
std::string program(const std::string& name) {
  const std::string path = variable("PATH");
  for (std::size_t at = 0; at <= path.size();) {
    const auto end = std::min(path.find(':', at), path.size());
    const fs::path file = fs::path(path.substr(at, end - at)) / name;
    if (end > at && ::access(file.c_str(), X_OK) == 0) return file.string();
    at = end + 1;
  }
  return "";
}

void look_at_graphviz(Findings& findings) {
  const std::string dot = program("dot");
  if (!dot.empty())
    findings.push_back({Level::ok, "Graphviz", dot, "", {{"file", dot}}});
  else
    findings.push_back(
        {Level::note, "Graphviz", "not found",
         "`sluice dot` draws SVG and HTML by itself; for PNG and PDF: apt install graphviz"});
}

void look_at_own_variables(Findings& findings) {
  const std::vector<std::string> known{
      "SLUICE_RUNTIME", "SLUICE_DUMP_DOT_DIR",  "SLUICE_VENV", "SLUICE_TEST_DATA", "SLUICE_SEED",
      "SLUICE_LONG",    "SLUICE_UPDATE_GOLDEN", "SLUICE_CPU",  "SLUICE_DEVICE"};
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    if (!name.starts_with("SLUICE_")) continue;
    Finding f{Level::ok, name, text.substr(std::min(name.size() + 1, text.size())), ""};
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      f.level = Level::note;
      f.advice = "nothing reads it";
      if (const auto hint = did_you_mean(name, known); !hint.empty()) f.advice += "; " + hint;
    }
    findings.push_back(std::move(f));
  }
}

// What makes the two thread pools, data and training region, get in each other's way.
void look_at_openmp(Findings& findings) {
  const auto note = [&](const char* name, const std::string& advice) {
    findings.push_back({Level::note, name, variable(name), advice});
  };
  const std::string policy = lower_case(variable("OMP_WAIT_POLICY"));
  if (policy == "active")
    note("OMP_WAIT_POLICY",
         "the training region's threads then spin between two operations while "
         "others have work for the core: unset it");
  if (!variable("GOMP_SPINCOUNT").empty() && variable("GOMP_SPINCOUNT") != "0")
    note("GOMP_SPINCOUNT",
         "the training region's threads then spin between two operations while "
         "others have work for the core: unset it");
  if (!variable("OMP_NUM_THREADS").empty())
    note("OMP_NUM_THREADS",
         "--step-threads says how many threads the training region has; unset it");
  const std::string bind = lower_case(variable("OMP_PROC_BIND"));
  if (!bind.empty() && bind != "false")
    note("OMP_PROC_BIND",
         "threads that are bound to cores cannot make way for data work: unset it");
  if (!variable("GOMP_CPU_AFFINITY").empty())
    note("GOMP_CPU_AFFINITY",
         "threads that are bound to cores cannot make way for data work: unset it");
}

void look_at_locale(Findings& findings) {
  std::string asked = variable("LC_ALL");
  if (asked.empty()) asked = variable("LC_CTYPE");
  if (asked.empty()) asked = variable("LANG");
  if (asked.empty()) asked = "C";
  if (!std::setlocale(LC_ALL, "")) {
    findings.push_back({Level::note, "locale", asked + " is not installed",
                        "harmless here, but other programs complain: use C.UTF-8"});
  } else {
    const std::string coding = ::nl_langinfo(CODESET);
    findings.push_back({Level::ok, "locale", asked + " (" + coding + ")", ""});
  }
  std::setlocale(LC_ALL, "C");
}

}  // namespace

void look_at_libraries(Findings& findings) {
  look_at_runtime(findings);
  look_at_graphviz(findings);
}

void look_at_environment(Findings& findings) {
  look_at_own_variables(findings);
  look_at_openmp(findings);
  look_at_locale(findings);
}

}  // namespace sluice::cli
