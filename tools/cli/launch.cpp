// `sluice run --processes N`: so many processes of this machine, each told its place by the
// variables that torchrun would set.
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "engine/group/world.h"
#include "tools/cli/cli.h"

namespace sluice::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds patience{3};  // after the first failure, until the rest is killed

// A port of this machine's own that rank 0 serves; held from the beginning, so that no other
// program takes it before.
struct Meeting {
  Meeting() {
    const int problem = hold("127.0.0.1");
    if (problem != 0 && hold("::1") != 0)
      throw Error(Exit::io,
                  std::string("no port for the processes: 127.0.0.1: ") + std::strerror(problem));
  }

  const char* host = nullptr;
  int held = -1, port = 0;

 private:
  // 0, or why there is none at this address.
  int hold(const char* address) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST;
    if (getaddrinfo(address, "0", &hints, &found) != 0) return EADDRNOTAVAIL;
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> is(found, freeaddrinfo);
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char number[NI_MAXSERV];
    const int s = socket(is->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || bind(s, is->ai_addr, is->ai_addrlen) != 0 ||
        getsockname(s, reinterpret_cast<sockaddr*>(&own), &size) != 0) {
      const int problem = errno;
      if (s >= 0) close(s);
      return problem;
    }
    getnameinfo(reinterpret_cast<sockaddr*>(&own), size, nullptr, 0, number, sizeof number,
                NI_NUMERICSERV);
    host = address;
    held = s;
    port = std::atoi(number);
    return 0;
  }
};

// In the child: its own process group, so that a terminal's Ctrl-C comes by way of the parent,
// once.
void become(int rank, int processes, pid_t launcher, const Meeting& meeting) {
  set_parent(launcher);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(128 + SIGKILL);  // it went before that counted
  const auto set = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
  };
  for (const char* name : {"RANK", "LOCAL_RANK"}) set(name, std::to_string(rank));
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) set(name, std::to_string(processes));
  set("MASTER_ADDR", meeting.host);
  set("MASTER_PORT", std::to_string(meeting.port));
  set("TORCHELASTIC_RUN_ID", own_job + std::to_string(launcher));
  set("TORCHELASTIC_USE_AGENT_STORE", "False");  // of a torchrun of one process around this
  if (rank == 0) return set("SLUICE_STORE_SOCKET", std::to_string(meeting.held));
  leave_signals_to_first();
  close(meeting.held);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, 0);
  dup2(nothing, 1);
}

// Each of a launcher's processes would begin a run of its own.
void must_be_alone() {
  const World world = find_world(own_variable, [](auto&) {});
  if (!world.alone())
    throw Error(Exit::usage, "--processes starts the processes of a run, but this is one of " +
                                 std::to_string(world.size) + " that " + world.launcher +
                                 " has started: leave --processes out");
}

// Until all have ended. A rank that fails by itself says more than those that follow it, and one
// that is killed here says nothing.
int attend(std::vector<pid_t> children, const std::atomic<int>& signal) {
  int worst = 0, sent = 0;
  std::optional<Clock::time_point> failed;
  bool killed = false;
  const std::vector<pid_t> ranks = children;
  const auto tell = [&](pid_t child, const std::string& what) {
    print_error("rank " +
                std::to_string(std::find(ranks.begin(), ranks.end(), child) - ranks.begin()) +
                what);
  };
  while (!children.empty()) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended > 0) {
      std::erase(children, ended);
      const int code = exit_code_of(status);
      if (killed && code == 128 + SIGKILL) {
        tell(ended, " did not end and was killed");
        continue;
      }
      if (WIFSIGNALED(status) && !failed)
        tell(ended, " was ended by signal " + std::to_string(WTERMSIG(status)));
      if (worst == 0 || worst == static_cast<int>(Exit::peer)) worst = code ? code : worst;
      if (code != 0 && !failed) failed = Clock::now();
      continue;
    }
    if (ended < 0 && errno != EINTR)
      throw Error(Exit::io, std::string("waiting for the processes: ") + std::strerror(errno));
    if (signal != sent) {
      sent = signal;
      for (const pid_t child : children) kill(child, sent);
    }
    if (failed && !killed && Clock::now() - *failed > patience) {
      killed = true;
      for (const pid_t child : children) kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return worst;
}

}  // namespace

std::optional<int> divide(int processes, const std::atomic<int>& signal) {
  must_be_alone();
  const Meeting meeting;
  std::vector<pid_t> children;
  const pid_t launcher = getpid();
  for (int rank = 0; rank < processes; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      become(rank, processes, launcher, meeting);
      return std::nullopt;
    }
    if (child < 0) {
      for (const pid_t one : children) kill(one, SIGKILL);
      throw Error(Exit::memory, std::string("no further process: ") + std::strerror(errno));
    }
    children.push_back(child);
  }
  leave_signals_to_first();
  close(meeting.held);
  return attend(std::move(children), signal);
}

}  // namespace sluice::cli
