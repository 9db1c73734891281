// rand_crop_foreground: nnU-Net's patches, of which the last of a batch hold foreground.
#include <algorithm>
#include <cmath>

#include "engine/run/registry.h"
#include "nodes/transform/label_classes.h"

namespace sluice {
namespace {

struct RandCropForeground final : Node {
  struct Params : ClassRule<NoParams> {
    std::vector<std::string> keys{"image"};
    std::string label_key = "label";
    std::vector<std::int64_t> spatial_size, final_size;
    std::int64_t batch = 2;
    double oversample = 0.33, outside = -1;
    bool probabilistic = false;
    std::vector<std::vector<std::int64_t>> regions;
    std::optional<std::int64_t> ignore_label;
    std::optional<std::string> indices_key;
  } p;

  static Spec spec() {
    Spec s("rand_crop_foreground",
           "Crops a patch as nnU-Net does: anywhere, also over the rim, or, for the last of each "
           "batch, about a voxel of a class.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Images [C, X, Y] or [C, X, Y, Z]; 0 outside.")
        .param("label_key", &Params::label_key, "The label, [1, ...]; it is cropped too.")
        .param("spatial_size", &Params::spatial_size,
               "The patch, voxels, one an axis; with 1 for the first axis of a volume: slices.")
        .required()
        .length(2, 3)
        .at_least(1)
        .param("final_size", &Params::final_size,
               "What is left of it after rand_rotate_scale: patches may stick out by half of what "
               "is taken away. Empty: spatial_size.")
        .at_least(1)
        .param("batch", &Params::batch, "The batch's size: a sample's place in it counts.")
        .at_least(1)
        .param("oversample", &Params::oversample,
               "Share of a batch that holds foreground: its last samples, as many as are not below "
               "round(batch (1 - oversample)).")
        .range(0, 1)
        .param("probabilistic", &Params::probabilistic,
               "Instead each sample with that probability.")
        .param("outside", &Params::outside, "What the label has outside.")
        .param("regions", &Params::regions,
               "Lists of labels that are drawn as one class; empty: each label above 0.")
        .param("ignore_label", &Params::ignore_label,
               "Voxels of this label are no foreground; other patches, and all of a case without "
               "foreground, are then about a voxel that has another, or what the label has "
               "outside.")
        .param("indices_key", &Params::indices_key,
               "Voxels of the classes (classes_to_indices), so that none is looked for.")
        .random()
        .stays("@indices_key")
        .takes("@keys", Form::image, 2, 3)
        .takes("@label_key", Form::image, 2, 3)
        .takes("@indices_key", Form::any)
        .resizes("@keys", "spatial_size")
        .resizes("@label_key", "spatial_size");
    return add_class_rule<Params>(s);
  }

  void process(Firing& f) override {
    Random random = f.random();
    Sample out = f.in();
    const at::Tensor& label = out.tensor(p.label_key);
    require_spatial(label, p.label_key);
    const std::int64_t axes = label.dim() - 1;
    if (std::ssize(p.spatial_size) != axes)
      throw DataError("field \"" + p.label_key + "\" has " + std::to_string(axes) +
                      " axes, spatial_size " + std::to_string(p.spatial_size.size()));
    const Shape3 shape = shape_of(to_volume(label));
    const Box box = draw_box(f, random, shape, axes);
    if (p.indices_key) out.erase(*p.indices_key);
    for (const std::string& key : p.keys) crop(out, key, box, shape, 0);
    crop(out, p.label_key, box, shape, p.outside);
    f.emit(std::move(out));
  }

 private:
  static void crop(Sample& sample, const std::string& key, const Box& box, const Shape3& shape,
                   double outside) {
    Field field = sample.at(key);
    require_spatial(field.tensor, key);
    const at::Tensor volume = to_volume(field.tensor);
    if (shape_of(volume) != shape)
      throw DataError("field \"" + key + "\" has spatial shape " + list_text(shape_of(volume)) +
                      ", the label " + list_text(shape));
    record(field, from_volume(crop_pad(volume, box, outside), field.tensor.dim() - 1),
           multiply(field.geometry().affine, box_affine(box)), "rand_crop_foreground",
           numbers(box));
    sample.set(key, std::move(field));
  }

  bool wants_foreground(const Firing& f, Random& random) const {
    if (p.probabilistic) return random.chance(p.oversample);
    const auto place = static_cast<std::int64_t>(f.stamp().index) % p.batch;
    return static_cast<double>(place) >=
           std::nearbyint(static_cast<double>(p.batch) * (1 - p.oversample));
  }

  Box draw_box(const Firing& f, Random& random, const Shape3& shape, std::int64_t axes) const {
    Box box{{}, fall_back(p.spatial_size, shape, axes)};
    const Shape3 last = p.final_size.empty() ? box.size : fall_back(p.final_size, shape, axes);
    Shape3 low{}, high{};
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t pad = std::max(box.size[d] - last[d], box.size[d] - shape[d]);
      low[d] = -(pad / 2 + (pad > 0 ? pad % 2 : 0));  // Python's -pad // 2
      high[d] = shape[d] + pad / 2 + pad % 2 - box.size[d];
    }
    const bool foreground = wants_foreground(f, random);
    std::optional<Shape3> centre;
    if (foreground || p.ignore_label) centre = draw_voxel(f.in(), random, shape, foreground);
    for (std::size_t d = 0; d < 3; ++d)
      box.start[d] =
          centre ? std::max(low[d], (*centre)[d] - box.size[d] / 2)
                 : low[d] + static_cast<std::int64_t>(random.integer(static_cast<std::uint64_t>(
                                std::max<std::int64_t>(1, high[d] - low[d] + 1))));
    return box;
  }

  // A voxel of a class that is drawn among those that are there; where there is none, or foreground
  // is not wanted, with an ignored label one of any other. None where there is no such voxel.
  std::optional<Shape3> draw_voxel(const Sample& sample, Random& random, const Shape3& shape,
                                   bool foreground) const {
    const at::Tensor bits =
        p.indices_key ? sample.tensor(*p.indices_key) : class_bits(sample, p.label_key, p);
    std::vector<VoxelBits> classes;
    for (std::int64_t c = 0; c < bits.size(0); ++c) classes.emplace_back(bits[c], shape);
    std::vector<std::vector<std::size_t>> groups;
    if (foreground) groups = class_groups(classes.size());
    const auto is_there = [&](const std::vector<std::size_t>& group) {
      return std::any_of(group.begin(), group.end(),
                         [&](std::size_t c) { return classes[c].count() > 0; });
    };
    if (p.ignore_label && std::none_of(groups.begin(), groups.end(), is_there)) {
      groups = {all_but_ignored(classes.size(), 0)};
      const at::Tensor label = to_volume(sample.tensor(p.label_key));
      if (label.size(0) == 1) {  // a one-hot label has no channel of what is outside
        groups[0].push_back(classes.size());
        classes.emplace_back(mask_bits(label[0].eq(p.outside)), shape);
      }
    }
    std::vector<std::uint64_t> counts;
    std::vector<std::size_t> there;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::uint64_t n = 0;
      for (const std::size_t c : groups[g]) n += classes[c].count();
      counts.push_back(n);
      if (n > 0) there.push_back(g);
    }
    if (there.empty()) return std::nullopt;
    const std::size_t g = there[random.integer(there.size())];
    std::uint64_t k = random.integer(counts[g]);
    for (const std::size_t c : groups[g]) {
      if (k < classes[c].count()) return classes[c].voxel(k);
      k -= classes[c].count();
    }
    return std::nullopt;
  }

  std::vector<std::size_t> all_but_ignored(std::size_t classes, std::size_t first) const {
    std::vector<std::size_t> all;
    for (std::size_t c = first; c < classes; ++c)
      if (!p.ignore_label || static_cast<std::int64_t>(c) != *p.ignore_label) all.push_back(c);
    return all;
  }

  std::vector<std::vector<std::size_t>> class_groups(std::size_t classes) const {
    std::vector<std::vector<std::size_t>> groups;
    for (const auto& region : p.regions) {
      groups.emplace_back();
      for (const std::int64_t label : region) {
        if (label < 0 || label >= static_cast<std::int64_t>(classes))
          throw Error(Exit::usage, "regions has label " + std::to_string(label) + " of " +
                                       std::to_string(classes) + " classes");
        groups.back().push_back(static_cast<std::size_t>(label));
      }
    }
    if (groups.empty())
      for (const std::size_t c : all_but_ignored(classes, 1)) groups.push_back({c});
    return groups;
  }
};

const Register<RandCropForeground> registered;

}  // namespace
}  // namespace sluice
