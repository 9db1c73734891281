// Random graphs against the interpreter. SLUICE_SEED=n runs that seed alone.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/campaign.h"
#include "tests/engine/program_nodes.h"

using namespace sluice;
using namespace sluice::sim;

namespace {

void sort_unordered(const Program& p, std::map<std::string, Log>& logs) {
  for (const Item& n : p.nodes)
    if (!n.ordered && n.kind != Kind::updater) std::sort(logs[n.path].begin(), logs[n.path].end());
}

std::string difference(const std::string& of, const Log& a, const Log& b) {
  if (a == b) return "";
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return of + " line " + std::to_string(at.first - a.begin()) + " of " + std::to_string(a.size()) +
         "/" + std::to_string(b.size()) + ": got \"" +
         (at.first == a.end() ? "nothing" : *at.first) + "\", expected \"" +
         (at.second == b.end() ? "nothing" : *at.second) + "\"";
}

// The first difference between what nodes wrote down; "" where there is none. `exact`: only what
// stands after a turn's gate, which alone is exact where a run was cut.
std::string difference(const Program& p, Memory got, Results want, bool exact) {
  sort_unordered(p, got.logs);
  sort_unordered(p, want.logs);
  if (got.weights != want.weights) return "other weights";
  if (got.turns != want.turns) return difference("turns", got.turns, want.turns);
  for (const Item& n : p.nodes) {
    if (exact && !n.behind_gate) continue;
    std::string other = difference(n.path, got.logs[n.path], want.logs[n.path]);
    if (other.empty()) other = difference(n.path + " as told", got.told[n.path], want.told[n.path]);
    if (!other.empty()) return other;
  }
  return "";
}

void report(std::uint64_t seed, const Setup& setup, const Program& p, const std::string& what) {
  FAIL_CHECK("SLUICE_SEED=" << seed << ", " << setup.threads << " slots, spare " << setup.spare
                            << ": " << what << "\n"
                            << describe(p));
}

Program program_of(std::uint64_t seed, bool trains, bool device, bool resumes = false) {
  Program p = random_program(seed, trains, resumes);
  return device ? for_device(std::move(p)) : p;
}

Setup setup_of(std::uint64_t seed, int threads, bool device) {
  Setup s;
  s.device = device;
  s.threads = threads;
  s.salt = mix(seed * 8 + static_cast<std::uint64_t>(threads));
  s.spare = seed % 3 == 0 ? 0 : 3;
  return s;
}

// A cut at some place of some kind. Later parts of a run leave time to get on.
void draw_cut(Setup& setup, std::uint64_t part) {
  const std::uint64_t d = mix(setup.salt + part);
  constexpr std::uint64_t most[] = {60, 60, 20, 2, 4, 20, 60};  // of the place, by its kind
  setup.stop_from = static_cast<From>(mix(d) % std::size(most));
  setup.stop_at = 1 + d % (most[static_cast<std::size_t>(setup.stop_from)] * (part + 1));
}

void check_run(std::uint64_t seed, const Setup& setup, const Program& p, Trial& trial,
               Outcome::Status status, const Results* fired) {
  if (trial.outcome.status != status)
    report(seed, setup, p,
           "ended as " + std::to_string(static_cast<int>(trial.outcome.status)) + " " +
               trial.outcome.stall + trial.outcome.failure.message);
  for (const std::string& what : trial.broken(fired)) report(seed, setup, p, what);
}

}  // namespace

static void gives_the_same(bool device, std::uint64_t few, std::uint64_t many) {
  campaign::for_seeds(std::string("gives_the_same") + (device ? "_device" : ""), few, many,
                      [device](std::uint64_t seed) {
                        const Program p = program_of(seed, seed % 2 == 0, device);
                        const Results want = interpret(p);
                        for (int threads : {1, 2, 8}) {
                          const Setup setup = setup_of(seed, threads, device);
                          Memory memory = fresh_memory(p);
                          {
                            Trial trial(p, memory, setup);
                            trial.run();
                            check_run(seed, setup, p, trial, Outcome::Status::done, &want);
                          }
                          const std::string other = difference(p, memory, want, false);
                          if (!other.empty()) report(seed, setup, p, other);
                          REQUIRE(Sample::live == 0);
                        }
                      });
}

static void fails_cleanly(bool device, std::uint64_t few, std::uint64_t many) {
  campaign::for_seeds(
      std::string("fails_cleanly") + (device ? "_device" : ""), few, many,
      [device](std::uint64_t seed) {
        const Program p = program_of(seed, seed % 2 == 0, device);
        for (int threads : {1, 2, 8}) {
          Setup setup = setup_of(seed, threads, device);
          setup.fail_one_in = seed % 5 == 0 ? 4 : 40;
          if (seed % 3 == 1) draw_cut(setup, 0);
          Memory memory = fresh_memory(p);
          {
            Trial trial(p, memory, setup);
            trial.run();
            const std::int64_t end = now_ns();
            const bool threw = !trial.thrown.empty();
            const bool cut = trial.outcome.status == Outcome::Status::cut && setup.stop_at;
            check_run(seed, setup, p, trial,
                      threw ? Outcome::Status::failed
                      : cut ? Outcome::Status::cut
                            : Outcome::Status::done,
                      nullptr);
            if (!threw) continue;
            const auto lowest = *std::min_element(trial.thrown.begin(), trial.thrown.end());
            const Failure& f = trial.outcome.failure;
            if (!trial.flush_threw && std::pair(f.stamp, f.node) != lowest)
              report(seed, setup, p, "named " + f.str() + " instead of " + lowest.second);
            CHECK(end - trial.first_throw_ns < 1'000'000'000);
          }
          REQUIRE(Sample::live == 0);
        }
      });
}

static void stops_behind_a_turn(bool device, std::uint64_t few, std::uint64_t many) {
  campaign::for_seeds(std::string("stops_behind_a_turn") + (device ? "_device" : ""), few, many,
                      [device](std::uint64_t seed) {
                        const Program p = program_of(seed, true, device);
                        const int turns = static_cast<int>(interpret(p).turns.size());
                        const int stop =
                            1 + static_cast<int>(mix(seed) % static_cast<std::uint64_t>(turns));
                        const Results want = interpret(p, stop);
                        for (int threads : {1, 2, 8}) {
                          Setup setup = setup_of(seed, threads, device);
                          setup.stop_behind = stop;
                          Memory memory = fresh_memory(p);
                          {
                            Trial trial(p, memory, setup);
                            trial.run();
                            if (trial.outcome.status != Outcome::Status::done || stop < turns)
                              check_run(seed, setup, p, trial, Outcome::Status::cut, nullptr);
                            if (trial.outcome.position.turn != static_cast<std::size_t>(stop))
                              report(seed, setup, p, "another turn");
                          }
                          const std::string other = difference(p, memory, want, true);
                          if (!other.empty()) report(seed, setup, p, other);
                        }
                      });
}

namespace {

// What a resumed process would load: networks and the states after the training region. A
// validation turn that was cut begins anew, and what stands before a gate begins its epoch.
void reload(const Program& p, const Plan& plan, const Resume& at, Memory& memory) {
  const auto sequence = plan.sequence();
  if (at.turn >= sequence.size()) return;
  const Turn turn = sequence[at.turn];
  const std::string cut = std::to_string(turn.stream) + "/" + std::to_string(turn.epoch) + "/";
  for (std::size_t i = 0; i < p.nodes.size(); ++i) {
    const Item& n = p.nodes[i];
    if (n.behind_gate && n.stream == p.train) continue;
    memory.states[i] = 0;
    if (n.stream != turn.stream) continue;
    for (Log* log : {&memory.logs[n.path], &memory.told[n.path]})
      std::erase_if(*log, [&](const auto& line) { return line.starts_with(cut); });
  }
}

}  // namespace

static void resumes(bool device, std::uint64_t few, std::uint64_t many) {
  campaign::for_seeds(
      std::string("resumes") + (device ? "_device" : ""), few, many, [device](std::uint64_t seed) {
        const Program p = program_of(seed, true, device, true);
        const Results want = interpret(p);
        for (int threads : {1, 2, 8}) {
          Setup setup = setup_of(seed, threads, device);
          Memory memory = fresh_memory(p);
          for (std::uint64_t part = 0;; ++part) {
            setup.pauses = mix(setup.salt ^ part) % 2 == 0;
            setup.stop_at = 0;
            setup.stop_behind = -1;
            if (part < 8) {
              draw_cut(setup, part);
              if (mix(setup.salt * 3 + part) % 3 == 0)  // and maybe the stop rule's
                setup.stop_behind =
                    static_cast<int>(memory.turns.size() + 1 + mix(setup.salt * 5 + part) % 3);
            }
            Trial trial(p, memory, setup);
            trial.run();
            const bool done = trial.outcome.status == Outcome::Status::done;
            check_run(seed, setup, p, trial, done ? Outcome::Status::done : Outcome::Status::cut,
                      nullptr);
            if (done || trial.outcome.status != Outcome::Status::cut) break;
            setup.resume = trial.outcome.position;
            reload(p, *trial.plan, setup.resume, memory);
          }
          const std::string other = difference(p, memory, want, true);
          if (!other.empty()) report(seed, setup, p, other);
          REQUIRE(Sample::live == 0);
        }
      });
}

static void pauses(bool device, std::uint64_t few, std::uint64_t many) {
  std::size_t all = 0;
  campaign::for_seeds(std::string("pauses") + (device ? "_device" : ""), few, many,
                      [device, &all](std::uint64_t seed) {
                        const Program p = program_of(seed, true, device, true);
                        const Results want = interpret(p);
                        for (int threads : {1, 2, 8}) {
                          Setup setup = setup_of(seed, threads, device);
                          setup.pauses = true;
                          Memory memory = fresh_memory(p);
                          std::vector<Trial::Pause> pauses;
                          Program still = p;
                          {
                            Trial trial(p, memory, setup);
                            trial.run();
                            check_run(seed, setup, p, trial, Outcome::Status::done, &want);
                            pauses = std::move(trial.pauses);
                            if (!pauses.empty())
                              std::swap(pauses.front(), pauses[mix(setup.salt) % pauses.size()]);
                            for (std::size_t i = 0; i < p.nodes.size() && !pauses.empty(); ++i)
                              still.nodes[i].behind_gate &=
                                  trial.stands_still(static_cast<int>(i), pauses.front().of_turn);
                          }
                          std::string other = difference(p, memory, want, false);
                          if (!other.empty()) report(seed, setup, p, other);
                          all += pauses.size();
                          if (pauses.empty()) continue;
                          Trial::Pause& from = pauses.front();
                          setup.resume = from.at;
                          {
                            Trial rest(p, from.memory, setup);
                            rest.run();
                            check_run(seed, setup, p, rest, Outcome::Status::done, nullptr);
                          }
                          other = difference(still, from.memory, want, true);
                          if (!other.empty())
                            report(seed, setup, p, "gone on from a pause: " + other);
                          REQUIRE(Sample::live == 0);
                        }
                      });
  CHECK(all > 0);
}

TEST_CASE("random graphs give on 1, 2 and 8 slots what the interpreter gives") {
  gives_the_same(false, 150, 20000);
}
TEST_CASE("a failure on a random graph names the lowest stamp that failed and leaves nothing") {
  fails_cleanly(false, 100, 20000);
}
TEST_CASE("the stop rule ends a random graph behind the same turn whatever the timing") {
  stops_behind_a_turn(false, 60, 10000);
}
TEST_CASE("a random graph that is cut and resumed gives what the unbroken run gives") {
  resumes(false, 100, 20000);
}
TEST_CASE("a random graph that pauses gives the same, and so does one that goes on from a pause") {
  pauses(false, 60, 20000);
}

TEST_CASE("a random graph with too many bad samples fails, and names the first that is too many") {
  campaign::for_seeds("budgets", 60, 20000, [](std::uint64_t seed) {
    Program p = program_of(seed, seed % 2 == 0, false);
    for (Item& n : p.nodes)
      if (n.kind == Kind::map || n.kind == Kind::batch) n.bad |= mix(n.salt) % 3 == 0;
    p.max_bad = static_cast<std::int64_t>(1 + mix(seed) % 6);
    const Results want = interpret(p);
    for (int threads : {1, 2, 8}) {
      const Setup setup = setup_of(seed, threads, false);
      Memory memory = fresh_memory(p);
      {
        Trial trial(p, memory, setup);
        trial.run();
        const bool fails = !want.over.empty();
        check_run(seed, setup, p, trial, fails ? Outcome::Status::failed : Outcome::Status::done,
                  fails ? nullptr : &want);
        const Failure& f = trial.outcome.failure;
        const auto named = want.over.find(f.node);
        if (fails && (named == want.over.end() ||
                      (f.message.ends_with(" allowed)") && f.stamp.str() != named->second)))
          report(seed, setup, p, "named " + f.str());
      }
      REQUIRE(Sample::live == 0);
    }
  });
}

TEST_CASE("random graphs give the same where some lanes queue their work on a device") {
  gives_the_same(true, 60, 20000);
}
TEST_CASE("a failure beside a device leaves nothing on it") { fails_cleanly(true, 40, 20000); }
TEST_CASE("the stop rule ends a random graph on a device behind the same turn") {
  stops_behind_a_turn(true, 30, 10000);
}
TEST_CASE("a random graph on a device that is cut and resumed gives what the unbroken run gives") {
  resumes(true, 40, 20000);
}
TEST_CASE("a random graph on a device pauses when the device has done the step") {
  pauses(true, 60, 20000);
}
