// Times transforms on one thread: the node alone, no graph. What transforms.py runs.
//
//   bench_transforms < cases.json      [{"type": ..., "params": {...}}, ...]
//
// Prints the best milliseconds of five firings for each, as JSON. The sample: an image of 160^3
// noise and a label of blobs.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "engine/drive.h"

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

int main() {
  at::set_num_threads(1);
  const Sample in = sample();
  Json out = Json::array();
  for (const Json& one : Json::parse(std::cin)) {
    Driver node(one.at("type"), one.at("params"));
    double best = 1e30;
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      node.fire({in});
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - begin;
      best = std::min(best, took.count());
    }
    out.push_back(best);
  }
  std::cout << out.dump() << '\n';
}
