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

namespace sluice::onnx {

// Where the library is: SLUICE_ONNXRUNTIME, beside LibTorch in its virtual environment (pip install
// onnxruntime), or where the loader looks. "": nowhere.
std::string runtime_library();

// A file opened: an Error(usage) where there is no ONNX Runtime, or one older than 1.12, or where
// it refuses the file.
class Engine {
 public:
  explicit Engine(const std::filesystem::path& file, int threads = 1);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // Float32 tensors on the host, in the order of `inputs`; of any thread. The outputs by their
  // names, in float32 or uint8.
  std::vector<at::Tensor> run(const std::vector<std::string>& input_names,
                              const std::vector<at::Tensor>& inputs,
                              const std::vector<std::string>& output_names) const;
  static std::string version();  // "1.32.0"

 private:
  std::string file_;
  void* session_ = nullptr;
};

}  // namespace sluice::onnx
