// argmax: MONAI's AsDiscreted(argmax=True).

#include "engine/run/registry.h"
#include "kernels/image/labels.h"
#include "nodes/fields.h"
#include "nodes/is_batch.h"

namespace sluice {
namespace {

struct Argmax final : Node {
  struct Params {
    std::vector<std::string> keys{"pred"};
    std::int64_t spatial_dims = 3;
    std::vector<std::int64_t> regions_class_order;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("argmax", "The index of the largest channel: scores to a label map.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Scores [C, X, Y, Z] or [N, C, X, Y, Z], at most 256 channels; they become uint8 "
               "[1, X, Y, Z] or [N, 1, X, Y, Z].")
        .param("spatial_dims", &Params::spatial_dims, "Spatial axes; one more than C is a batch.")
        .range(1, 3)
        .param(
            "regions_class_order", &Params::regions_class_order,
            "The channels are probabilities of nnU-Net's regions: a voxel where one is above 0.5 "
            "gets the region's label, the later one over the earlier. Empty: the largest wins.")
        .range(0, 255)
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .any_device()
        .takes("@keys", Form::any)
        .axis_count("@keys", "spatial_dims")
        .changes("@keys")
        .channels("1")
        .dtype("uint8");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      field.tensor = discrete(field.tensor, is_batch(field, p.keys[i], p.spatial_dims));
    });
    f.emit(std::move(out));
  }

  at::Tensor discrete(const at::Tensor& x, bool batch) const {
    const std::int64_t channels = batch ? 1 : 0;  // their axis
    if (!p.regions_class_order.empty()) {
      if (x.size(channels) != std::ssize(p.regions_class_order))
        throw DataError("there are " + std::to_string(x.size(channels)) +
                        " channels, regions_class_order has " +
                        std::to_string(p.regions_class_order.size()) + " labels");
      at::Tensor labels = at::zeros_like(x.narrow(channels, 0, 1), at::kByte);
      for (std::int64_t c = 0; c < x.size(channels); ++c)
        labels.masked_fill_(x.narrow(channels, c, 1).gt(0.5),
                            p.regions_class_order[static_cast<std::size_t>(c)]);
      return labels;
    }
    return batch ? kernels::argmax_members(x) : kernels::argmax_channels(x);
  }
};

const Register<Argmax> registered;

}  // namespace
}  // namespace sluice
