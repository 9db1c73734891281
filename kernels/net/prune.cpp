#include "kernels/net/prune.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/error.h"
#include "kernels/net/conv_1d.h"
#include "kernels/net/conv_step.h"
#include "kernels/net/dense_step.h"
#include "kernels/net/norm_step.h"
#include "kernels/net/shape_step.h"
#include "kernels/net/torch_step.h"

namespace sluice {
namespace {

using Units = std::vector<int>;  // a value's channels, each by its number in the whole network

[[noreturn]] void refuse(const Step& s, const std::string& why) {
  throw Error(Exit::usage, "step " + std::to_string(s.number) + " (" + s.kind() +
                               (s.name.empty() ? "" : " " + s.name) + ") cannot be pruned: " + why);
}

// A step that makes its channels of others by weights: [out, in, ...], or [in, out, ...].
struct Weighted {
  int weight = -1;
  Units biases;
  int out_axis = 0;
  bool depthwise = false;  // each channel of its own input's alone
};

std::optional<Weighted> weighted(const Step& s) {
  if (const auto* c = dynamic_cast<const ConvStep*>(&s)) {
    const bool depthwise =
        c->spec.groups > 1 && c->spec.groups == c->spec.in && c->spec.in == c->spec.out;
    if (c->spec.groups > 1 && !depthwise) refuse(s, "its groups have several channels");
    Weighted p{c->weight, {}, c->spec.transposed && !depthwise ? 1 : 0, depthwise};
    for (const int b : {c->bias, c->silent_bias})
      if (b >= 0) p.biases.push_back(b);
    return p;
  }
  if (const auto* l = dynamic_cast<const LinearStep*>(&s)) {
    Weighted p{l->weight, {}, 0, false};
    if (l->bias >= 0) p.biases.push_back(l->bias);
    return p;
  }
  return std::nullopt;
}

class Pruning {
 public:
  Pruning(Net& whole, Net& small, const Step::Size& image) : whole_(whole), small_(small) {
    const std::vector<Step::Size> images(static_cast<std::size_t>(whole.inputs), image);
    sizes_ = whole.sizes(images);
    small_sizes_ = small.sizes(images);
    if (whole.steps.size() != small.steps.size() || whole.values != small.values)
      throw Error(
          Exit::usage,
          "of so few channels it has other steps, for example no convolution in a residual unit "
          "that keeps them: leave more");
    units_.resize(static_cast<std::size_t>(whole.values));
    for (int v = 0; v < whole.inputs; ++v) units_[v] = made(v);
    for (const auto& s : whole.steps) follow(*s);
  }

  void choose() {
    score();
    for (int v = 0; v < whole_.inputs; ++v) keep_all(v);
    for (const int v : whole_.outputs) keep_all(v);
    // What few channels tie first: those that stand side by side elsewhere are then decided.
    std::vector<int> values(makes_.begin(), makes_.end());
    std::stable_sort(values.begin(), values.end(),
                     [&](int a, int b) { return units_[a].size() < units_[b].size(); });
    for (const int v : values) choose_of(v);
  }

  // The small network's tensors; zeros in the whole one's where channels went.
  void move() {
    const at::NoGradGuard no_grad;
    std::map<std::string, at::Tensor> to;
    for (auto& p : small_.parameters) to[p.name] = p.tensor;
    for (auto& b : small_.buffers) to[b.name] = b.tensor;
    const auto give = [&](const std::string& name, const at::Tensor& t) {
      const at::Tensor& target = to.at(name);
      if (target.sizes() != t.sizes())
        throw Error(Exit::usage, name + ": " + c10::str(target.sizes()) + " would not hold " +
                                     c10::str(t.sizes()));
      target.copy_(t);
    };
    for (const auto& p : whole_.parameters) cut_[p.name] = p.tensor.detach();
    for (const auto& b : whole_.buffers) cut_[b.name] = b.tensor;
    for (const auto& s : whole_.steps) cut(*s);
    for (const auto& [name, t] : cut_) give(name, t);
  }

 private:
  Units made(int v) {
    Units all(static_cast<std::size_t>(sizes_[v][1]));
    for (int& u : all) {
      u = static_cast<int>(parent_.size());
      parent_.push_back(u);
    }
    return all;
  }
  int root(int u) {
    while (parent_[u] != u) u = parent_[u] = parent_[parent_[u]];
    return u;
  }
  void tie(const Step& s, const Units& a, const Units& b) {
    if (a.size() != b.size()) refuse(s, "it joins values of other channels");
    for (std::size_t i = 0; i < a.size(); ++i) parent_[root(b[i])] = root(a[i]);
  }

  void follow(const Step& s) {
    if (is_conv_1d(s)) refuse(s, "1-D convolutions are not pruned");
    Units& out = units_[s.output];
    const Units& in = units_[s.inputs[0]];
    if (const auto product = weighted(s)) {
      if (sizes_[s.output].size() == 3) refuse(s, "it works on tokens");
      if (sizes_[s.inputs[0]][1] != std::ssize(in)) refuse(s, "its input is not one of channels");
      out = made(s.output);
      makes_.push_back(s.output);
      if (product->depthwise) tie(s, out, in);
      if (s.inputs.size() > 1) tie(s, out, units_[s.inputs[1]]);
      return;
    }
    out = in;
    if (dynamic_cast<const ConcatStep*>(&s)) {
      for (std::size_t i = 1; i < s.inputs.size(); ++i) {
        const Units& more = units_[s.inputs[i]];
        out.insert(out.end(), more.begin(), more.end());
      }
    } else {
      for (std::size_t i = 1; i < s.inputs.size(); ++i)
        if (sizes_[s.inputs[i]][1] == std::ssize(in)) tie(s, in, units_[s.inputs[i]]);
    }
    if (sizes_[s.output].size() < 2 || sizes_[s.output][1] != std::ssize(out))
      refuse(s, "its output's channels are not those of its input");
  }

  // By root; a layer's mean counts one.
  void score() {
    score_.assign(parent_.size(), 0);
    for (const auto& s : whole_.steps) {
      const auto product = weighted(*s);
      if (!product) continue;
      const at::Tensor w = whole_.parameters[product->weight].tensor.detach().abs();
      const auto add = [&](const Units& units, std::int64_t axis) {
        std::vector<std::int64_t> others;
        for (std::int64_t a = 0; a < w.dim(); ++a)
          if (a != axis) others.push_back(a);
        const at::Tensor each = w.mean(others).to(at::kDouble);
        const at::Tensor share = each / each.mean().clamp_min(1e-30);
        for (std::size_t i = 0; i < units.size(); ++i)
          score_[root(units[i])] += share[static_cast<std::int64_t>(i)].item<double>();
      };
      add(units_[s->output], product->out_axis);
      if (!product->depthwise) add(units_[s->inputs[0]], 1 - product->out_axis);
    }
  }

  void keep_all(int v) {
    for (const int u : units_[v]) keeps_[root(u)] = true;
  }

  void choose_of(int v) {
    std::int64_t left = small_sizes_[v][1];
    std::vector<int> open;
    for (const int u : units_[v]) {
      const int r = root(u);
      const auto known = keeps_.find(r);
      if (known == keeps_.end())
        open.push_back(r);
      else
        left -= known->second ? 1 : 0;
    }
    if (left < 0 || left > std::ssize(open))
      throw Error(Exit::usage, "channels that a sum ties would have to be " +
                                   std::to_string(small_sizes_[v][1]) + " and others at once");
    std::stable_sort(open.begin(), open.end(), [&](int a, int b) { return score_[a] > score_[b]; });
    for (std::size_t i = 0; i < open.size(); ++i)
      keeps_[open[i]] = static_cast<std::int64_t>(i) < left;
  }

  at::Tensor places(const Units& units, bool kept) {
    std::vector<std::int64_t> all;
    for (std::size_t i = 0; i < units.size(); ++i)
      if (keeps_.at(root(units[i])) == kept) all.push_back(static_cast<std::int64_t>(i));
    return at::tensor(all, at::kLong);
  }
  // An axis of a tensor that goes with these channels.
  void cut_axis(const std::string& name, at::Tensor whole, std::int64_t axis, const Units& units,
                bool zero) {
    cut_[name] = cut_.at(name).index_select(axis, places(units, true));
    if (zero) whole.index_fill_(axis, places(units, false), 0);
  }

  void cut(const Step& s) {
    const Units &in = units_[s.inputs[0]], &out = units_[s.output];
    const auto parameter = [&](int p, std::int64_t axis, const Units& units, bool zero) {
      Net::Parameter& q = whole_.parameters[p];
      if (seen_.insert({q.name, axis}).second)
        cut_axis(q.name, q.tensor.detach(), axis, units, zero);
    };
    if (const auto product = weighted(s)) {
      parameter(product->weight, product->out_axis, out, true);
      if (!product->depthwise) parameter(product->weight, 1 - product->out_axis, in, false);
      for (const int b : product->biases) parameter(b, 0, out, true);
    } else if (const auto* norm = dynamic_cast<const NormActStep*>(&s)) {
      for (const int p : {norm->gamma, norm->beta})
        if (p >= 0) parameter(p, 0, in, true);
      for (const int b : {norm->running_mean, norm->running_var})
        if (b >= 0) {
          auto& q = whole_.buffers[b];
          cut_axis(q.name, q.tensor, 0, in, b == norm->running_mean);
        }
    } else if (const auto* function = dynamic_cast<const TorchStep*>(&s)) {
      for (const int p : function->weights)
        if (whole_.parameters[p].tensor.dim() == 1 &&
            whole_.parameters[p].tensor.size(0) == std::ssize(in))
          parameter(p, 0, in, false);
    }
  }

  Net& whole_;
  Net& small_;
  std::vector<Step::Size> sizes_, small_sizes_;  // by value
  std::vector<Units> units_;                     // by value
  std::vector<int> parent_;                      // of units: what ties them
  Units makes_;                                  // values that products make
  std::vector<double> score_;
  std::map<int, bool> keeps_;  // by root
  std::map<std::string, at::Tensor> cut_;
  std::set<std::pair<std::string, std::int64_t>> seen_;
};

}  // namespace

void prune_into(Net& whole, Net& small, const at::Tensor& image) {
  Pruning pruning(whole, small, image.sizes().vec());
  pruning.choose();
  pruning.move();
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> images(static_cast<std::size_t>(whole.inputs), image);
  whole.forget_copies();
  small.forget_copies();
  const at::Tensor before = whole.forward(images, 1, false, 0)[0],
                   after = small.forward(images, 1, false, 0)[0];
  const double apart =
      ((before - after).abs().max() / before.abs().max().clamp_min(1e-30)).item<double>();
  if (!(apart < 1e-3))
    throw Error(Exit::usage,
                "cannot be pruned: its steps mix channels (group norm, attention), so "
                "that what stays changes with what goes");
}

}  // namespace sluice
