#include "engine/session/gpu_watch.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "engine/run/lane.h"

namespace sluice {
namespace {

constexpr auto poll_interval = std::chrono::milliseconds(500);

// NVML's own numbers and layouts: docs.nvidia.com/deploy/nvml-api.
constexpr int sm_clock = 1, gpu_sensor = 0;
struct Utilization {
  unsigned gpu, memory;  // per cent
};
struct Memory {
  unsigned long long total, free, used;  // bytes
};

void* library() {
  static void* const nvml = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  return nvml;
}

// Calls a function of the library; false where it is not there or fails.
template <class... A>
bool call(const char* name, A... arguments) {
  const auto f = library() ? reinterpret_cast<int (*)(A...)>(::dlsym(library(), name)) : nullptr;
  return f && f(arguments...) == 0;
}

}  // namespace

GpuWatch::GpuWatch() {
  unsigned count = 0;
  if (!call("nvmlInit_v2") || !call("nvmlDeviceGetCount_v2", &count)) return;
  for (unsigned i = 0; i < count; ++i) {
    Device device;
    if (!call("nvmlDeviceGetHandleByIndex_v2", i, &device.handle)) continue;
    std::array<char, 96> name{};
    call("nvmlDeviceGetName", device.handle, name.data(), static_cast<unsigned>(name.size()));
    device.name = name.data();
    devices_.push_back(std::move(device));
  }
  if (!devices_.empty()) thread_ = std::thread([this] { loop(); });
}

GpuWatch::~GpuWatch() { end(); }

void GpuWatch::end() {
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void GpuWatch::loop() {
  name_thread("sluice-gpu");
  make_thread_background();
  std::unique_lock lock(mutex_);
  do
    for (Device& d : devices_) ask(d);
  while (!wake_.wait_for(lock, poll_interval, [this] { return done_; }));
}

void GpuWatch::ask(Device& d) const {
  Utilization busy{};
  Memory memory{};
  unsigned mhz = 0, celsius = 0, milliwatts = 0;
  if (!call("nvmlDeviceGetUtilizationRates", d.handle, &busy)) return;
  call("nvmlDeviceGetMemoryInfo", d.handle, &memory);
  call("nvmlDeviceGetClockInfo", d.handle, sm_clock, &mhz);
  call("nvmlDeviceGetTemperature", d.handle, gpu_sensor, &celsius);
  call("nvmlDeviceGetPowerUsage", d.handle, &milliwatts);
  ++d.asked;
  d.utilization += busy.gpu / 100.0;
  d.memory = std::max(d.memory, static_cast<double>(memory.used));
  d.of = static_cast<double>(memory.total);
  d.sm_mhz += mhz;
  d.temperature = std::max(d.temperature, static_cast<double>(celsius));
  d.power += milliwatts / 1e3;
}

Json GpuWatch::to_json() const {
  std::lock_guard lock(mutex_);
  Json all = Json::array();
  for (const Device& d : devices_) {
    if (d.asked == 0) continue;
    const double utilization = d.utilization / d.asked, memory = d.of > 0 ? d.memory / d.of : 0;
    all.push_back({{"name", d.name},
                   {"utilization", utilization},
                   {"memory_mb", d.memory / 1e6},
                   {"memory", memory},
                   {"sm_mhz", d.sm_mhz / d.asked},
                   {"temperature_c", d.temperature},
                   {"power_w", d.power / d.asked},
                   {"remarks", judge_gpu(utilization, memory, d.temperature)}});
  }
  return all;
}

std::vector<std::string> judge_gpu(double utilization, double memory, double temperature_c) {
  std::vector<std::string> remarks;
  if (utilization < 0.85)
    remarks.push_back("it waits: below 85 % busy; the node table says for what");
  if (memory < 0.7) remarks.push_back("room for larger batches or a cache: below 70 % full");
  if (memory > 0.9) remarks.push_back("near its end: more than 90 % full");
  if (temperature_c >= 80) remarks.push_back("hot: from 80 C on it may slow itself down");
  return remarks;
}

}  // namespace sluice
