// lenet: the network of PyTorch's CIFAR-10 tutorial ("Net"), after LeNet-5 (LeCun et al. 1998),
// with its parameter names.
//
//   x 3 ─ conv 5x5 ─ relu ─ pool 2 ─ 6 ─ conv 5x5 ─ relu ─ pool 2 ─ 16 ─ fc 120 ─ fc 84 ─ fc
//   classes
#include "nodes/network/picture_net.h"

namespace sluice {
namespace {

struct LeNet final : ImageNetwork<LeNet> {
  struct Params : PictureNet {
    std::int64_t image_size = 32;
    Params() { out_channels = 10; }
  } p;

  static Spec spec() {
    using Number = std::int64_t Params::*;
    return Spec::network("lenet",
                         "LeNet for small images: the network of PyTorch's CIFAR-10 tutorial.")
        .param("in_channels", Number{&ImageNet::in_channels}, "Channels of the image.")
        .at_least(1)
        .param("out_channels", Number{&ImageNet::out_channels},
               "Classes; the output is logits [N, classes].")
        .at_least(1)
        .param("image_size", &Params::image_size, "Width and height of the images.")
        .at_least(16)
        .gives("logits", Form::any)
        .dtype("float32");
  }

  Values build(const Scope& s, const Value& image) const {
    const std::int64_t side = ((p.image_size - 4) / 2 - 4) / 2;
    Value x = max_pool(relu(conv(s / "conv1", image, 6, {.kernel = 5, .padding = 0})));
    x = max_pool(relu(conv(s / "conv2", x, 16, {.kernel = 5, .padding = 0})));
    x = relu(linear(s / "fc1", flatten(x, side * side), 120));
    return {linear(s / "fc3", relu(linear(s / "fc2", x, 84)), p.out_channels)};
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_made_for(extents, "image_size", {p.image_size, p.image_size});
  }
};

const RegisterNetwork<LeNet> registered;

}  // namespace
}  // namespace sluice
