#include "engine/state/upstream.h"

#include "engine/plan/lineage.h"

namespace sluice {

Upstream upstream_of(const Plan& plan, int cache, const std::function<Node*(int)>& node) {
  Lineage lineage = lineage_of(plan, cache);
  const auto stream = static_cast<std::size_t>(plan.nodes[static_cast<std::size_t>(cache)].stream);
  const int source = plan.streams[stream].source;
  return {std::move(lineage.text), std::move(lineage.files), std::move(lineage.networks),
          [node, source](std::uint64_t item) { return node(source)->item_record(item); },
          [node, source] { return node(source)->item_count(); }};
}

}  // namespace sluice
