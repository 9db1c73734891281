// rand_crop_box_by_pos_neg_label: MONAI's RandCropBoxByPosNegLabeld. Patches that hold a box, or
// that need not, and the boxes in them.
#include <ATen/Functions.h>

#include "nodes/transform/boxes.h"
#include "nodes/transform/pos_neg_crop.h"

namespace sluice {
namespace {

struct RandCropBoxByPosNegLabel final : FusedNode {
  struct Params : PosNegParams {
    std::vector<std::string> box_keys{"box"}, label_keys{"label"};
    bool whole_box = true;
    Params() { keys = {"image"}; }
  } p;

  static Spec spec() {
    Spec s("rand_crop_box_by_pos_neg_label",
           "Crops num_samples patches around boxes or background, and the boxes to the patches.");
    s.in("sample")
        .out("sample", "num_samples patches, one after the other")
        .param("image_keys", static_cast<std::vector<std::string> Params::*>(&Params::keys),
               "Images to crop, each [C, X, Y, Z] or [C, X, Y], of one spatial shape.")
        .length(1)
        .param("box_keys", &Params::box_keys,
               "Boxes [N, 4] or [N, 6] in the standard mode, in voxels of the images: one field. "
               "Of a patch they are cut to it; those of which less than a voxel is left go.")
        .length(1, 1)
        .param("label_keys", &Params::label_keys,
               "Fields [N, ...] with a row a box, which goes with it.");
    add_background_image(add_pos_neg(s), "thresh_image_key")
        .param("whole_box", &Params::whole_box,
               "A centre is foreground where its patch holds a whole box; otherwise, where it "
               "holds a part of one.");
    return add_smaller(s)
        .takes("@image_keys", Form::image, 2, 3)
        .takes("@box_keys", Form::any, 0)
        .takes("@label_keys", Form::any, 0)
        .takes("@thresh_image_key", Form::image, 2, 3)
        .resizes("@image_keys", "spatial_size")
        .unless("allow_smaller", true)
        .crops("@image_keys", "spatial_size")
        .when("allow_smaller", true);
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    require_a_share(p);
  }

  void process(Firing& f) override {
    const Sample& in = f.in();
    const std::string &key = p.keys.front(), &box_key = p.box_keys.front();
    const at::Tensor& boxes = in.tensor(box_key);
    const std::int64_t axes = box_axes(boxes, box_key);
    const at::Tensor& image = image_of_boxes(in, key, axes).tensor;
    require_spatial(image, key);
    const Shape3 shape = shape_of(to_volume(image));
    const Shape3 size = patch_size(p.spatial_size, shape, axes, p.allow_smaller, key);
    Random random = f.random();
    for (const Shape3& centre : draw_centres(p, in, centres(boxes, size, shape), random, key)) {
      Sample patch = patch_around(in, p, "rand_crop_box_by_pos_neg_label", centre, size, shape);
      crop_to(patch, boxes, patch_box(centre, size, shape));
      finish(f, std::move(patch));
    }
  }

 private:
  void crop_to(Sample& patch, const at::Tensor& boxes, const Box& box) const {
    Shape3 end;
    for (std::size_t d = 0; d < 3; ++d) end[d] = box.start[d] + box.size[d];
    const CroppedBoxes cut = crop_boxes(boxes, box.start, end);
    patch.set(p.box_keys.front(), Field(cut.boxes, patch.at(p.box_keys.front()).meta));
    for (const auto& keys : {p.box_keys, p.label_keys})
      keep_rows(patch, keys, cut.keep, p.allow_missing_keys);
  }

  // The voxels whose patch holds a box, as a label [1, X, Y, Z] of 1 and 0. An even patch reaches
  // one voxel further to the left.
  at::Tensor centres(const at::Tensor& boxes, const Shape3& size, const Shape3& shape) const {
    const std::int64_t axes = boxes.size(1) / 2;
    const at::Tensor first = boxes.narrow(1, 0, axes).to(at::kFloat).ceil(),
                     last = boxes.narrow(1, axes, axes).to(at::kFloat).floor();
    std::vector<at::Tensor> low, high;
    for (std::int64_t d = 0; d < axes; ++d) {
      const at::Tensor begin = first.select(1, d), end = last.select(1, d);
      const std::int64_t extent = size[static_cast<std::size_t>(d)], left = extent / 2;
      low.push_back(p.whole_box ? at::minimum(end - (extent - left - 1), begin) : begin - left + 1);
      high.push_back(p.whole_box ? at::maximum(begin + left, end) : end + left - 1);
    }
    low.insert(low.end(), high.begin(), high.end());
    const CroppedBoxes inside = crop_boxes(at::stack(low, 1), {}, shape);
    const at::Tensor kept = inside.boxes.index({inside.keep}).to(at::kLong).contiguous();
    at::Tensor label = at::zeros({1, shape[0], shape[1], shape[2]}, at::kByte);
    for (std::int64_t n = 0; n < kept.size(0); ++n) {
      const std::int64_t* row = kept.const_data_ptr<std::int64_t>() + n * 2 * axes;
      at::Tensor room = label;
      for (std::int64_t d = 0; d < axes; ++d)
        room = room.narrow(d + 1, row[d], row[axes + d] - row[d]);
      room.fill_(1);
    }
    return label;
  }
};

const Register<RandCropBoxByPosNegLabel> registered;

}  // namespace
}  // namespace sluice
