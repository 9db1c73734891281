// File-system calls that fail: whichever of a command's fails, old or new files stand, the message
// names path and cause, the exit code is 4, and a resume ends with the undisturbed weights.
#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "tests/campaign.h"
#include "tests/cli/packaged.h"
#include "tests/cli/tiny_training.h"
#include "tests/text.h"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const int errors[] = {ENOSPC, EIO, EMFILE, EACCES, EINTR, 0};  // 0: half a write
constexpr std::uint64_t kinds = std::size(errors);

// Commands in a folder whose file calls below it count.
struct Disturbed {
  fs::path root;

  explicit Disturbed(const fs::path& folder) : root(fs::canonical(folder)) {}

  shell::Result with(const std::string& settings, const std::string& command) const {
    return shell::run(
        "cd " + root.string() + "\n" + settings + " FILE_CALLS_UNDER=" + root.string() +
        " LD_PRELOAD=" SLUICE_BINARY_DIR "/fake/libfile_calls.so timeout 120 $SLUICE " + command);
  }
  // How many calls a command makes where none fails.
  std::uint64_t count(const std::string& command) const {
    const shell::Folder elsewhere;
    const auto whole = with("FILE_CALLS_COUNT=" + (elsewhere.path / "count").string(), command);
    REQUIRE_MESSAGE(whole.code == 0, whole.err);
    const std::uint64_t n = std::stoull("0" + elsewhere.read("count"));
    REQUIRE(n > 0);
    return n;
  }

  // Fails one of a command's calls; which one and how follow from the case. In CI cases are spread
  // over all calls. `made`: what the command makes.
  shell::Result fail(const campaign::Cases& cases, std::uint64_t few, const std::string& command,
                     std::uint64_t calls, const std::string& made) const {
    const std::uint64_t all = calls * kinds, of = campaign::at_length() ? all : few;
    const std::uint64_t place = (cases.index() * all / of + campaign::seed()) % all;
    const std::uint64_t call = 1 + place / kinds;
    const int error = errors[(place + cases.index()) % kinds];
    auto r =
        with("FILE_CALLS_AT=" + std::to_string(call) + " FILE_CALLS_ERROR=" + std::to_string(error),
             command);
    r.err = command + ", call " + std::to_string(call) + " of " + std::to_string(calls) + ": " +
            (error ? std::strerror(error) : "half a write") + "\n" + r.err;
    INFO(r.err);
    CHECK((r.code == 4 || r.code == 0));
    if (error == 0 || error == EINTR) CHECK(r.code == 0);  // these are no failures
    if (r.code == 4) {
      const std::string said = r.err.substr(r.err.find('\n'));
      CHECK(contains(said, std::strerror(error)));
      CHECK(contains(said, "error: "));
      CHECK((contains(said, "/") || contains(said, ".") || contains(said, " " + made)));  // a path
    }
    return r;
  }
  void remove(const std::string& what) const { fs::remove_all(root / what); }
  // Digests of a file, or of a folder's files with their names.
  std::string contents(const std::string& what) const {
    return shell::run("cd " + root.string() + " && find " + what +
                      " -type f -exec sha256sum {} + | sort")
        .out;
  }
};

// A training with a disk cache in `t`'s folder.
void write_graph(const TinyTraining& t) {
  json graph = json::parse(tiny_training);
  graph["run"]["step_threads"] = 1;
  graph["run"]["checkpoint"] = {{"every_epochs", 1}, {"keep", 2}};
  graph["nodes"]["cache"] = {
      {"type", "cache"}, {"in", "train"}, {"store", "disk"}, {"dir", "cache"}};
  graph["nodes"]["flip"]["in"] = "cache";
  t.folder.write("g.json", graph.dump());
}

const std::string run = "run g.json --quiet --out out";

// As a user would: goes on, or begins anew where there is nothing yet.
void goes_on(const TinyTraining& t, const std::string& weights) {
  auto rest = t.run("--resume out");
  if (rest.code == 4) rest = t.run("--out out --overwrite");
  CHECK_MESSAGE(rest.code == 0, rest.err);
  CHECK(t.weights("out") == weights);
}

}  // namespace

TEST_CASE(
    "whichever file call of a run fails, it ends with 4 or does without, and goes on rightly") {
  const TinyTraining t;
  write_graph(t);
  const Disturbed d(t.folder.path);
  const std::uint64_t calls = d.count(run);
  const std::string weights = t.weights("out");
  int ended = 0, went_on = 0;
  for (campaign::Cases cases("file_calls_run", 10, calls * kinds); cases.next();) {
    d.remove("out");
    d.remove("cache");
    const auto r = d.fail(cases, 10, run, calls, "out");
    INFO(r.err);
    (r.code == 4 ? ended : went_on) += 1;
    if (r.code == 0) CHECK(t.weights("out") == weights);
    goes_on(t, weights);
  }
  MESSAGE(calls << " calls; " << ended << " runs ended with 4, " << went_on << " did without");
}

TEST_CASE("a run that finds no more space goes on rightly when there is some") {
  const TinyTraining t;
  write_graph(t);
  const Disturbed d(t.folder.path);
  REQUIRE(d.with("", run).code == 0);
  const std::string weights = t.weights("out");
  for (campaign::Cases cases("disk_full", 4, 200); cases.next();) {
    d.remove("out");
    d.remove("cache");
    const auto room = 100 + (cases.index() * 7919 + campaign::seed() * 131) % 120'000;
    const auto r = d.with("FILE_CALLS_ROOM=" + std::to_string(room), run);
    INFO("room for " << room << " bytes\n" << r.err);
    CHECK((r.code == 4 || r.code == 0));
    if (r.code == 4) CHECK(contains(r.err, "No space left on device"));
    goes_on(t, weights);
  }
}

TEST_CASE("whichever file call of an export or a report fails, the file is whole or not there") {
  const Packaged p;
  const Disturbed d(p.folder.path);
  const std::pair<const char*, const char*> commands[] = {
      {"export run -o net.onnx", "net.onnx"},
      {"export run --package pack", "pack"},
      {"report run -o page.html", "page.html"},
      {"convert run w.safetensors", "w.safetensors"},
      {"prune run --channels 0.5 -o half", "half"}};
  const auto names = [&] {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(d.root)) all.insert(entry.path().filename());
    return all;
  };
  const auto before = names();
  for (const auto& [command, file] : commands) {
    const std::uint64_t calls = d.count(command);
    REQUIRE(fs::exists(d.root / file));
    const std::string whole = d.contents(file);
    d.remove(file);
    for (campaign::Cases cases(std::string("file_calls_") + file, 3, calls * kinds);
         cases.next();) {
      const auto r = d.fail(cases, 3, command, calls, file);
      INFO(r.err);
      // The last call makes the name last: where that fails the file is there, and whole.
      const bool is_there = fs::exists(d.root / file);
      if (r.code == 0)
        CHECK(is_there);
      else if (is_there)
        CHECK((contains(r.err, "error: cannot write .:") && d.contents(file) == whole));
      d.remove(file);
      CHECK(names() == before);  // nothing half-written stays
    }
  }
}
