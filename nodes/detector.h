// What the nodes of a detector share: a network's maps of each level as rows of anchors, and their
// anchors.
#pragma once

#include <numeric>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/list_field.h"
#include "engine/state/sample.h"
#include "kernels/image/anchors.h"
#include "nodes/fields.h"

namespace sluice {

struct DetectorParams {
  std::vector<std::string> cls_keys, box_reg_keys;
  std::string anchors_key = "anchors";
  std::optional<std::vector<double>> box_coder_weights;
};

template <class Params>
Spec& add_detector_params(Spec& s) {
  return s.in("sample")
      .out("sample")
      .param("cls_keys", &Params::cls_keys,
             "Fields with a network's maps of classes, [N, anchors * classes, ...], one a level.")
      .length(1)
      .required()
      .param("box_reg_keys", &Params::box_reg_keys,
             "Its maps of what anchors change by, [N, anchors * 2 * axes, ...], the same levels.")
      .length_of("cls_keys")
      .required()
      .param("anchors_key", &Params::anchors_key, "Field of anchor_generator.")
      .param("box_coder_weights", &Params::box_coder_weights,
             "Factors of what anchors change by (BoxCoder): of the centre along each axis, then of "
             "the extents; null: 1 each.")
      .above(0)
      .takes("@cls_keys", Form::batch, 2, 3)
      .takes("@box_reg_keys", Form::batch, 2, 3)
      .takes("@anchors_key", Form::any, 0);
}

// A sample's maps as rows, all levels one below the other.
struct Detected {
  at::Tensor logits, codes;          // [N, rows, classes], [N, rows, 2 axes]
  at::Tensor anchors;                // [rows, 2 axes]
  std::vector<std::int64_t> voxels;  // of each level
  std::int64_t each = 0;             // anchors of a voxel
  std::vector<double> weights;       // of the box coder

  Detected(const Sample& sample, const DetectorParams& p) : anchors(sample.tensor(p.anchors_key)) {
    std::vector<at::Tensor> all_logits, all_codes;
    for (std::size_t i = 0; i < p.cls_keys.size(); ++i) {
      const at::Tensor& classes = map(sample, p.cls_keys[i]);
      const at::Tensor& changes = map(sample, p.box_reg_keys[i]);
      const std::int64_t columns = 2 * (classes.dim() - 2);
      if (i == 0) each = changes.size(1) / columns;
      if (each == 0 || changes.size(1) != each * columns || classes.size(1) % each != 0 ||
          changes.sizes().slice(2) != classes.sizes().slice(2))
        throw DataError("maps \"" + p.cls_keys[i] + "\" " + list_text(classes.sizes()) + " and \"" +
                        p.box_reg_keys[i] + "\" " + list_text(changes.sizes()) +
                        " are not of the same anchors");
      voxels.push_back(classes.numel() / classes.size(0) / classes.size(1));
      all_logits.push_back(rows(classes, each));
      all_codes.push_back(rows(changes, each));
    }
    logits = at::cat(all_logits, 1);
    codes = at::cat(all_codes, 1);
    if (anchors.dim() != 2 || anchors.size(0) != codes.size(1) || anchors.size(1) != codes.size(2))
      throw shape_error(p.anchors_key, anchors,
                        "; the maps are of " + std::to_string(codes.size(1)) + " anchors of " +
                            std::to_string(codes.size(2)) + " numbers");
    weights = p.box_coder_weights.value_or(
        std::vector<double>(static_cast<std::size_t>(codes.size(2)), 1.0));
    if (std::ssize(weights) != codes.size(2))
      throw Error(Exit::usage, "box_coder_weights has " + std::to_string(weights.size()) +
                                   " values for boxes of " + std::to_string(codes.size(2)));
  }

 private:
  static const at::Tensor& map(const Sample& sample, const std::string& key) {
    const at::Tensor& t = sample.tensor(key);
    if (t.dim() != 4 && t.dim() != 5) throw shape_error(key, t, "; needed is [N, C, X, Y(, Z)]");
    return t;
  }
  // [N, each * C, X, Y(, Z)] as [N, X Y Z each, C].
  static at::Tensor rows(const at::Tensor& map, std::int64_t each) {
    const std::int64_t n = map.size(0), columns = map.size(1) / each;
    return map.to(at::kFloat)
        .reshape({n, each, columns, -1})
        .permute({0, 3, 1, 2})
        .reshape({n, -1, columns});
  }
};

// A batch's lists of boxes, whose rows of -1 are none.
inline at::Tensor given_rows(const at::Tensor& boxes) { return boxes.ne(-1).any(1); }

}  // namespace sluice
