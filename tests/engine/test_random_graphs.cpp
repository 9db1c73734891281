// Random graphs against the interpreter. SLUICE_SEED=n runs one seed, SLUICE_LONG=1 the long form.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/engine/program_nodes.h"

using namespace sluice;
using namespace sluice::sim;

namespace {

bool long_form() { return std::getenv("SLUICE_LONG") != nullptr; }

// Calls `run(seed)` for each seed of this form and says which one a failure came from.
template <class Run>
void for_seeds(std::uint64_t few, std::uint64_t many, Run&& run) {
  if (const char* one = std::getenv("SLUICE_SEED")) return run(std::strtoull(one, nullptr, 10));
  const std::uint64_t n = long_form() ? many : few;
  for (std::uint64_t seed = 1; seed <= n; ++seed) run(seed);
  if (long_form()) std::printf("%llu seeds\n", static_cast<unsigned long long>(n));
}

void sort_unordered(const Program& p, std::map<std::string, Log>& logs) {
  for (const Item& n : p.nodes)
    if (!n.ordered && n.kind != Kind::updater) std::sort(logs[n.path].begin(), logs[n.path].end());
}

// The first difference between what nodes wrote down; "" where there is none. `exact`: only what
// stands behind a turn's gate, which alone is exact where a run was cut.
std::string difference(const Program& p, Memory got, Results want, bool exact) {
  sort_unordered(p, got.logs);
  sort_unordered(p, want.logs);
  if (got.weights != want.weights) return "other weights";
  if (got.turns != want.turns) return "other turns";
  for (const Item& n : p.nodes) {
    if (exact && !n.behind_gate) continue;
    const Log& a = got.logs[n.path];
    const Log& b = want.logs[n.path];
    if (a == b) continue;
    const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    return n.path + " line " + std::to_string(at.first - a.begin()) + " of " +
           std::to_string(a.size()) + "/" + std::to_string(b.size()) + ": got \"" +
           (at.first == a.end() ? "nothing" : *at.first) + "\", expected \"" +
           (at.second == b.end() ? "nothing" : *at.second) + "\"";
  }
  return "";
}

void report(std::uint64_t seed, const Setup& setup, const Program& p, const std::string& what) {
  FAIL_CHECK("SLUICE_SEED=" << seed << ", " << setup.threads << " slots, spare " << setup.spare
                            << ": " << what << "\n"
                            << describe(p));
}

Setup setup_of(std::uint64_t seed, int threads) {
  Setup s;
  s.threads = threads;
  s.salt = mix(seed * 8 + static_cast<std::uint64_t>(threads));
  s.spare = seed % 3 == 0 ? 0 : 3;
  return s;
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

TEST_CASE("random graphs give on 1, 2 and 8 slots what the interpreter gives") {
  for_seeds(150, 2000, [](std::uint64_t seed) {
    const Program p = random_program(seed, seed % 2 == 0);
    const Results want = interpret(p);
    for (int threads : {1, 2, 8}) {
      const Setup setup = setup_of(seed, threads);
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
