#include "engine/plan/device_need.h"

#include <algorithm>

#include "engine/plan/cache_need.h"

namespace sluice {

std::uint64_t DeviceNeed::flying() const {
  std::uint64_t all = 0;
  for (const Flight& f : in_flight) all += f.packets * f.each;
  return all;
}

std::uint64_t DeviceNeed::share(std::uint64_t budget) const {
  if (unbounded == 0 || budget < bytes()) return 0;
  return (budget - bytes()) / unbounded;
}

std::string DeviceNeed::text() const {
  std::string out;
  for (std::size_t i = 0; i < in_flight.size(); ++i) {
    const Flight& f = in_flight[i];
    if (i > 0) out += i + 1 < in_flight.size() ? ", " : " and ";
    out += std::to_string(f.packets);
    out += " x ";
    out += in_bytes(static_cast<double>(f.each)) + " from " + f.gate;
  }
  if (out.empty()) return out;
  return out + (exact ? ": " : ": at least ") + in_bytes(static_cast<double>(flying()));
}

bool moves_samples(const Spec& spec) {
  return std::any_of(spec.rules.begin(), spec.rules.end(),
                     [](const FieldRule& r) { return r.act == FieldRule::Act::moves; });
}

int moved_at_once(const Plan& plan, const PlanNode& gate) {
  const bool moves = moves_samples(*gate.spec);
  const PlanNode& mover = moves ? gate : plan.nodes[static_cast<std::size_t>(gate.flow.moved_by)];
  const std::string& name = mover.spec->credits_param;
  // As much as can be counted: plan_credits refuses more.
  const int says = static_cast<int>(
      std::min<std::int64_t>(mover.graph->params.value(name, std::int64_t{1}), 1 << 28));
  if (moves && mover.graph->is_given(name)) return says;
  return gate.need - 1 + says + (gate.spec->is_cache ? gate.count - 1 : 0);
}

DeviceNeed device_need(const Plan& plan) {
  DeviceNeed need;
  for (const PlanNode& n : plan.nodes) {
    if (n.flow.moved_by < 0) continue;
    if (n.spec->is_cache && n.graph->params.value("store", "") == "device") {
      const Json& budget = n.graph->params.at("budget");
      if (budget.is_null())
        ++need.unbounded;
      else
        need.budgets += budget.get<std::uint64_t>();
    }
    // A region's one batch is among those in flight.
    if (!n.gate || n.takes_turns) continue;
    const PacketBytes packet = packet_bytes(n.flow);
    need.exact &= packet.exact;
    const int packets =
        moves_samples(*n.spec) || n.spec->is_cache ? moved_at_once(plan, n) : n.credits;
    if (packet.bytes > 0)
      need.in_flight.push_back({n.path(), static_cast<std::uint64_t>(packets), packet.bytes});
  }
  return need;
}

}  // namespace sluice
