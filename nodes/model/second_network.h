// What ema and swa share: a second network that follows the one that is trained.
#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/ops/lerp.h>

#include <algorithm>
#include <string_view>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "engine/state/sample.h"

namespace sluice {

struct SecondNetworkParams {
  std::string net, of;
};

template <class P>
Spec second_network_spec(std::string name, std::string does) {
  return Spec(std::move(name), std::move(does))
      .in("sample", "What the optimizer of \"of\" sends on, after its step.")
      .out("sample", "The same.")
      .param("net", static_cast<std::string P::*>(&P::net),
             "The network that holds the mean; of the same type as \"of\".")
      .required()
      .param("of", static_cast<std::string P::*>(&P::of), "The network that is trained.")
      .required()
      .updates("net")
      .follows("of")
      .passes()
      .any_device()
      .lane(LaneKind::step)
      .ordered();
}

class SecondNetwork {
 public:
  void open(const OpenContext& context, const SecondNetworkParams& p) {
    mean_ = context.resources->network(p.net);
    trained_ = context.resources->network(p.of);
    const auto mean = all(*mean_), trained = all(*trained_);
    bool fits = mean.size() == trained.size();
    for (std::size_t i = 0; fits && i < mean.size(); ++i)
      fits =
          mean[i].first == trained[i].first && mean[i].second.sizes() == trained[i].second.sizes();
    if (!fits)
      throw Error(Exit::usage, "\"" + p.net + "\" and \"" + p.of +
                                   "\" are networks of other shapes: declare both alike");
  }

  // Whether gradients lie at the trained weights, whose step comes with a later batch
  // (grad_accumulation) or with the epoch's end.
  bool step_is_due() const {
    const auto weights = trained_->parameters();
    return std::any_of(weights.begin(), weights.end(),
                       [](const auto& named) { return named.second.grad().defined(); });
  }

  // Goes this share of the way to the trained weights, and to its float buffers; others are copied.
  void follow(double share) const {
    const at::NoGradGuard no_grad;
    const auto mean = all(*mean_), trained = all(*trained_);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const at::Tensor &a = mean[i].second, w = trained[i].second.detach();
      if (a.device() != w.device()) a.set_data(a.detach().to(w.device()));
      if (w.is_floating_point() && share < 1)
        a.detach().lerp_(w, share);
      else
        a.detach().copy_(w);
    }
    keep_zeros();
  }

 private:
  // Weights that the trained network has left out for good (sparsity) are none of the mean's.
  void keep_zeros() const {
    const auto weights = mean_->parameters();
    constexpr std::string_view masks = ".mask";
    for (const auto& [name, mask] : mean_->buffers()) {
      if (!name.ends_with(masks)) continue;
      const std::string of = name.substr(0, name.size() - masks.size());
      const auto weight = std::ranges::find(weights, of, [](const auto& w) { return w.first; });
      if (weight != weights.end()) weight->second.detach().mul_(mask);
    }
  }

  static Network::Named all(const Network& network) {
    Network::Named list = network.parameters();
    for (auto& buffer : network.buffers()) list.push_back(std::move(buffer));
    return list;
  }

  std::shared_ptr<Network> mean_, trained_;
};

}  // namespace sluice
