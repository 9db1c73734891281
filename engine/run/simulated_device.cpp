#include "engine/run/simulated_device.h"

#include <chrono>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/random.h"
#include "engine/trace/trace.h"

namespace sluice {

struct SimulatedStream::Milestone final : Point, std::enable_shared_from_this<Milestone> {
  using Point::Point;
  mutable std::mutex mutex;
  mutable std::condition_variable wake;
  bool forgotten = false;
  std::int64_t reached_ns = 0;  // 0: not yet
  std::string error;

  void set(const std::string& why) {
    {
      std::lock_guard lock(mutex);
      reached_ns = now_ns();
      error = why;
    }
    wake.notify_all();
  }
  std::int64_t wait() const override { return forgotten ? now_ns() : reach(); }
  std::int64_t reach() const {
    std::unique_lock lock(mutex);
    wake.wait(lock, [this] { return reached_ns != 0; });
    if (!error.empty()) throw Error(Exit::gpu, error);
    return reached_ns;
  }
};

SimulatedStream::SimulatedStream(const SimulatedSettings& settings, int number)
    : settings_(settings), number_(number), thread_([this] { loop(); }) {}

SimulatedStream::~SimulatedStream() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void SimulatedStream::queue(std::function<void()> work) {
  push([this, work = std::move(work)] {
    if (error_.empty()) work();
  });
}

void SimulatedStream::push(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  wake_.notify_one();
}

PointPtr SimulatedStream::mark() {
  auto mark = std::make_shared<Milestone>(*this);
  mark->forgotten = settings_.forget_host_waits && settings_.forget_host_waits(number_);
  push([this, mark] { mark->set(error_); });
  return mark;
}

void SimulatedStream::wait(const Point& before) {
  const auto& milestone = static_cast<const Milestone&>(before);
  if (settings_.forget_stream_waits) return;
  if (settings_.eager) return void(milestone.reach());
  if (before.of == this) return;
  queue([keep = milestone.shared_from_this()] { keep->reach(); });
}

void SimulatedStream::loop() {
  std::unique_lock lock(mutex_);
  for (std::uint64_t n = 0;; ++n) {
    wake_.wait(lock, [this] { return closing_ || !work_.empty(); });
    if (work_.empty()) return;
    auto work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    const std::uint64_t draw =
        mix(settings_.seed ^ mix(n ^ (static_cast<std::uint64_t>(number_) << 40)));
    if (settings_.nap_us > 0 && draw % 3 != 0)
      std::this_thread::sleep_for(std::chrono::microseconds(mix(draw) % settings_.nap_us));
    try {
      work();
    } catch (const std::exception& e) {
      error_ = e.what();
    }
    work = nullptr;
    lock.lock();
  }
}

std::unique_ptr<Stream> SimulatedDevice::stream(bool) {
  return std::make_unique<SimulatedStream>(settings, made_++);
}

}  // namespace sluice
