// What `sluice doctor` looks at, one function an area; each answers without the runtime library.
//
// Invariant: looking changes nothing and cannot end the process: foreign libraries (the runtime,
// a GPU's driver) are loaded in a child, whose death is a finding like any other.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/graph/spec.h"

namespace sluice::cli {

struct Finding {
  enum class Level { ok, note, problem } level = Level::ok;
  std::string name, text, advice;
  Json data = Json::object();
};
using Findings = std::vector<Finding>;

void look_at_cpu(Findings& findings);
void look_at_memory(Findings& findings);
void look_at_disks(Findings& findings);
void look_at_libraries(Findings& findings);
void look_at_gpu(Findings& findings);
void look_at_environment(Findings& findings);

// The first line of a file, "" where it cannot be read.
std::string first_line_of(const std::string& file);
// A file of this process's cgroup or of one above it, the nearest that says a number.
double cgroup_limit(const std::string& v2_file, const std::string& v1_controller,
                    const std::string& v1_file);
// What `look` returns, from a child process; {"died": why} where the child did not live to tell.
Json in_child(const std::function<Json()>& look);

}  // namespace sluice::cli
