// What the library does while its stream records a graph; only here a test can say that it does.
#include <cuda_runtime.h>

#include "tests/cuda/device.h"

using namespace sluice;
using namespace sluice::kernels;
using test::Both;

TEST_CASE("an optimizer's plan that is made while the stream records is there at once") {
  const auto& cuda = test::cuda();
  const Both<float> weight(test::numbers(40000, 1)), grad(test::numbers(40000, 2));
  OptimTensor tensor;
  tensor.weight = weight.device();
  tensor.grad = grad.device();
  tensor.size = 40000;
  const std::vector<char> garbage(cuda.optim_bytes(&tensor, 1), '\x5a');
  const Both<char> queued(garbage), recorded(garbage);
  int some = 0;
  cudaStream_t stream = &some;
  bool yes = true;
  test::ok(cuda.recording(stream, &yes));
  CHECK(!yes);
  test::ok(cuda.optim_plan(&tensor, 1, queued.device(), stream));
  CHECK(queued.read() != garbage);

  emulated::recording = stream;
  test::ok(cuda.recording(stream, &yes));
  CHECK(yes);
  test::ok(cuda.copy(recorded.device(), queued.device(), garbage.size(), stream));
  CHECK(recorded.read() == garbage);  // what is queued there is not done
  test::ok(cuda.optim_plan(&tensor, 1, recorded.device(), stream));
  emulated::recording = nullptr;
  CHECK(recorded.read() == queued.read());
}
