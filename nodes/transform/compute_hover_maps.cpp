// compute_hover_maps: MONAI's ComputeHoVerMapsd (Graham et al. 2019).
#include <ATen/Functions.h>

#include <map>

#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct ComputeHoverMaps final : Node {
  struct Params : KeyParams {
    std::string new_key_prefix = "hover_";
    Params() { keys = {"label"}; }
  } p;

  static Spec spec() {
    return each_key_spec<Params>("compute_hover_maps",
                                 "How far each voxel of an instance is from its centre of mass.",
                                 "Instances, whole numbers [1, X, Y] or [1, X, Y, Z]; 0 is none.")
        .param("new_key_prefix", &Params::new_key_prefix,
               "The maps are a field of the key's name with this in front, float32 [2, X, Y(, Z)]: "
               "along the second axis, then the first, from -1 to 1 at an instance's ends.")
        .takes("@keys", Form::image, 2, 3)
        .gives("@new_key_prefix@keys", Form::image)
        .like("@keys")
        .channels("2")
        .dtype("float32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_image(
        out, p.keys, p.allow_missing_keys, [&](const std::string& key, const Field& field) {
          if (field.tensor.size(0) != 1)
            throw DataError("field \"" + key + "\" has " + std::to_string(field.tensor.size(0)) +
                            " channels; instances need one");
          out.set(p.new_key_prefix + key, Field(maps(field.tensor), field.meta));
        });
    f.emit(std::move(out));
  }

 private:
  struct Instance {
    double sum[2]{}, low[2]{}, high[2]{};  // low and high: of the distances
    std::int64_t voxels = 0;
  };

  static at::Tensor maps(const at::Tensor& label) {
    const at::Tensor numbers = label.to(at::kLong).contiguous();
    const std::int64_t* v = numbers.const_data_ptr<std::int64_t>();
    const std::int64_t columns = label.size(2), deep = label.dim() == 4 ? label.size(3) : 1;
    std::map<std::int64_t, Instance> found;
    const auto each = [&](auto&& fn) {  // fn(instance, row, column, voxel)
      std::int64_t last = 0;
      Instance* instance = nullptr;
      for (std::int64_t i = 0; i < numbers.numel(); ++i) {
        if (v[i] == 0) continue;
        if (v[i] != last) instance = &found[last = v[i]];
        const std::int64_t plane = i / deep;
        fn(*instance, static_cast<double>(plane / columns), static_cast<double>(plane % columns),
           i);
      }
    };
    each([](Instance& one, double row, double column, std::int64_t) {
      one.sum[0] += column;
      one.sum[1] += row;
      ++one.voxels;
    });
    const auto distance = [](const Instance& one, int axis, double at) {
      return at - one.sum[axis] / static_cast<double>(one.voxels);
    };
    each([&](Instance& one, double row, double column, std::int64_t) {
      for (int axis = 0; axis < 2; ++axis) {
        const double d = distance(one, axis, axis ? row : column);
        one.low[axis] = std::min(one.low[axis], d);
        one.high[axis] = std::max(one.high[axis], d);
      }
    });
    std::vector<std::int64_t> sizes = label.sizes().vec();
    sizes[0] = 2;
    at::Tensor out = at::zeros(sizes, at::kFloat);
    float* w = out.mutable_data_ptr<float>();
    each([&](const Instance& one, double row, double column, std::int64_t i) {
      for (int axis = 0; axis < 2; ++axis) {
        const double d = distance(one, axis, axis ? row : column);
        const double end = d < 0 ? -one.low[axis] : one.high[axis];
        w[axis * numbers.numel() + i] = static_cast<float>(d == 0 ? 0 : d / end);
      }
    });
    return out;
  }
};

const Register<ComputeHoverMaps> registered;

}  // namespace
}  // namespace sluice
