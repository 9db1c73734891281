#include "engine/base/warnings.h"

#include <algorithm>
#include <mutex>

#include "engine/base/message.h"

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
  tell("warning: " + text);
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
