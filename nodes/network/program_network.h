// What the networks that are a Program share: forward, and PyTorch's view of its tensors.
//
// Invariant: a derived class builds `program` in its constructor; parameters have the names and the
// order of the state_dict of the network that it says it is.
#pragma once

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "kernels/net/program.h"

namespace sluice {

// The networks' parameter "precision".
inline const std::vector<std::string> precisions{"float32", "bfloat16", "float16"};
inline at::ScalarType compute_type(const std::string& precision) {
  return precision == "bfloat16" ? at::kBFloat16 : precision == "float16" ? at::kHalf : at::kFloat;
}

class ProgramNetwork : public Network {
 public:
  at::Tensor forward(const at::Tensor& x) override {
    check_input(x);
    return program.forward(x, training_, key_);
  }
  Named parameters() const override {
    Named out;
    for (const auto& q : program.parameters) out.emplace_back(q.name, q.tensor);
    return out;
  }
  Named buffers() const override {
    Named out;
    for (const auto& b : program.buffers) out.emplace_back(b.name, b.tensor);
    return out;
  }
  void train(bool on) override {
    training_ = on;
    program.forget_copies();
  }
  void spread(const std::vector<at::Device>& devices) override { program.spread(devices); }
  void key_draws(std::uint64_t k) override { key_ = k; }
  void initialise(std::uint64_t seed) override { program.initialise(seed); }
  // Copies go to other devices in the streams of other threads, which a recording does not see.
  bool recordable() const override { return !program.draws() && !program.is_spread(); }
  bool computes_in_half() const override { return program.compute == at::kHalf; }
  Work last_work() const override {
    Work work;
    for (const Step::Product& p : program.products()) {
      work.multiply_adds += p.multiply_adds;
      if (program.compute != at::kFloat && p.in % 8 == 0 && p.out % 8 == 0)
        work.on_tensor_cores += p.multiply_adds;
    }
    return work;
  }

 protected:
  virtual void check_input(const at::Tensor& x) const = 0;

  // Refuses what is not [N, channels] and so many spatial axes.
  static void require_input(const char* type, const at::Tensor& x, std::int64_t dims,
                            std::int64_t channels) {
    if (x.dim() == dims + 2 && x.size(1) == channels) return;
    throw DataError(std::string(type) + " takes [N, " + std::to_string(channels) + "] and " +
                    std::to_string(dims) + " spatial axes, got " + std::to_string(x.dim() - 2) +
                    " axes and " + std::to_string(x.size(1)) + " channels");
  }

  Program program;

 private:
  bool training_ = false;
  std::uint64_t key_ = 0;
};

}  // namespace sluice
