// Kills and signals at any moment of a run's life, and what a resume makes of it.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "tests/campaign.h"
#include "tests/cli/tiny_training.h"

using nlohmann::json;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Ended {
  int code = 0;            // as a shell says it: 128 + n for a signal
  bool signalled = false;  // ended by the signal itself
  bool in_time = true;     // the signal came before the end
  double after_s = 0;      // from the signal to the end
};

// `sluice` with these words in a folder; after so many seconds it gets the signal.
Ended run(const fs::path& folder, std::vector<std::string> words, int signal = 0,
          double after_s = 0) {
  words.insert(words.begin(), SLUICE_BINARY_DIR "/sluice");
  std::vector<char*> argv;
  for (auto& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int out = open((folder / "said").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (chdir(folder.c_str()) != 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(99);
    if (const char* wait_us = getenv("SLUICE_DISK_WAIT_US")) {
      setenv("LD_PRELOAD", SLUICE_BINARY_DIR "/fake/libfile_calls.so", 1);
      setenv("FILE_CALLS_UNDER", folder.c_str(), 1);
      setenv("FILE_CALLS_WAIT_US", wait_us, 1);
    }
    execv(argv[0], argv.data());
    _exit(99);
  }
  Ended ended;
  int status = 0;
  if (signal != 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(after_s));
    ended.in_time = waitpid(child, &status, WNOHANG) == 0;
    if (ended.in_time) kill(child, signal);
  }
  const auto begin = Clock::now();
  if (signal == 0 || ended.in_time) waitpid(child, &status, 0);
  ended.after_s = seconds_since(begin);
  ended.signalled = WIFSIGNALED(status);
  ended.code = ended.signalled ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return ended;
}

// A training whose runs differ by their learning rate, and what each ends with undisturbed.
struct Trial {
  TinyTraining t;
  std::map<std::string, std::string> weights;
  double whole_s = 1e9;  // of the quickest
  std::mt19937 random{static_cast<std::uint32_t>(campaign::seed())};

  // At length SLUICE_EPOCHS=700 makes it a run of half a minute; SLUICE_DISK_WAIT_US=2000 makes one
  // of 100 epochs as long, by a disk whose calls take so many microseconds more, so that several
  // campaigns fit beside each other.
  Trial() {
    const auto epochs =
        static_cast<int>(campaign::number("SLUICE_EPOCHS", campaign::at_length() ? 30 : 4));
    json graph = json::parse(tiny_training);
    graph["run"]["epochs"] = epochs;
    graph["run"]["step_threads"] = 1;
    graph["run"]["checkpoint"] = {{"every_epochs", 1}, {"keep", 2}};
    t.folder.write("g.json", graph.dump());
    for (const char* lr : {"0.01", "0.02", "0.04"}) {
      const auto begin = Clock::now();
      REQUIRE(run(t.folder.path, words(lr, {"--out", std::string("whole") + lr})).code == 0);
      whole_s = std::min(whole_s, seconds_since(begin));
      weights[lr] = t.weights(std::string("whole") + lr);
    }
    REQUIRE(weights["0.01"] != weights["0.02"]);
  }
  std::vector<std::string> words(const std::string& lr, std::vector<std::string> more) const {
    std::vector<std::string> all{"run", "g.json", "--set", "nodes.step.lr=" + lr};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  double moment() { return std::uniform_real_distribution<>(0, whole_s)(random); }
  std::string lr() { return std::vector<std::string>{"0.01", "0.02", "0.04"}[random() % 3]; }
  std::string threads() { return std::to_string(1 + random() % 8); }
  std::string said() const { return t.folder.read("said"); }
  bool has(const std::string& part) const { return said().find(part) != std::string::npos; }
};

}  // namespace

TEST_CASE("a run killed at any moment, in a new folder or a used one, ends with its own weights") {
  Trial trial;
  int before_checkpoint = 0, not_begun = 0, finished = 0, foreign = 0, wrong = 0;
  campaign::Cases kills("kills", 8, 1000);
  while (kills.next()) {
    const auto i = kills.index();
    CAPTURE(i);
    const std::string lr = trial.lr(), out = i % 2 ? "used" : "new" + std::to_string(i);
    const auto begin = trial.words(lr, {"--out", out, "--overwrite"});
    if (!run(trial.t.folder.path, begin, SIGKILL, trial.moment()).in_time) ++finished;
    // Once more in half of the trials, while it goes on.
    std::vector<std::string> go_on{"--resume", out, "--threads", trial.threads()};
    if (trial.random() % 2)
      run(trial.t.folder.path, trial.words(lr, go_on), SIGKILL, trial.moment());
    go_on.back() = trial.threads();
    auto rest = run(trial.t.folder.path, trial.words(lr, go_on));
    INFO(trial.said());
    before_checkpoint += trial.has("begins at the beginning");
    // Nothing there, or the run before, which is said: then it is begun again.
    if (rest.code == 4 || trial.has("nodes.step.lr: ")) {
      ++not_begun;
      rest = run(trial.t.folder.path, begin);
    }
    foreign += trial.has("of another run");
    REQUIRE(rest.code == 0);
    const bool right = trial.t.weights(out) == trial.weights[lr];
    CHECK(right);
    wrong += !right;
    // What stands in the folder goes on by itself, too.
    CHECK(run(trial.t.folder.path, {"run", "--resume", out}).code == 0);
    CHECK(trial.t.weights(out) == trial.weights[lr]);
    if (out != "used") fs::remove_all(trial.t.folder.path / out);
  }
  MESSAGE("killed a run of " << trial.whole_s << " s: " << wrong << " with other weights; "
                             << finished << " came after the end, " << not_begun
                             << " before the run had its folder, " << before_checkpoint
                             << " resumed before the first checkpoint, " << foreign
                             << " passed a checkpoint of another run");
  CHECK(wrong == 0);
}

TEST_CASE("a signal at any moment ends a run with a checkpoint and 128 and its number") {
  Trial trial;
  const std::vector<int> kinds{SIGTERM, SIGINT, SIGHUP, SIGUSR1};
  int finished = 0, at_once = 0, cut = 0, wrong = 0;
  double longest_s = 0;
  campaign::Cases signals("signals", 8, 400);
  while (signals.next()) {
    const auto i = signals.index();
    const int kind = kinds[i % kinds.size()];
    const std::string lr = trial.lr(), out = "s" + std::to_string(i);
    CAPTURE(i);
    CAPTURE(kind);
    const auto ended =
        run(trial.t.folder.path, trial.words(lr, {"--out", out}), kind, trial.moment());
    INFO(trial.said());
    if (!ended.in_time || ended.code == 0) {
      ++finished;
      CHECK(ended.code == 0);
    } else {
      CHECK(ended.code == 128 + kind);
      longest_s = std::max(longest_s, ended.after_s);
      at_once += ended.signalled;  // before main(): nothing had begun
      cut += !ended.signalled;
      const bool kept = fs::exists(trial.t.folder.path / out / "checkpoints/last/state.json");
      CHECK(kept == !ended.signalled);
    }
    const auto rest = ended.signalled ? run(trial.t.folder.path, trial.words(lr, {"--out", out}))
                                      : run(trial.t.folder.path,
                                            {"run", "--resume", out, "--threads", trial.threads()});
    INFO(trial.said());
    REQUIRE(rest.code == 0);
    const bool right = trial.t.weights(out) == trial.weights[lr];
    CHECK(right);
    wrong += !right;
    fs::remove_all(trial.t.folder.path / out);
  }
  MESSAGE("signals to a run of " << trial.whole_s << " s: " << wrong << " with other weights; "
                                 << cut << " cut with a checkpoint, at most " << longest_s
                                 << " s later, " << at_once << " before anything had begun, "
                                 << finished << " came after the end");
  CHECK(wrong == 0);
}

TEST_CASE("a stop that comes as the run folder is begun is obeyed") {
  const TinyTraining t;
  for (const char* number : {"TERM", "INT", "HUP", "USR1"}) {
    const std::string out(number);
    const auto r = shell::run(
        t.in_folder + "$SLUICE run g.json --quiet --set run.epochs=100000 --out " + out +
        " & p=$!; until [ -e " + out + "/graph.json ]; do :; done; kill -" + out + " $p; wait $p");
    CAPTURE(number);
    INFO(r.err);
    CHECK(r.code == 128 + (out == "TERM" ? 15 : out == "INT" ? 2 : out == "HUP" ? 1 : 10));
    CHECK(fs::exists(t.folder.path / out / "checkpoints/last/state.json"));
  }
}

TEST_CASE("a stop that comes before the libraries are there is obeyed, a second one at once") {
  const TinyTraining t;
  const std::string begin =
      t.in_folder + "$SLUICE run g.json --quiet --set run.epochs=100000 --out ";
  const auto early = shell::run(begin +
                                "a & p=$!; until grep -q SigCgt /proc/$p/status && "
                                "(( 0x$(sed -n 's/SigCgt:\\t//p' /proc/$p/status) & 1 )); do "
                                ":; done; kill -HUP $p; wait $p");
  INFO(early.err);
  CHECK(early.code == 129);
  CHECK(fs::exists(t.folder.path / "a/checkpoints/last/state.json"));
  const auto twice = shell::run(begin +
                                "b & p=$!; until [ -s b/metrics.jsonl ]; do :; done; kill "
                                "-STOP $p; kill -USR1 $p; kill -TERM $p; kill -CONT $p; wait "
                                "$p");
  const bool at_once = twice.code == 128 + 15 || twice.code == 128 + 10;
  CHECK(at_once);
  const auto ignored =
      shell::run(t.in_folder +
                 "trap '' HUP; $SLUICE run g.json --quiet --out d & p=$!; sleep 0.3; "
                 "kill -HUP $p; wait $p");
  CHECK(ignored.code == 0);
}
