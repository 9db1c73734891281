// retina_net_loss: what MONAI's RetinaNetDetector is trained with: anchors are matched with boxes
// (ATSSMatcher, or torchvision's Matcher), sampled (HardNegativeSampler, or torchvision's
// BalancedPositiveNegativeSampler), and their classes and boxes (BoxCoder) compared with the truth.
#include <ATen/Functions.h>
#include <ATen/TensorIndexing.h>

#include "kernels/loss/terms.h"
#include "nodes/detector.h"

namespace sluice {
namespace {

struct RetinaNetLoss final : Node {
  struct Params : DetectorParams {
    std::string box_key = "box", label_key = "label", output_key = "loss",
                cls_output_key = "classification", box_output_key = "box_regression";
    std::string cls_loss = "bce", box_loss = "smooth_l1", matcher = "atss",
                sampler = "hard_negative";
    double gamma = 2, beta = 1.0 / 9;
    std::optional<double> alpha;
    double cls_weight = 1, box_weight = 1;
    std::int64_t num_candidates = 4;
    bool center_in_gt = false;
    double fg_iou_thresh = 0.5, bg_iou_thresh = 0.4;
    bool allow_low_quality_matches = true;
    std::optional<std::int64_t> batch_size_per_image;
    double positive_fraction = 0.5, pool_size = 10;
    std::int64_t min_neg = 1;
  } p;

  static Spec spec() {
    Spec s("retina_net_loss",
           "How far a detector's maps are from boxes: of the classes of anchors, and of how the "
           "anchors that match a box differ from it. Members without boxes are all background.");
    add_detector_params<Params>(s);
    return s
        .param("box_key", &Params::box_key,
               "The truth's boxes, [N, boxes, 2 axes] in the standard mode; rows of -1 are none.")
        .param("label_key", &Params::label_key, "Their classes from 0, [N, boxes].")
        .param("output_key", &Params::output_key, "Field for the weighted sum of both losses.")
        .param("cls_output_key", &Params::cls_output_key, "... for that of the classes.")
        .param("box_output_key", &Params::box_output_key, "... for that of the boxes.")
        .param("cls_loss", &Params::cls_loss,
               "bce: binary cross entropy of each class; focal: MONAI's FocalLoss.")
        .choices({"bce", "focal"})
        .param("gamma", &Params::gamma, "Power of focal.")
        .param("alpha", &Params::alpha,
               "Weight of an anchor's own class in focal; of others 1 - alpha. null: 1 each.")
        .range(0, 1)
        .param("box_loss", &Params::box_loss,
               "smooth_l1: of what anchors change by; giou: MONAI's BoxGIoULoss of the boxes.")
        .choices({"smooth_l1", "giou"})
        .param("beta", &Params::beta, "Of smooth_l1: below it differences count squared.")
        .above(0)
        .param("cls_weight", &Params::cls_weight, "Factor of the classes' loss.")
        .at_least(0)
        .param("box_weight", &Params::box_weight, "Factor of the boxes' loss.")
        .at_least(0)
        .param("matcher", &Params::matcher,
               "Which anchors match a box. atss: of the nearest of each level those that overlap "
               "it more than is usual among them; iou: by how much they overlap.")
        .choices({"atss", "iou"})
        .param("num_candidates", &Params::num_candidates,
               "Of atss: voxels of each level, the nearest.")
        .at_least(1)
        .param("center_in_gt", &Params::center_in_gt,
               "Of atss: the anchor's centre must lie in the box.")
        .param("fg_iou_thresh", &Params::fg_iou_thresh,
               "Of iou: the least intersection over union of a match.")
        .range(0, 1)
        .param("bg_iou_thresh", &Params::bg_iou_thresh,
               "Of iou: below it an anchor is background; between both it does not count.")
        .range(0, 1)
        .at_most("fg_iou_thresh")
        .param("allow_low_quality_matches", &Params::allow_low_quality_matches,
               "Of iou: a box matches the anchors that overlap it most in any case.")
        .param("batch_size_per_image", &Params::batch_size_per_image,
               "Anchors of an image whose classes count, drawn; null: all.")
        .at_least(1)
        .param("sampler", &Params::sampler,
               "hard_negative: background among the highest scores; balanced: among all.")
        .choices({"hard_negative", "balanced"})
        .param("positive_fraction", &Params::positive_fraction,
               "The share of matched anchors among those at most.")
        .above(0)
        .range(0, 1)
        .param("min_neg", &Params::min_neg, "Of hard_negative: background anchors at least.")
        .at_least(0)
        .param("pool_size", &Params::pool_size,
               "Of hard_negative: it draws among so many times as many of the highest scores.")
        .at_least(1)
        .takes("@box_key", Form::any, 0)
        .takes("@label_key", Form::any, 0)
        .gives("@output_key", Form::scalar)
        .dtype("float32")
        .gives("@cls_output_key", Form::scalar)
        .dtype("float32")
        .gives("@box_output_key", Form::scalar)
        .dtype("float32")
        .random()
        .any_device()
        .differentiable()
        .lane(LaneKind::step);
  }

  void process(Firing& f) override {
    const Detected d(f.in(), p);
    const at::Tensor boxes = f.in().tensor(p.box_key).to(d.codes.options().requires_grad(false)),
                     labels = f.in().tensor(p.label_key).to(d.codes.device(), at::kLong);
    const std::int64_t members = d.logits.size(0);
    Random random = f.random();
    if (boxes.dim() != 3 || boxes.size(0) != members || boxes.size(2) != d.codes.size(2) ||
        labels.sizes() != boxes.sizes().slice(0, 2))
      throw DataError("boxes \"" + p.box_key + "\" " + list_text(boxes.sizes()) +
                      " and classes \"" + p.label_key + "\" " + list_text(labels.sizes()) +
                      "; needed are [" + std::to_string(members) + ", boxes, " +
                      std::to_string(d.codes.size(2)) + "] and [" + std::to_string(members) +
                      ", boxes]");
    std::vector<at::Tensor> logits, classes, changes, truths;
    for (std::int64_t n = 0; n < members; ++n) {
      const at::Tensor there = given_rows(boxes[n]);
      const at::Tensor box = boxes[n].index({there}), label = labels[n].index({there});
      check(f.in(), n, box, label, d.logits.size(2));
      const at::Tensor match = matches(d, box);
      const at::Tensor found = match.ge(0).nonzero().squeeze(1), of = match.index({found});
      at::Tensor truth = at::zeros(d.logits[n].sizes(), d.logits.options().requires_grad(false));
      truth.index_put_({found, label.index({of})}, at::ones({}, truth.options()));
      const at::Tensor counted = sampled(match, d.logits[n].detach(), random);
      logits.push_back(d.logits[n].index({counted}));
      classes.push_back(truth.index({counted}));
      const at::Tensor code = d.codes[n].index({found}), anchor = d.anchors.index({found});
      const bool encodes = p.box_loss == "smooth_l1";
      changes.push_back(encodes ? code : decoded_boxes(code, anchor, d.weights));
      truths.push_back(encodes ? encoded_boxes(box.index({of}), anchor, d.weights)
                               : box.index({of}));
    }
    const at::Tensor of_classes = class_loss(at::cat(logits), at::cat(classes)),
                     of_boxes = box_loss(at::cat(changes), at::cat(truths));
    Sample out = f.in();
    const auto set = [&](const std::string& key, at::Tensor value) {
      out.set(key, Field(std::move(value), std::make_shared<const Meta>()));
    };
    set(p.cls_output_key, of_classes);
    set(p.box_output_key, of_boxes);
    set(p.output_key, of_classes * p.cls_weight + of_boxes * p.box_weight);
    f.emit(std::move(out));
  }

 private:
  void check(const Sample& sample, std::int64_t n, const at::Tensor& box, const at::Tensor& label,
             std::int64_t classes) const {
    const std::int64_t axes = box.size(1) / 2;
    const auto refuse = [&](const std::string& what) {
      throw DataError(what + " of member " + std::to_string(n) + " of " + sample.name);
    };
    if ((box.slice(1, axes) <= box.slice(1, 0, axes)).any().item<bool>())
      refuse("a box without extent among \"" + p.box_key + "\"");
    const at::Tensor bad = label.lt(0).logical_or(label.ge(classes)).nonzero();
    if (bad.numel() > 0)
      refuse("class " + std::to_string(label[bad[0][0]].item<std::int64_t>()) + " among \"" +
             p.label_key + "\", which has classes 0 to " + std::to_string(classes - 1) + ",");
  }

  at::Tensor matches(const Detected& d, const at::Tensor& box) const {
    if (box.size(0) == 0)
      return at::full({d.anchors.size(0)}, below_match, box.options().dtype(at::kLong));
    return p.matcher == "atss"
               ? atss_matches(box, d.anchors, d.voxels, d.each, p.num_candidates, p.center_in_gt)
               : overlap_matches(box, d.anchors, p.fg_iou_thresh, p.bg_iou_thresh,
                                 p.allow_low_quality_matches);
  }

  // The anchors whose classes count.
  at::Tensor sampled(const at::Tensor& match, const at::Tensor& logits, Random& random) const {
    if (!p.batch_size_per_image) return match.ne(between_matches).nonzero().squeeze(1);
    const double size = static_cast<double>(*p.batch_size_per_image);
    const at::Tensor found = match.ge(0).nonzero().squeeze(1);
    at::Tensor none = match.eq(below_match).nonzero().squeeze(1);
    const auto positives =
        std::min(found.size(0), static_cast<std::int64_t>(size * p.positive_fraction));
    auto negatives = *p.batch_size_per_image - positives;
    if (p.sampler == "hard_negative") {
      const double most = static_cast<double>(std::max<std::int64_t>(1, positives)) *
                          std::abs(1 - 1 / p.positive_fraction);
      negatives = std::max(static_cast<std::int64_t>(most), p.min_neg);
    }
    negatives = std::min(negatives, none.size(0));
    if (p.sampler == "hard_negative") {
      const auto pool = static_cast<std::int64_t>(static_cast<double>(negatives) * p.pool_size);
      const at::Tensor scores = logits.amax(1).index({none});
      none = none.index({std::get<1>(scores.topk(std::min(pool, none.size(0))))});
    }
    return at::cat({drawn(found, positives, random), drawn(none, negatives, random)});
  }

  // `count` of them, in the order in which they stand.
  static at::Tensor drawn(const at::Tensor& from, std::int64_t count, Random& random) {
    if (count == from.size(0)) return from;
    const Permutation order(static_cast<std::uint64_t>(from.size(0)), random.bits64());
    std::vector<std::int64_t> chosen;
    for (std::int64_t i = 0; i < count; ++i)
      chosen.push_back(static_cast<std::int64_t>(order(static_cast<std::uint64_t>(i))));
    std::sort(chosen.begin(), chosen.end());
    return from.index({at::tensor(chosen, from.options())});
  }

  at::Tensor class_loss(const at::Tensor& logits, const at::Tensor& truth) const {
    if (p.cls_loss == "bce") return bce_with_logits(logits, truth);
    return sigmoid_focal(logits, truth, {p.gamma, p.alpha}).mean();
  }

  at::Tensor box_loss(const at::Tensor& boxes, const at::Tensor& truth) const {
    if (boxes.size(0) == 0) return boxes.sum();  // 0, and a gradient of 0
    if (p.box_loss == "giou") return (1 - box_pair_giou(boxes, truth)).mean();
    return at::smooth_l1_loss(boxes, truth, at::Reduction::Mean, p.beta);
  }
};

const Register<RetinaNetLoss> registered;

}  // namespace
}  // namespace sluice
