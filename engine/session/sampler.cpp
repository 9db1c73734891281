#include "engine/session/sampler.h"

#include <unistd.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <utility>

#include "engine/base/cause.h"
#include "engine/base/warnings.h"
#include "engine/run/lane.h"
#include "engine/session/process_use.h"

namespace sluice {

using Clock = std::chrono::steady_clock;
constexpr auto sample_interval = std::chrono::milliseconds(100);
constexpr auto first_write = std::chrono::seconds(2), between_writes = std::chrono::seconds(10);

static double resident_bytes() {
  std::ifstream in("/proc/self/statm");
  double size = 0, resident = 0;
  in >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

static double own_cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

Sampler::Sampler(const Plan& plan, const Scheduler& scheduler, const Threads& threads,
                 RunFolder& folder, std::function<Json()> profile)
    : scheduler_(scheduler),
      folder_(folder),
      profile_(std::move(profile)),
      timeline_(plan, threads, std::chrono::duration<double>(sample_interval).count()),
      thread_([this] { loop(); }) {}

Sampler::~Sampler() {
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Sampler::loop() {
  name_thread("sluice-sampler");
  make_thread_background();
  auto next = Clock::now(), write_at = next + first_write;
  std::unique_lock lock(mutex_);
  while (!done_) {
    sample();
    if (Clock::now() >= write_at) {
      write();
      write_at = Clock::now() + between_writes;
    }
    next = std::max(next + sample_interval, Clock::now());
    wake_.wait_until(lock, next, [this] { return done_; });
  }
  sample();
  write();
}

void Sampler::sample() {
  timeline_.add(scheduler_.readings(), ProcessUse::now().cpu_s, resident_bytes());
}

void Sampler::write() {
  try {
    Json j = timeline_.to_json();
    j["sampler_cpu_s"] = own_cpu_seconds();
    folder_.write("timeline.json", j.dump() + "\n");
    folder_.write("profile.json", profile_().dump(2, ' ', false, Json::error_handler_t::replace));
  } catch (...) {
    if (!std::exchange(complained_, true)) warn(cause(Exit::io).text);
  }
}

}  // namespace sluice
