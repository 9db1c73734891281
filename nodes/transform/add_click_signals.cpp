// add_click_signals: MONAI's AddClickSignalsd of nuclick, without its Gaussian.
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "nodes/transform/transform.h"

namespace sluice {
namespace {

struct AddClickSignals final : Node {
  struct Params {
    std::string image = "image", foreground = "foreground";
    std::int64_t bb_size = 128;
    bool add_exclusion_map = true;
  } p;

  static Spec spec() {
    return Spec("add_click_signals",
                "Makes a patch about each click on an image of two axes, with the click and, in a "
                "channel of their own, the other clicks.")
        .in("sample")
        .out("sample", "A patch for each click that lies in the image, one after the other")
        .param("image", &Params::image, "The image, [C, X, Y]; it becomes the patch.")
        .param("foreground", &Params::foreground, "The clicks, [clicks, 2], as load_points reads.")
        .param("bb_size", &Params::bb_size, "A patch's extent along both axes.")
        .at_least(1)
        .param("add_exclusion_map", &Params::add_exclusion_map, "Adds the other clicks.")
        .expands("")
        .takes("@image", Form::image, 2, 2)
        .takes("@foreground", Form::any, 0)
        .changes("@image");
  }

  void process(Firing& f) override {
    const Field& whole = f.in().at(p.image);
    const at::Tensor volume = to_volume(whole.tensor);
    const Shape3 shape = shape_of(volume);
    if (shape[0] < p.bb_size || shape[1] < p.bb_size)
      throw DataError("\"" + p.image + "\" " + list_text(whole.tensor.sizes()) +
                      " is smaller than a patch of " + std::to_string(p.bb_size));
    const at::Tensor points = f.in().tensor(p.foreground).to(at::kDouble).trunc().to(at::kLong);
    const at::Tensor clicks = at::zeros({1, shape[0], shape[1], 1}, volume.options());
    std::vector<std::array<std::int64_t, 2>> inside;
    for (std::int64_t i = 0; i < points.size(0); ++i) {
      const auto x = points[i][0].item<std::int64_t>(), y = points[i][1].item<std::int64_t>();
      if (x < 0 || y < 0 || x >= shape[0] || y >= shape[1]) continue;
      inside.push_back({x, y});
      clicks[0][x][y][0] = 1;
    }
    if (inside.empty()) throw DataError("no click of \"" + p.foreground + "\" lies in the image");
    for (const auto& click : inside) f.emit(patch(f.in(), volume, shape, clicks, click));
  }

 private:
  Sample patch(const Sample& in, const at::Tensor& volume, const Shape3& shape,
               const at::Tensor& clicks, const std::array<std::int64_t, 2>& click) const {
    Box box{{}, {p.bb_size, p.bb_size, 1}};
    for (std::size_t d = 0; d < 2; ++d)
      box.start[d] = std::clamp<std::int64_t>(click[d] - p.bb_size / 2, 0, shape[d] - p.bb_size);
    const at::Tensor own = at::zeros_like(clicks);
    own[0][click[0]][click[1]][0] = 1;
    std::vector<at::Tensor> channels{volume, own};
    if (p.add_exclusion_map) channels.push_back(clicks - own);
    Sample out = in;
    Field field = in.at(p.image);
    record(field, from_volume(crop_pad(at::cat(channels), box), 2),
           multiply(field.geometry().affine, box_affine(box)), "add_click_signals", numbers(box));
    out.set(p.image, std::move(field));
    return out;
  }
};

const Register<AddClickSignals> registered;

}  // namespace
}  // namespace sluice
