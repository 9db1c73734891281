#include "kernels/onnx/provider.h"

#include <dlfcn.h>

#include <cctype>
#include <nlohmann/json.hpp>
#include <span>

#include "engine/base/error.h"
#include "kernels/files/file_io.h"
#include "kernels/lists/manifest.h"

namespace sluice::onnx {
namespace {

namespace fs = std::filesystem;
constexpr const char* seal_name = "engine.json";

template <class Function>
Function symbol(void* library, const char* name) {
  return library ? reinterpret_cast<Function>(::dlsym(library, name)) : nullptr;
}

std::string dotted(int version, int first, int second) {
  return std::to_string(version / first) + "." + std::to_string(version % first / second) + "." +
         std::to_string(version % second);
}

nlohmann::json digests(const fs::path& folder) {
  nlohmann::json all = nlohmann::json::object();
  for (const auto& e : fs::directory_iterator(folder))
    if (e.is_regular_file() && e.path().filename() != seal_name)
      all[e.path().filename().string()] = sha256_of_file(e.path());
  return all;
}

}  // namespace

std::string gpu_identity() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto init = symbol<int (*)(unsigned)>(driver, "cuInit");
  const auto device = symbol<int (*)(int*, int)>(driver, "cuDeviceGet");
  const auto name = symbol<int (*)(char*, int, int)>(driver, "cuDeviceGetName");
  const auto attribute = symbol<int (*)(int*, int, int)>(driver, "cuDeviceGetAttribute");
  const auto version = symbol<int (*)(int*)>(driver, "cuDriverGetVersion");
  int gpu = 0, major = 0, minor = 0, driver_version = 0;
  char text[128] = "";
  constexpr int capability_major = 75, capability_minor = 76;
  if (!init || !device || !name || !attribute || !version || init(0) != 0 || device(&gpu, 0) != 0 ||
      name(text, sizeof text, gpu) != 0 || attribute(&major, capability_major, gpu) != 0 ||
      attribute(&minor, capability_minor, gpu) != 0 || version(&driver_version) != 0)
    return "";
  return std::string(text) + ", " + std::to_string(major) + "." + std::to_string(minor) +
         ", driver " + std::to_string(driver_version);
}

std::string tensorrt_version() {
  void* library = ::dlopen("libnvinfer.so.10", RTLD_NOW | RTLD_GLOBAL);
  const auto version = symbol<std::int32_t (*)()>(library, "getInferLibVersion");
  return version ? dotted(version(), 10000, 100) : "";
}

std::string engine_name(const std::string& file_sha256, const std::string& gpu,
                        const std::string& tensorrt, const std::string& runtime,
                        const std::vector<std::int64_t>& size) {
  std::string name = file_sha256 + "-" + gpu + "-tensorrt " + tensorrt + "-onnxruntime " + runtime;
  for (const std::int64_t n : size) name += "-" + std::to_string(n);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.') c = '_';
  return name;
}

ProviderOptions tensorrt_options(const EngineOptions& o, const fs::path& engine) {
  const auto shape = [&](std::int64_t samples) {
    std::string text = o.input + ":" + std::to_string(samples);
    for (std::size_t a = 1; a < o.size.size(); ++a) text += "x" + std::to_string(o.size[a]);
    return text;
  };
  const std::string one = shape(1), whole = shape(o.size.empty() ? 1 : o.size[0]);
  return {{"trt_engine_cache_enable", "1"}, {"trt_engine_cache_path", engine.string()},
          {"trt_timing_cache_enable", "1"}, {"trt_timing_cache_path", engine.string()},
          {"trt_profile_min_shapes", one},  {"trt_profile_opt_shapes", whole},
          {"trt_profile_max_shapes", whole}};
}

bool is_sealed(const fs::path& engine) {
  std::error_code ignored;
  bool good = false;
  if (fs::is_regular_file(engine / seal_name, ignored)) {
    const FileBytes text = read_file(engine / seal_name);
    const auto sealed =
        nlohmann::json::parse(text.data(), text.data() + text.size(), nullptr, false);
    good = sealed == digests(engine) && !sealed.empty();
  }
  if (!good) fs::remove_all(engine, ignored);
  return good;
}

void seal(const fs::path& engine) {
  const std::string text = digests(engine).dump(2) + "\n";
  write_file(engine / seal_name,
             {std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size())});
}

}  // namespace sluice::onnx
