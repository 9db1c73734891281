#include "engine/base/warnings.h"

#include <algorithm>
#include <iostream>
#include <mutex>

namespace sluice {
namespace {

std::mutex mutex;
std::vector<std::string>& said() {
  static std::vector<std::string> all;
  return all;
}

}  // namespace

void warn(const std::string& text) {
  {
    std::lock_guard lock(mutex);
    if (std::find(said().begin(), said().end(), text) != said().end()) return;
    said().push_back(text);
  }
  std::cerr << "warning: " + text + "\n";
}

std::vector<std::string> warnings() {
  std::lock_guard lock(mutex);
  return said();
}

void forget_warnings() {
  std::lock_guard lock(mutex);
  said().clear();
}

}  // namespace sluice
