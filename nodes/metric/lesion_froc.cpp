// lesion_froc: MONAI's LesionFROC, Camelyon16's score of a slide's detections.
#include <cmath>

#include "kernels/image/tissue.h"
#include "nodes/metric/froc.h"
#include "nodes/slide_params.h"

namespace sluice {
namespace {

struct LesionFrocParams : FrocParams {
  std::int64_t level = 0;
  std::optional<double> pixel_spacing;
  double grow_distance = 75, itc_diameter = 200;
  std::string backend = "auto";
  LesionFrocParams() {}  // of an aggregate with a base g++ 12 warns falsely
};

struct LesionFroc final : FrocMetric {
  using Params = LesionFrocParams;
  Params p;

  static Spec spec() {
    Spec s(
        "lesion_froc",
        "froc of detections on slides: lesions are the parts of a tumour mask, grown and filled; "
        "isolated tumour cells do not count. Metrics: mean.");
    return add_froc_params<Params>(
               s, "Probabilities [points], and the path of the tumour mask's slide, grey, 0 and 1.")
        .param("level", &Params::level,
               "The level at which the mask is looked at; points are in pixels of level 0.")
        .range(0, 30)
        .param("pixel_spacing", &Params::pixel_spacing,
               "Micrometres a pixel of level 0; null: what the mask's file says.")
        .above(0)
        .param("grow_distance", &Params::grow_distance,
               "Micrometres: a lesion grows by half of it, and what then touches is one.")
        .above(0)
        .param(
            "itc_diameter", &Params::itc_diameter,
            "Micrometres: a lesion whose major axis is below it, plus what was grown, is isolated "
            "tumour cells.")
        .at_least(0)
        .param("backend", &Params::backend, "As read_region's.")
        .choices(slide_backends);
  }

  void open(const OpenContext& context) override {
    FrocMetric::open(context);
    reader_ = std::make_unique<SlideReader>(p.backend, std::size_t{16} << 20, 1);
  }

 private:
  const FrocParams& params() const override { return p; }

  void add(const Sample& sample) override {
    const at::Tensor probs = sample.tensor(p.keys[0]).detach().to(at::kCPU, at::kDouble).flatten();
    const auto slide = reader_->open(slide_path(sample, p.keys[1]));
    const SlideLevel& level = slide->level(p.level);
    const double factor = std::pow(2.0, static_cast<double>(p.level));
    if (std::abs(level.downsample / factor - 1) > 0.01)
      throw DataError(slide->path() + ": level " + std::to_string(p.level) + " is " +
                      std::to_string(level.downsample) + " times smaller, not " +
                      std::to_string(factor));
    const std::optional<double> spacing = p.pixel_spacing ? p.pixel_spacing : slide->mpp();
    if (!spacing)
      throw DataError(slide->path() +
                      ": does not say how many micrometres a pixel has; give pixel_spacing");
    const at::Tensor mask =
        channels_first(slide->read(p.level, 0, 0, level.rows, level.columns, 0), 1, *slide)[0];
    if (const int most = mask.max().item<int>(); most > 1)
      throw DataError(slide->path() + ": has values up to " + std::to_string(most) +
                      "; a tumour mask is 0 and 1");
    const Lesions lesions = find_lesions(mask, p.grow_distance / (*spacing * factor * 2),
                                         (p.itc_diameter + p.grow_distance) / (*spacing * factor));
    const at::Tensor coords = sample.tensor(p.coords_key).to(at::kCPU, at::kDouble).div(factor);
    add_points(sample.name, probs, coords.to(at::kLong), lesions.labels, lesions.isolated);
  }

  std::unique_ptr<SlideReader> reader_;
};

const Register<LesionFroc> registered;

}  // namespace
}  // namespace sluice
