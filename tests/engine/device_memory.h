// Memory of a simulated device for the tests' samples: blocks from a pool that are poisoned and
// renumbered when they are given back, so that every use of one that is too early, too late or of
// another's is counted.
//
// Invariant: all words are atomic, so a planted race is a wrong value and a count, never undefined.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace sluice {

struct Block {
  static constexpr std::size_t words = 16;
  std::array<std::atomic<std::uint64_t>, words> word;
  std::atomic<std::uint64_t> version{0};
  std::atomic<bool> made{false};
};

// What a kernel is given: where, and which version that was when the work was queued. Owns nothing.
struct View {
  class Pool* pool = nullptr;
  Block* block = nullptr;
  std::uint64_t version = 0;

  void write(const std::vector<std::uint64_t>& values) const;
  std::vector<std::uint64_t> read() const;
};

class Pool {
 public:
  // Given back when the last copy of the handle goes.
  class Handle {
   public:
    Handle(Pool& pool, Block* block) : view{&pool, block, block->version} {}
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() { view.pool->give_back(view.block); }
    const View view;
  };

  std::shared_ptr<const Handle> take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) {
      all_.push_back(std::make_unique<Block>());
      free_.push_back(all_.back().get());
    }
    Block* block = free_.back();
    free_.pop_back();
    ++out;
    return std::make_shared<const Handle>(*this, block);
  }
  void note(const char* what) {
    std::lock_guard lock(mutex_);
    ++races;
    first = first.empty() ? what : first;
  }

  std::atomic<int> out{0}, races{0};
  std::string first;  // race

 private:
  void give_back(Block* block) {
    ++block->version;
    block->made = false;
    for (auto& w : block->word) w = 0xdeadbeefdeadbeef;
    std::lock_guard lock(mutex_);
    free_.push_back(block);
    --out;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> all_;
  std::vector<Block*> free_;
};

// The first word is how many follow.
inline void View::write(const std::vector<std::uint64_t>& values) const {
  if (block->version != version) pool->note("written after it was given back");
  block->word[0] = values.size();
  for (std::size_t i = 0; i < values.size(); ++i) block->word.at(i + 1) = values[i];
  block->made = true;
}

inline std::vector<std::uint64_t> View::read() const {
  if (block->version != version) {
    pool->note("read after it was given back");
    return {0};
  }
  if (!block->made) {
    pool->note("read before it was made");
    return {0};
  }
  std::vector<std::uint64_t> values;
  for (std::size_t i = 0; i < std::min<std::size_t>(block->word[0], Block::words - 1); ++i)
    values.push_back(block->word[i + 1]);
  if (block->version != version) pool->note("given back while it was read");
  if (values.empty()) values.push_back(0);
  return values;
}

}  // namespace sluice
