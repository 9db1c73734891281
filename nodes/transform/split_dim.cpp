// split_dim: MONAI's SplitDimd.
#include "kernels/image/plane.h"
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct SplitDim final : Node {
  struct Params : KeyParams {
    std::vector<std::string> output_postfixes;
    std::int64_t dim = 0;
    bool keepdim = true;
  } p;

  static Spec spec() {
    return each_key_spec("split_dim", "Makes a field of each channel, or of each part of an axis.",
                         "Fields to split; they stay.")
        .param("output_postfixes", &Params::output_postfixes,
               "The ends of the new fields' names, one for each part: \"image\" and \"0\" give "
               "\"image_0\".")
        .required()
        .length(1)
        .param("dim", &Params::dim, "The axis, 0 for the channels; negative: from the last.")
        .param("keepdim", &Params::keepdim, "The parts keep the axis, with one element.")
        .any_device()
        .takes("@keys", Form::any)
        .gives("@keys@=_@output_postfixes", Form::any);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for (const std::string& key : p.keys) {
      if (p.allow_missing_keys && !f.in().has(key)) continue;
      const Field& field = f.in().at(key);
      const at::Tensor& t = field.tensor;
      const std::int64_t axis = axis_of(p.dim, t, key);
      if (t.size(axis) != std::ssize(p.output_postfixes))
        throw shape_error(key, t,
                          ": " + std::to_string(t.size(axis)) +
                              " parts, but output_postfixes has " +
                              std::to_string(p.output_postfixes.size()) + " entries");
      for (std::int64_t k = 0; k < t.size(axis); ++k) {
        const std::string name = key + "_" + p.output_postfixes[static_cast<std::size_t>(k)];
        if (out.has(name)) throw DataError("a field \"" + name + "\" is already there");
        out.set(name, part(field, axis, k));
      }
    }
    f.emit(std::move(out));
  }

  Field part(const Field& field, std::int64_t axis, std::int64_t k) const {
    Field out = field;
    const at::Tensor cut = field.tensor.narrow(axis, k, 1).contiguous();
    if (axis > 0 && field.tensor.dim() <= 4 && !p.keepdim) {
      record(out, cut.squeeze(axis), plane_affine(field.geometry().affine, axis - 1, k),
             "split_dim", {static_cast<double>(axis), static_cast<double>(k)});
    } else if (axis > 0 && axis < 4 && p.keepdim) {
      Box box;
      box.start[static_cast<std::size_t>(axis - 1)] = k;
      for (std::int64_t d = 1; d < std::min<std::int64_t>(cut.dim(), 4); ++d)
        box.size[static_cast<std::size_t>(d - 1)] = cut.size(d);
      record(out, cut, multiply(field.geometry().affine, box_affine(box)), "split_dim",
             numbers(box));
    } else {
      out.tensor = p.keepdim ? cut : cut.squeeze(axis);
    }
    return out;
  }
};

const Register<SplitDim> registered;

}  // namespace
}  // namespace sluice
