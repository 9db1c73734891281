#include "engine/run/windowed_source.h"

#include <utility>

#include "engine/base/error.h"

namespace sluice {
namespace {

class WindowedSource final : public Node {
 public:
  WindowedSource(std::unique_ptr<Node> list, Node& chooser, std::size_t size, bool shuffle)
      : list_(std::move(list)), chooser_(chooser), size_(size), shuffle_(shuffle) {}

  void process(Firing& f) override {
    const std::uint64_t index = f.stamp().index;
    if (index == 0) items_ = *chooser_.epoch_items(f.stamp().epoch, *list_->epoch_size());
    if (index >= items_.size()) return f.end_epoch();
    const auto at = shuffle_ ? Permutation(items_.size(), f.epoch_key())(index) : index;
    f.emit_ptr(list_->item_record(items_[at]), 0, items_[at]);
  }

  SamplePtr item_record(std::uint64_t item) const override { return list_->item_record(item); }
  std::optional<std::uint64_t> epoch_size() const override { return size_; }
  std::optional<std::uint64_t> item_count() const override { return list_->item_count(); }

 private:
  const std::unique_ptr<Node> list_;
  Node& chooser_;
  const std::size_t size_;
  const bool shuffle_;
  std::vector<std::uint64_t> items_;
};

}  // namespace

void window_sources(const Plan& plan, std::vector<std::unique_ptr<Node>>& nodes) {
  for (const PlanStream& stream : plan.streams) {
    auto& source = nodes[static_cast<std::size_t>(stream.source)];
    const PlanNode& s = plan.nodes[static_cast<std::size_t>(stream.source)];
    const auto listed = source->epoch_size();
    const bool known = listed && *listed > 0 && source->item_record(0);
    bool windowed = false;
    for (const PlanNode& n : plan.nodes) {
      if (n.stream != s.stream || !n.spec->chooses_items) continue;
      Node& chooser = *nodes[static_cast<std::size_t>(&n - plan.nodes.data())];
      const auto first = chooser.epoch_items(0, listed.value_or(0));
      if (!first) continue;
      const std::string& path = n.path();
      if (!known || windowed)
        throw Error(Exit::usage,
                    "nodes." + path + ": " +
                        (windowed ? "another node chooses the items of this stream already"
                                  : "\"" + s.path() + "\" does not say which items it has"));
      if (n.graph->params.value("by_shard", false) && stream.division.sharded() &&
          s.graph->params.value("shuffle", false))
        throw Error(Exit::usage, "nodes." + path + ": \"shuffle\" of \"" + s.path() +
                                     "\" would mix the parts of by_shard: leave it out");
      windowed = true;
      source = std::make_unique<WindowedSource>(std::move(source), chooser, first->size(),
                                                s.graph->params.value("shuffle", false));
    }
  }
}

}  // namespace sluice
