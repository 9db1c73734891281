// add_coordinate_channels: MONAI's AddCoordinateChannelsd.
#include <ATen/Functions.h>

#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct AddCoordinateChannels final : EachKey<AddCoordinateChannels> {
  struct Params : KeyParams {
    std::vector<std::int64_t> spatial_dims;
  } p;

  static Spec spec() {
    return each_key_spec("add_coordinate_channels",
                         "Adds a channel for each axis: -0.5 at its first voxel, 0.5 at its last.",
                         "Fields to change, each [C, ...].")
        .param("spatial_dims", &Params::spatial_dims, "The spatial axes, 0 = X.")
        .required()
        .range(0, 2)
        .takes("@keys", Form::image)
        .changes("@keys");
  }

  void change(Field& field, std::size_t i) const {
    const at::Tensor x = field.tensor;
    std::vector<at::Tensor> parts{x};
    std::vector<std::int64_t> channel = x.sizes().vec();
    channel[0] = 1;
    for (const std::int64_t axis : p.spatial_dims) {
      const std::int64_t at = axis_of(axis + 1, x, p.keys[i]);
      std::vector<std::int64_t> line(static_cast<std::size_t>(x.dim()), 1);
      line[static_cast<std::size_t>(at)] = x.size(at);
      parts.push_back(at::linspace(-0.5, 0.5, x.size(at), at::kDouble)
                          .view(line)
                          .expand(channel)
                          .to(x.scalar_type()));
    }
    field.tensor = at::cat(parts);
  }
};

const Register<AddCoordinateChannels> registered;

}  // namespace
}  // namespace sluice
