// Where cached samples are: tiers, asked and filled one after the other.
//
//   find: memory? -> disk? (a hit moves up where there is room) -> computed
//   put:  memory, while its budget lasts -> disk, while its budget lasts -> refused
//
// Invariant: an item that a tier took stays there for the run, so an epoch's cost does not grow
// later; what finds no room is computed in every epoch and counted. Which items are kept never
// changes what a sample is.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/run/node.h"
#include "engine/state/sample.h"

namespace sluice {

class Tier {
 public:
  virtual ~Tier() = default;
  virtual std::optional<CacheStore::Entry> find(std::uint64_t item) = 0;
  // False where there is no room.
  virtual bool put(std::uint64_t item, const CacheStore::Entry& entry) = 0;
  virtual bool bounded() const = 0;
  virtual bool reads() const { return false; }  // files
  virtual CacheStore::Held held() const = 0;    // entries, bytes, damaged
};

// The sample with tensors that own just their bytes: a crop is a view, and keeping it as it is
// would keep the whole volume. The sample itself where all its tensors do.
SamplePtr compact(const SamplePtr& sample);

// Of all its tensors, those that are kept narrow too.
std::uint64_t kept_bytes(const Sample& sample);

// Shared samples by item; a hit copies a pointer.
class MemoryTier final : public Tier {
 public:
  using Form = SamplePtr (*)(const SamplePtr&);  // how a sample is kept
  // `keeps`: an item that it may hold, asked under its lock, so that none stays that erase_if() has
  // passed by; empty: any.
  explicit MemoryTier(std::optional<std::uint64_t> budget, Form form = &compact,
                      std::function<bool(std::uint64_t)> keeps = {})
      : budget_(budget), form_(form), keeps_(std::move(keeps)) {}

  std::optional<CacheStore::Entry> find(std::uint64_t item) override {
    std::shared_lock lock(mutex_);
    const auto it = entries_.find(item);
    if (it == entries_.end()) return std::nullopt;
    return it->second;
  }

  bool put(std::uint64_t item, const CacheStore::Entry& entry) override {
    CacheStore::Entry own = entry;
    if (own.sample) own.sample = form_(own.sample);
    const std::uint64_t bytes = size(own);
    std::unique_lock lock(mutex_);
    if (entries_.contains(item) || (keeps_ && !keeps_(item))) return true;
    if (budget_ && bytes > *budget_ - bytes_) return false;
    bytes_ += bytes;
    entries_.emplace(item, std::move(own));
    return true;
  }

  // Lets go of the items for which `gone` is true.
  void erase_if(const std::function<bool(std::uint64_t)>& gone) {
    std::unique_lock lock(mutex_);
    std::erase_if(entries_, [&](const auto& e) {
      if (!gone(e.first)) return false;
      bytes_ -= size(e.second);
      return true;
    });
  }

  bool bounded() const override { return budget_.has_value(); }

  CacheStore::Held held() const override {
    std::shared_lock lock(mutex_);
    return {.entries = entries_.size(), .bytes = bytes_};
  }

 private:
  static std::uint64_t size(const CacheStore::Entry& e) {
    return e.sample ? kept_bytes(*e.sample) : 0;
  }

  mutable std::shared_mutex mutex_;
  std::unordered_map<std::uint64_t, CacheStore::Entry> entries_;
  const std::optional<std::uint64_t> budget_;
  const Form form_;
  const std::function<bool(std::uint64_t)> keeps_;
  std::uint64_t bytes_ = 0;
};

class Tiers final : public CacheStore {
 public:
  std::vector<std::unique_ptr<Tier>> tiers;
  std::function<bool(std::uint64_t)> keeps;  // an item that it may hold; empty: any

  std::optional<Entry> find(std::uint64_t item) override {
    if (keeps && !keeps(item)) return std::nullopt;
    for (std::size_t i = 0; i < tiers.size(); ++i) {
      auto entry = tiers[i]->find(item);
      if (!entry) continue;
      for (std::size_t above = 0; above < i; ++above)
        if (tiers[above]->put(item, *entry)) break;
      ++hits_;
      return entry;
    }
    ++misses_;
    return std::nullopt;
  }

  // A tier without a bound takes everything: what is on disk too is there in the next run.
  void put(std::uint64_t item, Entry entry) override {
    if (keeps && !keeps(item)) return;
    bool kept = false;
    for (const auto& tier : tiers)
      if (!kept || !tier->bounded()) kept = tier->put(item, entry) || kept;
    if (!kept) ++refused_;
  }

  Entry prepare(Entry entry) override {
    if (entry.sample) entry.sample = compact(entry.sample);
    return entry;
  }

  bool reads() const override {
    return std::any_of(tiers.begin(), tiers.end(), [](const auto& t) { return t->reads(); });
  }

  Held held() const override {
    Held all{.hits = hits_, .misses = misses_, .refused = refused_};
    for (const auto& tier : tiers) {
      const Held one = tier->held();
      all.entries += one.entries;
      all.bytes += one.bytes;
      all.damaged += one.damaged;
    }
    return all;
  }

 private:
  std::atomic<std::uint64_t> hits_ = 0, misses_ = 0, refused_ = 0;
};

}  // namespace sluice
