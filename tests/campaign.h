// Tests that have a long form, which tools/campaigns.sh runs and tabulates. A few cases in CI;
//   SLUICE_LONG=1     as many as the campaign asks for
//   SLUICE_MINUTES=n  and no more than fit into so many minutes
//   SLUICE_SEED=n     where the draws begin; 1 unless told
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace campaign {

inline double number(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::atof(text) : otherwise;
}

inline bool at_length() { return number("SLUICE_LONG", 0) > 0; }
inline std::uint64_t seed() { return static_cast<std::uint64_t>(number("SLUICE_SEED", 1)); }

// `for (Cases cases("kills", 8, 200); cases.next();) ...` with cases.index() = 0, 1, ...
// At length it prints "campaign kills: 200 cases, seed 1", and what note() added, at the end.
class Cases {
 public:
  Cases(std::string name, std::uint64_t few, std::uint64_t many)
      : name_(std::move(name)), count_(at_length() ? many : few) {}
  Cases(const Cases&) = delete;
  ~Cases() {
    if (at_length())
      std::printf("campaign %s: %llu cases, seed %llu%s\n", name_.c_str(),
                  static_cast<unsigned long long>(done_), static_cast<unsigned long long>(seed()),
                  notes_.c_str());
  }

  bool next() {
    done_ = begun_;
    if (begun_ >= count_ || (begun_ > 0 && at_length() && minutes() > most_)) return false;
    ++begun_;
    return true;
  }
  std::uint64_t index() const { return begun_ - 1; }
  // Of cases that are counted elsewhere: there were `n` instead.
  void stand_for(std::uint64_t n) { done_ = begun_ = n, count_ = 0; }
  void note(const std::string& text) { notes_ += ", " + text; }

 private:
  using Clock = std::chrono::steady_clock;
  double minutes() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count() / 60;
  }

  std::string name_, notes_;
  std::uint64_t count_, begun_ = 0, done_ = 0;
  const double most_ = number("SLUICE_MINUTES", 1e9);
  const Clock::time_point begin_ = Clock::now();
};

// `run(seed)` for seeds 1, 2, ... At length from (SLUICE_SEED - 1) million on; else SLUICE_SEED
// names the only one.
template <class Run>
void for_seeds(const std::string& name, std::uint64_t few, std::uint64_t many, Run&& run) {
  if (!at_length() && std::getenv("SLUICE_SEED")) return run(seed());
  for (Cases cases(name, few, many); cases.next();)
    run((seed() - 1) * 1'000'000 + 1 + cases.index());
}

}  // namespace campaign
