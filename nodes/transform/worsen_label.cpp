// worsen_label: labels dilated or eroded, as a trial of losses needs that are to bear wrong ones.
#include <ATen/Functions.h>

#include "engine/base/random.h"
#include "engine/run/registry.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct WorsenLabel final : Node {
  struct Params {
    std::vector<std::string> keys{"label"};
    double prob = 0.4;
    std::vector<std::int64_t> voxels{1, 2};
    std::int64_t seed = 0;
  } p;

  static Spec spec() {
    return Spec("worsen_label",
                "Dilates or erodes the labels of some samples, the same ones in every epoch: what "
                "is drawn depends on the seed and the sample's name alone.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Class indices, [1, X, Y, Z] or [1, X, Y].")
        .param("prob", &Params::prob, "Share of the samples.")
        .range(0, 1)
        .param("voxels", &Params::voxels,
               "By how many voxels, the least and the most; neighbours share a face.")
        .at_least(1)
        .length(2, 2)
        .rising()
        .param("seed", &Params::seed, "Another one: other samples.")
        .takes("@keys", Form::image, 2, 3);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Random random(random_key(static_cast<std::uint64_t>(p.seed), out.name), Stamp{});
    if (random.chance(p.prob)) {
      const bool dilates = random.chance(0.5);
      const auto range = static_cast<std::uint64_t>(p.voxels[1] - p.voxels[0] + 1);
      const auto times = p.voxels[0] + static_cast<std::int64_t>(random.integer(range));
      for_each_key(out, p.keys, false, [&](Field& field, std::size_t) {
        for (std::int64_t n = 0; n < times; ++n)
          field.tensor = dilates ? dilated(field.tensor) : eroded(field.tensor);
      });
    }
    f.emit(std::move(out));
  }

 private:
  // function(part, neighbour): of each voxel that has one, along each axis and way.
  template <class F>
  static void with_neighbours(const at::Tensor& from, at::Tensor& to, const F& function) {
    for (std::int64_t a = 1; a < from.dim(); ++a) {
      const std::int64_t n = from.size(a) - 1;
      for (const std::int64_t first : {0, 1})
        function(to.narrow(a, first, n), from.narrow(a, 1 - first, n));
    }
  }
  static at::Tensor dilated(const at::Tensor& label) {
    at::Tensor out = label.clone();
    with_neighbours(label, out, [](at::Tensor part, const at::Tensor& next) {
      part.copy_(at::where(part.eq(0), next, part));
    });
    return out;
  }
  static at::Tensor eroded(const at::Tensor& label) {
    at::Tensor out = label.clone();
    with_neighbours(label, out, [](at::Tensor part, const at::Tensor& next) {
      part.masked_fill_(next.eq(0), 0);
    });
    return out;
  }
};

const Register<WorsenLabel> registered;

}  // namespace
}  // namespace sluice
