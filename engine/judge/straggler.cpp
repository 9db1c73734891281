#include "engine/judge/straggler.h"

#include <algorithm>
#include <cstdio>

namespace sluice {
namespace {

constexpr double worth_naming = 0.05;  // of a step
constexpr double explains = 0.25;      // of what the others wait
constexpr double slower = 1.1;         // an item there, than on the others
constexpr double fewest_steps = 5;

double number(const Json& j, const char* key) { return j.value(key, 0.0); }

std::string in_ms(double ms) {
  char out[32];
  std::snprintf(out, sizeof out, ms < 10 ? "%.2g ms" : "%.0f ms", ms);
  return out;
}

struct Use {
  double busy_ms = 0, items = 0;
  double each() const { return items > 0 ? busy_ms / items : 0; }
};

Use use_of(const Json& profile, const std::string& node) {
  const Json& nodes = profile.at("nodes");
  const auto n = nodes.find(node);
  if (n == nodes.end()) return {};
  return {1e3 * number(*n, "busy_s"), number(*n, "items")};
}

// The node whose bodies take the most more of a step there than on the others.
std::string cause(const std::vector<Json>& profiles, std::size_t slow, double steps,
                  double waited_ms) {
  const auto others = static_cast<double>(profiles.size() - 1);
  double most = explains * waited_ms;
  std::string why;
  for (const auto& [node, ignored] : profiles[slow].at("nodes").items()) {
    Use theirs;
    for (std::size_t r = 0; r < profiles.size(); ++r) {
      if (r == slow) continue;
      const Use u = use_of(profiles[r], node);
      theirs.busy_ms += u.busy_ms;
      theirs.items += u.items;
    }
    const Use mine = use_of(profiles[slow], node);
    const double more = (mine.busy_ms - theirs.busy_ms / others) / steps;
    if (theirs.items == 0 || more <= most) continue;
    most = more;
    const bool is_slower = mine.each() > slower * theirs.each();
    why = ": its `" + node + "` " +
          (is_slower
               ? "takes " + in_ms(mine.each()) + " an item, the others' " + in_ms(theirs.each())
               : "has " + std::to_string(static_cast<long>(mine.items)) + " items, the others' " +
                     std::to_string(static_cast<long>(theirs.items / others)));
  }
  return why;
}

}  // namespace

std::string straggler(const std::vector<Json>& profiles) {
  std::vector<double> waits;
  for (const Json& p : profiles) {
    if (!p.contains("step") || !p.contains("nodes")) return "";
    const double steps = number(p["step"], "steps");
    if (steps < fewest_steps) return "";
    waits.push_back((number(p["step"], "header_ms") + number(p["step"], "sum_ms")) / steps);
  }
  if (waits.size() < 2) return "";
  const auto least = std::ranges::min_element(waits);
  const auto slow = static_cast<std::size_t>(least - waits.begin());
  double others = 0;
  for (const double w : waits) others += w;
  others = (others - *least) / static_cast<double>(waits.size() - 1);
  const Json& p = profiles[slow];
  const double steps = number(p["step"], "steps"), waited = others - *least;
  if (waited * steps < worth_naming * 1e3 * number(p, "wall_s")) return "";
  const std::string host = p.value("host", "");
  return "rank " + std::to_string(slow) + (host.empty() ? "" : " (" + host + ")") +
         " is waited for " + in_ms(waited) + " a step" + cause(profiles, slow, steps, waited);
}

}  // namespace sluice
