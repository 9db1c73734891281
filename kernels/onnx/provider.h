// Where ONNX Runtime computes: its providers for the CPU, CUDA and TensorRT, the strings that
// TensorRT's is told, and the folder in which an engine that TensorRT has built is found again.
//
// An engine is right for one file, GPU model, driver, TensorRT, ONNX Runtime and size of a batch:
// its folder is named after all of them, so another is a miss. So is one whose files are not as
// they were left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace sluice::onnx {

struct EngineOptions {
  std::string provider = "cpu";  // cuda, tensorrt, or auto: the best that opens
  int threads = 1;               // of the CPU's; 0: as many as cores
  std::filesystem::path cache;   // of TensorRT's engines
  std::string input;  // its name, and the size of a whole batch: what TensorRT builds for
  std::vector<std::int64_t> size;
};

// Of the driver's first GPU: name, compute capability, driver; "": there is none.
std::string gpu_identity();
// "10.3.0" of libnvinfer.so.10; "": it is not there.
std::string tensorrt_version();

std::string engine_name(const std::string& file_sha256, const std::string& gpu,
                        const std::string& tensorrt, const std::string& runtime,
                        const std::vector<std::int64_t>& size);
using ProviderOptions = std::vector<std::pair<std::string, std::string>>;
ProviderOptions tensorrt_options(const EngineOptions& options, const std::filesystem::path& engine);

// Whether the folder holds an engine as seal() left it; what else it holds is removed.
bool is_sealed(const std::filesystem::path& engine);
void seal(const std::filesystem::path& engine);

}  // namespace sluice::onnx
