#include "kernels/base/allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t page = 4096, huge_page = 2 << 20, smallest = 128 << 10, slack = 16 << 20;
constexpr std::size_t most_blocks = 16384;  // each is a mapping, of which a process has 65530

std::size_t rounded(std::size_t bytes) { return (bytes + page - 1) / page * page; }

// Huge pages begin at multiples of their size: one more is mapped, and what is too much given back.
void* map_block(std::size_t bytes) {
  void* const got =
      mmap(nullptr, bytes + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<std::uintptr_t>(got);
  const auto block = (start + huge_page - 1) / huge_page * huge_page;
  if (block > start) munmap(got, block - start);
  if (block < start + huge_page)
    munmap(reinterpret_cast<void*>(block + bytes), start + huge_page - block);
  madvise(reinterpret_cast<void*>(block), bytes, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(block);
}

// Where so many bytes may begin, from `begin` on: large blocks at huge pages.
char* aligned(char* begin, std::size_t bytes) {
  if (bytes < huge_page) return begin;
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  return begin + ((at + huge_page - 1) / huge_page * huge_page - at);
}

}  // namespace

// ---- the pool -----------------------------------------------------------------------------------

struct BlockPool::State {
  struct Kept {
    std::size_t bytes;
    std::uint64_t since;
  };
  mutable std::mutex mutex;
  std::unordered_map<void*, std::size_t> used;
  std::map<char*, Kept> kept;  // by address: neighbours are one block
  std::set<std::pair<std::size_t, char*>> by_size;
  Held held;
  std::uint64_t clock = 0;

  void* use(char* block, std::size_t bytes) {
    used.emplace(block, bytes);
    held.used += bytes;
    held.most_used = std::max(held.most_used, held.used);
    return block;
  }
  void forget(std::map<char*, Kept>::iterator one) {
    held.kept -= one->second.bytes;
    by_size.erase({one->second.bytes, one->first});
    kept.erase(one);
  }
  void keep(char* block, std::size_t bytes, std::uint64_t since) {
    const auto next = kept.find(block + bytes);
    if (next != kept.end()) {
      bytes += next->second.bytes;
      forget(next);
    }
    const auto after = kept.lower_bound(block);
    if (after != kept.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second.bytes == block) {
        block = before->first;
        bytes += before->second.bytes;
        forget(before);
      }
    }
    kept.emplace(block, Kept{bytes, since});
    by_size.emplace(bytes, block);
    held.kept += bytes;
  }
  // From the smallest kept block that has room; what is left of it stays.
  void* reuse(std::size_t bytes) {
    for (auto i = by_size.lower_bound({bytes, nullptr}); i != by_size.end(); ++i) {
      const auto [size, begin] = *i;
      char* const block = aligned(begin, bytes);
      if (block + bytes > begin + size) continue;
      const std::uint64_t since = kept.at(begin).since;
      forget(kept.find(begin));
      if (block > begin) keep(begin, static_cast<std::size_t>(block - begin), since);
      if (block + bytes < begin + size)
        keep(block + bytes, static_cast<std::size_t>(begin + size - block) - bytes, since);
      return use(block, bytes);
    }
    return nullptr;
  }
  // Whole huge pages; what is left of them is kept.
  void* map(std::size_t bytes) {
    const std::size_t whole = (bytes + huge_page - 1) / huge_page * huge_page;
    const std::size_t now = held.used + bytes, most = std::max(held.most_used, now);
    shrink_to(most + most / 32 + slack - (held.used + whole));
    char* block = static_cast<char*>(map_block(whole));
    if (!block && !kept.empty()) {
      shrink_to(0);
      block = static_cast<char*>(map_block(whole));
    }
    if (block && whole > bytes) keep(block + bytes, whole - bytes, ++clock);
    return block;
  }
  // Those that have waited longest, until `most` bytes are kept.
  void shrink_to(std::size_t most) {
    while (held.kept > most) {
      const auto oldest = std::min_element(
          kept.begin(), kept.end(),
          [](const auto& a, const auto& b) { return a.second.since < b.second.since; });
      munmap(oldest->first, oldest->second.bytes);
      forget(oldest);
    }
  }
};

BlockPool::BlockPool() : state_(std::make_unique<State>()) {}
BlockPool::~BlockPool() {
  for (const auto& [block, kept] : state_->kept) munmap(block, kept.bytes);
}

void* BlockPool::take(std::size_t wanted) {
  const std::size_t bytes = rounded(std::max<std::size_t>(wanted, 1));
  const std::lock_guard lock(state_->mutex);
  if (void* block = state_->reuse(bytes)) return block;
  if (state_->used.size() >= most_blocks) return nullptr;
  void* const block = state_->map(bytes);
  return block ? state_->use(static_cast<char*>(block), bytes) : nullptr;
}

bool BlockPool::give(void* block) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->used.find(block);
  if (found == state_->used.end()) return false;
  const std::size_t bytes = found->second;
  state_->used.erase(found);
  state_->held.used -= bytes;
  state_->keep(static_cast<char*>(block), bytes, ++state_->clock);
  return true;
}

BlockPool::Held BlockPool::held() const {
  const std::lock_guard lock(state_->mutex);
  return state_->held;
}

// ---- LibTorch's allocator -----------------------------------------------------------------------

namespace {

// Never destroyed: tensors may be freed after static objects are.
BlockPool& pool() {
  static BlockPool* const it = new BlockPool;
  return *it;
}

void give_back(void* block) { pool().give(block); }
void free_any(void* p) {
  if (!pool().give(p)) c10::free_cpu(p);
}

struct PooledAllocator final : at::Allocator {
  at::DataPtr allocate(std::size_t bytes) override {
    if (bytes >= smallest)
      if (void* block = pool().take(bytes)) return {block, block, &give_back, at::kCPU};
    void* const p = c10::alloc_cpu(bytes);
    return {p, p, &c10::free_cpu, at::kCPU};
  }
  at::DeleterFnPtr raw_deleter() const override { return &free_any; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

}  // namespace

void tune_allocator() {
  constexpr int gibibyte = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, gibibyte);  // setting it also stops glibc from moving it
  mallopt(M_TRIM_THRESHOLD, 2147483647);
  mallopt(M_TOP_PAD, 64 << 20);
  prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);  // a parent may have switched huge pages off
#ifndef __SANITIZE_ADDRESS__              // which finds wrong accesses to what malloc gave
  c10::SetCPUAllocator(new PooledAllocator, 1);
#endif
}

}  // namespace sluice
