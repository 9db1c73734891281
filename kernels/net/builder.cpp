#include "kernels/net/builder.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/base/error.h"
#include "kernels/net/fuse.h"

namespace sluice {

std::vector<std::int64_t> PerAxis::over(int axes) const {
  if (numbers_.size() == 1) return std::vector<std::int64_t>(axes, numbers_[0]);
  if (numbers_.size() != static_cast<std::size_t>(axes))
    throw Error(Exit::usage, "one number or " + std::to_string(axes) +
                                 " are needed, one an axis; " + std::to_string(numbers_.size()) +
                                 " are there");
  return numbers_;
}

bool PerAxis::is_one() const {
  return std::all_of(numbers_.begin(), numbers_.end(), [](auto n) { return n == 1; });
}

Scope Scope::operator/(const std::string& part) const {
  return {builder, name.empty() ? part : name + "." + part};
}

int Scope::parameter(const std::string& leaf, std::vector<std::int64_t> shape, const Init& init,
                     std::int64_t fan) const {
  return builder->parameter((*this / leaf).name, std::move(shape), init, fan);
}

int Scope::buffer(const std::string& leaf, at::Tensor tensor, const std::string& drawn_as) const {
  return builder->buffer((*this / leaf).name, std::move(tensor), drawn_as);
}

void Scope::refuse(const std::string& why) const {
  throw Error(Exit::usage, name.empty() ? why : name + ": " + why);
}

Value Builder::input(std::int64_t channels, int axes) {
  if (!net_.steps.empty()) throw std::logic_error("a network's inputs come before its steps");
  ++net_.inputs;
  return {this, net_.values++, channels, axes};
}

Value Builder::append(std::unique_ptr<Step> step, const Values& inputs,
                      const std::vector<bool>& keeps, const Value& like) {
  for (const Value& v : inputs) {
    if (v.builder != this) throw std::logic_error("a value of another network");
    step->inputs.push_back(v.id);
  }
  step->keeps = keeps;
  step->output = net_.values++;
  Value made = like;
  made.builder = this;
  made.id = step->output;
  net_.steps.push_back(std::move(step));
  return made;
}

int Builder::parameter(const std::string& name, std::vector<std::int64_t> shape, const Init& init,
                       std::int64_t fan) {
  auto& all = net_.parameters;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name != name) continue;
    if (all[i].tensor.sizes() != at::IntArrayRef(shape))
      throw Error(Exit::usage, "the parameter " + name + " has two shapes, " +
                                   c10::str(all[i].tensor.sizes()) + " and " +
                                   c10::str(at::IntArrayRef(shape)));
    return static_cast<int>(i);
  }
  at::Tensor t = at::zeros(shape, at::kFloat).requires_grad_();
  // What a number of the input adds to: the first axis and the kernel.
  if (init.fan_out && shape.size() > 1) fan = t.numel() / shape[1];
  all.push_back({name, std::move(t), init, fan});
  return static_cast<int>(all.size()) - 1;
}

int Builder::buffer(const std::string& name, at::Tensor tensor, const std::string& drawn_as) {
  net_.buffers.push_back({name, std::move(tensor), drawn_as});
  return static_cast<int>(net_.buffers.size()) - 1;
}

Net Builder::finish(const Values& outputs, const Options& options) {
  for (const Value& v : outputs) net_.outputs.push_back(v.id);
  fuse(net_.steps, net_.outputs);
  const Layout layout = chosen_layout(net_.steps);
  net_.compute = options.compute;
  net_.channels_last =
      options.channels_last && (layout == Layout::any || layout == Layout::channels_last);
  net_.finish();
  return std::move(net_);
}

}  // namespace sluice
