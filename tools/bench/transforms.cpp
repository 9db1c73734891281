// Times transforms on one thread: the node alone, no graph. What transforms.py runs.
//
//   bench_transforms [IMAGE LABEL] < cases.json      [{"type": ..., "params": {...}}, ...]
//
// Prints the least processor milliseconds of five firings for each, as JSON. The sample: the two
// files (which load_image gets by name), or an image of 160^3 noise and a label of blobs.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <ctime>
#include <iostream>

#include "engine/state/drive.h"
#include "kernels/base/allocator.h"

using namespace sluice;

static Sample sample() {
  const at::Tensor at = at::arange(160, at::kFloat).mul(0.21).sin();
  const at::Tensor blobs = at.view({160, 1, 1}) * at.view({1, 160, 1}) * at.view({1, 1, 160});
  Sample s;
  s.name = "bench";
  const auto meta = std::make_shared<const Meta>();
  s.set("image", Field(at::rand({1, 160, 160, 160}), meta));
  s.set("label", Field(blobs.gt(0.2).to(at::kByte).unsqueeze(0), meta));
  return s;
}

// The two files, not loaded.
static Sample record(char** files) {
  Sample s;
  s.name = "bench";
  for (int i = 0; i < 2; ++i) {
    auto meta = std::make_shared<Meta>();
    meta->path = files[i];
    s.set(i ? "label" : "image", Field(at::Tensor(), std::move(meta)));
  }
  return s;
}

static double processor_ms() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

int main(int argc, char** argv) {
  tune_allocator();  // as a run does
  at::set_num_threads(1);
  const bool files = argc == 3;
  const Sample listed = files ? record(argv + 1) : Sample{};
  const Sample in = files ? drive("load_image", Json::object(), {listed}).front() : sample();
  Json out = Json::array();
  for (const Json& one : Json::parse(std::cin)) {
    Driver node(one.at("type"), one.at("params"));
    double best = 1e30;
    for (int i = 0; i < 5; ++i) {
      const double begin = processor_ms();
      node.fire({one.at("type") == "load_image" ? listed : in});
      best = std::min(best, processor_ms() - begin);
    }
    out.push_back(best);
  }
  std::cout << out.dump() << '\n';
}
