// The package's network on ONNX Runtime, which is opened at run time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sluice::edge {

// An Error(usage) where there is no ONNX Runtime, or it refuses the file, or the file has not one
// input and one output.
class Engine {
 public:
  Engine(const std::filesystem::path& file, int threads);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::int64_t channels() const { return channels_; }  // of an image; 0: any
  // Windows [n, C, x, y, z] to logits [n, C_out, x, y, z]; `size` becomes that of the logits.
  std::vector<float> run(const std::vector<float>& windows, std::vector<std::int64_t>& size) const;

 private:
  std::string file_, input_, output_;
  std::int64_t channels_ = 0;
  void* session_ = nullptr;
};

}  // namespace sluice::edge
