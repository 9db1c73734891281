#include "tools/runtime/bundle/table.h"

namespace sluice::bundle {
namespace {

constexpr ClassRow classes[]{
    {"MeanDice", "dice_metric"},
    {"DiceMetric", "dice_metric"},
    {"MeanIoUHandler", "mean_iou"},
    {"HausdorffDistance", "hausdorff_distance_metric"},
    {"SurfaceDistance", "surface_distance_metric"},
    {"ConfusionMatrix", "confusion_matrix_metric"},
    {"ROCAUC", "rocauc"},
    {"MeanAbsoluteError", "mae_metric"},
    {"MeanSquaredError", "mse_metric"},
    {"RootMeanSquaredError", "rmse_metric"},
    {"PeakSignalToNoiseRatio", "psnr_metric"},
    {"Accuracy", "element_accuracy"},
    {"TorchVision", "rand_color_jitter"},
    {"SliceInferer", "sliding_window"},
    {"SlidingWindowInfererAdapt", "sliding_window"},
    {"SlidingWindowHoVerNetInferer", "sliding_window"},
};

constexpr ParamRow params[]{
    // Everywhere.
    {"*", "_target_", "", ""},
    {"*", "_desc_", "", ""},
    {"*", "_requires_", "", ""},
    {"*", "_disabled_", "", ""},
    {"*", "_mode_", "", "\"default\""},
    {"*", "_imports", "", ""},
    {"*", "meta_keys", "", ""},
    {"*", "orig_meta_keys", "", ""},
    {"*", "meta_key_postfix", "", ""},
    {"*", "to_tensor", "", ""},
    {"*", "device", "", ""},
    {"*", "track_meta", "", ""},
    {"*", "print_log", "", ""},
    {"*", "progress", "", ""},
    {"*", "allow_missing_keys", "", ""},
    {"*", "overwriting", "", ""},
    {"*", "image_only", "", ""},
    {"*", "pin_memory", "", ""},
    {"*", "num_workers", "", ""},
    {"*", "lazy", "", "false"},
    {"*", "dtype", "", "\"float32\""},
    {"*", "dtype", "", "null"},
    // Transforms.
    {"LoadImage", "reader", "", ""},
    {"LoadImage", "as_closest_canonical", "", ""},
    {"LoadImage", "ensure_channel_first", "", ""},
    {"LoadImage", "simple_keys", "", ""},
    {"LoadImage", "prune_meta_pattern", "", ""},
    {"EnsureChannelFirst", "channel_dim", "", ""},
    {"EnsureChannelFirst", "strict_check", "", ""},
    {"Spacing", "dtype", "", ""},  // what is computed in: the result is float32
    {"SpatialResample", "dtype", "", ""},
    {"ResampleToMatch", "dtype", "", ""},
    {"Rotate", "dtype", "", ""},
    {"RandRotate", "dtype", "", ""},
    {"Zoom", "dtype", "", ""},
    {"RandZoom", "dtype", "", ""},
    {"Resize", "dtype", "", ""},
    {"Affine", "dtype", "", ""},
    {"Pad", "constant_values", "value", ""},  // numpy's word
    {"SpatialPad", "constant_values", "value", ""},
    {"BorderPad", "constant_values", "value", ""},
    {"DivisiblePad", "constant_values", "value", ""},
    {"ResizeWithPadOrCrop", "constant_values", "value", ""},
    {"CropForeground", "start_coord_key", "", ""},
    {"CropForeground", "end_coord_key", "", ""},
    {"RandCropByPosNegLabel", "allow_smaller", "", "false"},
    {"RandCropByLabelClasses", "allow_smaller", "", "false"},
    {"RandSpatialCrop", "random_size", "", "false"},
    {"RandSpatialCrop", "random_center", "", "true"},
    {"RandZoom", "max", "", ""},  // MONAI hands them to the padding, which does not know them
    {"RandZoom", "min", "", ""},
    {"SplitLabel", "min_area", "", ""},  // MONAI looks at it nowhere
    {"TorchVision", "name", "", "\"ColorJitter\""},
    {"RandTorchVision", "name", "", "\"ColorJitter\""},
    {"SaveImage", "resample", "", "false"},
    {"SaveImage", "squeeze_end_dims", "", "true"},
    {"SaveImage", "scale", "", "null"},
    {"SaveImage", "writer", "", ""},
    {"SaveImage", "padding_mode", "", ""},
    {"SaveImage", "mode", "", ""},
    {"SaveImage", "output_dtype", "", "null"},
    {"AddClickSignals", "gaussian", "", "false"},
    {"AddGuidanceSignalDeepEdit", "keys", "image", ""},
    {"FindAllValidSlicesMissingLabels", "keys", "label", ""},
    {"AddInitialSeedPointMissingLabels", "keys", "label", ""},
    {"FindDiscrepancyRegionsDeepEdit", "keys", "label", ""},
    {"AddRandomGuidanceDeepEdit", "keys", "", ""},  // MONAI looks at it nowhere
    {"RandSmoothDeform", "spatial_size", "", ""},   // of the images, which say it themselves
    {"RandSmoothFieldAdjustContrast", "spatial_size", "", ""},
    {"RandSmoothFieldAdjustIntensity", "spatial_size", "", ""},
    {"ProbMapProducer", "prob_key", "key", ""},
    {"SaveClassification", "keys", "key", ""},
    {"SaveClassification", "saver", "", "null"},
    {"ClassificationSaver", "batch_transform", "", ""},  // the images' files, which are known
    {"SaveClassification", "flush", "", ""},
    {"SaveImage", "savepath_in_metadict", "", ""},
    {"Invert", "transform", "", ""},
    {"Invert", "orig_keys", "", ""},
    {"Invert", "nearest_interp", "", ""},
    {"Invert", "post_func", "", "null"},
    {"Lambda", "func", "", ""},
    {"Lambda", "overwrite", "", "true"},
    // Networks.
    {"SegResNet", "norm_name", "", "\"group\""},
    {"SwinUNETR", "img_size", "", ""},
    {"SwinUNETR", "use_checkpoint", "", ""},
    {"FlexibleUNet", "pretrained", "", "false"},
    {"TorchVisionFCModel", "pretrained", "", ""},  // weights come from the bundle
    {"DenseNet121", "pretrained", "", "false"},
    {"HoVerNet", "adapt_standard_resnet", "", ""},  // of weights that come from elsewhere
    {"HoVerNet", "pretrained_url", "", "null"},
    {"HoVerNet", "freeze_encoder", "", ""},  // groups of the optimizer
    {"TorchVisionFCModel", "num_classes", "out_channels", ""},
    {"DiNTS", "dints_space", "", ""},
    {"DiNTS", "num_classes", "out_channels", ""},
    {"TopologyInstance", "arch_code", "", ""},
    {"UNesT", "patch_size", "", "4"},
    {"SEResNet50", "num_classes", "out_channels", ""},
    // Inferers.
    {"SlidingWindowInferer", "sw_device", "", ""},
    {"SlidingWindowInferer", "cache_roi_weight_map", "", ""},
    {"SlidingWindowInferer", "cpu_thresh", "", ""},
    {"SlidingWindowHoVerNetInferer", "sw_device", "", ""},
    {"SlidingWindowHoVerNetInferer", "cache_roi_weight_map", "", ""},
    {"SlidingWindowHoVerNetInferer", "cpu_thresh", "", ""},
    {"SlidingWindowInfererAdapt", "sw_device", "", ""},
    {"SlidingWindowInfererAdapt", "cache_roi_weight_map", "", ""},
    // Losses, metrics, optimizers.
    {"SliceInferer", "spatial_dim", "slice_axis", ""},
    {"*", "output_transform", "", ""},
    {"*", "optimizer", "", ""},
    {"*", "params", "", ""},
    {"*", "fused", "", ""},
    {"*", "foreach", "", ""},
    {"*", "print_lr", "", ""},
    {"*", "save_details", "", ""},
    {"CrossEntropyLoss", "reduction", "", "\"mean\""},
    {"SGD", "nesterov", "", "false"},
};

constexpr DefaultRow defaults[]{
    {"swin_unetr", "spatial_dims", "3"},
    {"unet", "spatial_dims", "3"},
    {"flexible_unet", "spatial_dims", "2"},
    {"spacing", "mode", "\"bilinear\""},
    {"resample_to_match", "mode", "\"bilinear\""},
    {"rotate", "mode", "\"bilinear\""},
    {"zoom", "mode", "\"area\""},
    {"resize", "mode", "\"area\""},
    {"rand_zoom", "mode", "\"area\""},
    {"rand_rotate", "mode", "\"bilinear\""},
    {"rand_affine", "mode", "\"bilinear\""},
    {"rand_elastic", "mode", "\"bilinear\""},
    {"rand_grid_distortion", "mode", "\"bilinear\""},
    {"hausdorff_distance_metric", "include_background", "false"},
    {"surface_distance_metric", "include_background", "false"},
};

constexpr DroppedRow dropped[]{
    {"EnsureChannelFirst", "load_image gives channels first"},
    {"EnsureType", "fields are tensors"},
    {"ToTensor", "fields are tensors"},
    {"ToNumpy", "fields are tensors"},
    {"FromMetaTensor", "fields keep their geometry"},
    {"ToMetaTensor", "fields keep their geometry"},
    {"Identity", "does nothing"},
    {"ToDevice", "to_device stands where a GPU is wanted"},
    {"SimulateDelay", "does nothing"},
    {"DataStats", "`sluice profile` and the trace say it"},
    {"StatsHandler", "metrics and progress are written anyway"},
    {"TensorBoardStatsHandler",
     "metrics.jsonl holds them; the node tensorboard writes event files"},
    {"TensorBoardImageHandler", "the node preview writes pictures"},
    {"MetricLogger", "metrics.jsonl holds them"},
    {"LogfileHandler", "metrics.jsonl holds them"},
    {"GarbageCollector", "memory is bounded by credits"},
    {"MetricsSaver", "metrics.jsonl and summary.json hold them"},
    {"PostProcessing", "the engine's own postprocessing"},
    {"SmartCacheHandler", "the node smart_cache goes on by itself"},
    {"SimpleInferer", "the network sees the whole image"},
};

constexpr ScheduleRow schedules[]{
    {"StepLR", "step", "step_size gamma"},
    {"MultiStepLR", "multi_step", "milestones gamma"},
    {"ExponentialLR", "exponential", "gamma"},
    {"LinearLR", "linear", "start_factor end_factor total_iters=total_steps"},
    {"PolynomialLR", "polynomial", "total_iters=total_steps power"},
    {"CosineAnnealingLR", "cosine", "T_max=total_steps eta_min"},
    {"CosineAnnealingWarmRestarts", "cosine_annealing_warm_restarts", "T_0 T_mult eta_min"},
    {"WarmupCosineSchedule", "warmup_cosine",
     "warmup_steps t_total=total_steps end_lr=eta_min cycles warmup_multiplier"},
    {"LinearWarmupCosineAnnealingLR", "linear_warmup_cosine_annealing",
     "warmup_epochs=warmup_steps max_epochs=total_steps eta_min warmup_start_lr=warmup_multiplier"},
    {"OneCycleLR", "one_cycle",
     "total_steps pct_start anneal_strategy cycle_momentum base_momentum max_momentum div_factor "
     "final_div_factor max_lr=lr"},
};

constexpr LambdaRow lambdas[]{
    {"lambda x: x[_A:]", "select_channels", R"({"from": "_A"})"},
    {"lambda x: x[:_A]", "select_channels", R"({"to": "_A"})"},
    {"lambda x: x[_A:_B]", "select_channels", R"({"from": "_A", "to": "_B"})"},
    {"lambda x: x[[_A]]", "select_channels", R"({"channels": ["_A"]})"},
    {"lambda x: x > _A", "as_discrete", R"({"threshold": "_A", "strict": true})"},
    {"lambda x: x >= _A", "as_discrete", R"({"threshold": "_A"})"},
    {"lambda x: x + _A", "shift_intensity", R"({"offset": "_A"})"},
    {"lambda x: x.astype(_A)", "cast_to_type", R"({"dtype": "_A"})"},
    {"lambda x: x.to(_A)", "cast_to_type", R"({"dtype": "_A"})"},
    {"lambda x: x.float()", "cast_to_type", R"({"dtype": "float32"})"},
    {"lambda x: torch.where(x[[_A]] > 0, _D, torch.where(x[[_B]] > 0, _E, torch.where(x[[_C]] > 0, "
     "_F, 0)))",
     "merge_channels", R"({"order": ["_A", "_B", "_C"], "labels": ["_D", "_E", "_F"]})"},
    {"lambda x: torch.where(x[[_A]] > 0, _D, torch.where(x[[_B]] > 0, _E, 0))", "merge_channels",
     R"({"order": ["_A", "_B"], "labels": ["_D", "_E"]})"},
    {"lambda x: torch.nan_to_num(x, nan=_A)", "replace_nan", R"({"value": "_A"})"},
    {"lambda x: skimage.measure.label(x)", "connected_components", "{}"},
    {"lambda x: 0", "delete_items", "{}"},
    {"lambda x, s=_A: np.concatenate(tuple([ndimage.binary_dilation((x==_k).astype(x.dtype), "
     "iterations=_B).astype(float) for _k in range(s)]), axis=0)",
     "as_discrete", R"({"to_onehot": "_A"})", "binary_dilation", R"({"iterations": "_B"})"},
};

constexpr ScriptRow scripts[]{
    // pathology_nuclei_classification/scripts/writer.py
    {"ClassificationWriter", "ebf214c69fa889205b4e4b23315dfa18e39a3cdcca92302efbe25061f22d263a",
     "save_class_scores",
     R"({"labels": ["Other", "Inflammatory", "Epithelial", "Spindle-Shaped"]})"},
    // spleen_deepedit_annotation/scripts/transforms.py
    {"OrientationGuidanceMultipleLabelDeepEditd",
     "74d5110b82a92e3a550ec2181f942931cb9039d93c7e351863f872ebf26177a7", "",
     "clicks follow their image"},
    // breast_density_classification/scripts/createList.py
    {"CreateImageLabelList", "0d7e5ab1acc7e787c23a6efc896607fae4fba8580239685d1ff17bc30f022ea8",
     "datalist", R"({"file": "@filename"})"},
    // pediatric_abdominal_ct_segmentation/scripts/monai_utils.py
    {"AddLabelNamesd", "b90ffc421470fada0afd1f0861e6437a9a6b883435ccb5fcabcb8b68804304c2", "",
     "classes are known by their numbers"},
    {"SplitPredsLabeld", "b90ffc421470fada0afd1f0861e6437a9a6b883435ccb5fcabcb8b68804304c2", "",
     "a metric has a value for each class"},
    // pediatric_abdominal_ct_segmentation/scripts/lr_scheduler.py
    {"LinearWarmupCosineAnnealingLR",
     "1d4d13e7fe8680ddcf2e139c3a95274a19146bbdf38d54e588dd9c64130b3439", "",
     "lr_schedule of the optimizer"},
    // renalStructures_CECT_segmentation/scripts/my_transforms.py
    {"ConcatImages", "c3eb40adfa6a930b2b5f60d9758e4d2bdb928941c013fbad10603f2e9bc850db",
     "concat_items", R"({"keys": "@keys_merge", "name": "@keys_out"})"},
    {"MergeClassesd", "c3eb40adfa6a930b2b5f60d9758e4d2bdb928941c013fbad10603f2e9bc850db",
     "merge_channels", R"({"keys": "@keys", "order": "@@classes", "labels": "@@classes"})"},
};

}  // namespace

std::span<const ScriptRow> script_rows() { return scripts; }
std::span<const ClassRow> class_rows() { return classes; }
std::span<const ParamRow> param_rows() { return params; }
std::span<const DefaultRow> default_rows() { return defaults; }
std::span<const DroppedRow> dropped_rows() { return dropped; }
std::span<const ScheduleRow> schedule_rows() { return schedules; }
std::span<const LambdaRow> lambda_rows() { return lambdas; }

}  // namespace sluice::bundle
