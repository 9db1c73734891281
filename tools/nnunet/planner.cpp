#include "tools/nnunet/planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/letter_case.h"
#include "tools/nnunet/configuration.h"
#include "tools/nnunet/statistics.h"
#include "tools/nnunet/wording.h"

namespace sluice::nnunet {
namespace {

constexpr double anisotropy = 3;        // an axis whose spacing is more than so many times larger
constexpr double least_seen = 0.25;     // of the median volume a patch has to hold, else ...
constexpr double lowres_growth = 1.03;  // ... the spacing grows by steps of 3 %
constexpr double lowres_gain = 2;       // and the volume has to shrink by so much
constexpr int most_lowres_rounds = 200;

Reals column(const std::vector<std::array<double, 3>>& rows, std::size_t axis) {
  Reals values;
  for (const auto& row : rows) values.push_back(row[axis]);
  return values;
}

Reals transposed(const Reals& values, const Ints& order) {
  Reals out;
  for (const std::int64_t a : order) out.push_back(values[static_cast<std::size_t>(a)]);
  return out;
}

// ---- spacing ------------------------------------------------------------------------------------

Reals target_spacing(const Fingerprint& f, std::vector<std::string>& why) {
  Reals target(3), size(3);
  for (std::size_t a = 0; a < 3; ++a) {
    target[a] = percentile(column(f.spacings, a), 50);
    size[a] = percentile(column(f.shapes, a), 50);
  }
  const auto worst =
      static_cast<std::size_t>(std::max_element(target.begin(), target.end()) - target.begin());
  double others = 0, least = INFINITY;
  for (std::size_t a = 0; a < 3; ++a)
    if (a != worst) {
      others = std::max(others, target[a]);
      least = std::min(least, size[a]);
    }
  const std::string median = join("the median of ", std::to_string(f.cases()), " cases, z y x");
  if (!(target[worst] > anisotropy * others) || !(size[worst] * anisotropy < least)) {
    why.push_back(join("spacing ", extents(target), " mm: ", median));
    return target;
  }
  double thick = percentile(column(f.spacings, worst), 10);
  if (thick < others) thick = others + 1e-5;
  why.push_back(join("spacing: ", median, ", ", extents(target), " mm; axis ",
                     std::to_string(worst),
                     " has more than 3 times the spacing of the others and "
                     "fewer than a third of their voxels, so it takes the 10th percentile, ",
                     number(thick), " mm"));
  target[worst] = thick;
  return target;
}

// The extents of the median case where every case has the spacing.
Reals median_shape(const Fingerprint& f, const Reals& spacing) {
  Reals shape(3);
  for (std::size_t a = 0; a < 3; ++a) {
    Reals extents;
    for (std::size_t i = 0; i < f.cases(); ++i)
      extents.push_back(round_even(f.spacings[i][a] / spacing[a] * f.shapes[i][a]));
    shape[a] = median(extents);
  }
  return shape;
}

// ---- all of them --------------------------------------------------------------------------------

std::optional<Configuration> plan_lowres(const Plans& plans, const Configuration& full) {
  const double volume = product(full.median);
  Reals spacing = full.spacing;
  double voxels = volume, patch = product(as_reals(full.topology.patch));
  std::optional<Configuration> low;
  for (int round = 0; patch / voxels < least_seen; ++round) {
    if (round == most_lowres_rounds)
      throw DataError(
          "no resolution was found at which a patch holds a quarter of the median case "
          "(200 steps of 3 %)");
    const double most = *std::max_element(spacing.begin(), spacing.end());
    std::vector<bool> fine;
    for (const double s : spacing) fine.push_back(most / s > 2);
    const bool any = std::find(fine.begin(), fine.end(), true) != fine.end();
    Reals median, rounded;
    for (std::size_t a = 0; a < spacing.size(); ++a) {
      if (!any || fine[a]) spacing[a] *= lowres_growth;
      median.push_back(full.spacing[a] / spacing[a] * full.median[a]);
      rounded.push_back(round_even(median[a]));
    }
    voxels = product(median);
    low = plan_one(plans, {"3d_lowres", spacing, rounded,
                           voxels * static_cast<double>(plans.dataset.training)});
    patch = product(as_reals(low->topology.patch));
  }
  if (volume / voxels < lowres_gain) return std::nullopt;
  low->why.push_back(
      join("low resolution: the patch of 3d_fullres holds ",
           number(100 * product(as_reals(full.topology.patch)) / volume),
           " % of the median case, less than 25 %; spacing grew by 3 % until one does"));
  return low;
}

std::vector<Normalization> normalization_of(const Dataset& d, const Fingerprint& f,
                                            std::vector<std::string>& why) {
  static const std::vector<std::pair<std::string, std::string>> by_name{
      {"ct", "CTNormalization"},
      {"nonorm", "NoNormalization"},
      {"rescale_to_0_1", "RescaleTo01Normalization"},
      {"rgb_to_0_1", "RGBTo01Normalization"}};
  std::vector<Normalization> all;
  for (const std::string& given : d.channels) {
    const std::string channel = lower_case(given);
    Normalization n{"ZScoreNormalization", f.relative_size < 0.75};
    for (const auto& [name, scheme] : by_name)
      if (name == channel) n = {scheme, false};
    all.push_back(n);
    why.push_back(
        join("normalization of channel ", channel, ": ", n.scheme, ", by the channel's name",
             n.scheme != "ZScoreNormalization" ? ""
             : n.masked ? join("; in the mask of what is not 0, as the crop leaves ",
                               number(100 * f.relative_size), " % of a case, less than 75 %")
                        : join("; over the whole crop, which is ", number(100 * f.relative_size),
                               " % of a case")));
  }
  return all;
}

// The next whole GB at which another patch or batch would be planned, up to three times as many.
// Both grow with memory alone, so it is found by halves.
void say_what_more_memory_gives(const Plans& plans, Configuration& c, const Wanted& wanted) {
  Plans larger = plans;
  const auto planned = [&](double gb) {
    larger.gpu_memory = gb;
    return plan_one(larger, wanted);
  };
  const auto same = [&](const Configuration& other) {
    return other.topology.patch == c.topology.patch && other.batch == c.batch;
  };
  double low = std::floor(plans.gpu_memory);
  double high = std::max(low + 1, std::floor(3 * plans.gpu_memory));
  if (same(planned(high))) {
    c.why.push_back("more memory would change nothing");
    return;
  }
  for (double gb = std::floor((low + high) / 2); gb > low && gb < high;
       gb = std::floor((low + high) / 2))
    (same(planned(gb)) ? low : high) = gb;
  const Configuration other = planned(high);
  c.why.push_back(join("with ", number(high), " GB: patch ", extents(other.topology.patch),
                       ", batch ", std::to_string(other.batch)));
}

// A .tif may be a picture or a volume, which no dataset.json says.
void choose_reader(Dataset& d, const Fingerprint& fingerprint, std::vector<std::string>& why) {
  const auto is_volume = [](const auto& shape) { return shape[0] > 1; };
  if (d.reader_named)
    why.push_back(join("reader ", d.reader, ": dataset.json names it"));
  else if (d.reader == "NaturalImage2DIO" && lower_case(d.ending) == ".tif" &&
           std::any_of(fingerprint.shapes.begin(), fingerprint.shapes.end(), is_volume))
    d.reader = "Tiff3DIO";
}

void say_what_is_odd(Plans& plans) {
  const auto& cases = plans.fingerprint.cases();
  if (cases == 1)
    plans.odd.push_back(
        "one case leaves nothing to validate with: nnU-Net trains it on fold \"all\"");
  for (const Configuration& c : plans.configurations) {
    if (c.stages() == 1)
      plans.odd.push_back(join(c.name,
                               ": no axis of the patch has 8 voxels, so the network does not "
                               "pool; nnU-Net fails here"));
    if (c.batch > 100 && plans.planner.most_of_data >= 1)
      plans.odd.push_back(join(c.name, ": batch ", std::to_string(c.batch), " is what ",
                               plans.planner.type,
                               " plans, which has no limit of 5 % of the data set"));
  }
}

}  // namespace

const std::vector<Planner>& planners() {
  static const std::vector<Planner> all{
      {"default", "ExperimentPlanner", "nnUNetPlans", false, 560e6, 85e6, 8, 0.05},
      {"resenc_m", "nnUNetPlannerResEncM", "nnUNetResEncUNetMPlans", true, 680e6, 135e6, 8, 1},
      {"resenc_l", "nnUNetPlannerResEncL", "nnUNetResEncUNetLPlans", true, 2.1e9, 380e6, 24, 1},
      {"resenc_xl", "nnUNetPlannerResEncXL", "nnUNetResEncUNetXLPlans", true, 3.6e9, 560e6, 40, 1}};
  return all;
}

const Planner* find_planner(const std::string& name) {
  for (const Planner& planner : planners())
    if (name == planner.name) return &planner;
  return nullptr;
}

const Configuration* Plans::find(const std::string& name) const {
  for (const Configuration& c : configurations)
    if (c.name == name) return &c;
  return nullptr;
}

Plans make_plans(const Dataset& dataset, const Fingerprint& fingerprint, const Planner& planner,
                 double gpu_memory) {
  Plans plans;
  plans.dataset = dataset;
  choose_reader(plans.dataset, fingerprint, plans.why);
  plans.fingerprint = fingerprint;
  plans.planner = planner;
  plans.gpu_memory = gpu_memory > 0 ? gpu_memory : planner.gpu_memory;

  const Reals spacing = target_spacing(fingerprint, plans.why);
  const auto first = std::max_element(spacing.begin(), spacing.end()) - spacing.begin();
  plans.transpose = {first};
  for (std::int64_t a = 0; a < 3; ++a)
    if (a != first) plans.transpose.push_back(a);
  plans.why.push_back(
      join("axes ", list(plans.transpose), ": the one of the largest spacing first"));
  Reals spacings, shapes;
  for (std::size_t a = 0; a < 3; ++a) {
    spacings.push_back(median(column(fingerprint.spacings, a)));
    shapes.push_back(median(column(fingerprint.shapes, a)));
  }
  plans.original_spacing = transposed(spacings, plans.transpose);
  for (const double s : transposed(shapes, plans.transpose))
    plans.original_shape.push_back(static_cast<std::int64_t>(round_even(s)));
  plans.normalization = normalization_of(dataset, fingerprint, plans.why);

  const Reals target = transposed(spacing, plans.transpose);
  const Reals shape = transposed(median_shape(fingerprint, spacing), plans.transpose);
  const double voxels = product(shape) * static_cast<double>(dataset.training);
  const auto planned = [&](const Wanted& wanted) {
    Configuration c = plan_one(plans, wanted);
    say_what_more_memory_gives(plans, c, wanted);
    return c;
  };
  Configuration flat = planned({"2d", {target[1], target[2]}, {shape[1], shape[2]}, voxels});
  flat.batch_dice = true;
  plans.configurations.push_back(std::move(flat));
  if (shape[0] == 1) {
    plans.why.push_back("2d alone: cases have one slice");
  } else {
    Configuration full = planned({"3d_fullres", target, shape, voxels});
    auto low = plan_lowres(plans, full);
    full.batch_dice = low.has_value();
    if (low) plans.configurations.push_back(std::move(*low));
    plans.configurations.push_back(std::move(full));
  }
  say_what_is_odd(plans);
  return plans;
}

std::string plans_text(const Plans& plans) {
  std::string text = join(plans.dataset.name, ", ", std::to_string(plans.fingerprint.cases()),
                          " cases, planned as nnU-Net 2.8.1's ", plans.planner.type, " for ",
                          number(plans.gpu_memory), " GB\n");
  for (const auto& line : plans.why) text += "  " + line + "\n";
  for (const Configuration& c : plans.configurations) {
    text += c.name + "\n";
    for (const auto& line : c.why) text += "  " + line + "\n";
    text += join("  batch Dice ", c.batch_dice ? "over the whole batch" : "a sample each", "\n");
  }
  if (plans.cascade())
    text +=
        "3d_cascade_fullres\n  3d_fullres, with the labels that 3d_lowres predicts as further "
        "channels\n";
  for (const auto& line : plans.odd) text += "note: " + line + "\n";
  return text;
}

}  // namespace sluice::nnunet
