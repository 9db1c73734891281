// rand_coarse_shuffle: MONAI's RandCoarseShuffled (PatchShuffle, Kang et al. 2017). The same boxes
// in all keys.
#include <ATen/Functions.h>

#include "nodes/transform/coarse_boxes.h"

namespace sluice {
namespace {

struct RandCoarseShuffle final : Node {
  using Params = CoarseParams;
  Params p;

  static Spec spec() {
    Spec s("rand_coarse_shuffle", "Shuffles the voxels of boxes at random places.");
    return add_coarse_params(s);
  }

  void open(const OpenContext&) override { p.check(); }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    Sample out = f.in();
    std::vector<Box> boxes;  // drawn for the first key's size
    for_each_volume(out, p.keys, p.allow_missing_keys,
                    [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t i) {
                      const Shape3 shape = shape_of(volume);
                      if (boxes.empty()) boxes = p.draw_boxes(random, shape, axes);
                      CoarseParams::check_inside(boxes, shape, p.keys[i]);
                      field.tensor = from_volume(shuffled(volume, boxes, random), axes);
                    });
    f.emit(std::move(out));
  }

 private:
  // Fisher and Yates, with 32 bits of a key for each place.
  static void shuffle(std::int64_t* items, std::int64_t n, std::uint64_t key) {
    for (std::int64_t k = n; k > 1; --k) {
      const auto places = static_cast<std::uint64_t>(k);
      std::swap(items[k - 1], items[(mix(key ^ places) >> 32) * places >> 32]);
    }
  }

  // Each channel of each box by a permutation of its own.
  static at::Tensor shuffled(const at::Tensor& volume, const std::vector<Box>& boxes,
                             Random& random) {
    at::Tensor out = volume.clone();
    for (const Box& box : boxes)
      for (std::int64_t c = 0; c < out.size(0); ++c) {
        at::Tensor part = out[c];
        for (std::size_t d = 0; d < 3; ++d)
          part = part.narrow(static_cast<std::int64_t>(d), box.start[d], box.size[d]);
        const at::Tensor order = at::arange(part.numel(), at::kLong);
        shuffle(order.mutable_data_ptr<std::int64_t>(), part.numel(), random.bits64());
        part.copy_(part.flatten().index_select(0, order).view(part.sizes()));
      }
    return out;
  }
};

const Register<RandCoarseShuffle> registered;

}  // namespace
}  // namespace sluice
