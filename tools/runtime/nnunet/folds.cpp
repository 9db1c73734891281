#include "tools/runtime/nnunet/folds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"
#include "kernels/files/overlay.h"
#include "kernels/files/volume.h"
#include "tools/runtime/nnunet/postprocessing.h"
#include "tools/runtime/write_text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using namespace nnunet;

constexpr std::size_t most_worst = 6;  // cases with pictures
constexpr int slices = 3;

Json column(const DiceTable& table, std::size_t i) {
  Json values = Json::array();
  for (const auto& row : table) values.push_back(std::isnan(row[i]) ? Json() : Json(row[i]));
  return values;
}

// By the mean over the groups; what has none comes last.
std::vector<std::size_t> from_the_worst(const DiceTable& table, std::size_t cases) {
  std::vector<std::size_t> order(cases);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t i) {
    const double m = case_mean(table, i);
    return std::isnan(m) ? 2.0 : m;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return order;
}

Layer layer(const Volume& v, at::Tensor voxels) {
  Layer l{std::move(voxels)};
  l.affine = v.affine;
  l.has_affine = v.has_affine;
  return l;
}

Json draw(const ValidatedCase& one, const std::vector<Group>& kept, std::size_t index,
          const fs::path& out) {
  const Volume image = read_volume(one.images.front()), truth = read_volume(one.truth, at::kInt),
               pred = read_volume(one.prediction, at::kInt);
  at::Tensor labels = pred.data[0].clone();
  for (const Group& group : kept) keep_largest(labels, group);
  SliceStyle style;
  style.slices = slices;
  Json pictures = Json::array();
  for (const Slice& s :
       draw_slices(layer(image, image.data.narrow(0, 0, 1)), layer(truth, truth.data),
                   layer(pred, labels.unsqueeze(0)), style)) {
    const std::string file = fmt::format("{}_{}.png", index, s.position);
    write_text(out / file, encode_png(s.picture));
    Json colors = Json::array();
    for (const int c : s.classes) {
      const Rgb rgb = class_color(c);
      colors.push_back(fmt::format("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2]));
    }
    pictures.push_back({{"case", index},
                        {"file", file},
                        {"slice", s.position},
                        {"classes", s.classes},
                        {"colors", colors}});
  }
  return pictures;
}

}  // namespace

int folds_command(const Json& request) {
  const fs::path folder = request.at("folder").get<std::string>(),
                 out = request.at("out").get<std::string>();
  const auto cases = validated_cases(folder);
  const Dataset dataset = dataset_of(folder);
  const Postprocessing p = find_postprocessing(cases, dataset);
  Json found{{"name", dataset.name},
             {"groups", Json::array()},
             {"kept", Json::array()},
             {"cases", Json::array()},
             {"pictures", Json::array()}};
  for (const Group& group : p.groups) found["groups"].push_back(name_of(dataset, group));
  for (const Group& group : p.kept)
    found["kept"].push_back(group == dataset.classes() && group.size() > 1
                                ? "the foreground"
                                : name_of(dataset, group));
  const auto order = from_the_worst(p.after, cases.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    const std::size_t i = order[k];
    found["cases"].push_back({{"name", cases[i].name},
                              {"run", cases[i].run},
                              {"before", column(p.before, i)},
                              {"after", column(p.after, i)}});
    if (k >= most_worst) continue;
    const Json pictures = draw(cases[i], p.kept, k, out);
    found["pictures"].insert(found["pictures"].end(), pictures.begin(), pictures.end());
  }
  write_text(out / "folds.json", found.dump(-1, ' ', false, Json::error_handler_t::replace));
  return static_cast<int>(Exit::done);
}

}  // namespace sluice
