// The streams of places, on devices that are played: each stream knows what it is behind of, so a
// fork or a join that is left out shows without a GPU.
#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <doctest/doctest.h>

#include <latch>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include "kernels/base/team.h"
#include "kernels/net/places.h"

using namespace sluice;

namespace {

constexpr auto played = c10::DeviceType::PrivateUse1;
using Name = std::pair<int, c10::StreamId>;  // of a stream: device, number
using Clock = std::map<Name, int>;           // how much of every stream's work is done before

struct World {
  std::mutex mutex;
  std::map<Name, Clock> streams;
  std::map<int, c10::StreamId> pool;
} world;

thread_local int device = 0;
thread_local std::map<int, c10::StreamId> current;  // by device; 0: the usual stream

Name name_of(const c10::Stream& s) { return {s.device_index(), s.id()}; }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return played; }
  c10::Device getDevice() const override { return {played, static_cast<c10::DeviceIndex>(device)}; }
  void setDevice(c10::Device d) const override { device = d.index(); }
  void uncheckedSetDevice(c10::Device d) const noexcept override { device = d.index(); }
  c10::Device exchangeDevice(c10::Device d) const override {
    const c10::Device before = getDevice();
    device = d.index();
    return before;
  }
  c10::Stream getStream(c10::Device d) const override {
    return c10::Stream(c10::Stream::UNSAFE, d, current[d.index()]);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override {
    std::lock_guard lock(world.mutex);
    return c10::Stream(c10::Stream::UNSAFE, d, ++world.pool[d.index()]);
  }
  c10::Stream exchangeStream(c10::Stream s) const override {
    const c10::Stream before = getStream(s.device());
    current[s.device_index()] = s.id();
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 4; }
  void record(void** event, const c10::Stream& s, c10::DeviceIndex, c10::EventFlag) const override {
    std::lock_guard lock(world.mutex);
    if (!*event) *event = new Clock;
    *static_cast<Clock*>(*event) = world.streams[name_of(s)];
  }
  void block(void* event, const c10::Stream& s) const override {
    std::lock_guard lock(world.mutex);
    for (const auto& [name, n] : *static_cast<Clock*>(event)) {
      int& mine = world.streams[name_of(s)][name];
      mine = std::max(mine, n);
    }
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Clock*>(event);
  }
};

// Work on the thread's current stream of a device; what is done before it.
Clock queue(int on) {
  std::lock_guard lock(world.mutex);
  const Name name{on, current[on]};
  Clock& clock = world.streams[name];
  ++clock[name];
  return clock;
}

Name here(int on) { return {on, current[on]}; }

c10::Device nth(int i) { return {played, static_cast<c10::DeviceIndex>(i)}; }

// What bodies saw: their threads' device and streams, and what was done before their work.
struct Seen {
  int device = -1;
  Name own, on_first;
  Clock before;
};

using Order = Places::Order;

std::vector<Seen> run(const Places& places, int count, int fails, Order order) {
  std::vector<Seen> seen(static_cast<std::size_t>(count));
  const auto body = [&](int place) {
    const int mine = places.device(place).index();
    Seen& s = seen[static_cast<std::size_t>(place)];
    s = {device, here(mine), here(0), queue(mine)};
    queue(0);  // a copy that the first device's stream does
    if (place == fails) throw std::runtime_error("out of memory");
  };
  try {
    places.run(count, body, order);
  } catch (const std::runtime_error&) {
    CHECK(fails >= 0);
  }
  return seen;
}

// From here on the thread is on the first device, and has a stream of its own there.
void play() {
  static const Guard guard;
  static const c10::impl::DeviceGuardImplRegistrar registered(played, &guard);
  device = 0;
  current.clear();
  current[0] = 77;  // a lane's stream
}

void check_order(const std::vector<at::Device>& devices, int count, int fails = -1,
                 Order order = Order::from_first) {
  play();
  const Places places(devices);
  std::set<Name> distinct;
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Clock fork = queue(0);
    const std::vector<Seen> seen = run(places, count, fails, order);
    const Clock join = queue(0);
    for (int place = 0; place < count; ++place) {
      CAPTURE(place);
      const Seen& s = seen[static_cast<std::size_t>(place)];
      CHECK(s.device == places.device(place).index());
      CHECK((s.own == Name{0, 77}) == (place == 0));
      distinct.insert(s.own);
      if (place > 0 && s.device != 0) CHECK(s.on_first != Name{0, 77});
      // After the fork is what the caller had queued, after the join all that the place has.
      CHECK(s.before.at({0, 77}) >= fork.at({0, 77}));
      CHECK(join.at(s.own) >= s.before.at(s.own));
      const std::lock_guard lock(world.mutex);
      CHECK(join.at(s.on_first) == world.streams[s.on_first].at(s.on_first));
    }
    CHECK(device == 0);
    CHECK(current[0] == 77);
    for (int d = 1; d < 4; ++d) CHECK(current[d] == 0);
  }
  CHECK(distinct.size() == static_cast<std::size_t>(count));  // and the same in both runs
}

}  // namespace

TEST_CASE("a place's stream works between the fork and the join, and the caller's is as it was") {
  check_order({nth(0), nth(1), nth(2)}, 3);
  check_order({nth(0), nth(1), nth(2), nth(3)}, 2);
}

TEST_CASE("one device that stands for several places has a stream for each") {
  check_order({nth(0), nth(0), nth(0)}, 3);
}

TEST_CASE("the caller waits for all places where one of them fails") {
  check_order({nth(0), nth(1), nth(2)}, 3, 1);
  check_order({nth(0), nth(1), nth(2)}, 3, 0);
}

TEST_CASE("places that find the team busy work one after the other, in their own streams") {
  team_run(2, [](int thread) {
    if (thread == 0) check_order({nth(0), nth(1), nth(2)}, 3);
    if (thread == 0) check_order({nth(0), nth(1), nth(2)}, 3, -1, Order::from_last);
  });
}

TEST_CASE("where the last place is the first, the caller's stream is still the first place's") {
  check_order({nth(0), nth(1), nth(2)}, 3, -1, Order::from_last);
  check_order({nth(0), nth(0), nth(0)}, 3, -1, Order::from_last);
  check_order({nth(0), nth(1), nth(2)}, 3, 2, Order::from_last);
}

TEST_CASE("without threads places are done in their order") {
  const Places places({at::kCPU, at::kCPU, at::kCPU});
  for (const Order order : {Order::from_first, Order::from_last}) {
    std::vector<int> done;
    const auto body = [&](int place) { done.push_back(place); };
    team_run(2, [&](int thread) {
      if (thread == 0) places.run(3, body, order);
    });
    const bool is_forward = order == Order::from_first;
    CHECK(done == (is_forward ? std::vector<int>{0, 1, 2} : std::vector<int>{2, 1, 0}));
  }
}

// A chain, as the lanes of a network in stages are one: the last knows of the first by the second.
TEST_CASE("what a place awaits by a mark, and what that awaited, is done before its work") {
  for (const Order order : {Order::from_first, Order::from_last}) {
    play();
    const Places places({nth(0), nth(1), nth(2)});
    const auto lane_of = [&](int p) { return order == Order::from_first ? p : 2 - p; };
    std::latch made[2] = {std::latch(1), std::latch(1)};
    std::optional<StreamMark> marks[2];
    Seen seen[3];
    int worked[3] = {}, later[3] = {};  // on the lane's own stream, when it set its mark and after
    const auto body = [&](int p) {
      const int lane = lane_of(p), mine = places.device(p).index();
      if (lane > 0) {
        made[lane - 1].wait();
        marks[lane - 1]->await();
      }
      seen[lane] = {device, here(mine), here(0), queue(mine)};
      worked[lane] = seen[lane].before.at(here(mine));
      if (lane == 2) return;
      marks[lane].emplace(played);
      later[lane] = queue(mine).at(here(mine));
      made[lane].count_down();
    };
    places.run(3, body, order);
    for (const int lane : {1, 2})
      for (int before = 0; before < lane; ++before) {
        const int known = seen[lane].before.at(seen[before].own);
        CHECK(known >= worked[before]);
        CHECK(known < later[before]);  // what comes after the mark may still run
      }
  }
}

TEST_CASE("a mark of the host is nothing to wait for") { StreamMark(at::kCPU).await(); }

TEST_CASE("packed tensors are the tensors, and an undefined one stays so") {
  const std::vector<at::Tensor> tensors{at::arange(5, at::kFloat), at::Tensor(),
                                        at::arange(130, at::kFloat).view({2, 65}),
                                        at::scalar_tensor(3.f)};
  const Packed p = Packed::like(tensors, at::kCPU);
  p.fill(tensors);
  const at::Tensor copy = copied_to(p.flat, at::kCPU);
  CHECK(copy.data_ptr() != p.flat.data_ptr());
  CHECK_FALSE(p.views[1].defined());
  for (const int i : {0, 2, 3}) {
    CHECK(p.views[i].sizes() == tensors[i].sizes());
    CHECK(p.views[i].equal(tensors[i]));
    CHECK(p.views[i].storage_offset() % 64 == 0);
  }
}
