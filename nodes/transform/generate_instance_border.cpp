// generate_instance_border: MONAI's GenerateInstanceBorderd.
#include "nodes/transform/hover.h"

namespace sluice {
namespace {

struct GenerateInstanceBorder final : Node {
  struct Params {
    std::string mask_key = "mask", hover_map_key = "hover_map", border_key = "border";
    std::int64_t kernel_size = 21;
  } p;

  static Spec spec() {
    return Spec("generate_instance_border",
                "How much each pixel of a mask looks like an instance's border, 0 to 1.")
        .in("sample")
        .out("sample")
        .param("mask_key", &Params::mask_key, "The mask, [1, X, Y] of 0 and 1.")
        .param("hover_map_key", &Params::hover_map_key,
               "Horizontal and vertical distances, [2, X, Y]; constant ones are refused.")
        .param("border_key", &Params::border_key, "Field for the border, float32 [1, X, Y].")
        .param("kernel_size", &Params::kernel_size, "Pixels of Sobel's kernel.")
        .at_least(3)
        .odd()
        .takes("@mask_key", Form::image, 2, 2)
        .takes("@hover_map_key", Form::image, 2, 2)
        .gives("@border_key", Form::image)
        .dtype("float32");
  }
  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor& mask = map_of(out, p.mask_key);
    const at::Tensor& hover = hover_of(out, p.hover_map_key, mask, p.mask_key);
    const auto meta = out.at(p.mask_key).meta;
    out.set(p.border_key, Field(instance_border(mask, hover, p.kernel_size), meta));
    f.emit(std::move(out));
  }
};

const Register<GenerateInstanceBorder> registered;

}  // namespace
}  // namespace sluice
