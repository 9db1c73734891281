// pad: MONAI's Pad with its list to_pad.
#include "nodes/transform/padding.h"

namespace sluice {
namespace {

struct PadNode final : FusedNode {
  struct Params : FillParams {
    std::vector<std::vector<std::int64_t>> to_pad;
  } p;

  static Spec spec() {
    Spec s("pad", "Adds as many voxels as are given to each side of each axis.");
    add_image_keys<Params>(s, "pad", 1)
        .param("to_pad", &Params::to_pad,
               "Voxels before the first and after the last, [[0, 0], [x, x], [y, y], ...]; the "
               "channels come first and get none.")
        .required()
        .length(2, 4);
    return add_fill_params(s).resizes("@keys");
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    for (const auto& pair : p.to_pad)
      if (pair.size() != 2 || pair[0] < 0 || pair[1] < 0)
        throw Error(Exit::usage, "to_pad holds pairs of numbers from 0 on, [before, after]");
    if (p.to_pad[0] != std::vector<std::int64_t>{0, 0})
      throw Error(Exit::usage, "to_pad begins with the channels, which are not padded: [0, 0]");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    fill(out, p, "pad", [this](const Shape3& shape, std::int64_t axes) {
      if (std::ssize(p.to_pad) != axes + 1)
        throw DataError("to_pad has " + std::to_string(p.to_pad.size()) +
                        " pairs for an image of " + std::to_string(axes) + " spatial axes");
      Box box{{}, shape};
      for (std::size_t d = 0; d < static_cast<std::size_t>(axes); ++d) {
        box.start[d] = -p.to_pad[d + 1][0];
        box.size[d] += p.to_pad[d + 1][0] + p.to_pad[d + 1][1];
      }
      return box;
    });
    finish(f, std::move(out));
  }
};

const Register<PadNode> registered;

}  // namespace
}  // namespace sluice
