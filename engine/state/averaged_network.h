// Networks of one type and several weights, as those of a cross-validation's folds: their outputs'
// mean. It predicts and does not learn.
#pragma once

#include <memory>
#include <vector>

#include "engine/state/resource.h"

namespace sluice {

class AveragedNetwork final : public Network {
 public:
  using Network::forward;
  explicit AveragedNetwork(std::vector<std::shared_ptr<Network>> members)
      : members_(std::move(members)) {}
  Tensors forward(const Tensors& x, std::size_t count) override;
  Named parameters() const override;  // with the member's number before each name: "0.conv.weight"
  Named buffers() const override;
  void train(bool on) override;
  void spread(const std::vector<at::Device>& devices) override;
  void key_draws(std::uint64_t key) override;
  Work last_work() const override;
  void initialise(std::uint64_t seed) override;
  const std::vector<std::shared_ptr<Network>>& members() const { return members_; }
  std::size_t output_count() const override { return members_.front()->output_count(); }
  int spatial_axes() const override { return members_.front()->spatial_axes(); }

 private:
  std::vector<std::shared_ptr<Network>> members_;
};

}  // namespace sluice
