// split_slices: the slices of a volume as samples of their own, one for each label in a slice
// (MONAI's create_dataset of deepgrow, dimension 2).
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "kernels/image/plane.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct SplitSlices final : Node {
  struct Params {
    std::vector<std::string> keys{"image"};
    std::string label_key = "label";
    std::int64_t axis = 2, min_voxels = 1;
  } p;

  static Spec spec() {
    return Spec("split_slices",
                "Makes a sample of each label in each slice of a volume: the slice, and where the "
                "label is.")
        .in("sample")
        .out("sample", "one for each slice and label, slice by slice")
        .param("keys", &Params::keys, "Images [C, X, Y, Z]; they become [C, X, Y].")
        .param("label_key", &Params::label_key,
               "Labels [1, X, Y, Z]; they become [1, X, Y] float32, 1 where the one label is.")
        .param("axis", &Params::axis, "The spatial axis that the slices lie across.")
        .range(0, 2)
        .param("min_voxels", &Params::min_voxels,
               "A label with fewer voxels in a slice makes no sample.")
        .at_least(1)
        .expands("")
        .takes("@keys", Form::image, 3, 3)
        .takes("@label_key", Form::image, 3, 3)
        .gives("@keys", Form::image)
        .gives("@label_key", Form::image)
        .channels("1")
        .dtype("float32");
  }

  void process(Firing& f) override {
    const Sample& in = f.in();
    const at::Tensor& labels = in.tensor(p.label_key);
    require_spatial(labels, p.label_key, 3);
    if (labels.size(0) != 1)
      throw DataError("field \"" + p.label_key + "\" has " + std::to_string(labels.size(0)) +
                      " channels; split_slices takes labels of one");
    for (const std::string& key : p.keys) {
      require_spatial(in.tensor(key), key, 3);
      if (spatial_shape(in.tensor(key)) != spatial_shape(labels))
        throw shape_error(key, in.tensor(key),
                          ", \"" + p.label_key + "\" " + list_text(labels.sizes()));
    }
    for (std::int64_t at = 0; at < labels.size(p.axis + 1) && !f.stopped(); ++at) {
      const at::Tensor plane = labels.select(p.axis + 1, at);
      const auto [values, inverse, counts] = at::_unique2(plane, true, false, true);
      for (std::int64_t i = 0; i < values.numel(); ++i) {
        const auto label = values[i].item<double>();
        if (label == 0 || counts[i].item<std::int64_t>() < p.min_voxels) continue;
        f.emit(slice(in, at, label));
      }
    }
  }

 private:
  Sample slice(const Sample& in, std::int64_t at, double label) const {
    Sample out = in;
    out.name += "_" + std::to_string(at) + "_" + std::to_string(std::llround(label));
    for (const std::string& key : p.keys) out.set(key, cut(in.at(key), at));
    Field mask = cut(in.at(p.label_key), at);
    mask.tensor = mask.tensor.eq(label).to(at::kFloat);
    out.set(p.label_key, std::move(mask));
    return out;
  }

  Field cut(const Field& field, std::int64_t at) const {
    const Affine affine = plane_affine(field.geometry().affine, p.axis, at);
    Field out = field;
    record(out, field.tensor.select(p.axis + 1, at).contiguous(), affine, "split_slices",
           {static_cast<double>(p.axis), static_cast<double>(at)});
    return out;
  }
};

const Register<SplitSlices> registered;

}  // namespace
}  // namespace sluice
