// ONNX Runtime (https://onnxruntime.ai), which computes what an ONNX file says. It is looked for
// when a file is opened: nothing links it.
//
// No package has its header. `OrtApi` is a table of functions that only grows at its end; the
// places that are used here are named in runtime.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/onnx/provider.h"

namespace sluice::onnx {

// Where the library is: SLUICE_ONNXRUNTIME, beside LibTorch in its virtual environment (pip install
// onnxruntime), or where the loader looks. "": nowhere.
std::string runtime_library();

// What this ONNX Runtime was built with, the best first, of cpu, cuda and tensorrt; TensorRT's
// where its library is.
std::vector<std::string> providers();

// A file opened: an Error(usage) where there is no ONNX Runtime, or one older than 1.12, or where
// it refuses the file or has no such provider. `auto` goes on with the next one and says so.
class Engine {
 public:
  Engine(const std::filesystem::path& file, const EngineOptions& options);
  explicit Engine(const std::filesystem::path& file, int threads = 1)
      : Engine(file, EngineOptions{.threads = threads}) {}
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // Float32 tensors on the host, in the order of `inputs`; of any thread. The outputs by their
  // names, in float32 or uint8.
  std::vector<at::Tensor> run(const std::vector<std::string>& input_names,
                              const std::vector<at::Tensor>& inputs,
                              const std::vector<std::string>& output_names) const;
  static std::string version();  // "1.32.0"
  const std::string& provider() const { return provider_; }

 private:
  void open(const EngineOptions& options, const std::string& provider);
  void open_tensorrt(const EngineOptions& options, void* session_options);
  void create(void* session_options);

  std::string provider_;
  std::string file_;
  void* session_ = nullptr;
};

}  // namespace sluice::onnx
