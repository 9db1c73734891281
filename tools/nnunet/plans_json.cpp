// nnU-Net's plans.json, which its own programs read.
#include "engine/base/json.h"
#include "tools/nnunet/planner.h"

namespace sluice::nnunet {
namespace {

Json resampling(bool labels, int order) {
  return {{"is_seg", labels}, {"order", order}, {"order_z", 0}, {"force_separate_z", nullptr}};
}

Json architecture_json(const Configuration& c, const Planner& planner) {
  const std::string dims = std::to_string(c.dims()) + "d";
  const Json arguments{{"n_stages", c.stages()},
                       {"features_per_stage", c.features},
                       {"conv_op", "torch.nn.modules.conv.Conv" + dims},
                       {"kernel_sizes", c.topology.kernels},
                       {"strides", c.topology.strides},
                       {planner.residual ? "n_blocks_per_stage" : "n_conv_per_stage", c.blocks},
                       {"n_conv_per_stage_decoder", c.decoder},
                       {"conv_bias", true},
                       {"norm_op", "torch.nn.modules.instancenorm.InstanceNorm" + dims},
                       {"norm_op_kwargs", {{"eps", 1e-5}, {"affine", true}}},
                       {"dropout_op", nullptr},
                       {"dropout_op_kwargs", nullptr},
                       {"nonlin", "torch.nn.LeakyReLU"},
                       {"nonlin_kwargs", {{"inplace", true}}}};
  return {{"network_class_name", std::string("dynamic_network_architectures.architectures.unet.") +
                                     (planner.residual ? "ResidualEncoderUNet" : "PlainConvUNet")},
          {"arch_kwargs", arguments},
          {"_kw_requires_import", {"conv_op", "norm_op", "dropout_op", "nonlin"}}};
}

// The data of the residual planners' 2d and 3d_fullres is the default planner's.
std::string identifier(const Configuration& c, const Planner& planner) {
  const bool shared = planner.residual && c.name != "3d_lowres";
  return std::string(shared ? "nnUNetPlans" : planner.plans_name) + "_" + c.name;
}

Json configuration_json(const Configuration& c, const Plans& plans) {
  Json schemes = Json::array(), masks = Json::array();
  for (const Normalization& n : plans.normalization) {
    schemes.push_back(n.scheme);
    masks.push_back(n.masked);
  }
  constexpr const char* function = "resample_data_or_seg_to_shape";
  Json json{{"data_identifier", identifier(c, plans.planner)},
            {"preprocessor_name", "DefaultPreprocessor"},
            {"batch_size", c.batch},
            {"patch_size", c.topology.patch},
            {"median_image_size_in_voxels", c.median},
            {"spacing", c.spacing},
            {"normalization_schemes", std::move(schemes)},
            {"use_mask_for_norm", std::move(masks)},
            {"resampling_fn_data", function},
            {"resampling_fn_seg", function},
            {"resampling_fn_data_kwargs", resampling(false, 3)},
            {"resampling_fn_seg_kwargs", resampling(true, 1)},
            {"resampling_fn_probabilities", function},
            {"resampling_fn_probabilities_kwargs", resampling(false, 1)},
            {"architecture", architecture_json(c, plans.planner)},
            {"batch_dice", c.batch_dice}};
  if (c.name == "3d_lowres") json["next_stage"] = "3d_cascade_fullres";
  return json;
}

Ints inverse(const Ints& order) {
  Ints back(order.size());
  for (std::size_t a = 0; a < order.size(); ++a)
    back[static_cast<std::size_t>(order[a])] = static_cast<std::int64_t>(a);
  return back;
}

}  // namespace

Json plans_json(const Plans& plans) {
  Json configurations = Json::object();
  for (const Configuration& c : plans.configurations)
    configurations[c.name] = configuration_json(c, plans);
  if (plans.cascade())
    configurations["3d_cascade_fullres"] = {{"inherits_from", "3d_fullres"},
                                            {"previous_stage", "3d_lowres"}};
  return {{"dataset_name", plans.dataset.name},
          {"plans_name", plans.planner.plans_name},
          {"original_median_spacing_after_transp", plans.original_spacing},
          {"original_median_shape_after_transp", plans.original_shape},
          {"image_reader_writer", plans.dataset.reader},
          {"transpose_forward", plans.transpose},
          {"transpose_backward", inverse(plans.transpose)},
          {"configurations", std::move(configurations)},
          {"experiment_planner_used", plans.planner.type},
          {"label_manager", "LabelManager"},
          {"foreground_intensity_properties_per_channel", intensities_json(plans.fingerprint)}};
}

}  // namespace sluice::nnunet
