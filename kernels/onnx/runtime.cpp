#include "kernels/onnx/runtime.h"

#include <ATen/ATen.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "kernels/lists/manifest.h"
#include "kernels/onnx/ort_api.h"

namespace sluice::onnx {
namespace {

namespace fs = std::filesystem;

std::string beside_torch() {
  Dl_info info{};
  const auto* symbol = reinterpret_cast<const void*>(&at::globalContext);
  if (!::dladdr(symbol, &info) || !info.dli_fname) return "";
  // site-packages/torch/lib/libtorch_cpu.so
  return library_in(fs::path(info.dli_fname).parent_path().parent_path().parent_path() /
                    "onnxruntime/capi");
}

Table load() {
  const std::string file = runtime_library();
  if (file.empty())
    throw Error(
        Exit::usage,
        "an ONNX file needs ONNX Runtime, which is neither named by SLUICE_ONNXRUNTIME, nor "
        "in LibTorch's virtual environment, nor where the loader looks: pip install "
        "onnxruntime");
  return load_table(file);
}

const Table& api() {
  static const Table t = load();
  return t;
}

Held hold(void* made, int place) { return Held(made, {&api(), place}); }

at::Tensor tensor_of(const Table& t, void* value, const std::string& file) {
  void* made = nullptr;
  t.call<GetTensorTypeAndShape>(file, value, &made);
  const Held shape = hold(made, release_shape);
  int element = 0;
  std::size_t axes = 0;
  t.call<GetTensorElementType>(file, shape.get(), &element);
  t.call<GetDimensionsCount>(file, shape.get(), &axes);
  std::vector<std::int64_t> size(axes);
  t.call<GetDimensions>(file, shape.get(), size.data(), axes);
  if (element != element_float && element != element_uint8)
    throw Error(Exit::usage, file + ": an output is neither float32 nor uint8");
  void* data = nullptr;
  t.call<GetTensorMutableData>(file, value, &data);
  return at::from_blob(data, size, element == element_float ? at::kFloat : at::kByte).clone();
}

}  // namespace

std::string runtime_library() {
  if (const char* given = std::getenv("SLUICE_ONNXRUNTIME"); given && *given) return given;
  if (const std::string found = beside_torch(); !found.empty()) return found;
  const char* const name = "libonnxruntime.so.1";
  void* library = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (library) ::dlclose(library);
  return library ? name : "";
}

std::string Engine::version() { return api().version; }

std::vector<std::string> providers() {
  const Table& t = api();
  char** names = nullptr;
  int count = 0;
  t.call<GetAvailableProviders>(t.file, &names, &count);
  const std::vector<std::string> built(names, names + count);
  t.call<ReleaseAvailableProviders>(t.file, names, count);
  const auto has = [&](const char* name) { return std::ranges::find(built, name) != built.end(); };
  std::vector<std::string> all;
  if (has("TensorrtExecutionProvider") && !tensorrt_version().empty()) all.push_back("tensorrt");
  if (has("CUDAExecutionProvider")) all.push_back("cuda");
  all.push_back("cpu");
  return all;
}

namespace {

[[noreturn]] void refuse_provider(const std::string& file, const std::string& provider) {
  if (provider == "tensorrt" && tensorrt_version().empty())
    throw Error(Exit::usage,
                file +
                    ": provider \"tensorrt\" needs libnvinfer.so.10, TensorRT 10 of NVIDIA "
                    "(developer.nvidia.com/tensorrt), where the loader looks");
  throw Error(Exit::usage, file + ": ONNX Runtime " + api().version + " (" + api().file +
                               ") was built without provider \"" + provider +
                               "\": pip install onnxruntime-gpu");
}

// OrtCUDAProviderOptions of version 12; zeros stand for what later ones added.
struct CudaOptions {
  int device = 0, algorithm_search = 0;
  std::size_t memory_limit = ~std::size_t{0};
  int arena_strategy = 0, copies_in_default_stream = 1, has_stream = 0;
  void* stream = nullptr;
  void* arena = nullptr;
  char later[128] = {};
};

}  // namespace

Engine::Engine(const fs::path& file, const EngineOptions& options) : file_(file.string()) {
  const auto there = providers();
  if (options.provider != "auto") {
    if (std::ranges::find(there, options.provider) == there.end())
      refuse_provider(file_, options.provider);
    open(options, options.provider);
    return;
  }
  for (const std::string& provider : there) try {
      open(options, provider);
      return;
    } catch (const Error& e) {
      if (provider == there.back()) throw;
      tell("provider \"" + provider + "\" does not open: " + e.what());
    }
}

void Engine::open(const EngineOptions& options, const std::string& provider) {
  const Table& t = api();
  provider_ = provider;
  void* made = nullptr;
  t.call<CreateSessionOptions>(file_, &made);
  const Held held = hold(made, release_session_options);
  t.call<SetIntraOpNumThreads>(file_, held.get(), options.threads);
  if (provider == "tensorrt") return open_tensorrt(options, held.get());
  const CudaOptions cuda;
  if (provider == "cuda") t.call<AppendCuda>(file_, held.get(), &cuda);
  create(held.get());
}

// Building an engine takes minutes, finding one in the cache seconds.
void Engine::open_tensorrt(const EngineOptions& options, void* session_options) {
  const Table& t = api();
  const std::string gpu = gpu_identity();
  const fs::path engine = options.cache / engine_name(sha256_of_file(file_), gpu,
                                                      tensorrt_version(), t.version, options.size);
  const bool known = is_sealed(engine);
  if (!known) {
    tell("building an engine for " + gpu + " (once; minutes): " + engine.string());
    fs::create_directories(engine);
  }
  void* made = nullptr;
  t.call<CreateTensorRtOptions>(file_, &made);
  const Held held = hold(made, release_tensorrt_options);
  const ProviderOptions strings = tensorrt_options(options, engine);
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : strings) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  t.call<UpdateTensorRtOptions>(file_, held.get(), keys.data(), values.data(), keys.size());
  t.call<AppendTensorRt>(file_, session_options, held.get());
  create(session_options);
  if (!known) seal(engine);
}

void Engine::create(void* session_options) {
  const Table& t = api();
  t.call<CreateSession>(file_, t.environment, file_.c_str(), session_options, &session_);
}

Engine::~Engine() { api().release(release_session, session_); }

std::vector<at::Tensor> Engine::run(const std::vector<std::string>& input_names,
                                    const std::vector<at::Tensor>& inputs,
                                    const std::vector<std::string>& output_names) const {
  const Table& t = api();
  std::vector<at::Tensor> dense;
  std::vector<Held> values, results;
  std::vector<const void*> in;
  std::vector<const char*> in_names, out_names;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    dense.push_back(inputs[i].to(at::kFloat).contiguous());
    const at::Tensor& x = dense.back();
    void* made = nullptr;
    t.call<CreateTensorWithDataAsOrtValue>(file_, t.memory, x.data_ptr(), x.nbytes(),
                                           x.sizes().data(), x.sizes().size(), element_float,
                                           &made);
    values.push_back(hold(made, release_value));
    in.push_back(made);
    in_names.push_back(input_names[i].c_str());
  }
  for (const auto& name : output_names) out_names.push_back(name.c_str());
  std::vector<void*> out(output_names.size(), nullptr);
  t.call<Run>(file_, session_, nullptr, in_names.data(), in.data(), in.size(), out_names.data(),
              out.size(), out.data());
  for (void* value : out) results.push_back(hold(value, release_value));
  std::vector<at::Tensor> all;
  for (void* value : out) all.push_back(tensor_of(t, value, file_));
  return all;
}

}  // namespace sluice::onnx
