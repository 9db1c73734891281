#include <stdio_ext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "engine/base/message.h"
#include "engine/graph/merge.h"
#include "engine/graph/override.h"
#include "tools/cli/cli.h"

namespace sluice::cli {

const Catalogue& catalogue() {
  static constexpr char text[] =
#include "catalogue.inc"
      ;
  static const Catalogue types = Catalogue::from_json(Json::parse(text, text + sizeof text - 1));
  return types;
}

void check_graph(std::vector<std::string> files, const Options& options, Checked& checked,
                 bool may_be_stdin) {
  std::optional<std::string> text;
  if (may_be_stdin && files.front() == "-") {
    text.emplace(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    files.front() = "graph";
  }
  checked.file = files.front();
  for (std::size_t i = 1; i < files.size(); ++i) checked.file += " " + files[i];
  const auto overrides = parse_overrides(options.set, checked.diagnostics);
  const DocumentPtr document =
      read_graph_files(files, checked.diagnostics, text ? &*text : nullptr);
  assist::check_document(document, catalogue(), overrides, checked);
}

void plan_as_run(const Json& profile, Checked& checked) {
  PlanOptions options;
  const auto threads = profile.is_object() ? profile.find("threads") : profile.end();
  if (threads == profile.end() || !threads->is_number_integer()) return;
  options.threads = threads->get<int>();
  Diagnostics said_before;
  if (auto plan = make_plan(*checked.graph, options, said_before)) checked.plan = std::move(plan);
}

static bool color() {
  const char *no_color = std::getenv("NO_COLOR"), *term = std::getenv("TERM");
  return isatty(2) && !(no_color && *no_color) && !(term && std::string_view(term) == "dumb");
}

void print(const Diagnostics& diagnostics) { diagnostics.print(std::cerr, color()); }

void print_error(const std::string& message) {
  std::cerr << (color() ? "\x1b[1;31merror\x1b[0m: " : "error: ") << printable(message, true)
            << '\n';
}

int flushed(int code) {
  std::cout.flush();
  errno = 0;
  const bool failed = std::fflush(stdout) != 0;
  if (!failed && std::cout && !std::ferror(stdout)) return code;
  // Of an earlier write that failed the cause is lost: another one has the same.
  if (errno == 0 && ::write(STDOUT_FILENO, "\n", 1) >= 0) errno = EIO;
  const int cause = errno;
  __fpurge(stdout);  // what is left in it would be tried again at the process's end
  print_error(std::string("cannot write to stdout: ") + std::strerror(cause));
  // What a check found (2) was to be read there.
  const bool is_answer =
      code == sluice::cli::code(Exit::done) || code == sluice::cli::code(Exit::usage);
  return is_answer ? sluice::cli::code(Exit::io) : code;
}

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sluice::cli
