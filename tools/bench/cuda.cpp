// The CUDA kernels alone, on random data that lies on the device: one JSON document on stdout,
// which tools/gpu_check.py puts beside the ceilings and PyTorch's times. Exit code 6 without a GPU.
//
// A time is the median of nine rounds, each of as many launches as take 20 ms, between two waits
// for the stream; so a launch that is shorter than the host's is bounded by that.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "kernels/augment/augment_chain.h"
#include "kernels/augment/augment_job.h"
#include "kernels/augment/fused_augment.h"
#include "kernels/base/bit_mask.h"
#include "kernels/cuda/table.h"
#include "kernels/infer/blend_voxel.h"
#include "kernels/loss/dice_ce_voxel.h"
#include "kernels/net/dropout_value.h"
#include "kernels/net/norm_act_call.h"
#include "kernels/net/thin_conv_call.h"
#include "kernels/optim/optim_value.h"

using namespace sluice;
using namespace sluice::kernels;

namespace {

const CudaTable& cuda = *sluice_cuda_table();

void ok(int error) {
  if (error == 0) return;
  std::fprintf(stderr, "bench_cuda: %s\n", cuda.error_text(error));
  std::exit(6);
}

void* memory(std::size_t bytes) {
  void* p = nullptr;
  ok(cuda.allocate(&p, bytes));
  return p;
}
// Device memory filled with fill(i), made 1 MiB at a time and repeated: enough not to be constant.
template <class T, class Fill>
T* filled(std::size_t n, const Fill& fill) {
  std::vector<T> some(std::min<std::size_t>(n, 1 << 20));
  for (std::size_t i = 0; i < some.size(); ++i) some[i] = fill(unit_float(philox(i, 0, 1).v[0]));
  auto* p = static_cast<T*>(memory(n * sizeof(T)));
  for (std::size_t i = 0; i < n; i += some.size())
    ok(cuda.copy(p + i, some.data(), std::min(some.size(), n - i) * sizeof(T), nullptr));
  ok(cuda.synchronize(nullptr));
  return p;
}
Brain brain(float v) {
  Brain b;
  from_float(v, b);
  return b;
}

double milliseconds(const std::function<void()>& launch) {
  using Clock = std::chrono::steady_clock;
  const auto round = [&](int n) {
    const auto begin = Clock::now();
    for (int i = 0; i < n; ++i) launch();
    ok(cuda.synchronize(nullptr));
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / n;
  };
  round(3);
  const int n = std::clamp(static_cast<int>(20 / std::max(round(3), 1e-4)), 1, 5000);
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) times.push_back(round(n));
  std::nth_element(times.begin(), times.begin() + 4, times.end());
  return times[4];
}

bool first = true;
// `bytes`: the fewest that must move through device memory.
void report(const char* name, double ms, double bytes, double each = 1) {
  std::printf("%s\n  {\"name\": \"%s\", \"ms\": %.6f, \"gb_s\": %.1f, \"per\": %g}",
              first ? "" : ",", name, ms / each, bytes / ms * 1e-6, each);
  std::fflush(stdout);
  first = false;
}

// ---- augmentation -------------------------------------------------------------------------------

constexpr Shape3 cached{192, 192, 192}, patch{128, 128, 128};
constexpr std::int64_t cached_voxels = 192 * 192 * 192, patch_voxels = 128 * 128 * 128;

enum class Work { move, affine, everything };

void geometry(AugmentChain& chain, Work work, Interpolation mode, int i) {
  const std::int64_t at = 8 + 6 * (i % 8);
  chain.crop({at, 56 - at % 40, at}, patch);
  chain.reorder({{0, 1, 2}, {i % 2 == 0, false, i % 3 == 0}});
  if (work == Work::move) return;
  const double c = std::cos(0.2 + 0.1 * i), s = std::sin(0.2 + 0.1 * i);
  const Affine turn{c, -s, 0, 0, s, c, 0.1, 0, 0, -0.1, 1.1, 0, 0, 0, 0, 1};
  chain.affine(multiply(multiply(centre_of(patch), turn), inverse(centre_of(patch))), patch,
               {mode, Padding::border});
}

// nnU-Net's chain with every random part switched on.
void intensities(AugmentChain& chain) {
  const auto op = [](AugmentKind kind, float a0 = 0, float a1 = 0) {
    return AugmentOp{kind, -1, {a0, a1}, 11, 12};
  };
  const std::vector<float> taps{0.0044f, 0.054f, 0.242f, 0.3992f, 0.242f, 0.054f, 0.0044f};
  chain.add(op(AugmentKind::noise, 0, 0.1f));
  chain.blur({taps, taps, taps});
  chain.add(op(AugmentKind::linear, 1.1f));
  chain.add(op(AugmentKind::mean_contrast, 1.2f, 1));
  chain.low_resolution({90, 90, 90});
  chain.add(op(AugmentKind::contrast, 1.3f, 1));
  chain.add(op(AugmentKind::restore));
}

void augmentation(const char* name, Work work, int batch) {
  const auto* image = filled<std::int16_t>(8 * cached_voxels,
                                           [](float v) { return std::int16_t(v * 2000 - 1000); });
  const auto* label =
      filled<std::uint8_t>(8 * cached_voxels, [](float v) { return std::uint8_t(v * 3); });
  auto* out = static_cast<Brain*>(memory(batch * patch_voxels * sizeof(Brain)));
  auto* truth = static_cast<std::uint8_t*>(memory(batch * patch_voxels));
  std::vector<AugmentJob> jobs;
  for (int i = 0; i < batch; ++i) {
    AugmentView view = view_of(image + i % 8 * cached_voxels, VoxelType::i16, 1, cached);
    view.gain = 0.001f;
    AugmentChain chain(view, 3);
    geometry(chain, work, Interpolation::linear, i);
    if (work == Work::everything) intensities(chain);
    jobs.push_back(chain.job(output_of(out + i * patch_voxels, VoxelType::bf16, 1, patch)));
    AugmentChain labels(view_of(label + i % 8 * cached_voxels, VoxelType::u8, 1, cached), 3);
    geometry(labels, work, Interpolation::nearest, i);
    jobs.push_back(labels.job(output_of(truth + i * patch_voxels, VoxelType::u8, 1, patch)));
  }
  const int n = static_cast<int>(jobs.size());
  void* workspace = memory(sluice_augment_workspace(jobs.data(), n));
  const double ms = milliseconds([&] { ok(cuda.augment(jobs.data(), n, workspace, nullptr)); });
  report(name, ms, 6.0 * batch * patch_voxels, batch);  // int16 and uint8 in, bf16 and uint8 out
  for (const void* p : {static_cast<const void*>(image), static_cast<const void*>(label),
                        static_cast<const void*>(out), static_cast<const void*>(truth),
                        static_cast<const void*>(workspace)})
    ok(cuda.release(const_cast<void*>(p)));
}

// ---- the training step's parts ------------------------------------------------------------------

void normalisation() {
  NormActCall c;
  c.type = VoxelType::bf16;
  c.groups = 7;
  c.rows = patch_voxels;
  c.channels = 32;
  const auto n = static_cast<std::size_t>(c.groups * c.rows * c.channels);
  const double bytes = 2.0 * static_cast<double>(n);
  c.x = filled<Brain>(n, [](float v) { return brain(v * 4 - 1); });
  const auto* grad = filled<Brain>(n, [](float v) { return brain(v - 0.5f); });
  auto* y = memory(n * 2);
  auto* mean = filled<float>(7 * 32, [](float) { return 1.0f; });
  auto* rstd = filled<float>(7 * 32, [](float) { return 0.9f; });
  c.gamma = filled<float>(32, [](float v) { return v + 0.5f; });
  c.beta = filled<float>(32, [](float v) { return v - 0.5f; });
  c.slope = filled<float>(1, [](float) { return 0.01f; });
  auto* dgamma = static_cast<float*>(memory(32 * 4));
  void* workspace = memory(cuda.norm_act_workspace(c));
  report("norm statistics, 7x128^3x32 bf16",
         milliseconds([&] { ok(cuda.norm_statistics(c, workspace, mean, rstd, nullptr)); }), bytes);
  c.mean = mean;
  c.rstd = rstd;
  report("norm + activation forward, 7x128^3x32 bf16",
         milliseconds([&] { ok(cuda.norm_act(c, y, nullptr)); }), 2 * bytes);
  report("norm + activation backward, 7x128^3x32 bf16", milliseconds([&] {
           ok(cuda.norm_act_backward(c, workspace, grad, {y, dgamma, nullptr, nullptr}, nullptr));
         }),
         5 * bytes);
}

// A U-Net's last convolution.
void thin_convolution() {
  ThinConvCall c;
  c.channels = 3;
  c.batch = 7;
  for (std::uint32_t& n : c.size) n = 128;
  const auto n = static_cast<std::size_t>(3 * c.voxels());
  const auto number = [](float v) { return brain(v * 2 - 1); };
  c.x = filled<Brain>(n, number);
  c.weight = filled<Brain>(3 * 3 * 27, number);
  const auto* grad = filled<Brain>(n, number);
  c.y = memory(n * 2);
  void* workspace = memory(cuda.thin_conv_workspace(c));
  auto* dw = static_cast<float*>(memory(3 * 3 * 27 * 4));
  ThinConvCall adjoint = c;
  adjoint.x = grad;
  adjoint.adjoint = true;
  const auto forward = [&] { ok(cuda.thin_conv(c, nullptr)); };
  const auto all = [&] {
    forward();
    ok(cuda.thin_conv_weight_grad(c, grad, workspace, dw, nullptr));
    ok(cuda.thin_conv(adjoint, nullptr));
  };
  const double bytes = 2.0 * static_cast<double>(n);
  report("convolution 3 to 3, forward", milliseconds(forward), 2 * bytes);
  report("convolution 3 to 3, forward and backward", milliseconds(all), 6 * bytes);
}

void loss() {
  DiceCeRule r;
  r.classes = 3;
  DiceCeBatch b;
  b.samples = 7;
  b.voxels = patch_voxels;
  b.sample_stride = 3 * patch_voxels;
  b.class_stride = 1;
  b.voxel_stride = 3;
  const auto n = static_cast<std::size_t>(7 * patch_voxels);
  b.logits = filled<float>(3 * n, [](float v) { return v * 6 - 3; });
  b.label = filled<std::uint8_t>(n, [](float v) { return std::uint8_t(v * 3); });
  auto* numbers = filled<float>(2, [](float) { return 1.0f; });
  void* grad = memory(3 * n * 4);
  void* workspace = memory(cuda.dice_ce_workspace(r, b));
  const double bytes = static_cast<double>(n);
  report("DiceCE forward, 7x3x128^3 f32",
         milliseconds([&] { ok(cuda.dice_ce(r, b, workspace, numbers, nullptr)); }), 13 * bytes);
  report("DiceCE backward, 7x3x128^3 f32", milliseconds([&] {
           ok(cuda.dice_ce_backward(r, b, workspace, numbers + 1, grad, nullptr));
         }),
         25 * bytes);
}

void optimizer(const char* name, OptimKind kind) {
  OptimRule r;
  r.kind = kind;
  r.momentum = 0.9;
  std::vector<OptimTensor> tensors;
  std::int64_t total = 0;
  for (int i = 0; i < 100; ++i) {  // a U-Net's sizes: a few large ones, many small
    OptimTensor t;
    t.size = i % 4 == 0 ? 27 * 256 * (32 + i) : 256 + i;
    const auto n = static_cast<std::size_t>(t.size);
    t.weight = filled<float>(n, [](float v) { return v - 0.5f; });
    t.grad = filled<float>(n, [](float v) { return v - 0.5f; });
    t.first = filled<float>(n, [](float) { return 0.0f; });
    t.second = filled<float>(n, [](float) { return 0.0f; });
    t.lr = 1e-4;
    total += t.size;
    tensors.push_back(t);
  }
  void* plan = memory(cuda.optim_bytes(tensors.data(), 100));
  auto* state = filled<OptimState>(1, [](float) { return OptimState{}; });
  ok(cuda.optim_plan(tensors.data(), 100, plan, nullptr));
  const double each = kind == OptimKind::adam ? 32 : 24;  // the gradient is read twice
  report(name,
         milliseconds([&] { ok(cuda.optim_step(tensors.data(), 100, plan, r, state, nullptr)); }),
         each * static_cast<double>(total));
}

}  // namespace

int main() {
  int devices = 0;
  if (cuda.devices(&devices) != 0 || devices == 0) {
    std::fprintf(stderr, "bench_cuda: no GPU here\n");
    return 6;
  }
  std::printf("[");
  for (const int batch : {2, 8}) {
    const std::string n = ", batch " + std::to_string(batch);
    augmentation(("augment: crop and flips" + n).c_str(), Work::move, batch);
    augmentation(("augment: crop, flips, affine" + n).c_str(), Work::affine, batch);
    augmentation(("augment: nnU-Net's chain, all on" + n).c_str(), Work::everything, batch);
  }
  normalisation();
  thin_convolution();
  loss();
  optimizer("Adam, 100 tensors", OptimKind::adam);
  optimizer("SGD, 100 tensors", OptimKind::sgd);
  optimizer("Novograd, 100 tensors", OptimKind::novograd);
  std::printf("\n]\n");
}
