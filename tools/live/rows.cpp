#include "tools/live/rows.h"

#include <algorithm>

namespace sluice::live {

std::vector<NodeRow> Rows::pick(const Figures& figures, const Verdict& verdict, std::size_t most) {
  if (figures.nodes.size() != plan_.nodes.size()) return {};
  constexpr double clearly = 0.05;
  const auto worth = [&](int i) {
    const bool before = std::find(shown_.begin(), shown_.end(), i) != shown_.end();
    return figures.nodes[static_cast<std::size_t>(i)].busy + (before ? clearly : 0) +
           (i == verdict.node ? 2 : 0);
  };
  std::vector<int> all = plan_.order;
  std::stable_sort(all.begin(), all.end(), [&](int a, int b) { return worth(a) > worth(b); });
  if (all.size() > most) all.resize(most);
  shown_ = all;
  std::vector<NodeRow> rows;
  for (int i : plan_.order) {
    if (std::find(shown_.begin(), shown_.end(), i) == shown_.end()) continue;
    const NodeFigures& f = figures.nodes[static_cast<std::size_t>(i)];
    NodeRow r;
    r.path = plan_.nodes[static_cast<std::size_t>(i)].path();
    r.busy = f.busy;
    r.rate = f.rate;
    r.p99_ms = f.p99_ms;
    r.queue = f.queue;
    r.room = static_cast<std::uint64_t>(queue_room(plan_, i));
    if (plan_.nodes[static_cast<std::size_t>(i)].is_source()) {  // nothing waits before it
      r.queue = static_cast<std::uint64_t>(std::max(f.credits_out, 0));
      r.room = static_cast<std::uint64_t>(plan_.nodes[static_cast<std::size_t>(i)].credits);
    }
    r.limits = i == verdict.node;
    rows.push_back(std::move(r));
  }
  return rows;
}

}  // namespace sluice::live
