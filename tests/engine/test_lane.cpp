// A lane's threads.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "engine/base/system_call.h"
#include "engine/run/lane.h"

using namespace sluice;

TEST_CASE("a lane for which the system has too few threads says so, and the process goes on") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t bytes = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (64 << 20);
    const rlimit limit{bytes, bytes};  // room for the stacks of a few threads
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    try {
      const Lane many("many", 1000, nullptr);
      _exit(3);
    } catch (const MachineError&) {
      _exit(0);
    }
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
