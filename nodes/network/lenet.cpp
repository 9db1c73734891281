// lenet: the network of PyTorch's CIFAR-10 tutorial ("Net"), after LeNet-5 (LeCun et al. 1998),
// with its parameter names.
//
//   x 3 ─ conv 5x5 ─ relu ─ pool 2 ─ 6 ─ conv 5x5 ─ relu ─ pool 2 ─ 16 ─ fc 120 ─ fc 84 ─ fc
//   classes
#include "nodes/network/program_network.h"

namespace sluice {
namespace {

struct LeNet final : ProgramNetwork {
  struct Params {
    std::int64_t in_channels = 3, out_channels = 10, image_size = 32;
  } p;

  static Spec spec() {
    return Spec::network("lenet",
                         "LeNet for small images: the network of PyTorch's CIFAR-10 "
                         "tutorial.")
        .param("in_channels", &Params::in_channels, "Channels of the image.")
        .at_least(1)
        .param("out_channels", &Params::out_channels, "Classes; the output is logits [N, classes].")
        .at_least(1)
        .param("image_size", &Params::image_size, "Width and height of the images.")
        .at_least(16)
        .gives("logits", Form::any)
        .dtype("float32");
  }

  explicit LeNet(const Params& params) : p(params) {
    program.channels_last = false;
    const std::int64_t side = ((p.image_size - 4) / 2 - 4) / 2;
    int x = block("conv1", 0, p.in_channels, 6);
    x = block("conv2", x, 6, 16);
    x = program.relu(program.linear(x, "fc1", 16 * side * side, 120));
    x = program.relu(program.linear(x, "fc2", 120, 84));
    program.finish(program.linear(x, "fc3", 84, p.out_channels));
  }

 private:
  int block(const std::string& name, int x, std::int64_t in, std::int64_t out) {
    const ConvSpec spec{false, in, out, {5, 5}, {1, 1}, {0, 0}, {0, 0}};
    x = program.relu(program.conv(x, name, spec, true, false).value);
    return program.max_pool(x, {2, 2}, {2, 2}, {0, 0});
  }

  void check_input(const at::Tensor& x) const override {
    require_input("lenet", x, 2, p.in_channels);
    if (x.size(2) != p.image_size || x.size(3) != p.image_size)
      throw DataError("lenet was made for images of " + std::to_string(p.image_size) + " x " +
                      std::to_string(p.image_size) + ", got " + std::to_string(x.size(2)) + " x " +
                      std::to_string(x.size(3)));
  }
};

const Register<LeNet> registered;

}  // namespace
}  // namespace sluice
