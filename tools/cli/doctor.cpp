// `sluice doctor`: what this machine has, and what of it will be in the way.
#include "tools/cli/doctor.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>

#include "tools/cli/cli.h"
#include "tools/cli/current_folder.h"

namespace sluice::cli {
namespace {

const char* word(Finding::Level level) {
  constexpr const char* words[] = {"ok", "note", "problem"};
  return words[static_cast<int>(level)];
}

void print_findings(const Findings& findings) {
  std::size_t width = 0;
  for (const Finding& f : findings) width = std::max(width, f.name.size());
  for (const Finding& f : findings) {
    const std::string level = word(f.level);
    std::cout << level << std::string(9 - level.size(), ' ') << f.name
              << std::string(width - f.name.size() + 2, ' ') << f.text << '\n';
    if (!f.advice.empty()) std::cout << std::string(width + 11, ' ') << "-> " << f.advice << '\n';
  }
}

Json to_json(const Findings& findings, bool ok) {
  Json list = Json::array();
  for (const Finding& f : findings)
    list.push_back({{"name", f.name},
                    {"level", word(f.level)},
                    {"text", f.text},
                    {"advice", f.advice},
                    {"data", f.data}});
  return {{"ok", ok}, {"findings", list}};
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> piece;
  for (ssize_t n; (n = ::read(fd, piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(n));
  return text;
}

}  // namespace

std::string first_line_of(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

Json in_child(const std::function<Json()>& look) {
  int ends[2];
  if (::pipe(ends) != 0) return {{"died", "no pipe"}};
  std::cout.flush();
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    std::string text;
    try {
      text = look().dump(-1, ' ', false, Json::error_handler_t::replace);
    } catch (const std::exception& e) {
      text = Json{{"died", e.what()}}.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    const bool told = ::write(ends[1], text.data(), text.size()) >= 0;
    ::_exit(told ? 0 : 1);  // no destructors of libraries that were only looked at
  }
  ::close(ends[1]);
  const std::string text = child < 0 ? "" : read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  if (child > 0) ::waitpid(child, &status, 0);
  if (child > 0 && WIFSIGNALED(status))
    return {{"died", "ended by signal " + std::to_string(WTERMSIG(status))}};
  Json told = Json::parse(text, nullptr, false);
  return told.is_object() ? told : Json{{"died", "said nothing"}};
}

int doctor(const Options& options) {
  require_current_folder();
  Findings findings;
  look_at_cpu(findings);
  look_at_memory(findings);
  look_at_disks(findings);
  look_at_libraries(findings);
  look_at_gpu(findings);
  look_at_environment(findings);
  const bool ok = std::none_of(findings.begin(), findings.end(),
                               [](const Finding& f) { return f.level == Finding::Level::problem; });
  if (options.json)
    std::cout << dump(to_json(findings, ok));
  else
    print_findings(findings);
  return code(ok ? Exit::done : Exit::io);
}

}  // namespace sluice::cli
