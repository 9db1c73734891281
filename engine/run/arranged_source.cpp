#include "engine/run/arranged_source.h"

#include <utility>

#include "engine/base/error.h"
#include "engine/group/within_shards.h"

namespace sluice {
namespace {

enum class Order : std::uint8_t { as_is, shuffled, within_shards };

class ArrangedSource final : public Node {
 public:
  // `items`: of the first epoch; of all where there is no chooser.
  ArrangedSource(std::unique_ptr<Node> list, Node* chooser, std::vector<std::uint64_t> items,
                 Order order, const Division& division)
      : list_(std::move(list)),
        chooser_(chooser),
        size_(items.size()),
        order_(order),
        division_(division),
        items_(std::move(items)) {}

  void process(Firing& f) override {
    const std::uint64_t index = f.stamp().index;
    if (chooser_ && index == 0)
      items_ = *chooser_->epoch_items(f.stamp().epoch, *list_->epoch_size());
    if (index >= items_.size()) return f.end_epoch();
    const std::uint64_t item = items_[place(index, f.epoch_key())];
    f.make_item(item, [&] { return list_->item_record(item); });
  }

  SamplePtr item_record(std::uint64_t item) const override { return list_->item_record(item); }
  std::optional<std::uint64_t> epoch_size() const override { return size_; }
  std::optional<std::uint64_t> item_count() const override { return list_->item_count(); }

 private:
  std::uint64_t place(std::uint64_t index, std::uint64_t key) const {
    if (order_ == Order::as_is) return index;
    if (order_ == Order::shuffled) return Permutation(items_.size(), key)(index);
    return shuffled_within_shard(index, items_.size(), division_, key);
  }

  const std::unique_ptr<Node> list_;
  Node* const chooser_;  // null: all of the list
  const std::size_t size_;
  const Order order_;
  const Division division_;
  std::vector<std::uint64_t> items_;
};

bool flag(const PlanNode& n, const char* param) { return n.graph->params.value(param, false); }

Order order_of(const PlanNode& source, const Division& division) {
  if (!flag(source, "shuffle")) return Order::as_is;
  return flag(source, "by_shard") && division.sharded() ? Order::within_shards : Order::shuffled;
}

// Which node says what an epoch has; null: none.
Node* chooser_of(const Plan& plan, const PlanNode& source, std::optional<std::uint64_t> listed,
                 bool known, const std::vector<std::unique_ptr<Node>>& nodes) {
  const Division& division = plan.streams[static_cast<std::size_t>(source.stream)].division;
  Node* found = nullptr;
  for (const PlanNode& n : plan.nodes) {
    if (n.stream != source.stream || !n.spec->chooses_items) continue;
    Node* chooser = nodes[static_cast<std::size_t>(&n - plan.nodes.data())].get();
    if (!chooser->epoch_items(0, listed.value_or(0))) continue;
    const auto refuse = [&](const std::string& why) {
      throw Error(Exit::usage, "nodes." + n.path() + ": " + why);
    };
    const std::string path = "\"" + source.path() + "\"";
    if (!known) refuse(path + " does not say which items it has");
    if (found) refuse("another node chooses the items of this stream already");
    const Order order = order_of(source, division);
    const bool in_parts = division.sharded() && flag(n, "by_shard");
    if (in_parts && order == Order::shuffled)
      refuse("\"shuffle\" of " + path +
             " would mix the parts of by_shard: give it \"by_shard\" too");
    if (!in_parts && order == Order::within_shards)
      refuse("chooses items for all shards together: leave \"by_shard\" of " + path + " out");
    found = chooser;
  }
  return found;
}

}  // namespace

void arrange_sources(const Plan& plan, std::uint64_t seed,
                     std::vector<std::unique_ptr<Node>>& nodes) {
  for (const PlanStream& stream : plan.streams) {
    auto& source = nodes[static_cast<std::size_t>(stream.source)];
    const PlanNode& s = plan.nodes[static_cast<std::size_t>(stream.source)];
    const auto listed = source->epoch_size();
    const bool known = listed && *listed > 0 && source->item_record(0);
    const Order order = order_of(s, stream.division);
    Node* chooser = chooser_of(plan, s, listed, known, nodes);
    if (!chooser && (order != Order::within_shards || !known)) continue;
    std::vector<std::uint64_t> items;
    if (chooser) {
      items = *chooser->epoch_items(0, *listed);
    } else {
      const Permutation dealt(*listed, random_key(seed, s.path() + "/by_shard"));
      for (std::uint64_t i = 0; i < *listed; ++i) items.push_back(dealt(i));
    }
    source = std::make_unique<ArrangedSource>(std::move(source), chooser, std::move(items), order,
                                              stream.division);
  }
}

}  // namespace sluice
