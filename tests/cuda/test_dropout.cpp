// Dropout on the device, against its functor.
#include "tests/cuda/device.h"

using namespace sluice;
using namespace sluice::kernels;
using test::Both;

TEST_CASE("dropout has the host's draws in both layouts, and may write where it reads") {
  SLUICE_NEEDS_GPU();
  const auto rule = DropoutRule::of(0.4, 11, 3);
  for (const bool last : {false, true})
    for (const std::int64_t voxels : {1, 60, 1021}) {  // groups of four cross channels, or do not
      CAPTURE(last);
      CAPTURE(voxels);
      DropoutCall call;
      call.members = 3;
      call.channels = 5;
      call.voxels = voxels;
      call.channels_last = last;
      const std::int64_t size = call.channels * voxels;
      const Both<float> x(test::numbers(static_cast<std::size_t>(call.members * size), 2));
      std::vector<float> wanted(x.host.size());
      for (std::int64_t n = 0; n < call.members; ++n)
        for (std::int64_t i = 0; i < size; ++i) {
          const std::int64_t at = n * size + (last ? i % voxels * call.channels + i / voxels : i);
          wanted[static_cast<std::size_t>(at)] =
              x.host[static_cast<std::size_t>(at)] * rule.factor(rule.draws(n, i / 4 * 4).v[i % 4]);
        }
      call.x = x.device();
      call.y = x.device();
      test::ok(test::cuda().dropout(rule, call, VoxelType::f32, nullptr));
      CHECK(x.read() == wanted);
    }
}

TEST_CASE("dropout of 16 bits is that of 32, rounded") {
  SLUICE_NEEDS_GPU();
  const auto rule = DropoutRule::of(0.25, 1, 0);
  const auto values = test::numbers(4096, 3);
  std::vector<Brain> narrow(values.size()), wanted(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    from_float(values[i], narrow[i]);
    from_float(to_float(narrow[i]) * rule.factor(rule.draws(0, i / 4 * 4).v[i % 4]), wanted[i]);
  }
  const Both<Brain> x(narrow);
  const DropoutCall call{x.device(), x.device(), 1, 4, 1024};
  test::ok(test::cuda().dropout(rule, call, VoxelType::bf16, nullptr));
  const auto made = x.read();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < made.size(); ++i) wrong += made[i].bits != wanted[i].bits;
  CHECK(wrong == 0);
}
