// Times of image filters as the script beside it asks for them: one line of JSON on stdin,
// {"work": "median", "repeats": 5, "threads": 1}, one line out, {"ms": [...], "kept": bytes,
// "peak": bytes}. Time is CPU time: of several threads that of the one that
// calls, which does its share and then sleeps; so other processes make no difference.
//
//   bench_image_filters memory    the same with an allocator that keeps nothing, so that "kept" and
//                                 "peak" are what the calls need.
//   bench_image_filters DEVICE    all of them on a GPU ("gpu") or one core of the host ("cpu"), for
//                                 gpu_check.py: a line of {"name", "ms"} each. Exit code 6 without.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/openmp.h"
#include "engine/state/tensor_device.h"
#include "kernels/base/allocator.h"
#include "kernels/image/bilateral.h"
#include "kernels/image/crf.h"
#include "kernels/image/filters.h"
#include "kernels/image/grid_sampling.h"
#include "kernels/image/lattice.h"
#include "kernels/image/median.h"
#include "kernels/image/mixture.h"

namespace {

using namespace sluice;

at::Device place = at::kCPU;

at::Tensor noise(at::IntArrayRef shape) {
  at::manual_seed(1);
  return at::rand(shape).to(place);
}
at::Tensor waves(std::int64_t n) {
  const at::Tensor x = (at::arange(n, at::kFloat) * 0.1).to(place);
  return (at::sin(x).view({n, 1, 1}) + at::cos(x).view({1, n, 1}) +
          at::sin(x * 0.7).view({1, 1, n}))
      .view({1, 1, n, n, n});
}
at::Tensor grid(std::int64_t n) { return noise({1, n, n, n, 3}) * static_cast<double>(n - 1); }
at::Tensor number(double v) { return at::scalar_tensor(v, at::kDouble); }
at::Tensor on_lattice(const at::Tensor& x) {
  return Lattices(at::cat({x, coordinates(x)}, 1), {.5, 5, 5, 5}).filter(x);
}
void backward(const at::Tensor& out, const std::vector<at::Tensor>& to) {
  torch::autograd::grad({out}, to, {at::ones_like(out)});
}
kernels::GridRule order(int p) {
  kernels::GridRule rule;
  for (int& o : rule.order) o = p;
  return rule;
}

using Work = std::function<void()>;
Work pull_with_gradients(const at::Tensor& image, int p) {
  const at::Tensor x = image.clone().requires_grad_(), g = grid(image.size(2)).requires_grad_();
  return [=] { backward(grid_pull(x, g, order(p)), {x, g}); };
}
std::map<std::string, std::function<Work()>> all_work() {
  const at::Tensor cube = noise({1, 1, 48, 48, 48}), large = noise({1, 1, 96, 96, 96}),
                   picture = noise({1, 1, 256, 256});
  return {
      {"bilateral 48",
       [=] { return [=] { bilateral(cube, cube, number(1), number(.5), Neighbours::clamped); }; }},
      {"bilateral 256",
       [=] {
         return [=] { bilateral(picture, picture, number(5), number(.5), Neighbours::clamped); };
       }},
      {"joint 256",
       [=] {
         const at::Tensor guide = picture.flip(2);
         return [=] { bilateral(picture, guide, number(5), number(.5), Neighbours::inside); };
       }},
      {"trainable 48",
       [=] {
         const at::Tensor x = cube.clone().requires_grad_(), s = number(1).requires_grad_(),
                          c = number(.5).requires_grad_();
         return [=] { backward(bilateral(x, x, s, c, Neighbours::inside), {x, s, c}); };
       }},
      {"lattice 48 noise", [=] { return [=] { on_lattice(cube); }; }},
      {"lattice 96 smooth",
       [=] {
         const at::Tensor x = waves(96);
         return [=] { on_lattice(x); };
       }},
      {"crf 48",
       [=] {
         const at::Tensor logits = noise({1, 2, 48, 48, 48});
         return [=] { crf(logits, cube, {}); };
       }},
      {"mixture 100k",
       [=] {
         const at::Tensor x = at::randn({3, 100000}).to(place),
                          label = at::randint(0, 2, {100000}, at::kLong).to(place);
         return [=] { apply_mixture(x, learn_mixture(x, label, 2, 3)); };
       }},
      {"median 48", [=] { return [=] { median_filter(cube, {1}); }; }},
      {"gaussian 96",
       [=] { return [=] { separable_filtering(large, {gaussian_kernel(number(2), 4, "erf")}); }; }},
      {"pull 96 order 0",
       [=] {
         const at::Tensor g = grid(96);
         return [=] { grid_pull(large, g, order(0)); };
       }},
      {"pull 96 order 1",
       [=] {
         const at::Tensor g = grid(96);
         return [=] { grid_pull(large, g, order(1)); };
       }},
      {"pull 96 order 3",
       [=] {
         const at::Tensor g = grid(96);
         return [=] { grid_pull(large, g, order(3)); };
       }},
      {"pull 96 order 7",
       [=] {
         const at::Tensor g = grid(96);
         return [=] { grid_pull(large, g, order(7)); };
       }},
      {"pull 96 order 1 gradients", [=] { return pull_with_gradients(large, 1); }},
      {"pull 96 order 3 gradients", [=] { return pull_with_gradients(large, 3); }},
      {"grad 96 order 1",
       [=] {
         const at::Tensor g = grid(96);
         return [=] { grid_grad(large, g, order(1)); };
       }},
      {"push 96 order 1", [=] {
         const at::Tensor g = grid(96);
         return [=] { grid_push(large, g, {96, 96, 96}, order(1)); };
       }}};
}

double now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

long resident() {
  long pages = 0, here = 0;
  std::ifstream("/proc/self/statm") >> pages >> here;
  return here * 4096;
}

// Bytes that a call needs while it runs.
long peak(const Work& work) {
  std::ofstream("/proc/self/clear_refs") << 5;
  const long before = resident();
  work();
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::stol(line.substr(6)) * 1024 - before;
  return 0;
}

// The median of seven rounds, after one that counts not.
double milliseconds(const Work& work) {
  const auto wait = [] {
    if (!place.is_cpu()) c10::impl::VirtualGuardImpl(place.type()).synchronizeDevice(place.index());
  };
  std::vector<double> ms;
  for (int i = 0; i < 8; ++i) {
    wait();
    const double begin = now(CLOCK_MONOTONIC);
    work();
    wait();
    ms.push_back(now(CLOCK_MONOTONIC) - begin);
  }
  std::nth_element(ms.begin() + 1, ms.begin() + 4, ms.end());
  return ms[4];
}

int all_on(const std::string& where) {
  at::set_num_threads(1);
  if (where != "cpu") {
    const auto device = find_device();
    if (!device || !device->place().is_cuda()) {
      std::fprintf(stderr, "bench_image_filters: no GPU here\n");
      return 6;
    }
    place = device->place();
  }
  for (const auto& [name, make] : all_work())
    std::cout << nlohmann::json{{"name", name}, {"ms", milliseconds(make())}} << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  start_again_with_sleeping_openmp(argv);
  const std::string what = argc > 1 ? argv[1] : "";
  if (what != "memory") tune_allocator();
  if (!what.empty() && what != "memory") return all_on(what);
  const auto works = all_work();
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto job = nlohmann::json::parse(line);
    const int threads = job.at("threads");
    at::set_num_threads(threads);
    const Work work = works.at(job.at("work"))();
    work();
    const long most = peak(work), before = resident();
    std::vector<double> ms;
    for (int i = 0; i < job.at("repeats"); ++i) {
      const auto clock = threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_THREAD_CPUTIME_ID;
      const double begin = now(clock);
      work();
      ms.push_back(now(clock) - begin);
    }
    std::cout << nlohmann::json{{"ms", ms}, {"kept", resident() - before}, {"peak", most}}
              << std::endl;
  }
}
