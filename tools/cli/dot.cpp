// `sluice dot`: the plan's picture, as text or drawn by Graphviz in a child process.
#include "engine/dot.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tools/cli/cli.h"

extern char** environ;

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

// Feeds `text` to `dot -Tformat -o file`. Throws IoError.
void graphviz(const std::string& text, const std::string& format, const std::string& file) {
  int ends[2];
  if (pipe(ends) != 0) throw IoError(std::string("cannot make a pipe: ") + std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  std::string program = "dot", as = "-T" + format, to = "-o" + file;
  char* argv[] = {program.data(), as.data(), to.data(), nullptr};
  pid_t child = 0;
  const int problem = posix_spawnp(&child, "dot", &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[0]);
  if (problem != 0) {
    close(ends[1]);
    throw IoError(std::string("cannot start Graphviz's dot (") + std::strerror(problem) +
                  "); install graphviz, or write the text with -o " +
                  fs::path(file).replace_extension(".dot").string());
  }
  signal(SIGPIPE, SIG_IGN);  // a child that dies early is told by its exit status
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = write(ends[1], text.data() + at, text.size() - at);
    if (n <= 0 && errno != EINTR) break;
    if (n > 0) at += static_cast<std::size_t>(n);
  }
  close(ends[1]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) throw IoError("Graphviz's dot could not write " + file);
}

// A run's profile.json.
Json measured(const std::string& folder) {
  const fs::path file = fs::path(folder) / "profile.json";
  std::ifstream in(file);
  if (!in) throw IoError("cannot read " + file.string() + ": " + std::strerror(errno));
  Json profile = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (profile.is_discarded()) throw IoError(file.string() + " is not JSON");
  return profile;
}

void write_text(const std::string& text, const std::string& file) {
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out) throw IoError("cannot write " + file + ": " + std::strerror(errno));
}

}  // namespace

int draw(const Options& options) {
  std::string format = fs::path(options.out).extension().string();
  if (!format.empty()) format.erase(0, 1);
  if (!options.out.empty() && format != "dot" && format != "svg" && format != "png" &&
      format != "pdf") {
    print_error("-o " + options.out + ": expected a name that ends in .dot, .svg, .png or .pdf");
    return code(Exit::usage);
  }
  Checked checked;
  check_graph(options.graphs, options, checked);
  print(checked.diagnostics);
  if (!checked.plan) return code(Exit::usage);
  try {
    const Json profile = options.run.empty() ? Json() : measured(options.run);
    const std::string text = to_dot(*checked.plan, profile);
    if (options.out.empty())
      std::cout << text;
    else if (format == "dot")
      write_text(text, options.out);
    else
      graphviz(text, format, options.out);
  } catch (const Error& e) {
    print_error(e.what());
    return code(e.exit);
  }
  return code(Exit::done);
}

}  // namespace sluice::cli
