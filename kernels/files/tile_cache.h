// Decoded tiles of slides, within a budget; the least recently used go first.
//
// Invariant: a tile that two threads ask for at once is decoded once, and the second waits. A tile
// whose decoding fails is not kept: who asks again tries again. What is being read stays alive by
// its pointer, so memory may exceed the budget by a tile a thread.
#pragma once

#include <array>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>

#include "kernels/files/file_io.h"

namespace sluice {

struct TileKey {
  std::uint64_t slide = 0;  // of an open slide, never used twice
  std::int64_t level = 0, tile = 0;
  bool operator==(const TileKey&) const = default;
};

class TileCache {
 public:
  using Tile = std::shared_ptr<const FileBytes>;

  explicit TileCache(std::size_t budget) : budget_(budget / shards) {}

  // The tile, made by decode() where nobody has it.
  template <class Decode>
  Tile get(const TileKey& key, Decode&& decode) {
    const std::size_t hash = Hash()(key);
    Shard& shard = shards_[hash % shards];
    std::promise<Tile> made;
    {
      std::unique_lock lock(shard.mutex);
      if (const auto found = shard.by_key.find(key); found != shard.by_key.end()) {
        shard.order.splice(shard.order.begin(), shard.order, found->second);
        const std::shared_future<Tile> tile = found->second->tile;
        lock.unlock();
        return tile.get();
      }
      shard.order.push_front({key, made.get_future().share(), 0});
      shard.by_key[key] = shard.order.begin();
    }
    try {
      Tile tile = decode();
      made.set_value(tile);
      shard.keep(key, tile->size(), budget_);
      return tile;
    } catch (...) {
      made.set_exception(std::current_exception());
      shard.forget(key);
      throw;
    }
  }

 private:
  static constexpr std::size_t shards = 8;  // threads that meet in one wait for a list operation

  struct Hash {
    std::size_t operator()(const TileKey& k) const {
      std::uint64_t h = k.slide * 0x9e3779b97f4a7c15ull + static_cast<std::uint64_t>(k.level);
      h = (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9ull + static_cast<std::uint64_t>(k.tile);
      h = (h ^ (h >> 32)) * 0x94d049bb133111ebull;
      return static_cast<std::size_t>(h ^ (h >> 29));
    }
  };
  struct Entry {
    TileKey key;
    std::shared_future<Tile> tile;
    std::size_t bytes;  // 0: still being decoded
  };
  struct Shard {
    std::mutex mutex;
    std::list<Entry> order;  // the most recently used first
    std::unordered_map<TileKey, std::list<Entry>::iterator, Hash> by_key;
    std::size_t bytes = 0;

    void keep(const TileKey& key, std::size_t size, std::size_t budget) {
      std::lock_guard lock(mutex);
      by_key.at(key)->bytes = size;
      bytes += size;
      for (auto last = order.end(); bytes > budget && last != order.begin();) {
        --last;
        if (last->bytes == 0) continue;
        bytes -= last->bytes;
        by_key.erase(last->key);
        last = order.erase(last);
      }
    }
    void forget(const TileKey& key) {
      std::lock_guard lock(mutex);
      const auto found = by_key.find(key);
      order.erase(found->second);
      by_key.erase(found);
    }
  };

  const std::size_t budget_;
  std::array<Shard, shards> shards_;
};

}  // namespace sluice
