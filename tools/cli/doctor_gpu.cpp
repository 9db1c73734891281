// The GPU's side of `sluice doctor`, through the driver's own libraries: nothing of CUDA is linked,
// so the answer is the same program's on a machine without a driver.
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "tools/cli/cli.h"
#include "tools/cli/doctor.h"

namespace sluice::cli {
namespace {

template <class F>
F* symbol(void* library, const char* name) {
  return library ? reinterpret_cast<F*>(::dlsym(library, name)) : nullptr;
}

// 13020 -> "13.2"
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void name_devices(void* cuda, Json& found) {
  const auto count = symbol<int(int*)>(cuda, "cuDeviceGetCount");
  const auto name = symbol<int(char*, int, int)>(cuda, "cuDeviceGetName");
  const auto memory = symbol<int(std::size_t*, int)>(cuda, "cuDeviceTotalMem_v2");
  int n = 0;
  if (!count || !name || !memory || count(&n) != 0) return;
  for (int i = 0; i < n; ++i) {
    std::array<char, 256> text{};
    std::size_t bytes = 0;
    if (name(text.data(), text.size(), i) != 0 || memory(&bytes, i) != 0) continue;
    found["devices"].push_back({{"name", text.data()}, {"memory", bytes}});
  }
}

void ask_driver_version(Json& found) {
  void* nvml = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto init = symbol<int()>(nvml, "nvmlInit_v2");
  const auto version = symbol<int(char*, unsigned)>(nvml, "nvmlSystemGetDriverVersion");
  std::array<char, 96> text{};
  if (init && version && init() == 0 && version(text.data(), text.size()) == 0)
    found["driver"] = text.data();
}

void ask_runtime_version(Json& found) {
  for (const char* file : {"libcudart.so.13", "libcudart.so.12", "libcudart.so"}) {
    const auto version =
        symbol<int(int*)>(::dlopen(file, RTLD_NOW | RTLD_LOCAL), "cudaRuntimeGetVersion");
    int n = 0;
    if (!version || version(&n) != 0) continue;
    found["cuda_runtime"] = version_text(n);
    return;
  }
}

Json ask() {
  Json found = {{"driver", nullptr}, {"cuda", nullptr}, {"devices", Json::array()}};
  void* cuda = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!cuda) return found;
  ask_driver_version(found);
  ask_runtime_version(found);
  const auto init = symbol<int(unsigned)>(cuda, "cuInit");
  const auto version = symbol<int(int*)>(cuda, "cuDriverGetVersion");
  int n = 0;
  if (version && version(&n) == 0) found["cuda"] = version_text(n);
  const int failed = init ? init(0) : -1;
  if (failed)
    found["failed"] = failed;
  else
    name_devices(cuda, found);
  return found;
}

std::string device_text(const Json& device) {
  char memory[40];
  std::snprintf(memory, sizeof memory, ", %.1f GiB",
                static_cast<double>(device["memory"].get<std::uint64_t>()) / (1 << 30));
  return device["name"].get<std::string>() + memory;
}

// The kernels' golden values on devices 0 to count - 1: {"wrong": ["", "grid_pull"]}.
Json try_kernels(std::size_t count) {
  const auto file = std::filesystem::path(runtime_file()).parent_path() / "libsluice_cuda.so";
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return {{"died", ::dlerror()}};
  const auto golden = symbol<int(int, const char**)>(library, "sluice_cuda_golden");
  if (!golden) return {{"died", file.string() + " is of another version"}};
  Json found{{"wrong", Json::array()}};
  for (std::size_t i = 0; i < count; ++i) {
    const char* wrong = "";
    if (const int error = golden(static_cast<int>(i), &wrong))
      return {{"died", "CUDA error " + std::to_string(error) + " on device " + std::to_string(i)}};
    found["wrong"].push_back(wrong);
  }
  return found;
}

Finding look_at_kernels(std::size_t devices) {
  Finding f{Finding::Level::ok, "CUDA kernels", "", "",
            in_child([=] { return try_kernels(devices); })};
  if (f.data.contains("died")) {
    f.level = Finding::Level::note;
    f.text = "not tried: " + f.data["died"].get<std::string>();
    return f;
  }
  for (std::size_t i = 0; i < f.data["wrong"].size(); ++i)
    if (const auto wrong = f.data["wrong"][i].get<std::string>(); !wrong.empty())
      f.text +=
          (f.text.empty() ? "" : "; ") + ("wrong on device " + std::to_string(i)) + ": " + wrong;
  if (!f.text.empty()) {
    f.level = Finding::Level::problem;
    f.advice = "run with SLUICE_DEVICE=cpu, and update the driver";
  } else {
    f.text = "each gives its golden values";
  }
  return f;
}

}  // namespace

void look_at_gpu(Findings& findings) {
  Finding f{Finding::Level::ok, "GPU", "", "", in_child(ask)};
  if (f.data.contains("died")) {
    f.level = Finding::Level::note;
    f.text = "the driver's library fails: " + f.data["died"].get<std::string>();
    f.advice = "reinstall the driver, or do without: everything runs on the CPU";
  } else if (f.data["cuda"].is_null()) {
    f.text = "none: there is no NVIDIA driver, everything runs on the CPU";
  } else if (f.data["devices"].empty()) {
    f.level = Finding::Level::note;
    f.text = "a driver, but no device that may be used";
    if (f.data.contains("failed")) f.text += " (cuInit says " + f.data["failed"].dump() + ")";
    f.advice = "a container needs --gpus all, CUDA_VISIBLE_DEVICES may hide devices";
  } else {
    for (const Json& device : f.data["devices"])
      f.text += (f.text.empty() ? "" : "; ") + device_text(device);
    if (f.data["devices"].size() > 1) f.text += "; they share batches where run.devices says so";
    if (f.data["driver"].is_string()) f.text += "; driver " + f.data["driver"].get<std::string>();
    f.text += "; CUDA " + f.data["cuda"].get<std::string>();
  }
  const std::size_t devices = f.data.contains("died") ? 0 : f.data["devices"].size();
  findings.push_back(std::move(f));
  if (devices > 0) findings.push_back(look_at_kernels(devices));
}

}  // namespace sluice::cli
