// The one place that is linked with LibTorch's CUDA half: a library of its own, loaded where there
// is a GPU (tensor_device.cpp). LibTorch has no device-neutral name for its graphs.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/state/tensor_device.h"

namespace sluice {
namespace {

// Memory that the body allocates is the graph's own pool, so addresses are the same each time.
// The body may use other threads (autograd does): of the calling thread alone it is known that it
// does nothing but record, while other lanes allocate and copy.
class CudaGraph final : public Recording {
 public:
  // A pool of a recording that is gone is given back first: nothing is while one records.
  explicit CudaGraph(const std::function<Tensors()>& body) {
    c10::cuda::CUDACachingAllocator::emptyCache();
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      made_ = body();
    } catch (...) {
      abandon();
      throw;
    }
    graph_.capture_end();
  }
  const Tensors& repeat(Stream&) override {
    graph_.replay();
    return made_;
  }

 private:
  void abandon() {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {  // what the body threw says more
    }
  }
  at::cuda::CUDAGraph graph_;
  Tensors made_;
};

}  // namespace
}  // namespace sluice

extern "C" sluice::Recording* sluice_record_cuda(
    const std::function<sluice::Recording::Tensors()>& body) {
  return new sluice::CudaGraph(body);
}
