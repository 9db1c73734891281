#include "engine/graph/type_names.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "engine/base/diagnostic.h"
#include "engine/base/letter_case.h"
#include "engine/graph/graph_reader.h"

namespace sluice {
namespace {

// Classes whose type is not their own name in small letters.
constexpr std::pair<std::string_view, std::string_view> renamed[]{
    {"AHNet", "ahnet"},
    {"ATSSMatcher", "retina_net_loss"},
    {"AveragedModel", "swa"},
    {"AvgMerger", "patch_inferer"},
    {"BasicUNet", "basic_unet"},
    {"BasicUNetPlusPlus", "basic_unet_plus_plus"},
    {"BoxCoder", "retina_net_loss"},
    {"BoxGIoULoss", "box_giou_loss"},
    {"CIFAR10", "cifar10"},
    {"COCOMetric", "coco_metric"},
    {"CSVDataset", "csv_list"},
    {"DAF3D", "daf3d"},
    {"DDIMScheduler", "diffusion_inferer"},
    {"DDPMScheduler", "diffusion_inferer"},
    {"PatchWSIDataset", "read_region"},
    {"SlidingPatchWSIDataset", "slide_grid"},
    {"MaskedPatchWSIDataset", "slide_grid"},
    {"ProbMapProducer", "probability_map"},
    {"PathologyProbNMS", "prob_nms"},
    {"CAM", "saliency"},
    {"CacheDataset", "cache"},
    {"ClassificationWriter", "save_class_scores"},
    {"ColorJitter", "rand_color_jitter"},
    {"ComputeHoVerMaps", "compute_hover_maps"},
    {"ConfusionMatrixMetric", "confusion_matrix"},
    {"ControlNetDiffusionInferer", "diffusion_inferer"},
    {"ControlNetLatentDiffusionInferer", "diffusion_inferer"},
    {"ControlNetMaisi", "controlnet_maisi"},
    {"CrossValidation", "datalist"},
    {"DataLoader", "batch"},
    {"Dataset", "file_list"},
    {"DecathlonDataset", "decathlon"},
    {"DenseNet121", "densenet121"},
    {"DenseNet169", "densenet169"},
    {"DenseNet201", "densenet201"},
    {"DenseNet264", "densenet264"},
    {"DetectionSaver", "save_boxes"},
    {"DiNTS", "dints"},
    {"DiffusionModelUNet", "diffusion_model_unet"},
    {"DiffusionModelUNetMaisi", "diffusion_model_unet_maisi"},
    {"EfficientNetBN", "efficientnet"},
    {"EnsureChannelFirst", "load_image"},
    {"EnsureType", "load_image"},
    {"FashionMNIST", "idx"},
    {"FindAllValidSlicesDeepEdit", "find_all_valid_slices_missing_labels"},
    {"FlexibleUNet", "flexible_unet"},
    {"GradCAM", "saliency"},
    {"GradCAMpp", "saliency"},
    {"HardNegativeSampler", "retina_net_loss"},
    {"HoVerNet", "hover_net"},
    {"HoVerNetInstanceMapPostProcessing", "hover_net_instance_map_post_processing"},
    {"HoVerNetLoss", "hover_net_loss"},
    {"HoVerNetNuclearTypePostProcessing", "hover_net_nuclear_type_post_processing"},
    {"Interaction", "interact"},
    {"LMDBDataset", "cache"},
    {"LatentDiffusionInferer", "diffusion_inferer"},
    {"LossMetric", "cumulative_average"},
    {"MNIST", "idx"},
    {"MaskedAutoEncoderViT", "masked_auto_encoder_vit"},
    {"MeanIoU", "mean_iou"},
    {"MeanPairwiseDistance", "pairwise_distance_metric"},
    {"MedNeXt", "med_next"},
    {"NPZDictItemDataset", "npz_items"},
    {"NormalizeLabelsInDataset", "remap_labels_to_sequential"},
    {"PNDMScheduler", "diffusion_inferer"},
    {"PersistentDataset", "cache"},
    {"PlainConvUNet", "plain_conv_unet"},
    {"RFlowScheduler", "diffusion_inferer"},
    {"ROCAUCMetric", "rocauc"},
    {"Rand2DElastic", "rand_2d_elastic"},
    {"Rand3DElastic", "rand_elastic"},
    {"RandImageLMDeform", "rand_smooth_deform"},
    {"RandTorchVision", "rand_color_jitter"},
    {"RegResNet", "reg_resnet"},
    {"RegUNet", "reg_unet"},
    {"RetinaNetDetector", "retina_net_loss"},
    {"ResidualEncoderUNet", "residual_encoder_unet"},
    {"ResizeGuidance", "add_guidance_from_points"},
    {"SENet154", "senet154"},
    {"SEResNet101", "se_resnet101"},
    {"SEResNet152", "se_resnet152"},
    {"SEResNet50", "se_resnet50"},
    {"SEResNext101", "se_resnext101"},
    {"SEResNext50", "se_resnext50"},
    {"SPADEDiffusionModelUNet", "spade_diffusion_model_unet"},
    {"SaliencyInferer", "saliency"},
    {"SegResNet", "segresnet"},
    {"SegResNetDS", "segresnet_ds"},
    {"SegResNetDS2", "segresnet_ds2"},
    {"SegResNetVAE", "segresnet_vae"},
    {"SlidingWindowHoVerNetInferer", "sliding_window"},
    {"SlidingWindowInferer", "sliding_window"},
    {"SlidingWindowSplitter", "patch_inferer"},
    {"SmartCacheDataset", "smart_cache"},
    {"SoftDiceclDiceLoss", "soft_dice_cl_dice_loss"},
    {"SoftclDiceLoss", "soft_cl_dice_loss"},
    {"SupervisedTrainer", "model"},
    {"ThreadBuffer", "buffer"},
    {"ThreadDataLoader", "buffer"},
    {"TopologyInstance", "dints"},
    {"TorchVisionFCModel", "torchvision_fc_model"},
    {"TransformPointsImageToWorld", "apply_transform_to_points"},
    {"TransformPointsWorldToImage", "apply_transform_to_points"},
    {"UNesT", "unest"},
    {"UNet", "unet"},
    {"UNetPipe", "unet_pipe"},
    {"VISTA3D", "vista3d"},
    {"VNet", "vnet"},
    {"VPredictionPrepareBatch", "diffusion_prepare_batch"},
    {"ViTAutoEnc", "vit_auto_enc"},
    {"VoxelMorphUNet", "voxel_morph"},
};

bool has(const std::vector<std::string>& known, std::string_view name) {
  return std::find(known.begin(), known.end(), name) != known.end();
}

// "RandFlip" -> "rand_flip"
std::string snake_case(std::string_view name) {
  std::string out;
  const auto is = [&](std::size_t i, int (*kind)(int)) {
    return i < name.size() && kind(static_cast<unsigned char>(name[i]));
  };
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool begins =
        i > 0 && is(i, std::isupper) && (is(i - 1, std::islower) || is(i + 1, std::islower));
    if (begins) out += '_';
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
  }
  return out;
}

// What a class without the mark of a dictionary transform is here.
std::string plain(std::string_view name, const std::vector<std::string>& known) {
  for (const auto& [class_name, type] : renamed)
    if (class_name == name && has(known, type)) return std::string(type);
  const std::string own = snake_case(name);
  if (has(known, own)) return own;
  const std::string together = lower_case(std::string(name));  // "AdamW"
  return has(known, together) ? together : "";
}

}  // namespace

std::string type_for_class(const std::string& name, const std::vector<std::string>& known) {
  std::string_view word = name;
  word.remove_prefix(word.rfind('.') + 1);  // npos + 1 is 0
  if (std::none_of(word.begin(), word.end(), [](unsigned char c) { return std::isupper(c); }))
    return "";
  for (const std::string_view mark : {"", "d", "D", "Dict"})
    if (word.ends_with(mark))
      if (auto type = plain(word.substr(0, word.size() - mark.size()), known); !type.empty())
        return type;
  return "";
}

std::vector<std::string> types_with(const std::string& word,
                                    const std::vector<std::string>& known) {
  const std::string small = lower_case(word);
  std::vector<std::string> found;
  for (const auto& name : known)
    if (name.find(small) != std::string::npos) found.push_back(name);
  return found;
}

std::string suggest_type(const std::string& type, const std::vector<std::string>& known) {
  if (const auto here = type_for_class(type, known); !here.empty())
    return "here it is called \"" + here + "\"";
  std::string hint = did_you_mean(type, known);
  if (!hint.empty() || type.size() < 3) return hint;
  const auto longer = types_with(type, known);
  if (longer.empty() || longer.size() > 4) return "`sluice inspect` lists the types";
  return (longer.size() == 1 ? "did you mean " : "did you mean one of ") + reading::listed(longer) +
         "?";
}

}  // namespace sluice
