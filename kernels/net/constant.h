// A constant that functions of LibTorch compute with (Value::op): where it is needed, and of the
// type needed, a copy is made once and kept.
//
// Invariant: a pass of sizes that have been before copies nothing from the host's memory, so it can
// be recorded (run.cuda_graphs): such a copy would wait for the device, which a recording cannot.
#pragma once

#include <ATen/TracerMode.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace sluice {

class NetConstant {
 public:
  explicit NetConstant(at::Tensor original)
      : copies_(std::make_shared<Copies>(std::move(original))) {}

  at::Tensor on(const at::Device& device) const {
    return like(copies_->original.options().device(device));
  }
  at::Tensor like(const at::TensorOptions& options) const {
    const at::Device device = options.device();
    const at::ScalarType type = options.dtype().toScalarType();
    const auto fits = [&](const at::Tensor& t) {
      return t.device() == device && t.scalar_type() == type;
    };
    Copies& c = *copies_;
    const std::lock_guard lock(c.mutex);
    if (fits(c.original)) return c.original;
    for (const at::Tensor& copy : c.made)
      if (fits(copy)) return copy;
    // Whoever records what the function does (onnx/record.h) sees a constant in every record.
    const at::tracer::impl::NoTracerDispatchMode unseen;
    c.made.push_back(c.original.to(device, type));
    return c.made.back();
  }

 private:
  struct Copies {
    explicit Copies(at::Tensor t) : original(std::move(t)) {}
    at::Tensor original;
    std::mutex mutex;
    std::vector<at::Tensor> made;
  };
  std::shared_ptr<Copies> copies_;  // of all copies of a function that holds this
};

}  // namespace sluice
