#include "tools/runtime/nnunet/checkpoint.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/session/weights.h"
#include "engine/state/checkpoint.h"
#include "engine/state/nnunet_names.h"
#include "engine/state/torch_file.h"
#include "engine/state/torch_writer.h"
#include "tools/runtime/nnunet/trained_model.h"
#include "tools/runtime/write_text.h"

namespace sluice::nnunet {
namespace {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, at::Tensor>;

// nnU-Net numbers parameters by its modules' order; ours come in that of the forward pass.
Network::Named in_order(const Network& network) {
  static const std::vector<std::string> order{"encoder.", "decoder.stages.", "decoder.transpconvs.",
                                              "decoder.seg_layers."};
  const auto rank = [](const auto& parameter) {
    return std::find_if(
               order.begin(), order.end(),
               [&](const std::string& part) { return parameter.first.starts_with(part); }) -
           order.begin();
  };
  Network::Named all = network.parameters();
  std::stable_sort(all.begin(), all.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return all;
}

// What a checkpoint of a run has before each name: "net" of "net.encoder...".
std::string network_in(const Tensors& tensors, const std::string& parameter) {
  if (tensors.contains(parameter)) return "";
  for (const auto& [name, tensor] : tensors)
    if (name.ends_with("." + parameter)) return name.substr(0, name.size() - parameter.size() - 1);
  return "";
}

std::optional<Checkpoint> run_at(const fs::path& from) {
  if (!fs::is_directory(from)) return std::nullopt;
  return load_checkpoint(
      fs::is_directory(from / "checkpoints") ? newest_checkpoint(from / "checkpoints") : from);
}

// An sgd's momentum of a parameter, or undefined.
at::Tensor momentum_of(const Checkpoint& run, const std::string& parameter) {
  const Json updaters = run.state.value("updaters", Json::object());
  for (const auto& [node, type] : updaters.items())
    if (type == "sgd")
      if (const auto found = run.optimizer.find(node + ":exp_avg." + parameter);
          found != run.optimizer.end())
        return found->second;
  return {};
}

void put_optimizer(TorchWriter& w, const Network::Named& parameters,
                   const std::optional<Checkpoint>& run) {
  w.key("optimizer_state").begin().key("state").begin();
  Json numbers = Json::array();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    numbers.push_back(i);
    const at::Tensor momentum = run ? momentum_of(*run, parameters[i].first) : at::Tensor();
    if (momentum.defined())
      w.key(static_cast<std::int64_t>(i)).begin().key("momentum_buffer").tensor(momentum).end();
  }
  w.end();
  // nnU-Net's own settings, which its trainer has at any rate.
  w.key("param_groups")
      .value(Json::array({{{"lr", 0.01},
                           {"momentum", 0.99},
                           {"dampening", 0},
                           {"weight_decay", 3e-5},
                           {"nesterov", true},
                           {"maximize", false},
                           {"foreach", nullptr},
                           {"differentiable", false},
                           {"fused", nullptr},
                           {"params", numbers}}}));
  w.end();
}

// Its logger wants a value an epoch; what a run logged is not what nnU-Net would have.
Json logging(std::int64_t epochs, std::int64_t classes) {
  Json all = Json::object();
  for (const char* key : {"mean_fg_dice", "ema_fg_dice", "train_losses", "val_losses", "lrs",
                          "epoch_start_timestamps", "epoch_end_timestamps"})
    all[key] = std::vector<double>(static_cast<std::size_t>(epochs), 0.0);
  all["dice_per_class_or_region"] = std::vector<std::vector<double>>(
      static_cast<std::size_t>(epochs), std::vector<double>(static_cast<std::size_t>(classes)));
  return all;
}

// Those of a checkpoint of nnU-Net's; else all, as its trainer has them.
Json mirror_axes(const fs::path& from, std::size_t axes) {
  constexpr const char* key = "inference_allowed_mirroring_axes";
  if (fs::is_regular_file(from) && is_torch_file(from))
    if (const Json values = read_torch_values(from); values.is_object() && values.contains(key))
      return values[key];
  Json all = Json::array();
  for (std::size_t a = 0; a < axes; ++a) all.push_back(a);
  return all;
}

Json fold_of(const fs::path& folder, const fs::path& file) {
  const std::string name = folder.filename().string(),
                    number = name.starts_with("fold_") ? name.substr(5) : "";
  if (number == "all") return number;
  if (number.empty() || number.size() > 6 ||
      !std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; }))
    throw Error(Exit::usage, file.string() +
                                 ": a checkpoint of nnU-Net's stands in TRAINER__PLANS__"
                                 "CONFIGURATION/fold_0, _1, ... or _all");
  return std::stoll(number);
}

}  // namespace

void write_checkpoint(const Tensors& tensors, const fs::path& from, const fs::path& given) {
  const fs::path file = fs::absolute(given).lexically_normal(), fold = file.parent_path();
  if (fs::exists(file))
    throw Error(Exit::usage, file.string() + ": is there already and stays as it is");
  const Json number = fold_of(fold, file);
  const TrainedModel model = read_model_folder(fold.parent_path());
  const auto network = Registry::global().make_network(model.network.at("type"), [&] {
    Json params = model.network;
    params.erase("type");
    return params;
  }());
  const std::string name = network_in(tensors, network->parameters().front().first);
  fill(*network, name, tensors, from.string());

  const Network::Named parameters = in_order(*network);
  const auto run = run_at(from);
  const std::int64_t epochs =
      run ? run->state.value("turn", Json::object()).value("epoch", std::int64_t{0}) : 0;
  TorchWriter w;
  w.begin().key("network_weights").begin();
  for (const auto& [parameter, tensor] : parameters)
    for (const std::string& each : nnunet_names(parameter, model.dropout ? 2 : 1))
      w.key(each).tensor(tensor.detach());
  w.end();
  put_optimizer(w, parameters, run);
  w.key("grad_scaler_state").value(nullptr);
  w.key("logging").value(logging(epochs, std::ssize(model.dataset.classes())));
  w.key("_best_ema").value(nullptr).key("current_epoch").value(epochs);
  w.key("init_args")
      .value({{"plans", model.plans},
              {"configuration", model.configuration},
              {"fold", number},
              {"dataset_json", read_json(model.folder / "dataset.json")}});
  w.key("trainer_name").value(model.trainer);
  w.key("inference_allowed_mirroring_axes").value(mirror_axes(from, model.patch.size())).end();
  fs::create_directories(fold);
  write_text(file, w.archive(file.stem().string()));
}

}  // namespace sluice::nnunet
