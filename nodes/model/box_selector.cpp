// box_selector: MONAI's BoxSelector, after the BoxCoder: what a RetinaNetDetector predicts.
#include "kernels/image/boxes.h"
#include "nodes/detector.h"

namespace sluice {
namespace {

struct BoxSelector final : Node {
  struct Params : DetectorParams {
    std::string key = "image", box_key = "pred_box", label_key = "pred_label",
                score_key = "pred_score";
    bool apply_sigmoid = true;
    double score_thresh = 0.05, nms_thresh = 0.5;
    std::int64_t topk_candidates_per_level = 1000, detections_per_img = 300;
  } p;

  static Spec spec() {
    Spec s("box_selector",
           "The boxes that a detector's maps say: of each level those of the highest scores, cut "
           "to the image, without those that overlap a better one of their class.");
    add_detector_params<Params>(s);
    return s.param("key", &Params::key, "The batch of images.")
        .param("box_key", &Params::box_key,
               "Field for the boxes, [N, boxes, 2 axes] float32 in the standard mode, best first; "
               "rows of -1 fill members with fewer boxes up.")
        .param("label_key", &Params::label_key, "For their classes, [N, boxes] int64.")
        .param("score_key", &Params::score_key, "For their scores, [N, boxes] float32.")
        .param("apply_sigmoid", &Params::apply_sigmoid, "Scores are sigmoids of the maps.")
        .param("score_thresh", &Params::score_thresh, "Scores are above it.")
        .param("topk_candidates_per_level", &Params::topk_candidates_per_level,
               "Boxes of a level at most, before overlaps are looked at.")
        .at_least(1)
        .param("nms_thresh", &Params::nms_thresh,
               "A box whose intersection over union with a better one is above it goes.")
        .range(0, 1)
        .param("detections_per_img", &Params::detections_per_img, "Boxes of an image at most.")
        .at_least(1)
        .takes("@key", Form::batch, 2, 3)
        .gives("@box_key", Form::any)
        .dtype("float32")
        .gives("@label_key", Form::any)
        .dtype("int64")
        .gives("@score_key", Form::any)
        .dtype("float32")
        .lane(LaneKind::step)
        .any_device();
  }

  void process(Firing& f) override {
    const Field& image = f.in().at(p.key);
    const Detected d(f.in(), p);
    Shape3 extents{};
    for (std::int64_t a = 0; a < 3; ++a)
      extents[static_cast<std::size_t>(a)] =
          a + 2 < image.tensor.dim() ? image.tensor.size(a + 2) : 1;
    std::vector<at::Tensor> boxes, labels, scores;
    for (std::int64_t n = 0; n < d.logits.size(0); ++n) {
      const Kept kept = of_member(d, n, extents);
      boxes.push_back(kept.boxes);
      labels.push_back(kept.labels);
      scores.push_back(kept.scores);
    }
    Sample out = f.in();
    const auto set = [&](const std::string& key, const std::vector<at::Tensor>& lists) {
      const MetaPtr meta = list_field({}).meta.front();
      out.set(key, {stacked_lists(lists), std::vector<MetaPtr>(lists.size(), meta)});
    };
    set(p.box_key, boxes);
    set(p.label_key, labels);
    set(p.score_key, scores);
    f.emit(std::move(out));
  }

 private:
  struct Kept {
    at::Tensor boxes, labels, scores;
  };

  Kept of_member(const Detected& d, std::int64_t n, const Shape3& extents) const {
    std::vector<at::Tensor> boxes, labels, scores;
    std::int64_t begin = 0;
    for (const std::int64_t voxels : d.voxels) {
      const std::int64_t rows = voxels * d.each, classes = d.logits.size(2);
      const auto level = [&](const at::Tensor& t) { return t.detach().narrow(0, begin, rows); };
      at::Tensor all = level(d.logits[n]).flatten();
      if (p.apply_sigmoid) all = all.sigmoid();
      const at::Tensor above = all.gt(p.score_thresh).nonzero().squeeze(1);
      const auto [best, which] =
          all.index({above}).topk(std::min(p.topk_candidates_per_level, above.size(0)));
      const at::Tensor place = above.index({which});
      const at::Tensor row = place.div(classes, "floor");
      const CroppedBoxes cut = crop_boxes(
          decoded_boxes(level(d.codes[n]).index({row}), level(d.anchors).index({row}), d.weights)
              .to(at::kCPU),
          {}, extents);
      boxes.push_back(cut.boxes.index({cut.keep}));
      labels.push_back(place.remainder(classes).to(at::kCPU).index({cut.keep}));
      scores.push_back(best.to(at::kCPU).index({cut.keep}));
      begin += rows;
    }
    const at::Tensor all_boxes = at::cat(boxes), all_labels = at::cat(labels),
                     all_scores = at::cat(scores);
    const at::Tensor kept =
        kept_boxes(all_boxes, all_scores, all_labels, p.nms_thresh, p.detections_per_img);
    return {all_boxes.index({kept}), all_labels.index({kept}), all_scores.index({kept})};
  }
};

const Register<BoxSelector> registered;

}  // namespace
}  // namespace sluice
