// smart_cache: an epoch is a window of the list, which moves on by a few items; MONAI's
// SmartCacheDataset. What enters the window next is computed while the epoch is trained on, because
// the source runs a window ahead.
#include <cmath>
#include <mutex>
#include <numeric>
#include <unordered_set>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/cache_tiers.h"
#include "kernels/lists/numpy_random.h"
#include "nodes/flow/narrow_sample.h"

namespace sluice {
namespace {

struct SmartCache final : Node {
  struct Params {
    std::optional<std::int64_t> cache_num;
    double cache_rate = 1, replace_rate = 0.1;
    bool shuffle = true;
    std::int64_t seed = 0;
    bool by_shard = false;
  } p;

  static Spec spec() {
    return Spec(
               "smart_cache",
               "Keeps a window of the list in memory; an epoch is the window, which then moves on.")
        .in("sample")
        .out("sample")
        .param("cache_num", &Params::cache_num,
               "Items in the window, at most; an epoch has so many. null: cache_rate says it.")
        .at_least(1)
        .param("cache_rate", &Params::cache_rate, "The window's share of the list, at most.")
        .above(0)
        .param("replace_rate", &Params::replace_rate,
               "Share of the window that is replaced for the next epoch, rounded up.")
        .above(0)
        .param("shuffle", &Params::shuffle,
               "Takes the list in one random order, the same in all epochs. The order within an "
               "epoch is the source's \"shuffle\".")
        .param("seed", &Params::seed, "Of that order, which is MONAI's for the same seed.")
        .range(0, 4294967295.0)
        .param(
            "by_shard", &Params::by_shard,
            "With run.shards K: the list is dealt out to K parts (MONAI's partition_dataset), each "
            "with a window of cache_num / K of its own, and a shard trains on its part alone; so a "
            "process keeps only its shards' windows. Parts' windows are of one size.")
        .cache("cache_num")
        .chooses()
        .passes()
        .any_device();
  }

  void open(const OpenContext& context) override {
    if (p.by_shard && context.division.sharded()) {
      parts_ = static_cast<std::uint64_t>(context.division.parts);
      batch_ = static_cast<std::uint64_t>(context.division.items);
      if (batch_ % parts_ != 0)
        throw Error(Exit::usage, "a batch of " + std::to_string(batch_) +
                                     " items has no equal share of each of " +
                                     std::to_string(parts_) +
                                     " parts: by_shard needs batches that run.shards divides");
    }
    store_.keeps = [this](std::uint64_t item) {
      std::lock_guard lock(mutex_);
      return window_.contains(item);
    };
    store_.tiers.push_back(
        std::make_unique<MemoryTier>(std::nullopt, memory_form(context), store_.keeps));
  }

  void process(Firing& f) override { f.emit_ptr(f.ptr()); }

  CacheStore* store() override { return &store_; }

  std::optional<std::vector<std::uint64_t>> epoch_items(std::uint32_t epoch,
                                                        std::uint64_t listed) override {
    std::vector<std::uint64_t> items = items_of(epoch, listed);
    {
      std::lock_guard lock(mutex_);
      window_ = {items.begin(), items.end()};
    }
    static_cast<MemoryTier&>(*store_.tiers.front()).erase_if([this](std::uint64_t item) {
      return !store_.keeps(item);
    });
    return items;
  }

 private:
  std::vector<std::uint64_t> items_of(std::uint32_t epoch, std::uint64_t listed) const {
    std::vector<std::uint64_t> order(listed);
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    if (parts_ == 1) return window(epoch, order, window_size(listed));
    if (p.shuffle) shuffle(order);
    const std::uint64_t size = window_size(listed / parts_);  // of the smallest part
    std::vector<std::vector<std::uint64_t>> windows;
    for (std::uint64_t k = 0; k < parts_; ++k) {
      std::vector<std::uint64_t> part;
      for (std::uint64_t i = k; i < listed; i += parts_) part.push_back(order[i]);
      windows.push_back(window(epoch, part, size));
    }
    // A batch has as many of each part, in shards' order; what is left over makes the last batch.
    const std::uint64_t each = batch_ / parts_;
    std::vector<std::uint64_t> items;
    for (std::uint64_t begin = 0; begin < size; begin += each)
      for (const auto& w : windows)
        for (std::uint64_t i = begin; i < std::min(begin + each, size); ++i) items.push_back(w[i]);
    return items;
  }

  // Of a list, or of one part of it.
  std::uint64_t window_size(std::uint64_t listed) const {
    auto size = static_cast<std::uint64_t>(static_cast<double>(listed) * p.cache_rate);
    size = std::min(size, listed);
    if (p.cache_num)
      size = std::min(
          size, std::max(std::uint64_t{1}, static_cast<std::uint64_t>(*p.cache_num) / parts_));
    if (size == 0)
      throw Error(Exit::usage, "the window of " + std::to_string(listed) +
                                   " items is empty: give a larger cache_rate");
    return size;
  }

  // Items that leave are those that have been there for longest.
  std::vector<std::uint64_t> window(std::uint32_t epoch, std::vector<std::uint64_t> list,
                                    std::uint64_t size) const {
    const auto replaced =
        std::min(static_cast<std::uint64_t>(std::ceil(static_cast<double>(size) * p.replace_rate)),
                 list.size() - size);
    if (p.shuffle) shuffle(list);
    std::vector<std::uint64_t> items;
    for (std::uint64_t i = 0; i < size; ++i)
      items.push_back(list[(epoch * replaced + i) % list.size()]);
    return items;
  }

  void shuffle(std::vector<std::uint64_t>& list) const {
    NumpyRandom(static_cast<std::uint32_t>(p.seed)).shuffle(list);
  }

  std::uint64_t parts_ = 1, batch_ = 1;  // by_shard: of the list, and items a batch
  Tiers store_;
  std::mutex mutex_;
  std::unordered_set<std::uint64_t> window_;
};

const Register<SmartCache> registered;

}  // namespace
}  // namespace sluice
