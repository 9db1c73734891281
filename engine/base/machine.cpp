#include "engine/base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

namespace sluice {

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

int own_cores() {
  cpu_set_t own;
  const int bound = sched_getaffinity(0, sizeof own, &own) == 0 ? CPU_COUNT(&own) : 0;
  return std::max(1, bound > 0 ? bound : static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace sluice
