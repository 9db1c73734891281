// Device memory for the tests of the CUDA kernels, and what they do without a GPU: say so and pass.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/augment/augment_job.h"
#include "kernels/base/bit_mask.h"
#include "kernels/cuda/table.h"
#include "kernels/infer/blend_voxel.h"
#include "kernels/loss/dice_ce_voxel.h"
#include "kernels/net/dropout_value.h"
#include "kernels/net/norm_act_call.h"
#include "kernels/optim/optim_value.h"

namespace sluice::test {

inline const kernels::CudaTable& cuda() { return *sluice_cuda_table(); }

inline bool has_gpu() {
  static const bool yes = [] {
    int n = 0;
    return cuda().devices(&n) == 0 && n > 0;
  }();
  return yes;
}
#define SLUICE_NEEDS_GPU()                        \
  if (!sluice::test::has_gpu()) {                 \
    MESSAGE("no GPU here: nothing was launched"); \
    return;                                       \
  }

inline void ok(int error) {
  if (error != 0) FAIL(std::string(cuda().error_text(error)));
}
inline void finish() { ok(cuda().synchronize(nullptr)); }

// Host values and their copy on the device. Fresh device memory holds garbage on purpose: what a
// kernel leaves unwritten shows.
template <class T>
class Both {
 public:
  explicit Both(std::vector<T> values) : host(std::move(values)) {
    ok(cuda().allocate(&memory_, bytes() + 64));
    ok(cuda().copy(memory_, host.data(), bytes(), nullptr));
    finish();
  }
  Both(const Both&) = delete;
  Both& operator=(const Both&) = delete;
  ~Both() { cuda().release(memory_); }

  T* device() const { return static_cast<T*>(memory_); }
  std::vector<T> read() const {
    std::vector<T> out(host.size());
    ok(cuda().copy(out.data(), memory_, bytes(), nullptr));
    finish();
    return out;
  }
  std::vector<T> host;

 private:
  std::size_t bytes() const { return host.size() * sizeof(T); }
  void* memory_ = nullptr;
};

// Numbers that look random and are the same everywhere.
inline std::vector<float> numbers(std::size_t n, std::uint64_t key, float low = -1,
                                  float high = 1) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = low + (high - low) * unit_float(philox(i, 0, key).v[0]);
  return out;
}

}  // namespace sluice::test
