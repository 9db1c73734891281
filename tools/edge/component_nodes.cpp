// What cleans a label map by its connected components.
#include <algorithm>
#include <optional>
#include <set>

#include "kernels/image/component_runs.h"
#include "tools/edge/node.h"

namespace sluice::edge {
namespace {

struct KeepLargestConnectedComponent final : Node {
  struct Params {
    std::vector<std::string> keys{"pred"};
    std::optional<std::vector<std::int64_t>> applied_labels;
    std::optional<bool> is_onehot;
    bool independent = true;
    std::optional<std::int64_t> connectivity;
    std::int64_t num_components = 1;
  } p;

  static Spec spec() {
    return Spec("keep_largest_connected_component",
                "Sets all but the largest connected components of each label to 0.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Label maps, or one-hot.")
        .param("applied_labels", &Params::applied_labels,
               "Labels (channels, where one-hot) to work on; null: all but 0.")
        .param("is_onehot", &Params::is_onehot, "null: one-hot where there are several channels.")
        .param("independent", &Params::independent,
               "Each label by itself; otherwise the labels' union.")
        .param("connectivity", &Params::connectivity,
               "Neighbours differ in at most so many coordinates; null: in all.")
        .range(1, 3)
        .param("num_components", &Params::num_components, "How many are kept.")
        .at_least(0);
  }

  void run(Case& c) const override {
    for (const std::string& key : p.keys) {
      Image& image = c.image(key);
      Map map{image.voxels(), image.shape(), p.is_onehot.value_or(image.channels > 1)};
      Labels labels = map.labels();
      if (p.applied_labels) {
        labels.assign(p.applied_labels->begin(), p.applied_labels->end());
        for (const std::int64_t label : *p.applied_labels)
          if (map.one_hot && (label < 0 || label >= image.channels))
            throw DataError(c.name + ": label " + std::to_string(label) + " is none of " +
                            std::to_string(image.channels) + " channels");
      }
      if (p.independent)
        for (const float label : labels) clean(map, {label});
      else
        clean(map, labels);
      image.replace(std::move(map.v), image.channels);
    }
  }

 private:
  using Labels = std::vector<float>;  // values of a map, or channels

  struct Map {
    std::vector<float> v;
    Shape3 shape;
    bool one_hot;

    std::size_t volume() const { return static_cast<std::size_t>(shape[0] * shape[1] * shape[2]); }
    // Where the label's values are.
    float* of(float label) {
      return v.data() + (one_hot ? static_cast<std::size_t>(label) * volume() : 0);
    }
    bool is(float value, float label) const { return one_hot ? value > 0 : value == label; }
    Labels labels() const {
      std::set<float> found;
      if (one_hot)
        for (std::size_t c = 1; c < v.size() / volume(); ++c) found.insert(static_cast<float>(c));
      else
        for (std::size_t i = 0; i < v.size(); ++i)
          if (i == 0 || v[i] != v[i - 1]) found.insert(v[i]);  // neighbours are mostly alike
      found.erase(0.0F);
      return {found.begin(), found.end()};
    }
  };

  // Of where one of the labels is.
  void clean(Map& map, const Labels& labels) const {
    std::vector<std::uint8_t> mask(map.volume());
    for (const float label : labels) {
      const float* v = map.of(label);
      for (std::size_t i = 0; i < mask.size(); ++i) mask[i] |= map.is(v[i], label);
    }
    const int connectivity = static_cast<int>(p.connectivity.value_or(3));
    const Components found = find_components(mask.data(), map.shape, connectivity);
    const std::vector<bool> kept = found.largest(p.num_components);
    for (const Components::Run& run : found.runs) {
      if (kept[static_cast<std::size_t>(run.component)]) continue;
      for (const float label : labels) {
        float* row = map.of(label) + run.row * map.shape[2];
        std::fill(row + run.begin, row + run.end, 0.0F);
      }
    }
  }
};

}  // namespace

std::vector<NodeType> component_nodes() { return {type_of<KeepLargestConnectedComponent>()}; }

}  // namespace sluice::edge
