#include "engine/graph/param_names.h"

#include <algorithm>
#include <string_view>

#include "engine/base/diagnostic.h"

namespace sluice {
namespace {

using Words = std::vector<std::string_view>;

// Words of one meaning, those of other programs among them.
const std::vector<Words>& meanings() {
  static const std::vector<Words> all{
      {"limit", "num", "n", "count", "number", "num_samples", "num_items", "num_cases",
       "max_samples", "subset"},
      {"spatial_size", "roi_size", "img_size", "image_size", "size", "patch", "patch_size", "roi",
       "crop_size", "shape"},
      {"prob", "p", "probability", "prob_apply"},
      {"lr", "learning_rate", "base_lr", "initial_lr", "lr0"},
      {"lr_schedule", "scheduler", "lr_scheduler", "schedule"},
      {"weight_decay", "wd", "l2", "l2_reg"},
      {"size", "bs", "batch_size", "n_batch"},
      {"root", "path", "dir", "directory", "folder", "data_dir", "root_dir", "data_root"},
      {"channels", "features", "filters", "feature_size", "init_filters", "init_features", "width",
       "base_filters", "n_filters"},
      {"out_channels", "num_classes", "n_classes", "classes", "outputs"},
      {"in_channels", "input_channels", "n_input_channels", "inputs"},
      {"spatial_dims", "dims", "dim", "dimensions", "ndim"},
      {"keys", "key", "fields", "field", "on"},
      {"pixdim", "spacing", "voxel_size", "resolution"},
      {"mode", "interp", "interpolation", "order", "interp_order"},
      {"spatial_axis", "spatial_axes", "axis", "axes"},
      {"norm", "norm_name", "normalization"},
      {"act", "act_name", "activation"},
      {"dropout", "dropout_prob", "dropout_rate", "drop_rate"},
      {"epochs", "max_epochs", "num_epochs", "n_epochs"},
      {"threads", "workers", "num_workers", "n_jobs", "num_threads"},
      {"seed", "random_state", "random_seed"},
      {"weights", "pretrained", "checkpoint", "ckpt", "state_dict"},
      {"dtype", "type", "precision", "output_dtype"},
      {"grad_accumulation", "accumulate_grad_batches", "accumulation", "accum"},
      {"clip_grad_norm", "gradient_clip_val", "max_norm", "grad_clip", "clip"},
      {"store", "location", "where", "memory"},
      {"sw_batch_size", "batch_size", "bs"},
      {"factors", "factor", "range", "scale"},
      {"offsets", "offset", "shift"},
      {"sigma", "std", "stddev"},
  };
  return all;
}

template <class List>
bool has(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

// Letters that are nearly right; else another word, where it means one parameter alone.
std::string meant_param(const std::string& name, const std::vector<std::string>& known) {
  if (std::string near = nearest(name, known); !near.empty()) return near;
  std::vector<std::string> meant;
  for (const Words& words : meanings())
    if (has(words, name))
      for (const std::string& one : known)
        if (has(words, one) && !has(meant, one)) meant.push_back(one);
  return meant.size() == 1 ? meant.front() : "";
}

}  // namespace sluice
