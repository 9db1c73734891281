#include "engine/session/process_use.h"

#include <sys/resource.h>

#include <algorithm>

#include "engine/trace/trace.h"

namespace sluice {

ProcessUse ProcessUse::now() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return {static_cast<double>(now_ns()) * 1e-9, seconds(u.ru_utime) + seconds(u.ru_stime),
          u.ru_minflt, u.ru_majflt, static_cast<double>(u.ru_maxrss) * 1024 / 1e6};
}

Json ProcessUse::since(const ProcessUse& begin) const {
  return {{"cores", (cpu_s - begin.cpu_s) / std::max(at_s - begin.at_s, 1e-9)},
          {"minor_faults", minor_faults - begin.minor_faults},
          {"major_faults", major_faults - begin.major_faults},
          {"most_mb", most_mb}};
}

}  // namespace sluice
