// What the GPUs do beside a run, asked of the driver twice a second: how busy, how full, how hot.
//
// Invariant: nothing of NVIDIA is linked; where there is no driver, or no GPU, no thread is made
// and nothing is said.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/graph/spec.h"

namespace sluice {

class GpuWatch {
 public:
  GpuWatch();
  ~GpuWatch();
  void end();  // asks no more; what it saw stays
  // A list of {"name", "utilization": 0..1 (mean), "memory_mb" (most), "memory": 0..1 of what it
  // has, "sm_mhz" (mean), "temperature_c" (most), "power_w" (mean), "remarks"}; empty without a
  // GPU.
  Json to_json() const;

 private:
  struct Device {
    void* handle = nullptr;
    std::string name;
    double asked = 0, utilization = 0, memory = 0, of = 0, sm_mhz = 0, temperature = 0, power = 0;
  };
  void loop();
  void ask(Device& device) const;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::vector<Device> devices_;
  std::thread thread_;
};

// The training guide's bands: utilisation 85 to 95 %, memory 70 to 90 %, below 80 C.
std::vector<std::string> judge_gpu(double utilization, double memory, double temperature_c);

}  // namespace sluice
