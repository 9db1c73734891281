#include "engine/state/averaged_network.h"

#include <ATen/Functions.h>

namespace sluice {
namespace {

Network::Named numbered(const std::vector<std::shared_ptr<Network>>& members,
                        Network::Named (Network::*tensors)() const) {
  Network::Named all;
  for (std::size_t i = 0; i < members.size(); ++i)
    for (auto& [name, tensor] : ((*members[i]).*tensors)())
      all.emplace_back(std::to_string(i) + "." + name, std::move(tensor));
  return all;
}

}  // namespace

Network::Tensors AveragedNetwork::forward(const Tensors& x, std::size_t count) {
  Tensors sums;
  for (const auto& member : members_) {
    Tensors outputs = member->forward(x, count);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (sums.size() == i)
        sums.push_back(outputs[i].to(at::kFloat));
      else
        sums[i] = sums[i] + outputs[i];
    }
  }
  for (at::Tensor& sum : sums) sum = sum / static_cast<double>(members_.size());
  return sums;
}

Network::Named AveragedNetwork::parameters() const {
  return numbered(members_, &Network::parameters);
}
Network::Named AveragedNetwork::buffers() const { return numbered(members_, &Network::buffers); }
void AveragedNetwork::train(bool on) {
  for (const auto& m : members_) m->train(on);
}
void AveragedNetwork::spread(const std::vector<at::Device>& devices) {
  for (const auto& m : members_) m->spread(devices);
}
void AveragedNetwork::key_draws(std::uint64_t key) {
  for (const auto& m : members_) m->key_draws(key);
}
Work AveragedNetwork::last_work() const {
  Work all;
  for (const auto& m : members_) {
    const Work one = m->last_work();
    all.multiply_adds += one.multiply_adds;
    all.on_tensor_cores += one.on_tensor_cores;
  }
  return all;
}
void AveragedNetwork::initialise(std::uint64_t seed) {
  for (const auto& m : members_) m->initialise(seed);
}

}  // namespace sluice
