#include "nodes/network/built_network.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <type_traits>

#include "engine/base/diagnostic.h"
#include "engine/base/letter_case.h"
#include "engine/base/message.h"
#include "engine/session/precision.h"
#include "kernels/net/layer_watch.h"

namespace sluice {

ImageNet::ImageNet() = default;

void BuiltNetwork::make(const std::string& type, const ImageNet& shared, bool channels_last,
                        std::vector<NetInput> inputs,
                        const std::function<Values(const Scope&, const Values&)>& build) {
  type_ = type;
  inputs_ = std::move(inputs);
  dims_ = static_cast<int>(shared.spatial_dims);
  const std::string precision =
      shared.precision == "auto" ? precision_here(false) : shared.precision;
  const auto compute = precision == "bfloat16"  ? at::kBFloat16
                       : precision == "float16" ? at::kHalf
                                                : at::kFloat;
  try {
    Builder b;
    Values x;
    for (const NetInput& in : inputs_) {
      const bool image = in.kind == NetInput::Kind::image;
      x.push_back(b.input(in.channels, image ? dims_ : 0));
      x.back().tokens = in.kind == NetInput::Kind::tokens;
    }
    net_ = b.finish(build(b.scope(), x), {compute, channels_last});
    if (shared.memory == "auto" && !shared.memory_budget)
      refuse("memory \"auto\" needs a memory_budget");
    using Kind = MemoryPolicy::Kind;
    net_.memory_policy = {shared.memory == "auto"        ? Kind::automatic
                          : shared.memory == "light"     ? Kind::light
                          : shared.memory == "recompute" ? Kind::recompute
                          : shared.memory == "offload"   ? Kind::offload
                                                         : Kind::keep,
                          shared.memory_budget.value_or(0)};
    if (!shared.sparsity.is_null()) begin_sparsity(shared.sparsity);
  } catch (const Error& e) {
    throw Error(e.exit, type + ": " + e.what());
  }
}

void BuiltNetwork::begin_normal(bool batch_norms) {
  std::map<std::string, std::int64_t> axes;  // of each layer's weight
  for (const Net::Parameter& p : net_.parameters)
    if (p.name.ends_with("weight")) axes[p.name.substr(0, p.name.rfind('.') + 1)] = p.tensor.dim();
  for (Net::Parameter& p : net_.parameters) {
    const std::string layer = p.name.substr(0, p.name.rfind('.') + 1);
    const bool is_weight = p.name.ends_with("weight");
    const bool of_norm = p.init.rule == Init::Rule::fill && p.init.value == 1;
    if (axes[layer] > 1)
      p.init = is_weight ? Init::normal(0.02) : Init::fill(0);
    else if (is_weight && of_norm && batch_norms)
      p.init = Init::normal(0.02, 1);
  }
}

namespace {

// [N, 4, 8, 8], or of tokens [N, T, 12]; -1: any.
Step::Size wanted(const NetInput& in, std::int64_t samples, at::IntArrayRef extents) {
  Step::Size size{samples};
  if (in.kind == NetInput::Kind::number) {
    size.resize(static_cast<std::size_t>(1 + in.further), -1);
    return size;
  }
  if (in.kind == NetInput::Kind::tokens) return {samples, -1, in.channels};
  if (in.kind == NetInput::Kind::vector) return {samples, in.channels};
  size.push_back(in.channels > 0 ? in.channels : -1);
  for (const std::int64_t n : extents) size.push_back(in.finer > 0 ? n * in.finer : -1);
  return size;
}

bool is(at::IntArrayRef found, const Step::Size& wanted) {
  return std::equal(found.begin(), found.end(), wanted.begin(), wanted.end(),
                    [](auto f, auto w) { return w < 0 || f == w; });
}

std::string text(const Step::Size& wanted) {
  std::string all;
  for (const std::int64_t n : wanted)
    all += (all.empty() ? "[" : ", ") + (n < 0 ? "any" : std::to_string(n));
  return all + "]";
}

}  // namespace

std::vector<Step::Size> BuiltNetwork::input_sizes(const std::vector<std::int64_t>& extents) const {
  std::vector<Step::Size> all;
  for (const NetInput& in : inputs_) {
    all.push_back(wanted(in, 1, extents));
    for (std::size_t a = 0; a < all.back().size(); ++a)
      if (all.back()[a] < 0)
        all.back()[a] = in.kind == NetInput::Kind::image && a > 1 ? extents[a - 2] : 8;
  }
  return all;
}

void BuiltNetwork::check(const Tensors& x) const {
  const at::Tensor& image = x[0];
  const std::int64_t channels = inputs_[0].channels;
  if (inputs_[0].kind == NetInput::Kind::vector && image.size(1) != channels)
    throw DataError(type_ + " takes samples of " + std::to_string(channels) + " numbers, got " +
                    std::to_string(image.size(1)));
  if (image.dim() != dims_ + 2 || (channels > 0 && image.size(1) != channels))
    throw DataError(type_ + " takes [N, " + std::to_string(channels) + "] and " +
                    std::to_string(dims_) + " spatial axes, got " +
                    std::to_string(image.dim() - 2) + " axes and " +
                    std::to_string(image.dim() > 1 ? image.size(1) : 0) + " channels");
  if (const std::string why = unfit(image.sizes().slice(2)); !why.empty())
    throw DataError(type_ + " " + why);
  if (x.size() != inputs_.size())
    throw Error(Exit::usage, type_ + " takes " + std::to_string(inputs_.size()) + " inputs, got " +
                                 std::to_string(x.size()));
  for (std::size_t i = 1; i < x.size(); ++i)
    if (const auto size = wanted(inputs_[i], image.size(0), image.sizes().slice(2));
        !is(x[i].sizes(), size))
      throw DataError(type_ + " takes \"" + inputs_[i].key + "\" as " + text(size) + ", got " +
                      c10::str(x[i].sizes()));
}

Network::Tensors BuiltNetwork::forward(const Tensors& given, std::size_t count) {
  Tensors x = given;
  for (std::size_t i = 0; i < std::min(x.size(), inputs_.size()); ++i)
    if (inputs_[i].kind == NetInput::Kind::vector) x[i] = x[i].flatten(1);
  check(x);
  try {
    return net_.forward(x, count, training_, key_);
  } catch (const DataError& e) {  // sizes that a step cannot take
    throw DataError(type_ + ": " + e.what());
  }
}

// ---- zeros among the weights --------------------------------------------------------------------

// A mask for each convolution that the pattern fits: all ones until the zeros are chosen.
void BuiltNetwork::begin_sparsity(const Json& given) {
  const auto refused = [](const std::string& why) { refuse("sparsity: " + why); };
  if (!given.is_object()) refused("is no object with \"pattern\"");
  for (const auto& [key, value] : given.items()) {
    if (key != "pattern" && key != "keep" && key != "from_epoch")
      refused("has no member \"" + key + "\"; there are pattern, keep, from_epoch");
    if (key != "pattern" && !value.is_number()) refused("\"" + key + "\" is no number");
  }
  const Json pattern = given.value("pattern", Json());
  if (pattern != "vector" && pattern != "2:4") refused("\"pattern\" is \"vector\" or \"2:4\"");
  sparsity_.pattern =
      pattern == "vector" ? Sparsity::Pattern::vector : Sparsity::Pattern::two_of_four;
  sparsity_.keep = given.value("keep", 0.5);
  zeros_from_ = given.value("from_epoch", std::int64_t{0});
  if (!(sparsity_.keep > 0 && sparsity_.keep <= 1)) refused("\"keep\" is a share above 0, up to 1");
  if (pattern == "2:4" && sparsity_.keep != 0.5) refused("2:4 keeps one half");
  sparse_ = sparse_weights(net_, sparsity_);
  if (sparse_.weights.empty())
    refused(dims_ == 1 ? "1-D convolutions have no zeros that are kept"
                       : "the pattern fits none of the convolutions");
  masks_ = net_.buffers.size();
  for (const auto& w : sparse_.weights) {
    const auto& p = net_.parameters[w.parameter];
    net_.buffers.push_back({p.name + ".mask", at::ones(p.tensor.sizes(), at::kByte)});
  }
}

void BuiltNetwork::choose_zeros() {
  std::int64_t zeros = 0, all = 0;
  for (std::size_t i = 0; i < sparse_.weights.size(); ++i) {
    const auto& [parameter, spec] = sparse_.weights[i];
    const at::Tensor mask = sparsity_mask(net_.parameters[parameter].tensor, spec, sparsity_);
    net_.buffers[masks_ + i].tensor.copy_(mask);
    zeros += mask.numel() - mask.sum().item<std::int64_t>();
    all += mask.numel();
  }
  tell("sparsity: " + std::to_string(zeros) + " of " + std::to_string(all) + " weights of " +
       std::to_string(sparse_.weights.size()) + " convolutions are zero from now on; " +
       std::to_string(sparse_.dense) + " that the pattern does not fit stay dense");
}

bool BuiltNetwork::settle(std::uint32_t epoch) {
  if (sparse_.weights.empty() || epoch < zeros_from_) return false;
  const at::NoGradGuard no_grad;
  const auto masks = std::span(net_.buffers).subspan(masks_);
  const bool choose =
      !zeros_chosen_ && std::all_of(masks.begin(), masks.end(), [](const auto& mask) {
        return mask.tensor.all().template item<bool>();  // and not those of a checkpoint
      });
  if (choose) choose_zeros();
  zeros_chosen_ = true;
  for (std::size_t i = 0; i < masks.size(); ++i) {
    at::Tensor& mask = masks[i].tensor;
    const at::Tensor& weight = net_.parameters[sparse_.weights[i].parameter].tensor;
    if (mask.device() != weight.device()) mask.set_data(mask.to(weight.device()));
    weight.detach().mul_(mask);
  }
  return choose;
}

Network::Named BuiltNetwork::parameters() const {
  Named out;
  for (const auto& q : net_.parameters) out.emplace_back(q.name, q.tensor);
  return out;
}

Network::Named BuiltNetwork::buffers() const {
  Named out;
  for (const auto& b : net_.buffers) out.emplace_back(b.name, b.tensor);
  return out;
}

Work BuiltNetwork::last_work() const {
  Work work;
  for (const Step::Product& p : net_.products()) {
    work.multiply_adds += p.multiply_adds;
    if (net_.compute != at::kFloat && p.in % 8 == 0 && p.out % 8 == 0)
      work.on_tensor_cores += p.multiply_adds;
  }
  const Net::Memory memory = net_.memory();
  work.step_bytes = static_cast<double>(memory.step);
  work.step_bytes_kept = static_cast<double>(memory.all_kept);
  work.window_bytes = static_cast<double>(memory.window);
  work.forward_again = memory.forward_again;
  work.bytes_moved = static_cast<double>(memory.moved);
  return work;
}

std::vector<LayerCost> BuiltNetwork::layer_costs() const {
  const std::vector<StepCost> costs = net_.costs();
  std::vector<LayerCost> all;
  bool any = false;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const Step& s = *net_.steps[i];
    all.push_back({s.name, s.kind(), costs[i].forward, costs[i].backward, costs[i].kept});
    any = any || costs[i].forward > 0;
  }
  return any ? all : std::vector<LayerCost>{};
}

LayerView BuiltNetwork::view_layer(const std::string& layer, const at::Tensor& x,
                                   const Score& score) {
  check({x});
  const LayerWatch watch(net_, value_at(net_, layer, {x.sizes().vec()}));
  const c10::AutoGradMode mode(score != nullptr);
  const at::Tensor begin = score ? x.detach().requires_grad_() : x.detach();
  const at::Tensor y = net_.forward({begin}, 1, false, key_)[0];
  if (score) torch::autograd::grad({score(y)}, {begin});
  return {y.detach(), watch.output(), watch.gradient()};
}

// ---- MONAI's names ------------------------------------------------------------------------------

namespace {

struct Named {
  std::string name;  // in lower case
  Json arguments = Json::object();

  // Of the type asked for.
  template <class T>
  T argument(const std::string& key, T otherwise) const {
    const auto found = arguments.find(key);
    if (found == arguments.end()) return otherwise;
    if constexpr (std::is_same_v<T, bool>)
      require(found->is_boolean(), key, "true or false");
    else if constexpr (std::is_same_v<T, std::string>)
      require(found->is_string(), key, "a word");
    else if constexpr (std::is_integral_v<T>)
      require(found->is_number_integer() && *found >= 1, key, "a whole number above 0");
    else
      require(found->is_number(), key, "a number");
    return found->get<T>();
  }
  void require(bool so, const std::string& key, const std::string& what) const {
    if (!so)
      throw Error(Exit::usage,
                  name + ": " + key + " is " + what + ", found " + arguments[key].dump());
  }
};

Named read(const Json& given, const char* what) {
  Named n;
  const Json& name = given.is_array() && !given.empty() ? given[0] : given;
  const bool told = given.is_array() && given.size() == 2;
  if (!name.is_string() || (given.is_array() && given.size() > 2) ||
      (told && !given[1].is_object()))
    throw Error(Exit::usage,
                std::string(what) + " is a name or [name, {arguments}], found " + given.dump());
  n.name = lower_case(name.get<std::string>());
  if (told) n.arguments = given[1];
  return n;
}

using Words = std::vector<std::string>;

[[noreturn]] void unknown(const std::string& what, const std::string& found, const Words& known) {
  std::string all;
  for (const auto& name : known) all += (all.empty() ? "" : ", ") + name;
  const std::string hint = did_you_mean(found, known);
  throw Error(Exit::usage, "no " + what + " is called " + found +
                               (hint.empty() ? "; " : "; " + hint + " ") + "there are " +
                               (all.empty() ? "none" : all));
}

// Of the norm or activation n.
void check_arguments(const Named& n, const char* what, const Words& known) {
  for (const auto& [key, value] : n.arguments.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      unknown(std::string(what) + " argument", key, known);
}

struct KnownNorm {
  Norm kind;
  bool affine;  // unless told otherwise
  Words arguments;
};
const std::map<std::string, KnownNorm>& known_norms() {
  static const std::map<std::string, KnownNorm> all{
      {"instance", {Norm::instance, false, {"affine", "eps", "momentum"}}},
      {"batch", {Norm::batch, true, {"affine", "eps", "momentum"}}},
      {"group", {Norm::group, true, {"num_groups", "affine", "eps"}}}};
  return all;
}

struct KnownAct {
  Act::Kind kind;
  Words arguments;
  const char* number = "";  // the argument that is Act::number
  double usual = 0;
};
const std::map<std::string, KnownAct>& known_acts() {
  using Kind = Act::Kind;
  static const std::map<std::string, KnownAct> all{
      {"relu", {Kind::relu, {"inplace"}}},
      {"leakyrelu", {Kind::leaky_relu, {"negative_slope", "inplace"}, "negative_slope", 0.01}},
      {"prelu", {Kind::prelu, {"num_parameters", "init"}, "init", 0.25}},
      {"gelu", {Kind::gelu, {"approximate"}}},
      {"swish", {Kind::swish, {"alpha"}, "alpha", 1}},
      {"memswish", {Kind::swish, {"inplace"}, "", 1}},
      {"elu", {Kind::elu, {"alpha", "inplace"}, "alpha", 1}},
      {"relu6", {Kind::relu6, {"inplace"}}},
      {"selu", {Kind::selu, {"inplace"}}},
      {"sigmoid", {Kind::sigmoid, {}}},
      {"tanh", {Kind::tanh, {}}},
      {"mish", {Kind::mish, {"inplace"}}},
      {"celu", {Kind::celu, {"alpha", "inplace"}, "alpha", 1}},
      {"softmax", {Kind::softmax, {"dim"}, "dim", 1}},
      {"logsoftmax", {Kind::logsoftmax, {"dim"}, "dim", 1}}};
  return all;
}

}  // namespace

const std::vector<std::string>& norm_names() {
  static const Words all{"instance", "batch", "group"};
  return all;
}

const std::vector<std::string>& act_names() {
  static const Words all{"relu",     "leakyrelu", "prelu", "gelu",    "swish",
                         "memswish", "elu",       "relu6", "selu",    "sigmoid",
                         "tanh",     "mish",      "celu",  "softmax", "logsoftmax"};
  return all;
}

NormOptions norm_of(const Json& given) {
  const Named n = read(given, "a norm");
  const auto known = known_norms().find(n.name);
  if (known == known_norms().end()) unknown("norm", n.name, norm_names());
  check_arguments(n, "norm", known->second.arguments);
  const Norm kind = known->second.kind;
  if (kind == Norm::group && !n.arguments.contains("num_groups"))
    throw Error(Exit::usage, "a group norm needs its num_groups: [\"group\", {\"num_groups\": 8}]");
  if (n.arguments.contains("momentum") && n.arguments["momentum"].is_null())
    throw Error(Exit::usage, n.name +
                                 ": momentum is a number; running statistics that are the mean of "
                                 "all batches, torch's null, are not there");
  NormOptions o{.kind = kind};
  o.affine = n.argument("affine", known->second.affine);
  o.eps = n.argument("eps", o.eps);
  n.require(o.eps >= 0, "eps", "a number from 0");
  o.momentum = n.argument("momentum", o.momentum);
  n.require(o.momentum >= 0 && o.momentum <= 1, "momentum", "a number from 0 to 1");
  o.groups = n.argument("num_groups", o.groups);
  return o;
}

Act act_of(const Json& given) {
  const Named n = read(given, "an activation");
  const auto found = known_acts().find(n.name);
  if (found == known_acts().end()) unknown("activation", n.name, act_names());
  const KnownAct& known = found->second;
  check_arguments(n, n.name.c_str(), known.arguments);
  n.argument("inplace", false);  // nothing changes with it
  Act a{known.kind, n.argument(known.number, known.usual)};
  a.slopes = n.argument("num_parameters", a.slopes);
  const auto approximate = n.argument("approximate", std::string("none"));
  n.require(approximate == "none" || approximate == "tanh", "approximate", "none or tanh");
  a.approximate = approximate == "tanh";
  n.require(!n.arguments.contains("dim") ||
                (std::trunc(a.number) == a.number && a.number != 0 && std::abs(a.number) <= 4),
            "dim", "an axis behind the batch's, such as 1 or -1");
  return a;
}

std::optional<NormOptions> norm_or_none(const std::optional<Json>& given) {
  return given ? std::optional(norm_of(*given)) : std::nullopt;
}

std::optional<Act> act_or_none(const std::optional<Json>& given) {
  return given ? std::optional(act_of(*given)) : std::nullopt;
}

}  // namespace sluice
