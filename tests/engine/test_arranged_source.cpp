// Sources whose list is dealt out to shards: what each shard gets, and in which order.
#include "engine/run/arranged_source.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "engine/group/within_shards.h"
#include "tests/engine/toy.h"

using namespace sluice;
using namespace sluice::toy;

namespace {

struct Listed final : Node {
  std::uint64_t n;
  explicit Listed(std::uint64_t size) : n(size) {}
  void process(Firing& f) override {
    if (f.stamp().index >= n) return f.end_epoch();
    f.emit_ptr(item_record(f.stamp().index), 0, f.stamp().index);
  }
  SamplePtr item_record(std::uint64_t item) const override {
    return std::make_shared<const Sample>(item);
  }
  std::optional<std::uint64_t> epoch_size() const override { return n; }
};

using Items = std::vector<std::uint64_t>;

// What each shard had of each epoch, in order.
std::map<std::pair<std::uint32_t, std::int64_t>, Items> trained(std::uint64_t items,
                                                                std::int64_t batch,
                                                                std::int64_t shards,
                                                                std::uint64_t seed) {
  Builder b;
  b.graph.run.epochs = 3;
  b.graph.run.shards = shards;
  b.graph.run.step_threads = 1;
  std::map<std::pair<std::uint32_t, std::int64_t>, Items> seen;
  const int source = b.source("s", items);
  b.graph.nodes.back().params = {{"shuffle", true}, {"by_shard", true}};
  const int gather = b.add("batch", batch_spec(), join_members, {{source, 0}}, {{"size", batch}});
  const int read = b.add("read", reader_spec(),
                         [&](Firing& f) {
                           const auto k = static_cast<std::int64_t>(f.stamp().index) % shards;
                           Items& all = seen[{f.stamp().epoch, k}];
                           const Items& members = f.in().members;
                           all.insert(all.end(), members.begin(), members.end());
                           f.emit_ptr(f.ptr());
                         },
                         {{gather, 0}});
  b.add("update", updater_spec(), forward, {{read, 0}});
  REQUIRE(b.plan(2));
  b.nodes[static_cast<std::size_t>(source)] = std::make_unique<Listed>(items);
  arrange_sources(*b.made, seed, b.nodes);
  RunOptions options;
  options.seed = seed;
  CHECK(run(b, 2, nullptr, options).status == Outcome::Status::done);
  return seen;
}

std::set<std::uint64_t> set_of(const Items& items) { return {items.begin(), items.end()}; }

}  // namespace

TEST_CASE("places change within their shard alone, each once") {
  for (const std::int64_t batch : {1, 3, 8, 10})
    for (const std::int64_t shards : {1, 2, 3, 4, 8})
      for (const std::uint64_t n : {1, 7, 8, 23, 40}) {
        if (shards > batch) continue;
        const Division d{.items = batch, .parts = shards, .trains = true, .samples = batch};
        std::set<std::uint64_t> all;
        for (std::uint64_t p = 0; p < n; ++p) {
          const std::uint64_t to = shuffled_within_shard(p, n, d, 5);
          REQUIRE(to < n);
          CHECK(d.packet(to) % shards == d.packet(p) % shards);
          all.insert(to);
        }
        CHECK(all.size() == n);
      }
}

TEST_CASE("by shard an item stays with its shard, and comes once an epoch, in new orders") {
  for (const std::int64_t shards : {2, 3, 4}) {
    constexpr std::uint64_t items = 61;
    const auto seen = trained(items, 8, shards, 7);
    for (std::uint32_t e = 0; e < 3; ++e) {
      std::set<std::uint64_t> all;
      for (std::int64_t k = 0; k < shards; ++k) {
        const Items& now = seen.at({e, k});
        all.merge(set_of(now));
        CHECK(set_of(now).size() == now.size());
        if (e == 0) continue;
        CHECK(set_of(now) == set_of(seen.at({0, k})));
        CHECK(now != seen.at({e - 1, k}));
      }
      CHECK(all.size() == items);
    }
    CHECK(trained(items, 8, shards, 7) == seen);
    CHECK(set_of(trained(items, 8, shards, 8).at({0, 0})) != set_of(seen.at({0, 0})));
  }
}
