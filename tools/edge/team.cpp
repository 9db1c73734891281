// kernels/base/team.h with the standard library's threads: no OpenMP, no LibTorch.
#include "kernels/base/team.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "tools/edge/team_size.h"

namespace sluice {
namespace edge {

static int threads = 1;
void set_team_size(int n) { threads = std::max(n, 1); }

}  // namespace edge

int team_size() { return edge::threads; }

void team_run(int threads, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(std::max(threads, 1)));
  const auto run = [&](int i) {
    try {
      body(i);
    } catch (...) {
      errors[static_cast<std::size_t>(i)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(run, i);
    run(0);
  }
  for (const auto& e : errors)
    if (e) std::rethrow_exception(e);
}

void team_for(std::int64_t n, const std::function<void(std::int64_t, std::int64_t)>& body) {
  const auto threads = static_cast<int>(std::min<std::int64_t>(team_size(), n));
  if (threads > 1)
    team_run(threads, [&](int i) { body(n * i / threads, n * (i + 1) / threads); });
  else if (n > 0)
    body(0, n);
}

}  // namespace sluice
