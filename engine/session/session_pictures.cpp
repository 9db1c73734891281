// The measured picture of a run: in its folder at the end, and as a dump where it stood still,
// failed or ended.
#include <cctype>
#include <cstdlib>
#include <fstream>

#include "engine/base/message.h"
#include "engine/judge/dot.h"
#include "engine/session/session.h"

namespace sluice {

namespace fs = std::filesystem;

static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string Session::picture(const Outcome& outcome, const fs::path& folder) const {
  DotOptions o;
  o.figures = figures();
  o.base = folder.string();
  o.judge = outcome.status == Outcome::Status::done || outcome.status == Outcome::Status::cut;
  if (outcome.status == Outcome::Status::failed) {
    o.state = "failed";
    o.note = outcome.failure.node + ": " + first_line(outcome.failure.message);
    o.fault = graph_->find(outcome.failure.node);
  } else if (outcome.status == Outcome::Status::stalled) {
    o.state = "stalled";
    o.note = first_line(outcome.stall);
  }
  return to_dot(*plan_, o);
}

// The graph's name as a file's: it is free text.
static std::string file_name(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '_';
  return name.empty() ? "graph" : name;
}

// A dump that cannot be written is told, but it is no reason to fail.
void Session::dump_picture(const Outcome& outcome) const {
  const char* folder = std::getenv("SLUICE_DUMP_DOT_DIR");
  if (!folder || !*folder) return;
  const char* state = outcome.status == Outcome::Status::failed    ? ".failed.dot"
                      : outcome.status == Outcome::Status::stalled ? ".stalled.dot"
                                                                   : ".done.dot";
  const fs::path path = fs::path(folder) / (file_name(graph_->name) + state);
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  std::ofstream out(path);
  out << picture(outcome, folder);
  out.close();
  if (!out) tell("warning: cannot write " + path.string());
}

}  // namespace sluice
