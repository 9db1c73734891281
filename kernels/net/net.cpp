#include "kernels/net/net.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "engine/base/error.h"
#include "engine/base/random.h"
#include "kernels/net/pass.h"
#include "kernels/net/prepared.h"
#include "kernels/net/products.h"

namespace sluice {

at::Tensor Frame::result_of(int value) const {
  if (schedule->last_use[value] >= 0) return {};
  for (std::size_t i = 0; i < results.size(); ++i)
    if (net->outputs[i] == value) return results[i];
  return {};
}

void Frame::add_grad(int value, const at::Tensor& grad) {
  if (!wants[value]) return;
  at::Tensor& sum = grads[value];
  sum = sum.defined() ? sum + grad : grad;  // not in place: a residual's gradient is shared
}

void Frame::add_parameter_grad(int parameter, const at::Tensor& grad) {
  if (!trains[parameter]) return;
  at::Tensor& sum = (*parameter_grads)[parameter];
  const at::Tensor wide = grad.to(at::kFloat);
  if (!sum.defined())
    sum = wide.contiguous();
  else
    sum.add_(wide);
}

void Frame::add_matrix_grad(int parameter, const at::Tensor& grad, const at::Tensor& rows) {
  if (!trains[parameter]) return;
  add_product(grad, rows, (*parameter_grads)[parameter]);
}

namespace {

// What the first `count` outputs need, found from the list's end.
Schedule schedule_of(const Net& net, std::size_t count) {
  const auto values = static_cast<std::size_t>(net.values);
  Schedule s{{}, std::vector<int>(values, -1), std::vector<bool>(values, false)};
  std::vector<bool> needed(values, false);
  const std::vector<int> outputs(net.outputs.begin(),
                                 net.outputs.begin() + static_cast<std::ptrdiff_t>(count));
  for (const int v : outputs) needed[v] = true;
  for (auto step = net.steps.rbegin(); step != net.steps.rend(); ++step) {
    const Step& one = **step;
    if (!needed[one.output]) continue;
    s.steps.push_back(one.number);
    for (const int v : one.inputs) {
      needed[v] = true;
      s.last_use[v] = std::max(s.last_use[v], one.number);
    }
    one.each_kept([&](int v) { s.kept[v] = true; });
  }
  std::reverse(s.steps.begin(), s.steps.end());
  for (const int v : outputs)  // read at the end as well, or written in two places
    if (s.last_use[v] >= 0 || std::count(outputs.begin(), outputs.end(), v) > 1)
      s.last_use[v] = std::numeric_limits<int>::max();
  return s;
}

}  // namespace

void Net::finish() {
  for (std::size_t n = 0; n < steps.size(); ++n) {
    steps[n]->number = static_cast<int>(n);
    mixes_samples_ = mixes_samples_ || steps[n]->mixes_samples();
    draws_ = draws_ || steps[n]->draws();
  }
  for (std::size_t count = 1; count <= outputs.size(); ++count)
    schedules_.push_back(schedule_of(*this, count));
  costs_ = std::make_shared<Costs>(steps.size());
  forget_copies();
}

// ---- initial weights ----------------------------------------------------------------------------

namespace {

void fill_normal(float* w, std::int64_t n, float scale, std::uint64_t key) {
  for (std::int64_t i = 0; i < n; i += 2) {
    const Block4 bits = philox(static_cast<std::uint64_t>(i), 1, key);
    float a, b;
    normal_pair(bits.v[0], bits.v[1], a, b);
    w[i] = a * scale;
    if (i + 1 < n) w[i + 1] = b * scale;
  }
}

float kaiming_scale(const Net::Parameter& p) {
  const double slope = p.init.rule == Init::Rule::icnr ? 0 : p.init.value;
  return std::sqrt(static_cast<float>(2 / (1 + slope * slope)) / static_cast<float>(p.fan));
}

// kaiming_uniform with a = sqrt(5): bound = sqrt(6 / ((1 + a^2) fan)), as for the bias.
double uniform_bound(const Net::Parameter& p) {
  if (p.init.rule == Init::Rule::kaiming_uniform) return std::sqrt(3.0) * kaiming_scale(p);
  if (p.init.rule == Init::Rule::xavier)
    return std::sqrt(6.0 / static_cast<double>(p.tensor.size(0) + p.tensor.size(1)));
  return p.fan > 0 ? 1 / std::sqrt(static_cast<double>(p.fan)) : 0;
}

void fill_uniform(float* w, std::int64_t n, double bound, std::uint64_t key) {
  for (std::int64_t i = 0; i < n; ++i) {
    const Block4 bits = philox(static_cast<std::uint64_t>(i / 4), 0, key);
    w[i] = static_cast<float>((2.0 * unit_float(bits.v[i % 4]) - 1.0) * bound);
  }
}

}  // namespace

void Net::initialise(std::uint64_t seed) {
  at::NoGradGuard no_grad;
  for (auto& p : parameters) {
    at::Tensor t = at::empty(p.tensor.sizes(), at::kFloat);
    float* w = t.data_ptr<float>();
    const std::uint64_t key = random_key(seed, p.name);
    switch (p.init.rule) {
      case Init::Rule::uniform:
      case Init::Rule::xavier:
      case Init::Rule::kaiming_uniform:
        fill_uniform(w, t.numel(), uniform_bound(p), key);
        break;
      case Init::Rule::kaiming:
        fill_normal(w, t.numel(), kaiming_scale(p), key);
        break;
      case Init::Rule::icnr: {
        const auto repeats = static_cast<std::int64_t>(p.init.value);
        at::Tensor few = at::empty({t.size(0) / repeats, t.numel() / t.size(0)}, at::kFloat);
        fill_normal(few.data_ptr<float>(), few.numel(), kaiming_scale(p), key);
        t.copy_(few.repeat_interleave(repeats, 0).view(t.sizes()));
        break;
      }
      case Init::Rule::normal:
        fill_normal(w, t.numel(), static_cast<float>(p.init.value), key);
        t.add_(p.init.mean);
        break;
      case Init::Rule::fill:
        t.fill_(p.init.value);
        break;
      case Init::Rule::eye:
        t.zero_().view({static_cast<std::int64_t>(p.init.value), -1}).diagonal().fill_(1);
    }
    p.tensor.copy_(t);
  }
  for (auto& b : buffers)  // others are constants
    if (!b.drawn_as.empty()) {
      at::Tensor t = at::empty(b.tensor.sizes(), at::kFloat);
      fill_normal(t.data_ptr<float>(), t.numel(), 1, random_key(seed, b.drawn_as));
      b.tensor.copy_(t);
    } else if (b.name.ends_with("running_var"))
      b.tensor.fill_(1);
    else if (b.name.ends_with("running_mean") || b.name.ends_with("num_batches_tracked"))
      b.tensor.zero_();
}

// ---- layout and sizes ---------------------------------------------------------------------------

at::MemoryFormat Net::layout(std::size_t axes) const {
  if (!channels_last || axes < 4 || axes > 5) return at::MemoryFormat::Contiguous;
  return axes == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
}

at::Tensor Net::laid_out(const at::Tensor& t) const {
  return t.contiguous(layout(t.sizes().size()));
}

const std::vector<Step::Size>& Net::sizes(const std::vector<Step::Size>& of_inputs) const {
  if (of_inputs == sized_for_) return sizes_;
  sizes_ = worked_out_sizes(of_inputs);
  sized_for_ = of_inputs;
  return sizes_;
}

// "add of model.0.conv and model.1.conv"
static std::string called(const Net& net, const Step& s) {
  std::string text = s.kind() + (s.name.empty() ? "" : " " + s.name);
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    const int v = s.inputs[i];
    const auto maker = std::find_if(net.steps.begin(), net.steps.end(),
                                    [v](const auto& one) { return one->output == v; });
    std::string from = v < net.inputs ? "input " + std::to_string(v) : (*maker)->name;
    if (from.empty()) from = (*maker)->kind();
    text += (i == 0 ? " of " : " and ") + from;
  }
  return text;
}

// What shares a gradient with the output is added to it number by number.
static void check_sums(const Step& s, const std::vector<Step::Size>& of, const Step::Size& out) {
  for (std::size_t i = 0; i < of.size(); ++i)
    if (s.shares_grad(i) && of[i] != out)
      throw DataError("sizes " + c10::str(at::IntArrayRef(out)) + " and " +
                      c10::str(at::IntArrayRef(of[i])) + " cannot be added");
}

std::vector<Step::Size> Net::worked_out_sizes(const std::vector<Step::Size>& of_inputs) const {
  std::vector<Step::Size> sizes(static_cast<std::size_t>(values));
  std::copy(of_inputs.begin(), of_inputs.end(), sizes.begin());
  for (const auto& s : steps) {
    std::vector<Step::Size> of;
    for (const int v : s->inputs) of.push_back(sizes[v]);
    try {
      sizes[s->output] = s->output_size(of);
      check_sums(*s, of, sizes[s->output]);
    } catch (const DataError& e) {
      throw DataError(called(*this, *s) + ": " + e.what());
    }
  }
  return sizes;
}

std::vector<Step::Product> Net::products() const {
  std::vector<Step::Product> all;
  if (sizes_.empty()) return all;
  const auto samples = static_cast<double>(sizes_[0][0]);
  for (const auto& s : steps)
    if (Step::Product p = s->product(sizes_[s->inputs[0]]); p.multiply_adds > 0) {
      p.multiply_adds /= samples;
      all.push_back(p);
    }
  return all;
}

// ---- memory -------------------------------------------------------------------------------------

std::shared_ptr<const MemoryPlan> Net::plan_for(const Schedule& schedule,
                                                const std::vector<Step::Size>& of_inputs,
                                                FrameCount count) {
  Planned& p = planned_;
  if (p.schedule == &schedule && p.of_inputs == of_inputs && p.count == count) return p.plan;
  p = {&schedule, of_inputs, count, nullptr};
  if (prepared_->parts.division.recompute)
    p.plan = std::make_shared<const MemoryPlan>(
        everything_again(*this, schedule, worked_out_sizes(of_inputs)));
  else if (memory_policy.kind != MemoryPolicy::Kind::keep)
    p.plan = std::make_shared<const MemoryPlan>(
        memory_plan(*this, schedule, worked_out_sizes(of_inputs), memory_policy, count));
  return p.plan;
}

Net::Memory Net::memory() const {
  Memory m;
  if (const Planned& p = planned_; p.schedule && prepared_->parts.division.stages > 1) {
    m = Pass::memory_in_stages(*this);
  } else if (p.schedule) {
    const MemoryPlan kept =
        memory_plan(*this, *p.schedule, worked_out_sizes(p.of_inputs), {}, p.count);
    const MemoryPlan& plan = p.plan ? *p.plan : kept;
    m.step = p.count.bytes(plan);
    m.forward_again = plan.forward_again;
    m.moved = plan.moved * p.count.frames;
    m.all_kept = p.count.bytes(kept);
  }
  if (const Planned& w = window_; w.schedule)
    m.window = forward_peak(*this, *w.schedule, worked_out_sizes(w.of_inputs)) * w.count.threads;
  return m;
}

// ---- the list in words --------------------------------------------------------------------------

std::vector<Described> Net::describe() const {
  std::vector<Described> all;
  for (const auto& s : steps) {
    Described d{s->kind(), s->name, s->inputs, s->output, {}, s->attributes()};
    for (const int p : s->parameters()) d.parameters.push_back(parameters[p].name);
    all.push_back(std::move(d));
  }
  return all;
}

namespace {

void print(std::ostream& out, bool v) { out << (v ? "yes" : "no"); }
void print(std::ostream& out, std::int64_t v) { out << v; }
void print(std::ostream& out, double v) { out << v; }
void print(std::ostream& out, const std::string& v) { out << v; }
void print(std::ostream& out, const std::vector<std::int64_t>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) out << (i > 0 ? "x" : "") << all[i];
}

}  // namespace

// "4 = conv(3, 1) model.0.conv: kernel 3x3x3, stride 2x2x2"
std::string Described::text() const {
  std::ostringstream out;
  out << output << " = " << kind << '(';
  for (std::size_t i = 0; i < inputs.size(); ++i) out << (i > 0 ? ", " : "") << inputs[i];
  out << ')';
  if (!name.empty()) out << ' ' << name;
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    out << (i > 0 ? ", " : ": ") << attributes[i].first << ' ';
    std::visit([&](const auto& value) { print(out, value); }, attributes[i].second);
  }
  return out.str();
}

}  // namespace sluice
