// sample_prompt_pairs: MONAI's sample_prompt_pairs (monai.apps.vista3d.sampler 1.6.1), as a
// transform of one sample: what vista3d is asked, and the answers.
#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>

#include "engine/run/registry.h"
#include "nodes/transform/one_channel.h"

namespace sluice {
namespace {

using Classes = std::vector<std::int64_t>;

struct SamplePromptPairs final : Node {
  struct Params {
    std::string label = "label", target = "target";
    Classes label_set, special_index{23, 24, 25, 26, 27, 57, 128};
    std::optional<std::int64_t> max_prompt, max_foreprompt, max_backprompt = 1;
    std::int64_t max_point = 20;
    bool include_background = false;
    double drop_point_prob = 0.2;
  } p;

  static Spec spec() {
    return Spec("sample_prompt_pairs",
                "Draws what vista3d is asked about a label, classes and points, and says what it "
                "should answer. Samples that are asked about different numbers of classes, or with "
                "different numbers of points, fit into no batch together.")
        .in("sample")
        .out("sample",
             "With new fields: class_vector, int32 [prompts]; point_coords, int32 [prompts, "
             "points, 3]; point_labels, int32 [prompts, points]; and the target.")
        .param("label", &Params::label, "Numbers of classes, [1, X, Y, Z].")
        .param("target", &Params::target,
               "New field: 1 where a voxel is of the prompt's class, uint8 [prompts, X, Y, Z].")
        .param("label_set", &Params::label_set,
               "The classes that may be asked about; prompts keep its order. With 0, the "
               "background is asked for as a class.")
        .required()
        .length(1)
        .at_least(0)
        .param("max_prompt", &Params::max_prompt, "Prompts at most; null: any number.")
        .at_least(1)
        .param("max_foreprompt", &Params::max_foreprompt,
               "Classes of the label among them, at most; null: any number.")
        .at_least(1)
        .param("max_backprompt", &Params::max_backprompt,
               "Classes that the label does not have, at most; null: any number.")
        .at_least(0)
        .param("max_point", &Params::max_point,
               "Points inside of a class, and outside of it, at most each.")
        .at_least(1)
        .param("include_background", &Params::include_background, "Draw points of class 0 too.")
        .param("drop_point_prob", &Params::drop_point_prob,
               "Probability that no point is told (all point_labels are -1).")
        .range(0, 1)
        .param("special_index", &Params::special_index,
               "Classes whose points have the labels 3 and 2 in place of 1 and 0.")
        .random()
        .takes("@label", Form::image, 3, 3)
        .gives("class_vector", Form::any)
        .dtype("int32")
        .gives("point_coords", Form::any)
        .dtype("int32")
        .gives("point_labels", Form::any)
        .dtype("int32")
        .gives("@target", Form::image)
        .dtype("uint8");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor label = one_channel(out, p.label);
    Random random = f.random();
    const auto [there, asked] = drawn_classes(label, random);
    const auto inside = std::min(p.max_point, drawn_count(random) + 1),
               outside = std::min(p.max_point, drawn_count(random)), n = std::ssize(asked);
    const bool told = !random.chance(p.drop_point_prob);
    at::Tensor coords = at::zeros({n, inside + outside, 3}, at::kInt),
               labels = at::full({n, inside + outside}, -1, at::kInt);
    std::vector<at::Tensor> target;
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t c = asked[static_cast<std::size_t>(k)];
      const at::Tensor mask = label[0].eq(c);
      target.push_back(mask.to(at::kByte));
      if (!told || !contains(there, c)) continue;
      const int special = contains(p.special_index, c) ? 2 : 0;
      draw_points(mask, special + 1, coords[k].narrow(0, 0, inside), labels[k].narrow(0, 0, inside),
                  random);
      draw_points(mask.logical_not(), special, coords[k].narrow(0, inside, outside),
                  labels[k].narrow(0, inside, outside), random);
    }
    const auto set = [&](const std::string& key, at::Tensor t) {
      out.set(key, Field(std::move(t), std::make_shared<Meta>()));
    };
    set("class_vector", at::tensor(asked, at::kInt));
    set("point_coords", coords);
    set("point_labels", labels);
    out.set(p.target, Field(at::stack(target), f.in().at(p.label).meta));
    f.emit(std::move(out));
  }

 private:
  static bool contains(const Classes& all, std::int64_t c) {
    return std::find(all.begin(), all.end(), c) != all.end();
  }
  static void keep_drawn(Classes& all, std::optional<std::int64_t> most, Random& random) {
    while (most && std::ssize(all) > *most)
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(random.integer(all.size())));
  }
  std::int64_t drawn_count(Random& random) const {
    return static_cast<std::int64_t>(std::abs(random.normal()) *
                                     static_cast<double>(p.max_point / 2));
  }

  // Those of the label that are asked about, and all that are.
  std::pair<Classes, Classes> drawn_classes(const at::Tensor& label, Random& random) const {
    Classes there, absent;
    for (const std::int64_t c : p.label_set) {
      const bool is_there = (c != 0 || p.include_background) && label.eq(c).any().item<bool>();
      (is_there ? there : absent).push_back(c);
    }
    keep_drawn(absent, p.max_backprompt, random);
    keep_drawn(there, p.max_foreprompt, random);
    keep_drawn(there, p.max_prompt, random);
    if (p.max_prompt) keep_drawn(absent, *p.max_prompt - std::ssize(there), random);
    Classes asked;
    for (const std::int64_t c : p.label_set)
      if (contains(there, c) || contains(absent, c)) asked.push_back(c);
    if (asked.empty())
      throw DataError("the label \"" + p.label +
                      "\" has none of the classes of label_set, and "
                      "max_backprompt 0 asks for none that it has not");
    return {there, asked};
  }

  // With replacement, as many as there are rows, but no more than there are voxels.
  static void draw_points(const at::Tensor& mask, int label, const at::Tensor& coords,
                          const at::Tensor& labels, Random& random) {
    const at::Tensor voxels = mask.flatten().nonzero().flatten();
    const std::int64_t count = std::min(coords.size(0), voxels.numel());
    for (std::int64_t i = 0; i < count; ++i) {
      const auto row = random.integer(static_cast<std::uint64_t>(voxels.numel()));
      std::int64_t voxel = voxels[static_cast<std::int64_t>(row)].item<std::int64_t>();
      for (std::int64_t a = 2; a >= 0; --a) {
        coords[i][a] = voxel % mask.size(a);
        voxel /= mask.size(a);
      }
      labels[i] = label;
    }
  }
};

const Register<SamplePromptPairs> registered;

}  // namespace
}  // namespace sluice
