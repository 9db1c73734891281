// The pool that tensors' memory comes from: what is given back is taken again, and no more is kept
// than has been in use.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "kernels/base/allocator.h"

using sluice::BlockPool;

namespace {
constexpr std::size_t mebibyte = 1 << 20;
}

TEST_CASE("a block that was given back is cut for the next ones, and is whole again after them") {
  BlockPool pool;
  void* const block = pool.take(96 * mebibyte);
  std::memset(block, 1, 96 * mebibyte);
  CHECK(pool.give(block));
  void* const first = pool.take(64 * mebibyte);
  void* const second = pool.take(32 * mebibyte);
  CHECK(first == block);
  CHECK(second == static_cast<char*>(block) + 64 * mebibyte);
  CHECK(pool.held().kept == 0);
  CHECK(pool.give(second));
  CHECK(pool.give(first));
  CHECK(pool.held().kept == 96 * mebibyte);
  CHECK(pool.take(96 * mebibyte) == block);
  CHECK(pool.give(block));
}

TEST_CASE("blocks of the pool begin at huge pages where they hold one") {
  BlockPool pool;
  for (const std::size_t bytes : {2 * mebibyte, 3 * mebibyte + 5, 7 * mebibyte}) {
    void* const block = pool.take(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % (2 * mebibyte) == 0);
    std::memset(block, 2, bytes);
    CHECK(pool.give(block));
  }
  CHECK_FALSE(pool.give(&pool));  // not of the pool
}

TEST_CASE("small blocks of the pool share a huge page") {
  BlockPool pool;
  constexpr std::size_t small = mebibyte / 8;
  char* const first = static_cast<char*>(pool.take(small));
  CHECK(reinterpret_cast<std::uintptr_t>(first) % (2 * mebibyte) == 0);
  CHECK(pool.take(small) == first + small);
  CHECK(pool.held().used == 2 * small);
  CHECK(pool.held().kept == 2 * mebibyte - 2 * small);
  CHECK(pool.give(first));
  CHECK(pool.give(first + small));
  CHECK(pool.take(2 * mebibyte) == first);
  CHECK(pool.give(first));
}

TEST_CASE("the pool holds at most a thirty-second and 16 MiB more than was ever in use at once") {
  BlockPool pool;
  std::size_t most = 0;
  for (std::size_t size = 1; size < 200; size += 7) {  // sizes that hardly ever fit again
    void* const a = pool.take(size * mebibyte);
    void* const b = pool.take(2 * size * mebibyte);
    const auto held = pool.held();
    most = std::max(most, held.used);
    CHECK(held.most_used == most);
    CHECK(held.used + held.kept <= most + most / 32 + 16 * mebibyte);
    CHECK(pool.give(a));
    CHECK(pool.give(b));
  }
  CHECK(pool.held().used == 0);
  CHECK(pool.held().kept > 0);
}

TEST_CASE("threads that take and give blocks never hold the same one") {
  BlockPool pool;
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        auto* const block = static_cast<unsigned char*>(pool.take(mebibyte + 4096 * (i % 5)));
        block[0] = block[mebibyte - 1] = static_cast<unsigned char>(t);
        std::this_thread::yield();
        wrong[t] += block[0] != t || block[mebibyte - 1] != t;
        wrong[t] += !pool.give(block);
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4));
  CHECK(pool.held().used == 0);
}
