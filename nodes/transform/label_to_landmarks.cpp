// label_to_landmarks: where the marks of a landmark image are, as numbers.
#include <ATen/Functions.h>

#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct LabelToLandmarks final : EachKey<LabelToLandmarks> {
  struct Params : KeyParams {
    std::vector<std::int64_t> labels;
    Params() { keys = {"label"}; }
  } p;

  static Spec spec() {
    return each_key_spec<Params>(
               "label_to_landmarks",
               "Makes a column of coordinates of each mark in an image of landmarks.",
               "Images [1, X, Y] or [1, X, Y, Z] with a voxel for each landmark, its value the "
               "landmark's; they become [axes, landmarks].")
        .param("labels", &Params::labels,
               "The landmarks' values in the columns' order. One that is not there has zeros; of "
               "several voxels the last counts.")
        .length(1)
        .required()
        .takes("@keys", Form::image, 2, 3)
        .gives("@keys", Form::any)
        .dtype("float32");
  }

  void change(Field& field, std::size_t i) const {
    const at::Tensor& image = field.tensor;
    require_spatial(image, p.keys[i]);
    if (image.size(0) != 1)
      throw shape_error(p.keys[i], image, "; an image of landmarks has one channel");
    const at::Tensor marks = image[0].nonzero(), values = image[0].to(at::kDouble);
    const std::int64_t axes = image.dim() - 1;
    at::Tensor found = at::zeros({axes, std::ssize(p.labels)}, at::kFloat);
    const auto where = marks.accessor<std::int64_t, 2>();
    auto to = found.accessor<float, 2>();
    for (std::int64_t m = 0; m < marks.size(0); ++m) {
      at::Tensor voxel = values;
      std::vector<std::int64_t> at;
      for (std::int64_t d = 0; d < axes; ++d) voxel = voxel[at.emplace_back(where[m][d])];
      const auto value = voxel.item<double>();
      const auto known = std::find_if(p.labels.begin(), p.labels.end(), [&](std::int64_t label) {
        return static_cast<double>(label) == value;
      });
      if (known == p.labels.end())
        throw DataError("field \"" + p.keys[i] + "\" has the value " + c10::str(value) + " at " +
                        list_text(at) + "; labels are " + list_text(p.labels));
      for (std::int64_t d = 0; d < axes; ++d)
        to[d][known - p.labels.begin()] = static_cast<float>(at[static_cast<std::size_t>(d)]);
    }
    field.tensor = found;
  }
};

const Register<LabelToLandmarks> registered;

}  // namespace
}  // namespace sluice
