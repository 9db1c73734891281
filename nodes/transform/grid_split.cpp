// grid_split: MONAI's GridSplitd. A 2-D image becomes the patches of a grid, row by row.
#include "engine/run/registry.h"
#include "nodes/transform/transform.h"

namespace sluice {
namespace {

struct GridSplit final : Node {
  struct Params {
    std::vector<std::string> keys{"image"};
    std::vector<std::int64_t> grid{2, 2};
    std::optional<std::vector<std::int64_t>> size;
    std::vector<std::string> even_keys;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("grid_split", "Splits images of two axes into the patches of a grid.")
        .in("sample")
        .out("sample", "grid[0] x grid[1] patches, one after the other")
        .param("keys", &Params::keys, "Fields to split, each [C, X, Y].")
        .param("grid", &Params::grid, "Patches along X and Y.")
        .length(2, 2)
        .range(1, 1024)
        .param("size", &Params::size,
               "A patch's pixels, one or one an axis; they may overlap; null: what the grid gives.")
        .at_least(1)
        .length(1, 2)
        .param("even_keys", &Params::even_keys,
               "Keys that the grid divides evenly, whatever `size` says: labels of one number a "
               "patch.")
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .expands("grid")
        .takes("@keys", Form::image, 2, 2)
        .resizes("@keys", "size")
        .resizes("@even_keys");
  }

  void process(Firing& f) override {
    for (std::int64_t i = 0; i < p.grid[0]; ++i)
      for (std::int64_t j = 0; j < p.grid[1]; ++j) f.emit(patch(f.in(), i, j));
  }

  Sample patch(const Sample& in, std::int64_t i, std::int64_t j) const {
    Sample out = in;
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t k) {
      if (field.tensor.dim() != 3)
        throw shape_error(p.keys[k], field.tensor, "; needed is [C, X, Y]");
      const at::Tensor volume = to_volume(field.tensor);
      const Shape3 shape = shape_of(volume);
      Box box{{}, shape};
      const std::int64_t at[]{i, j};
      const bool sized = p.size && std::ranges::find(p.even_keys, p.keys[k]) == p.even_keys.end();
      for (std::size_t d = 0; d < 2; ++d) {
        const std::int64_t n = p.grid[d], size = sized ? per_key(*p.size, d) : shape[d] / n;
        if (size < 1 || size > shape[d])
          throw DataError("a patch of " + std::to_string(size) + " pixels does not fit into \"" +
                          p.keys[k] + "\", " + list_text(field.tensor.sizes()));
        box.size[d] = size;
        box.start[d] = n > 1 ? at[d] * ((shape[d] - size) / (n - 1)) : 0;
      }
      record(field, from_volume(crop_pad(volume, box), 2),
             multiply(field.geometry().affine, box_affine(box)), "grid_split", numbers(box));
    });
    return out;
  }
};

const Register<GridSplit> registered;

}  // namespace
}  // namespace sluice
