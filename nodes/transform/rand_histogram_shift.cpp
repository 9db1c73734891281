// rand_histogram_shift: MONAI's RandHistogramShiftd. One draw for all keys.
#include "engine/run/registry.h"
#include "kernels/image/histogram.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {
namespace {

struct RandHistogramShift final : Node {
  struct Params : RandIntensityParams {
    std::vector<std::int64_t> num_control_points{10};
  } p;

  static Spec spec() {
    Spec s("rand_histogram_shift",
           "Bends the intensities by a random rising piecewise linear function.");
    add_changed_keys(s)
        .param("num_control_points", &Params::num_control_points,
               "Ends of the pieces: a number, or [low, high] to draw it from; few bend more.")
        .length(1, 2)
        .range(3, 1000);
    return add_rand_intensity_params(s);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    const auto [low, high] = std::minmax(p.num_control_points.front(), p.num_control_points.back());
    const auto points =
        low + static_cast<std::int64_t>(random.integer(static_cast<std::uint64_t>(high - low + 1)));
    std::vector<double> to(static_cast<std::size_t>(points));
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = double(i) / double(points - 1);
    // Each point between where the one before has gone and where the next one stands.
    for (std::size_t i = 1; i + 1 < to.size(); ++i) to[i] = random.uniform(to[i - 1], to[i + 1]);
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      field.tensor = kernels::shift_histogram(field.tensor, to);
    });
    f.emit(std::move(out));
  }
};

const Register<RandHistogramShift> registered;

}  // namespace
}  // namespace sluice
