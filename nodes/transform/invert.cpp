// invert: brings a prediction back to the grid of the image as it was loaded, through the history
// that the spatial transforms wrote (MONAI's Invertd for spatial transforms).
//
// All of them are affine, so going back is one resampling: the current affine and the one in front
// of the first transform say which voxel lies where. Flips and crops come back exactly, and what a
// crop took away is 0, as MONAI pads it.
#include "engine/run/registry.h"
#include "kernels/image/reach.h"
#include "kernels/image/resizing.h"
#include "nodes/turning_back.h"

namespace sluice {
namespace {

struct Invert final : Node {
  struct Params {
    std::vector<std::string> keys{"pred"};
    std::vector<std::string> mode{"nearest"};
    std::optional<std::string> resize_mode;
  } p;

  static Spec spec() {
    return Spec("invert", "Resamples fields to the grid of the image as it was loaded.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields [C, X, Y, Z], or with fewer axes, with the history of their image; they get "
               "the "
               "axes that it had.")
        .param("mode", &Params::mode, "nearest for labels, bilinear for logits; one, or one a key.")
        .choices({"nearest", "bilinear"})
        .per("keys")
        .param("resize_mode", &Params::resize_mode,
               "How a resize that came last is undone first, as resize would do it: MONAI takes "
               "the mode of that one. null: with all the rest, by mode.")
        .choices(resizing_names)
        .takes("@keys", Form::image)
        .resizes("@keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, false, [&](Field& field, std::size_t i) {
      while (p.resize_mode && resized_last(field)) field = resized_back(field);
      const Meta& meta = field.geometry();
      if (meta.history.empty()) return;
      const auto& old = meta.history.front();
      const Affine to_source = multiply(inverse(meta.affine), old.affine_before);
      Shape3 source{1, 1, 1};
      std::copy(field.tensor.sizes().begin() + 1, field.tensor.sizes().end(), source.begin());
      field = turned_back(field, old.affine_before, old.shape_before,
                          parse_interpolation(per_key(p.mode, i)));
      clear_beyond(field.tensor, to_source, source);
    });
    f.emit(std::move(out));
  }

 private:
  // What lies beyond the field, of an image that it was cut out of.
  static void clear_beyond(at::Tensor& t, const Affine& to_source, const Shape3& source) {
    const auto axes = static_cast<std::size_t>(t.dim() - 1);
    Shape3 shape{1, 1, 1};
    std::copy_n(t.sizes().begin() + 1, axes, shape.begin());
    const Reach reach = reach_of(source, to_source, shape);
    for (std::size_t axis = 0; axis < axes; ++axis) {
      const auto dim = static_cast<std::int64_t>(axis) + 1;
      t.slice(dim, 0, reach.begin[axis]).zero_();
      t.slice(dim, reach.end[axis]).zero_();
    }
  }
  static bool resized_last(const Field& field) {
    const auto& history = field.geometry().history;
    return !history.empty() && history.back().transform == "resize";
  }
  Field resized_back(const Field& field) const {
    auto before = std::make_shared<Meta>(field.geometry());
    const Applied last = before->history.back();
    before->history.pop_back();
    before->affine = last.affine_before;
    Shape3 size{1, 1, 1};
    std::copy(last.shape_before.begin(), last.shape_before.end(), size.begin());
    const bool align = last.values.size() > last.shape_before.size() && last.values.back() != 0;
    const at::Tensor volume =
        resize(to_volume(field.tensor).to(at::kFloat), size, parse_resizing(*p.resize_mode), align);
    return Field(from_volume(volume, field.tensor.dim() - 1), std::move(before));
  }
};

const Register<Invert> registered;

}  // namespace
}  // namespace sluice
