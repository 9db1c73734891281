#include "engine/group/launcher_process.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>

namespace sluice {
namespace {

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// 0 where it has none, or cannot be asked. The name in front, in parentheses, may hold anything.
int parent_of(int process) {
  const std::string text = text_of("/proc/" + std::to_string(process) + "/stat");
  std::istringstream behind_name(text.substr(text.rfind(')') + 1));
  std::string state;
  int parent = 0;
  behind_name >> state >> parent;
  return parent;
}

bool has_variable(int process, const std::string& name) {
  const std::string all = '\0' + text_of("/proc/" + std::to_string(process) + "/environ");
  return all.find('\0' + name + "=") != all.npos;
}

}  // namespace

std::string launcher_process(const std::string& of_rank) {
  int process = getppid();
  while (process > 1 && has_variable(process, of_rank)) process = parent_of(process);
  return process > 0 ? std::to_string(process) : "";
}

}  // namespace sluice
