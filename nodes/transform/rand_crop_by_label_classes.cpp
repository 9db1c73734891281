// rand_crop_by_label_classes: MONAI's RandCropByLabelClassesd.
#include <numeric>

#include "nodes/transform/cropping.h"
#include "nodes/transform/label_classes.h"

namespace sluice {
namespace {

struct RandCropByLabelClasses final : FusedNode {
  struct Params : ClassRule<CropParams> {
    std::string label_key = "label";
    std::vector<std::int64_t> spatial_size;
    std::optional<std::vector<double>> ratios;
    std::int64_t num_samples = 1;
    std::optional<std::string> indices_key;
    bool allow_smaller = false;
  } p;

  static Spec spec() {
    Spec s("rand_crop_by_label_classes",
           "Crops num_samples patches around voxels of classes of a label.");
    add_crop_params(s, "crop", 2)
        .param("label_key", &Params::label_key, "The label; one-hot if it has several channels.")
        .param("spatial_size", &Params::spatial_size,
               "Voxels: one number, or one an axis; 0 or less: the whole axis.")
        .required()
        .param("ratios", &Params::ratios,
               "How often each class is drawn, in proportion; null: all alike. A class that is "
               "not there is not drawn.")
        .at_least(0)
        .param("num_samples", &Params::num_samples, "Patches a sample.")
        .at_least(1)
        .param("indices_key", &Params::indices_key,
               "Voxels of the classes (classes_to_indices), so that none is looked for.")
        .param("allow_smaller", &Params::allow_smaller,
               "Take the whole axis where the image is smaller than spatial_size.")
        .expands("num_samples")
        .random()
        .stays("@indices_key")
        .takes("@label_key", Form::image, 2, 3)
        .takes("@indices_key", Form::any)
        .resizes("@keys", "spatial_size")
        .unless("allow_smaller", true)
        .crops("@keys", "spatial_size")
        .when("allow_smaller", true);
    return add_class_rule<Params>(s);
  }

  void process(Firing& f) override {
    const at::Tensor& label = f.in().tensor(p.label_key);
    require_spatial(label, p.label_key);
    const Shape3 shape = shape_of(to_volume(label));
    const Shape3 size =
        patch_size(p.spatial_size, shape, label.dim() - 1, p.allow_smaller, p.label_key);
    const at::Tensor bits =
        p.indices_key ? f.in().tensor(*p.indices_key) : class_bits(f.in(), p.label_key, p);
    std::vector<VoxelBits> classes;
    for (std::int64_t c = 0; c < bits.size(0); ++c) classes.emplace_back(bits[c], shape);
    const std::vector<double> shares = shares_of(classes);
    Sample rest = f.in();
    if (p.indices_key) rest.erase(*p.indices_key);
    Random random = f.random();
    for (std::int64_t i = 0; i < p.num_samples; ++i) {
      const double drawn = random.uniform() * shares.back();
      const auto c = std::upper_bound(shares.begin(), shares.end() - 1, drawn) - shares.begin();
      const VoxelBits& pool = classes[static_cast<std::size_t>(c)];
      const Shape3 centre = pool.voxel(random.integer(pool.count()));
      finish(f, patch_around(rest, p, "rand_crop_by_label_classes", centre, size, shape));
    }
  }

  // The ratios' running sum; of a class without voxels the ratio is 0.
  std::vector<double> shares_of(const std::vector<VoxelBits>& classes) const {
    std::vector<double> shares = p.ratios.value_or(std::vector<double>(classes.size(), 1));
    if (shares.size() != classes.size())
      throw DataError("ratios has " + std::to_string(shares.size()) + " entries, \"" + p.label_key +
                      "\" " + std::to_string(classes.size()) + " classes");
    for (std::size_t c = 0; c < shares.size(); ++c)
      if (classes[c].count() == 0) shares[c] = 0;
    std::partial_sum(shares.begin(), shares.end(), shares.begin());
    if (!(shares.back() > 0))
      throw DataError("no crop centre: no voxel of \"" + p.label_key +
                      "\" belongs to a class whose ratio is above 0");
    while (shares.size() > 1 && shares[shares.size() - 2] == shares.back()) shares.pop_back();
    return shares;
  }
};

const Register<RandCropByLabelClasses> registered;

}  // namespace
}  // namespace sluice
