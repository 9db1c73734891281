#include "kernels/onnx/ort_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <vector>

namespace sluice::onnx {

namespace fs = std::filesystem;

std::string library_in(const fs::path& folder) {
  std::error_code none;
  std::vector<std::string> found;
  for (const auto& e : fs::directory_iterator(folder, none))
    if (e.path().filename().string().starts_with("libonnxruntime.so")) found.push_back(e.path());
  std::sort(found.begin(), found.end());
  return found.empty() ? "" : found.back();
}

Table load_table(const std::string& file) {
  Table t;
  t.file = file;
  void* library = ::dlopen(t.file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw Error(Exit::usage, "ONNX Runtime cannot be loaded: " + std::string(::dlerror()));
  const auto base = reinterpret_cast<const Base* (*)()>(::dlsym(library, "OrtGetApiBase"));
  if (!base) throw Error(Exit::usage, t.file + " is no ONNX Runtime");
  t.version = base()->version();
  t.api = base()->api(api_version);
  if (!t.api)
    throw Error(Exit::usage,
                t.file + " is ONNX Runtime " + t.version + ": 1.12 or newer is needed");
  t.call<CreateEnv>(t.file, 4 /* says nothing: calls do */, "sluice", &t.environment);
  t.call<CreateCpuMemoryInfo>(t.file, 1 /* arena */, 0 /* default */, &t.memory);
  return t;
}

}  // namespace sluice::onnx
