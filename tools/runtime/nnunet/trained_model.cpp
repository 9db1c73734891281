#include "tools/runtime/nnunet/trained_model.h"

#include <algorithm>
#include <map>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "engine/state/torch_file.h"
#include "kernels/files/file_io.h"
#include "kernels/lists/data_list.h"
#include "tools/runs/run_of.h"
#include "tools/runtime/nnunet/recipe_run.h"
#include "tools/runtime/nnunet/run_settings.h"

namespace sluice::nnunet {
namespace {

namespace fs = std::filesystem;

// A file's document, and where in it.
struct Part {
  std::string where;
  const Json& json;

  [[noreturn]] void fail(const std::string& why) const { throw DataError(where + ": " + why); }
  bool has(const std::string& key) const {
    return json.is_object() && json.contains(key) && !json[key].is_null();
  }
  Part at(const std::string& key) const {
    if (!has(key)) fail("has no \"" + key + "\"");
    return {where + ": " + key, json[key]};
  }
  template <class T>
  T as() const {
    try {
      return json.get<T>();
    } catch (const Json::exception&) {
      fail("is not of the kind that it should be: " + json.dump().substr(0, 60));
    }
  }
};

// "PlainConvUNet" of "dynamic_network_architectures.architectures.unet.PlainConvUNet".
std::string last_name(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// A configuration with what it inherits.
Json configuration_of(const Part& all, const std::string& name, int depth = 0) {
  if (!all.has(name)) {
    std::string names;
    for (const auto& [key, value] : all.json.items()) names += (names.empty() ? "" : ", ") + key;
    all.fail("has no \"" + printable(name) + "\"; there are " + names);
  }
  const Part own = all.at(name);
  if (!own.json.is_object()) own.fail("is no object");
  if (!own.has("inherits_from")) return own.json;
  if (depth > 16) own.fail("inherits without end");
  Json whole = configuration_of(all, own.at("inherits_from").as<std::string>(), depth + 1);
  whole.update(own.json);
  return whole;
}

const std::map<std::string, std::pair<std::string, std::string>>& networks() {
  static const std::map<std::string, std::pair<std::string, std::string>> all{
      {"PlainConvUNet", {"plain_conv_unet", "n_conv_per_stage"}},
      {"ResidualEncoderUNet", {"residual_encoder_unet", "n_blocks_per_stage"}}};
  return all;
}

const std::pair<std::string, std::string>& network_of(const Part& name) {
  const auto full = name.as<std::string>();
  const auto found = networks().find(last_name(full));
  if (found == networks().end())
    name.fail("network \"" + printable(full) +
              "\" is not known; known are PlainConvUNet and ResidualEncoderUNet");
  return found->second;
}

Json new_network(const Part& architecture) {
  const auto& [type, counts] = network_of(architecture.at("network_class_name"));
  const Part args = architecture.at("arch_kwargs");
  Json net{{"type", type}};
  for (const std::string key : {"features_per_stage", "kernel_sizes", "strides"})
    net[key] = args.at(key).json;
  // Older releases called a residual network's blocks convolutions, too.
  net[counts] = args.has(counts) ? args.at(counts).json : args.at("n_conv_per_stage").json;
  net["n_conv_per_stage_decoder"] = args.at("n_conv_per_stage_decoder").json;
  net["conv_bias"] = args.has("conv_bias") && args.at("conv_bias").as<bool>();
  const auto must_be = [&](const char* key, const std::string& wanted) {
    const std::string found = args.has(key) ? last_name(args.at(key).as<std::string>()) : "none";
    if (!found.starts_with(wanted))
      args.fail(std::string(key) + " \"" + printable(found) + "\" is not known; known is " +
                wanted);
  };
  must_be("norm_op", "InstanceNorm");
  must_be("nonlin", "LeakyReLU");
  if (args.has("block")) must_be("block", "BasicBlock");
  for (const char* key : {"bottleneck_channels", "stem_channels", "squeeze_excitation"})
    if (args.has(key) && args.json[key] != false)
      args.fail(std::string(key) + " is not known of this network");
  const auto given = [&](const char* key) {
    return args.has(key) ? args.json[key] : Json::object();
  };
  Json norm = {{"affine", true}};  // nnU-Net always writes it
  const Json norm_args = given("norm_op_kwargs");
  for (const auto& [key, value] : norm_args.items())
    if (key == "affine" || key == "eps") norm[key] = value;
  net["norm"] = Json::array({"instance", norm});
  if (const Json slope = given("nonlin_kwargs").value("negative_slope", Json()); slope.is_number())
    net["act"] = Json::array({"leakyrelu", {{"negative_slope", slope}}});
  return net;
}

// Of nnU-Net 2.0 to 2.2.
Json old_network(const Part& configuration) {
  const auto& [type, counts] = network_of(configuration.at("UNet_class_name"));
  const auto convolutions = configuration.at("n_conv_per_stage_encoder").as<std::vector<int>>();
  const auto most = configuration.at("unet_max_num_features").as<std::int64_t>();
  auto features = configuration.at("UNet_base_num_features").as<std::int64_t>();
  Json net{{"type", type}, {"features_per_stage", Json::array()}};
  for (std::size_t i = 0; i < convolutions.size(); ++i, features = std::min(most, 2 * features))
    net["features_per_stage"].push_back(std::min(features, most));
  net["kernel_sizes"] = configuration.at("conv_kernel_sizes").json;
  net["strides"] = configuration.at("pool_op_kernel_sizes").json;
  net[counts] = convolutions;
  net["n_conv_per_stage_decoder"] = configuration.at("n_conv_per_stage_decoder").json;
  return net;
}

void read_normalization(const Part& configuration, TrainedModel& model) {
  const std::size_t channels = model.dataset.channels.size();
  model.normalization = configuration.at("normalization_schemes").as<std::vector<std::string>>();
  model.in_mask = configuration.at("use_mask_for_norm").as<std::vector<bool>>();
  if (model.normalization.size() != channels || model.in_mask.size() != channels)
    configuration.fail("normalization_schemes and use_mask_for_norm need an entry for each of " +
                       std::to_string(channels) + " channels");
}

std::vector<std::int64_t> all_axes(std::size_t axes) {
  std::vector<std::int64_t> all;
  for (std::size_t axis = 0; axis < axes; ++axis) all.push_back(static_cast<std::int64_t>(axis));
  return all;
}

// Checkpoints of the folds, by number; "all" only where there is no other.
std::vector<fs::path> folds_in(const fs::path& folder) {
  std::map<long, fs::path> found;
  std::string others;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("fold_")) continue;
    const fs::path file = entry.path() / "checkpoint_final.pth";
    if (!fs::exists(file)) {
      for (const char* other : {"checkpoint_best.pth", "checkpoint_latest.pth"})
        if (fs::exists(entry.path() / other)) others += " " + name + "/" + other;
      continue;
    }
    const std::string number = name.substr(5);
    const bool digits =
        !number.empty() && number.size() < 9 &&
        std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (digits || number == "all") found[digits ? std::stol(number) : -1] = file;
  }
  if (found.empty())
    throw DataError(folder.string() +
                    ": no fold_*/checkpoint_final.pth in it, and no runs of its folds beside it" +
                    (others.empty() ? "" : "; a file may be given by its own name:" + others));
  if (found.size() > 1) found.erase(-1);
  std::vector<fs::path> all;
  for (const auto& [number, file] : found) all.push_back(file);
  return all;
}

// What of a fold's plans makes its network and what it is shown.
Json decisive(const Json& plans, const std::string& configuration, const std::string& where) {
  const Part part{where, plans};
  Json one = configuration_of(part.at("configurations"), configuration);
  for (const char* key : {"data_identifier", "preprocessor_name", "batch_size", "batch_dice",
                          "median_image_size_in_voxels", "inherits_from"})
    one.erase(key);
  one["transpose_forward"] = plans.value("transpose_forward", Json());
  return one;
}

void compare(const Json& one, const Json& other, const std::string& file,
             const std::string& against) {
  for (const auto& [key, value] : one.items())
    if (other.value(key, Json()) != value)
      throw DataError(file + ": was trained with other plans than " + against + ": \"" + key +
                      "\" is " + value.dump().substr(0, 200) + " and " +
                      other.value(key, Json()).dump().substr(0, 200));
}

// What a checkpoint says of itself agrees with the folder's plans, and with the other folds.
void read_checkpoints(TrainedModel& model) {
  for (const fs::path& file : model.checkpoints) {
    const Json values = read_torch_values(file);
    const Part part{file.string(), values};
    const Part args = part.at("init_args");
    const std::string configuration = args.at("configuration").as<std::string>();
    if (configuration != model.configuration)
      args.fail("configuration is \"" + printable(configuration) + "\", that of the folder is \"" +
                model.configuration + "\"");
    const bool first = file == model.checkpoints.front();
    if (args.has("plans"))
      compare(decisive(args.json["plans"], configuration, args.where + ": plans"),
              decisive(model.plans, configuration, "plans.json"), file.string(),
              (model.folder / "plans.json").string());
    const Json mirror = values.value("inference_allowed_mirroring_axes", Json());
    std::vector<std::int64_t> axes;
    if (!mirror.is_null())
      axes = Part{file.string() + ": inference_allowed_mirroring_axes", mirror}
                 .as<std::vector<std::int64_t>>();
    if (first) model.mirror_axes = axes;
    if (axes != model.mirror_axes)
      throw DataError(file.string() + ": its mirroring axes are not those of " +
                      model.checkpoints.front().string());
    if (first) model.trainer = values.value("trainer_name", std::string());
  }
}

// The configuration that a fold's checkpoint names, since folders are renamed.
std::string configuration_in(const fs::path& checkpoint) {
  const Json values = read_torch_values(checkpoint);
  const Part part{checkpoint.string(), values};
  return part.at("init_args").at("configuration").as<std::string>();
}

bool has_fold(const fs::path& folder) {
  return std::any_of(
      fs::directory_iterator(folder), fs::directory_iterator(),
      [](const auto& entry) { return entry.path().filename().string().starts_with("fold_"); });
}

bool is_fold(const fs::path& folder) {
  return folder.filename().string().starts_with("fold_") &&
         fs::exists(folder.parent_path() / "plans.json");
}

fs::path cleaned(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

}  // namespace

bool is_trained_model(const fs::path& given) {
  const fs::path path = cleaned(given);
  return fs::exists(path / "plans.json") || is_fold(path) ||
         (fs::is_regular_file(path) && is_fold(path.parent_path())) || is_recipe_run(run_of(path));
}

TrainedModel read_model_folder(const fs::path& folder, const std::string& configuration) {
  TrainedModel model;
  model.folder = cleaned(folder);
  const fs::path plans = model.folder / "plans.json", dataset = model.folder / "dataset.json";
  for (const fs::path& file : {plans, dataset})
    if (!fs::exists(file))
      throw DataError(file.string() + ": no such file; a model of nnU-Net's has it");
  model.plans = read_json(plans);
  model.dataset = read_dataset(model.folder);
  const std::string name = model.folder.filename().string();
  model.configuration = configuration;
  if (configuration.empty()) {
    const auto at = name.rfind("__");
    if (at == std::string::npos)
      throw DataError(model.folder.string() +
                      ": is not named TRAINER__PLANS__CONFIGURATION, as nnU-Net's folders are");
    model.configuration = name.substr(at + 2);
  }
  model.trainer = name.substr(0, name.find("__"));

  const Part top{plans.string(), model.plans};
  const Part all = top.at("configurations");
  const Json chosen = configuration_of(all, model.configuration);
  const Part part{all.where + "." + model.configuration, chosen};
  if (part.has("previous_stage")) model.previous = part.at("previous_stage").as<std::string>();
  model.patch = part.at("patch_size").as<std::vector<std::int64_t>>();
  model.spacing = part.at("spacing").as<std::vector<double>>();
  model.transpose = top.at("transpose_forward").as<std::vector<std::int64_t>>();
  auto sorted = model.transpose;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != std::vector<std::int64_t>{0, 1, 2})
    top.at("transpose_forward").fail("does not name each of 3 axes once");
  if (model.patch.size() < 2 || model.patch.size() > 3 ||
      model.spacing.size() != model.patch.size())
    part.fail("patch_size and spacing need 2 or 3 numbers");
  for (const double s : model.spacing)
    if (!(s > 0)) part.at("spacing").fail("has a number that is not above 0");
  read_normalization(part, model);
  if (top.has("image_reader_writer"))
    model.reader = top.at("image_reader_writer").as<std::string>();
  model.dropout = part.has("architecture") && part.at("architecture").has("arch_kwargs") &&
                  part.at("architecture").at("arch_kwargs").has("dropout_op");
  Json net = part.has("architecture") ? new_network(part.at("architecture")) : old_network(part);
  model.network = {
      {"type", net["type"]},
      {"spatial_dims", model.patch.size()},
      {"in_channels", model.dataset.channels.size() +
                          (model.previous.empty() ? 0 : model.dataset.classes().size())},
      {"out_channels", model.dataset.outputs()}};
  net.erase("type");
  model.network.update(net);
  return model;
}

TrainedModel model_of_runs(const fs::path& folder, std::vector<fs::path> runs) {
  TrainedModel model = read_model_folder(folder);
  model.checkpoints = std::move(runs);
  model.mirror_axes = all_axes(model.patch.size());
  take_over_settings(model);
  return model;
}

TrainedModel read_trained_model(const fs::path& given) {
  const fs::path path = cleaned(given);
  std::vector<fs::path> files;
  fs::path folder = path;
  if (fs::is_regular_file(path)) {
    files = {path};
    folder = path.parent_path().parent_path();
  } else if (is_fold(path)) {
    files = {path / "checkpoint_final.pth"};
    folder = path.parent_path();
    if (!fs::exists(files[0])) throw DataError(files[0].string() + ": no such file");
  } else if (const auto runs = runs_beside(path); !runs.empty() && !has_fold(path)) {
    return model_of_runs(path, runs);
  } else if (const fs::path at = run_of(path); is_recipe_run(at)) {
    return model_of_runs(folder_of_run(at), {path});
  } else {
    files = folds_in(path);
  }
  TrainedModel model = read_model_folder(folder, configuration_in(files.front()));
  model.checkpoints = files;
  read_checkpoints(model);
  return model;
}

}  // namespace sluice::nnunet
