#include "kernels/net/fuse.h"

#include <algorithm>
#include <map>

#include "kernels/net/conv_step.h"
#include "kernels/net/norm_step.h"
#include "kernels/net/pointwise_step.h"

namespace sluice {
namespace {

template <class T>
T* as(Step* s) {
  return dynamic_cast<T*>(s);
}

// The list as it is rewritten: who makes a value, how often it is read.
struct Uses {
  std::map<int, int> reads;     // by value
  std::map<int, Step*> makers;  // by value

  Uses(const Steps& steps, const std::vector<int>& outputs) {
    for (const auto& s : steps) {
      makers[s->output] = s.get();
      for (const int v : s->inputs) ++reads[v];
    }
    for (const int v : outputs) ++reads[v];
  }
  // Who makes a value that one step alone reads; null: nobody, or others read it too.
  Step* only_for(int value) const {
    const auto maker = makers.find(value);
    return maker == makers.end() || reads.at(value) > 1 ? nullptr : maker->second;
  }
};

bool has_residual(const Step& s) { return s.inputs.size() > 1; }

bool take_activation(Step* maker, const Step& s) {
  const auto* relu = dynamic_cast<const ReluStep*>(&s);
  const auto* act = dynamic_cast<const NormActStep*>(&s);
  if (act && (act->norm != Norm::none || has_residual(*act))) return false;
  if (!relu && !act) return false;
  auto* norm = as<NormActStep>(maker);
  if (!norm || norm->norm == Norm::none || norm->activates() || has_residual(*norm)) return false;
  norm->fixed_slope = relu ? 0.0 : act->fixed_slope;
  if (act) norm->slope = act->slope;
  return true;
}

bool take_residual(Step* maker, const Step& s) {
  if (!dynamic_cast<const AddStep*>(&s) || has_residual(*maker)) return false;
  if (!as<ConvStep>(maker) && !as<NormActStep>(maker)) return false;
  maker->inputs.push_back(s.inputs[1]);
  maker->keeps.push_back(false);
  return true;
}

// A norm of several channels together does not take their biases away. The norm's running mean
// counts the bias; with running statistics it is needed after all.
void leave_bias_out(Step* maker, Step& s) {
  auto* conv = as<ConvStep>(maker);
  auto* norm = as<NormActStep>(&s);
  if (!conv || !norm || !conv->normed || conv->bias < 0 || norm->norm == Norm::none) return;
  if (norm->norm == Norm::group && norm->groups != conv->spec.out) return;
  conv->silent_bias = conv->bias;
  conv->bias = -1;
  if (norm->norm == Norm::batch) norm->bias = conv->silent_bias;
}

}  // namespace

void fuse(Steps& steps, const std::vector<int>& outputs) {
  Uses uses(steps, outputs);
  for (auto& s : steps) {
    Step* maker = uses.only_for(s->inputs[0]);
    if (!maker) continue;
    leave_bias_out(maker, *s);
    if (!take_activation(maker, *s) && !take_residual(maker, *s)) continue;
    // The maker goes to this step's place and makes its value.
    const auto from = std::find_if(steps.begin(), steps.end(),
                                   [&](const auto& one) { return one.get() == maker; });
    maker->output = s->output;
    uses.makers[s->output] = maker;
    s = std::move(*from);
  }
  std::erase_if(steps, [](const auto& s) { return s == nullptr; });
}

Layout chosen_layout(const Steps& steps) {
  Layout found = Layout::any;
  for (const auto& s : steps) {
    const Layout wish = s->layout();
    if (wish == Layout::channels_last) return wish;
    if (wish != Layout::any) found = wish;
  }
  return found;
}

}  // namespace sluice
