#include "engine/run/packet.h"

#include <mutex>
#include <set>

namespace sluice {

const std::string* intern_reason(const std::string& reason) {
  static std::mutex mutex;
  static std::set<std::string> all;  // nodes of a set never move
  std::lock_guard lock(mutex);
  return &*all.insert(reason).first;
}

namespace reasons {
const std::string* const filtered = intern_reason("filtered");
const std::string* const quarantined = intern_reason("quarantined");
const std::string* const discarded = intern_reason("discarded");
const std::string* const dropped_last = intern_reason("dropped_last");
const std::string* const elsewhere = intern_reason("elsewhere");
const std::string* const no_sample = intern_reason("no_sample");
const std::string* const replayed = intern_reason("replayed");
}  // namespace reasons

}  // namespace sluice
