#include "engine/plan/turn_place.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace sluice {

static const std::string& source_of(const Plan& plan, int stream) {
  const PlanStream& s = plan.streams[static_cast<std::size_t>(stream)];
  return plan.nodes[static_cast<std::size_t>(s.source)].path();
}

Json turn_place(const Plan& plan, std::size_t turn) {
  if (!plan.turns) return Json::object();
  const auto sequence = plan.sequence();
  const int trains = plan.turns->train_stream;
  if (turn >= sequence.size())
    return {{"epoch", plan.streams[static_cast<std::size_t>(trains)].epochs}};
  const Turn t = sequence[turn];
  Json place = {{"epoch", t.train_epoch}};
  if (t.stream != trains) place["validation"] = source_of(plan, t.stream);
  return place;
}

std::size_t turn_at(const Plan& plan, const Json& place) {
  if (place.is_number()) return place;  // of an earlier version
  if (!plan.turns) return 0;
  // Within an epoch: training, then validation streams in the file's order.
  const PlanTurns& turns = *plan.turns;
  const auto rank = [&](int stream) -> std::size_t {
    if (stream == turns.train_stream) return 0;
    const auto at = std::find(turns.streams.begin(), turns.streams.end(), stream);
    return 1 + static_cast<std::size_t>(at - turns.streams.begin());
  };
  std::pair<std::uint32_t, std::size_t> from{place.at("epoch"), 0};
  if (place.contains("validation")) {
    from.second = 1 + turns.streams.size();  // of a stream that is gone: the epoch is over
    for (const int s : turns.streams)
      if (place["validation"] == source_of(plan, s)) from.second = rank(s);
  }
  const auto sequence = plan.sequence();
  const auto all = std::views::iota(std::size_t{0}, sequence.size());
  const auto found = std::ranges::partition_point(all, [&](std::size_t i) {
    const Turn t = sequence[i];
    return std::pair{t.train_epoch, rank(t.stream)} < from;
  });
  return static_cast<std::size_t>(found - all.begin());
}

}  // namespace sluice
