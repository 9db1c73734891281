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
    {"RandCropByPosNegLabel", "allow_smaller", "", "false"},
    {"RandCropByLabelClasses", "allow_smaller", "", "false"},
    {"RandSpatialCrop", "random_size", "", "false"},
    {"RandSpatialCrop", "random_center", "", "true"},
    {"RandZoom", "max", "", ""},  // MONAI hands them to the padding, which does not know them
    {"RandZoom", "min", "", ""},
    {"RandZoomBox", "label_keys", "", ""},
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
    {"*", "use_flash_attention", "", ""},  // the same sums in another order
    {"*", "use_checkpointing", "", ""},    // the same, with less memory: memory of the network
    {"DiffusionModelUNet", "dropout_cattn", "", "0.0"},
    {"AutoencoderKlMaisi", "num_splits", "", ""},  // images are not split: memory, and windows
    {"AutoencoderKlMaisi", "dim_split", "", ""},
    {"AutoencoderKlMaisi", "save_mem", "", ""},
    {"AutoencoderKlMaisi", "norm_float16", "", ""},  // precision
    {"AutoencoderKlMaisi", "print_info", "", ""},
    {"RetinaNet", "num_classes", "out_channels", ""},
    {"RetinaNet", "feature_extractor", "", ""},  // parameters of retina_net
    {"RetinaNet", "size_divisible", "", ""},     // divisible_pad
    {"RetinaNet", "use_list_output", "", ""},
    {"resnet_fpn_feature_extractor", "backbone", "", ""},
    {"resnet_fpn_feature_extractor", "pretrained_backbone", "", "false"},
    {"resnet_fpn_feature_extractor", "trainable_backbone_layers", "", ""},  // of a pretrained one
    {"resnet*", "n_input_channels", "in_channels", ""},
    {"resnet*", "pretrained", "", "false"},
    {"resnet*", "progress", "", ""},
    {"RetinaNetDetector", "debug", "", ""},
    {"RetinaNetDetector", "spatial_dims", "", ""},  // of networks that do not say
    {"RetinaNetDetector", "num_classes", "", ""},
    {"RetinaNetDetector", "size_divisible", "", ""},
    {"RetinaNetDetector", "cls_key", "", ""},
    {"RetinaNetDetector", "box_reg_key", "", ""},
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
    {"COCOMetric", "classes", "", ""},
    {"COCOMetric", "verbose", "", ""},
    {"IgniteCocoMetric", "reduce_scalar", "", ""},
    {"*", "optimizer", "", ""},
    {"*", "params", "", ""},
    {"*", "fused", "", ""},
    {"*", "foreach", "", ""},
    {"*", "print_lr", "", ""},
    {"*", "save_details", "", ""},
    {"CrossEntropyLoss", "reduction", "", "\"mean\""},
    {"*", "last_epoch", "", "-1"},
    {"*", "verbose", "", ""},
    {"OneCycleLR", "three_phase", "", "false"},
    {"CyclicLR", "scale_fn", "", "null"},
    {"CyclicLR", "scale_mode", "", ""},  // of a scale_fn
    // Readers of LoadImage.
    {"ITKReader", "series_name", "", "\"\""},
    {"ITKReader", "series_meta", "", ""},
    {"ITKReader", "reverse_indexing", "", "false"},
    {"ITKReader", "affine_lps_to_ras", "", "true"},
    {"NibabelReader", "squeeze_non_spatial_dims", "", "false"},
    {"NibabelReader", "to_gpu", "", ""},
    {"PILReader", "converter", "", "null"},
    {"PILReader", "reverse_indexing", "", "true"},
    {"NumpyReader", "npz_keys", "", "null"},
    {"NumpyReader", "allow_pickle", "", ""},
    // Loaders and data sets.
    {"DataLoader", "prefetch_factor", "", ""},
    {"ThreadDataLoader", "prefetch_factor", "", ""},
    {"DataLoader", "persistent_workers", "", ""},
    {"ThreadDataLoader", "persistent_workers", "", ""},
    {"ThreadDataLoader", "buffer_size", "", ""},
    {"ThreadDataLoader", "buffer_timeout", "", ""},
    {"ThreadDataLoader", "use_thread_workers", "", ""},
    {"ThreadDataLoader", "repeats", "", "1"},
    {"CacheDataset", "runtime_cache", "", ""},
    {"CacheDataset", "copy_cache", "", ""},
    {"DecathlonDataset", "download", "", ""},  // nothing is
    {"DecathlonDataset", "copy_cache", "", ""},
    {"DecathlonDataset", "as_contiguous", "", ""},
    {"DecathlonDataset", "runtime_cache", "", ""},
    {"PatchWSIDataset", "reader", "", ""},
    {"MaskedPatchWSIDataset", "reader", "", ""},
    // Engines.
    {"*Trainer", "epoch_length", "", "null"},
    {"*Trainer", "metric_cmp_fn", "", ""},  // the best epoch is a validation's
    {"*Trainer", "non_blocking", "", ""},
    {"*Trainer", "event_names", "", "null"},
    {"*Trainer", "event_to_attr", "", "null"},
    {"*Trainer", "to_kwargs", "", ""},
    {"*Trainer", "amp_kwargs", "", ""},
    {"*Trainer", "optim_set_to_none", "", ""},
    {"SupervisedTrainer", "compile", "", ""},
    {"SupervisedTrainer", "compile_kwargs", "", ""},
    {"SupervisedTrainer", "accumulation_steps", "", "1"},
    {"GanTrainer", "decollate", "", ""},  // of a postprocessing, which there is not
    {"VaeGanTrainer", "decollate", "", ""},
    {"SupervisedEvaluator", "epoch_length", "", "null"},
    {"SupervisedEvaluator", "non_blocking", "", ""},
    {"SupervisedEvaluator", "event_names", "", "null"},
    {"SupervisedEvaluator", "event_to_attr", "", "null"},
    {"SupervisedEvaluator", "to_kwargs", "", ""},
    {"SupervisedEvaluator", "amp_kwargs", "", ""},
    {"SupervisedEvaluator", "compile", "", ""},
    {"SupervisedEvaluator", "compile_kwargs", "", ""},
    {"SupervisedEvaluator", "mode", "", "\"eval\""},
    {"Interaction", "label_names", "", ""},         // numbered by their transforms
    {"DetectionSaver", "batch_transform", "", ""},  // the images' files, which are known
    {"DetectionSaver", "pred_box_key", "", ""},
    {"DetectionSaver", "pred_label_key", "", ""},
    {"DetectionSaver", "pred_score_key", "", ""},
    {"DetectionSaver", "overwrite", "", "true"},
    {"DetectionSaver", "name", "", ""},
    {"DetectionSaver", "save_rank", "", ""},
    // Handlers.
    {"CheckpointLoader", "load_dict", "", ""},
    {"CheckpointLoader", "map_location", "", ""},
    {"CheckpointLoader", "name", "", ""},
    {"CheckpointLoader", "strict_shape", "", "true"},
    {"LrScheduleHandler", "name", "", ""},
    {"ValidationHandler", "exec_at_start", "", "false"},
    {"CheckpointSaver", "save_dir", "", ""},  // the run's checkpoints have names of their own
    {"CheckpointSaver", "save_dict", "", ""},
    {"CheckpointSaver", "name", "", ""},
    {"CheckpointSaver", "file_prefix", "", ""},
    {"CheckpointSaver", "save_final", "", ""},  // the last one stays in any case
    {"CheckpointSaver", "final_filename", "", ""},
    {"CheckpointSaver", "key_metric_filename", "", ""},
    {"CheckpointSaver", "key_metric_save_state", "", ""},  // a run that goes on knows its best
    {"CheckpointSaver", "key_metric_n_saved", "", "1"},
    {"CheckpointSaver", "key_metric_greater_or_equal", "", "false"},
    {"SGD", "nesterov", "", "false"},
};

constexpr DefaultRow defaults[]{
    {"swin_unetr", "spatial_dims", "3"},
    {"unet", "spatial_dims", "3"},
    {"flexible_unet", "spatial_dims", "2"},
    {"affine", "mode", "\"bilinear\""},
    {"grid_distortion", "mode", "\"bilinear\""},
    {"rand_2d_elastic", "mode", "\"bilinear\""},
    {"spatial_resample", "mode", "\"bilinear\""},
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
    {"StepLR", "step", "step_size gamma", R"({"gamma": 0.1})"},
    {"MultiStepLR", "multi_step", "milestones gamma", R"({"gamma": 0.1})"},
    {"ExponentialLR", "exponential", "gamma", "{}"},
    {"LinearLR", "linear", "start_factor end_factor total_iters=total_steps",
     R"({"start_factor": 0.3333333333333333, "end_factor": 1.0, "total_iters": 5})"},
    {"PolynomialLR", "polynomial", "total_iters=total_steps power",
     R"({"total_iters": 5, "power": 1.0})"},
    {"CosineAnnealingLR", "cosine", "T_max=total_steps eta_min", R"({"eta_min": 0.0})"},
    {"CosineAnnealingWarmRestarts", "cosine_annealing_warm_restarts", "T_0 T_mult eta_min",
     R"({"T_mult": 1, "eta_min": 0.0})"},
    {"CyclicLR", "cyclic",
     "base_lr=eta_min max_lr=lr step_size_up step_size_down mode=cyclic_mode gamma cycle_momentum "
     "base_momentum max_momentum",
     R"({"step_size_up": 2000, "mode": "triangular", "gamma": 1.0, "cycle_momentum": true,
         "base_momentum": 0.8, "max_momentum": 0.9})"},
    {"WarmupCosineSchedule", "warmup_cosine",
     "warmup_steps t_total=total_steps end_lr=eta_min cycles warmup_multiplier",
     R"({"end_lr": 0.0, "cycles": 0.5, "warmup_multiplier": 0.0})"},
    {"LinearWarmupCosineAnnealingLR", "linear_warmup_cosine_annealing",
     "warmup_epochs=warmup_steps max_epochs=total_steps eta_min warmup_start_lr=warmup_multiplier",
     R"({"eta_min": 0.0, "warmup_start_lr": 0.0})"},
    {"OneCycleLR", "one_cycle",
     "total_steps pct_start anneal_strategy cycle_momentum base_momentum max_momentum div_factor "
     "final_div_factor max_lr=lr",
     R"({"pct_start": 0.3, "anneal_strategy": "cos", "cycle_momentum": true, "base_momentum": 0.85,
         "max_momentum": 0.95, "div_factor": 25.0, "final_div_factor": 10000.0})"},
};

constexpr LambdaRow lambdas[]{
    {"lambda x: x[_A:]", "select_channels", R"({"from": "_A"})"},
    {"lambda x: x[:_A]", "select_channels", R"({"to": "_A"})"},
    {"lambda x: x[_A:_B]", "select_channels", R"({"from": "_A", "to": "_B"})"},
    {"lambda x: x[[_A]]", "select_channels", R"({"channels": ["_A"]})"},
    // Fields keep their axis of channels.
    {"lambda x: x[_A, :, :, :]", "select_channels", R"({"channels": ["_A"]})"},
    {"lambda x: x > _A", "as_discrete", R"({"threshold": "_A", "strict": true})"},
    {"lambda x: x >= _A", "as_discrete", R"({"threshold": "_A"})"},
    {"lambda x: x + _A", "shift_intensity", R"({"offset": "_A"})"},
    {"lambda x: x * _A", "scale_intensity_range",
     R"({"a_min": 0, "a_max": 1, "b_min": 0, "b_max": "_A"})"},
    {"lambda x: x.astype(_A)", "cast_to_type", R"({"dtype": "_A"})"},
    {"lambda x: x.to(_A)", "cast_to_type", R"({"dtype": "_A"})"},
    {"lambda x: x.float()", "cast_to_type", R"({"dtype": "float32"})"},
    {"lambda x: torch.FloatTensor(x)", "cast_to_type", R"({"dtype": "float32"})"},
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
    // brats_mri_generative_diffusion/scripts/ldm_sampler.py, and that of ..._axial_slices_...
    {"LDMSampler", "b56f0c58917dd44009d52039f2c71d4723d68c6408311d4e705c8609bb5604d3",
     "diffusion_inferer", "{}"},
    {"LDMSampler", "b5055b85c1e7a48d8a8c5f2aac0beb51dedba4954e77f1e9a38269a9bc846287",
     "diffusion_inferer", "{}"},
    // brats_mri_generative_diffusion/scripts/ldm_trainer.py, and that of ..._axial_slices_...
    {"LDMTrainer", "86fd34f66e499a2dcccd5e576e651c33506016285d40780b581a492e49bf4ace",
     "diffusion_prepare_batch", "{}"},
    {"LDMTrainer", "805f2abcfb5d1ded18bed29dcfbe0f612dfeccc3f25af4731a5be6f38e36d34b",
     "diffusion_prepare_batch", "{}"},
    {"VaeGanTrainer", "86fd34f66e499a2dcccd5e576e651c33506016285d40780b581a492e49bf4ace",
     "several_steps", R"({"first": "judge"})"},
    {"VaeGanTrainer", "805f2abcfb5d1ded18bed29dcfbe0f612dfeccc3f25af4731a5be6f38e36d34b",
     "several_steps", R"({"first": "maker"})"},
    // brats_mri_generative_diffusion/scripts/losses.py, and that of ..._axial_slices_...: what the
    // losses weigh
    {"generator_loss", "54501745adaff0dda0bbe205b820960f0acbd7ffa054597fb4795a70653ed20c",
     "sum_losses",
     R"({"criterion": "least_squares", "adversarial": 0.1, "perceptual": 0.1, "kl": 1e-7})"},
    {"discriminator_loss", "54501745adaff0dda0bbe205b820960f0acbd7ffa054597fb4795a70653ed20c",
     "sum_losses", R"({"criterion": "least_squares", "adversarial": 0.1})"},
    {"generator_loss", "6833fa4d46fe8da55ebe5df41978d0271ad379f0cb75cd597ba7a914637beaea",
     "sum_losses",
     R"({"criterion": "least_squares", "adversarial": 0.5, "perceptual": 1.0, "kl": 1e-6})"},
    {"discriminator_loss", "6833fa4d46fe8da55ebe5df41978d0271ad379f0cb75cd597ba7a914637beaea",
     "sum_losses", R"({"criterion": "least_squares", "adversarial": 0.5})"},
    // brats_mri_axial_slices_generative_diffusion/scripts/utils.py
    {"visualize_2d_image", "af05145e57e1bd0633fe01a3c4be4f9a0d3b1d6d3a838b3af8625be3a3d20d65",
     "save_image", "{}"},
    // lung_nodule_ct_detection/scripts
    {"DetectionEvaluator", "4ddb1f94605a80d36e92af7765dc91d87bdc3ef0df44d5d961bd700fbecced64",
     "box_selector", "{}"},
    {"DetectionTrainer", "5fa9d1eaa05ae632efecc02361f0625714705f50a0320484d1ef362548d51261",
     "retina_net_loss", "{}"},
    {"RetinaNetInferer", "536246f594b861acdcb19d799e1059e56a9c8dd0ab75940f67ef4ef9c869860c",
     "sliding_window", "{}"},
    {"DetectionSaver", "ff4352d48c55a0dab2e53c43264633140b6076933dc5fb93a65cc5017d36fd70",
     "save_boxes", "{}"},
    {"IgniteCocoMetric", "db36a51d7be8e3a995f8acee951c2a66e9b7c7f03f7411ede91148271756eef7",
     "coco_metric", "{}"},
    {"GradualWarmupScheduler", "089e9e2dfb0987f179aff8632c94e150c60f54a25646e17e9b9bee666d73a156",
     "", "lr_schedule of the optimizer"},
    // maisi_ct_generative/scripts/trainer.py and utils.py
    {"MAISIControlNetTrainer", "3ac60663ffcb568f5209d94f13e8cc9ef549ee70d61cfbfe022635047bdc4005",
     "l1_loss", "{}"},
    {"binarize_labels", "73c5c88d15ae99b26d3a24594ab682d0bc5723faaca589dc47e966310fd405bc",
     "binarize_labels", "{}"},
    {"maisi_datafold_read", "73c5c88d15ae99b26d3a24594ab682d0bc5723faaca589dc47e966310fd405bc",
     "datalist", "{}"},
    {"unzip_dataset", "73c5c88d15ae99b26d3a24594ab682d0bc5723faaca589dc47e966310fd405bc", "",
     "data are unpacked beforehand"},
    // mednist_gan/scripts/losses.py
    {"generator_loss", "73c97234ec4d4c3b3454b97490605b47005bd96bb95ff80dfdbdf5abe92e3012",
     "patch_adversarial_loss", R"({"criterion": "bce"})"},
    {"discriminator_loss", "73c97234ec4d4c3b3454b97490605b47005bd96bb95ff80dfdbdf5abe92e3012",
     "patch_adversarial_loss", R"({"criterion": "bce"})"},
    // brain_image_synthesis_latent_diffusion_model/scripts/sampler.py
    {"Sampler", "3f285826aaa6aa4ffc43309a324e2624cb522e476f719821aebe88a1b3d9500f",
     "diffusion_inferer", "{}"},
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
