#include "engine/trace/event_ring.h"

#include <pthread.h>
#include <unistd.h>

namespace sluice {

// One writer, one reader: `written` is the writer's, `read` the reader's.
struct EventRings::Ring {
  std::vector<Event> events;
  std::atomic<std::uint64_t> written{0}, read{0}, lost{0};
  std::string name;
  int tid = 0;
  bool announced = false;
};

static std::uint64_t next_id() {
  static std::atomic<std::uint64_t> id{0};
  return ++id;
}

EventRings::EventRings(std::size_t capacity) : capacity_(capacity), id_(next_id()) {}
EventRings::~EventRings() = default;

EventRings::Ring& EventRings::mine() {
  thread_local std::uint64_t owner = 0;  // ids are never used twice, so a stale ring is not taken
  thread_local Ring* ring = nullptr;
  if (owner != id_) {
    auto fresh = std::make_unique<Ring>();
    fresh->events.resize(capacity_);
    char name[32] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    fresh->name = name;
    fresh->tid = gettid();
    std::lock_guard lock(mutex_);
    rings_.push_back(std::move(fresh));
    ring = rings_.back().get();
    owner = id_;
  }
  return *ring;
}

void EventRings::record(const Event& event) noexcept {
  Ring& r = mine();
  const auto written = r.written.load(std::memory_order_relaxed);
  if (written - r.read.load(std::memory_order_acquire) >= capacity_) {
    r.lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  r.events[written % capacity_] = event;
  r.written.store(written + 1, std::memory_order_release);
}

void EventRings::name(int node, const Stamp& stamp, std::string sample) {
  std::lock_guard lock(mutex_);
  names_.push_back({node, stamp.epoch, stamp.index, std::move(sample)});
}

void EventRings::drain(Sink& sink) {
  std::vector<Ring*> rings;
  std::vector<std::uint64_t> until;
  std::vector<Named> names;
  {
    std::lock_guard lock(mutex_);
    for (auto& r : rings_) rings.push_back(r.get());
    // Events first: a source names its sample before it records its event.
    for (Ring* r : rings) until.push_back(r->written.load(std::memory_order_acquire));
    names.swap(names_);
  }
  for (const Named& n : names) sink.named(n);
  for (std::size_t i = 0; i < rings.size(); ++i) {
    Ring& r = *rings[i];
    if (!r.announced) sink.thread(i, r.name, r.tid);
    r.announced = true;
    auto read = r.read.load(std::memory_order_relaxed);
    for (; read < until[i]; ++read) sink.event(i, r.events[read % capacity_]);
    r.read.store(read, std::memory_order_release);
  }
}

std::uint64_t EventRings::lost() const {
  std::lock_guard lock(mutex_);
  std::uint64_t n = 0;
  for (const auto& r : rings_) n += r->lost;
  return n;
}

}  // namespace sluice
