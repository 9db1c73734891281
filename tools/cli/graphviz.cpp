#include "tools/cli/graphviz.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/base/error.h"
#include "engine/judge/svg.h"

extern char** environ;

namespace sluice::cli {
namespace {

struct Pipe {
  int ends[2] = {-1, -1};  // read, write
  Pipe() {
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw IoError(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(int i) {
    if (ends[i] >= 0) close(ends[i]);
    ends[i] = -1;
  }
};

// -1 where there is no dot.
pid_t start(const std::string& format, Pipe& in, Pipe& out, const std::string& file) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.ends[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], 1);
  std::string program = "dot", as = "-T" + format;
  char* argv[] = {program.data(), as.data(), nullptr};
  pid_t child = 0;
  const int problem = posix_spawnp(&child, "dot", &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem == ENOENT && format == "svg") return -1;
  if (problem != 0)
    throw IoError(std::string("cannot start Graphviz's dot (") + std::strerror(problem) +
                  "); install graphviz, or draw with -o " +
                  std::filesystem::path(file).replace_extension(".svg").string());
  in.close_end(0);
  out.close_end(1);
  return child;
}

}  // namespace

// dot reads a graph to its end before it writes anything, so the two pipes cannot wait for each
// other.
std::string graphviz(const std::string& text, const std::string& format, const std::string& file) {
  Pipe in, out;
  const pid_t child = start(format, in, out, file);
  if (child < 0) return svg_of_dot(text);
  signal(SIGPIPE, SIG_IGN);  // a child that dies early is told by its exit status
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = write(in.ends[1], text.data() + at, text.size() - at);
    if (n <= 0 && errno != EINTR) break;
    if (n > 0) at += static_cast<std::size_t>(n);
  }
  in.close_end(1);
  std::string drawn;
  char buffer[1 << 14];
  for (ssize_t n; (n = read(out.ends[0], buffer, sizeof buffer)) != 0;) {
    if (n < 0 && errno != EINTR) break;
    if (n > 0) drawn.append(buffer, static_cast<std::size_t>(n));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0 || drawn.empty()) throw IoError("Graphviz's dot could not draw " + file);
  return drawn;
}

}  // namespace sluice::cli
