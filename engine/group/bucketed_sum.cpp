#include "engine/group/bucketed_sum.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace sluice {

// Shared with the wire thread, which may outlive its owner.
struct BucketedSum::Work {
  struct One {
    One(std::int64_t shards, const Bucket& b, Collectives* wire, bool halves)
        : sum(shards, b.values, wire, halves, b.cuts), in_parts(b.in_parts) {}
    OrderedSum sum;
    const bool in_parts;
    bool closed = false;  // under the mutex
    std::int64_t shard = -1;
    std::span<float> result;
  };
  std::deque<One> buckets;
  Collectives* wire = nullptr;
  std::thread thread;

  std::mutex mutex;  // what follows, but for results: they are the caller's between the steps
  std::condition_variable moved;
  std::function<std::vector<std::uint8_t>()> agree;  // null: no step is at its end
  std::vector<std::uint8_t> filled;
  bool agreed = false, ends = false, calling = false;
  std::size_t done = 0;
  std::exception_ptr failure;
  std::int64_t wire_ns = 0;

  void run(One& b) const {
    if (b.shard >= 0) b.sum.add(b.shard);
    b.result = b.in_parts ? b.sum.finish_piece(filled) : b.sum.finish(filled);
  }

  // The thread's life: a step after the other.
  void serve() {
    std::unique_lock lock(mutex);
    const auto call = [&](const auto& body) {
      calling = true;
      lock.unlock();
      try {
        body();
        lock.lock();
      } catch (...) {
        lock.lock();
        failure = std::current_exception();
      }
      calling = false;
      moved.notify_all();
    };
    for (;;) {
      moved.wait(lock, [&] { return ends || (agree && !agreed && !failure); });
      if (ends) return;
      call([&] { filled = agree(); });
      agreed = true;
      for (One& b : buckets) {
        moved.wait(lock, [&] { return ends || b.closed; });
        if (ends) return;
        if (!failure) {
          const auto begun = std::chrono::steady_clock::now();
          call([&] { run(b); });
          wire_ns += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begun).count();
        }
        ++done;
        moved.notify_all();
      }
    }
  }
};

BucketedSum::BucketedSum(std::int64_t shards, const std::vector<Bucket>& buckets, Collectives* wire,
                         bool halves)
    : work_(std::make_shared<Work>()) {
  for (const Bucket& b : buckets) work_->buckets.emplace_back(shards, b, wire, halves);
  work_->wire = wire;
  if (wire) work_->thread = std::thread([work = work_] { work->serve(); });
}

BucketedSum::~BucketedSum() {
  if (!work_->wire) return;
  bool calling = false;
  {
    const std::lock_guard lock(work_->mutex);
    work_->ends = true;
    calling = work_->calling;
    work_->moved.notify_all();
  }
  calling ? work_->thread.detach() : work_->thread.join();
}

std::span<float> BucketedSum::leaf(std::size_t bucket) { return of(bucket).leaf(); }
void BucketedSum::add(std::size_t bucket, std::int64_t shard) { of(bucket).add(shard); }
OrderedSum& BucketedSum::of(std::size_t bucket) { return work_->buckets[bucket].sum; }
std::size_t BucketedSum::size() const { return work_->buckets.size(); }
std::span<float> BucketedSum::sum(std::size_t bucket) const {
  return work_->buckets[bucket].result;
}

void BucketedSum::begin(std::function<std::vector<std::uint8_t>()> agree) {
  const std::lock_guard lock(work_->mutex);
  work_->agree = std::move(agree);
  work_->moved.notify_all();
}

bool BucketedSum::has_begun() const {
  const std::lock_guard lock(work_->mutex);
  return !!work_->agree;
}

void BucketedSum::close(std::size_t bucket, std::int64_t shard) {
  const std::lock_guard lock(work_->mutex);
  Work::One& b = work_->buckets[bucket];
  b.closed = true;
  b.shard = shard;
  work_->moved.notify_all();
}

void BucketedSum::await_agreement() {
  std::unique_lock lock(work_->mutex);
  if (!work_->wire) {
    work_->filled = work_->agree();
    return;
  }
  work_->moved.wait(lock, [&] { return work_->agreed; });
  if (work_->failure) std::rethrow_exception(work_->failure);
}

void BucketedSum::await() {
  Work& w = *work_;
  std::unique_lock lock(w.mutex);
  if (!w.wire)
    for (Work::One& b : w.buckets) w.run(b);
  else
    w.moved.wait(lock, [&] { return w.done == w.buckets.size(); });
  if (w.failure) std::rethrow_exception(w.failure);
  for (Work::One& b : w.buckets) b.closed = false;
  w.agree = nullptr;
  w.agreed = false;
  w.done = 0;
}

std::uint64_t BucketedSum::sent() const {
  std::uint64_t bytes = 0;
  for (const Work::One& b : work_->buckets) bytes += b.sum.sent();
  return bytes;
}

std::int64_t BucketedSum::wire_ns() const {
  const std::lock_guard lock(work_->mutex);
  return work_->wire_ns;
}

}  // namespace sluice
