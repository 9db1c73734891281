// patch_inferer: MONAI's PatchInferer with SlidingWindowSplitter and AvgMerger. Unlike
// sliding_window it lays patches from an offset on, fills the image up at its ends, and takes
// networks whose output is larger or smaller than their input.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "kernels/image/filling.h"
#include "kernels/image/resizing.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct PatchInferer final : Node {
  struct Params {
    std::string net, key = "image", output_key = "pred";
    std::vector<std::int64_t> patch_size, offset{0};
    std::vector<double> overlap{0};
    std::optional<std::string> pad_mode = "constant";
    double pad_value = 0;
    std::int64_t batch_size = 1;
    bool match_spatial_shape = true;
  } p;

  static Spec spec() {
    return Spec("patch_inferer",
                "Predicts an image patch by patch; where patches overlap the outputs' mean counts.")
        .in("sample")
        .out("sample")
        .param("net", &Params::net,
               "The network's name in \"models\"; it is read as for validation.")
        .required()
        .param("key", &Params::key, "The network's input, [C, X, Y(, Z)], one sample.")
        .param("patch_size", &Params::patch_size,
               "Voxels: one number, or one an axis; 0: the whole axis.")
        .required()
        .length(1, 3)
        .at_least(0)
        .param("overlap", &Params::overlap,
               "Voxels that two patches share where it is 1 or more, else their share of a patch; "
               "one number, or one an axis.")
        .length(1, 3)
        .at_least(0)
        .param("offset", &Params::offset,
               "Where the first patch begins, one number, or one an axis; what is in no patch is "
               "NaN. Not below 0, where MONAI's merging fails too.")
        .length(1, 3)
        .at_least(0)
        .param("pad_mode", &Params::pad_mode,
               "How the image's ends are filled up until the last patch fits; null: what is behind "
               "the last patch that fits is in none.")
        .choices({"constant", "reflect", "replicate", "circular"})
        .param("pad_value", &Params::pad_value, "The constant.")
        .param("batch_size", &Params::batch_size, "Patches in one forward pass.")
        .at_least(1)
        .param("match_spatial_shape", &Params::match_spatial_shape, "Cut off what was filled up.")
        .param("output_key", &Params::output_key, "Field for the output.")
        .lane(LaneKind::step)
        .limit(1)
        .reads("net")
        .takes("@key", Form::image, 2, 3)
        .per_axis("@key", "patch_size")
        .gives("@output_key", Form::image)
        .channels("@net.out_channels")
        .dtype("float32")
        .any_device();
  }

  void open(const OpenContext& context) override { network_ = context.resources->network(p.net); }

  void process(Firing& f) override {
    const at::NoGradGuard no_grad;
    network_->train(false);
    const Field& field = image_field(f.in(), p.key);
    const std::int64_t axes = field.tensor.dim() - 1;
    const at::Tensor volume = to_volume(field.tensor.to(at::kFloat));
    const Shape3 shape = shape_of(volume);
    Layout layout = laid_out(shape, axes);
    const at::Tensor image =
        layout.filled == shape
            ? volume
            : crop_pad(volume, {{}, layout.filled}, parse_filling(p.pad_mode.value_or("constant")),
                       p.pad_value);
    at::Tensor out = merged(image, layout, axes, f);
    if (!out.defined()) return;
    if (p.match_spatial_shape)
      for (std::size_t d = 0; d < 3; ++d)
        out = out.narrow(static_cast<std::int64_t>(d) + 1, 0,
                         scaled(shape[d], layout.made[d], layout.patch[d]));
    Field made = field;
    made.tensor = from_volume(out.contiguous(), axes);
    if (layout.made != layout.patch) {
      auto meta = std::make_shared<Meta>(field.geometry());
      meta->affine = multiply(meta->affine, resize_affine(layout.patch, layout.made));
      made.meta = {std::move(meta)};
    }
    Sample sample = f.in();
    sample.set(p.output_key, std::move(made));
    f.emit(std::move(sample));
  }

 private:
  struct Layout {
    Shape3 patch{1, 1, 1}, filled{1, 1, 1}, made{};  // made: of a patch's output
    std::array<std::vector<std::int64_t>, 3> starts{{{0}, {0}, {0}}};
  };

  Layout laid_out(const Shape3& shape, std::int64_t axes) const {
    require_one_an_axis(p.patch_size.size(), "patch_size", axes);
    require_one_an_axis(p.overlap.size(), "overlap", axes);
    require_one_an_axis(p.offset.size(), "offset", axes);
    Layout l;
    for (std::size_t d = 0; d < static_cast<std::size_t>(axes); ++d) {
      const std::int64_t n = shape[d], asked = per_key(p.patch_size, d);
      const std::int64_t size = asked ? asked : n, from = per_key(p.offset, d);
      if (from >= n)
        throw DataError("offset " + std::to_string(from) + " is not inside of axis " +
                        std::to_string(d) + ", which has " + std::to_string(n) + " voxels");
      const double overlap = asked ? per_key(p.overlap, d) : 0, width = static_cast<double>(size);
      const auto step = static_cast<std::int64_t>(
          std::nearbyint(overlap < 1 ? width - width * overlap : width - overlap));
      if (step < 1)
        throw DataError("overlap " + std::to_string(overlap) + " leaves nothing of a patch of " +
                        std::to_string(size) + " voxels");
      l.filled[d] = n;
      if (p.pad_mode) {
        const std::int64_t rest = (from - n + size) % step;
        l.filled[d] += rest < 0 ? rest + step : rest;
      }
      l.patch[d] = std::min(size, l.filled[d]);
      l.starts[d].clear();
      for (std::int64_t at = from; at + l.patch[d] <= l.filled[d]; at += step)
        l.starts[d].push_back(at);
    }
    return l;
  }

  // Of an axis of `n` voxels, where `from` become `to`.
  static std::int64_t scaled(std::int64_t n, std::int64_t to, std::int64_t from) {
    const double ratio = static_cast<double>(to) / static_cast<double>(from);
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(n) * ratio));
  }

  at::Tensor merged(const at::Tensor& image, Layout& l, std::int64_t axes, Firing& f) const {
    std::vector<Shape3> places;
    for (const std::int64_t x : l.starts[0])
      for (const std::int64_t y : l.starts[1])
        for (const std::int64_t z : l.starts[2]) places.push_back({x, y, z});
    if (places.empty()) throw DataError("no patch fits into the image: name a pad_mode");
    at::Tensor sums, counts;
    Shape3& made = l.made;
    const auto step = static_cast<std::size_t>(p.batch_size);
    for (std::size_t i = 0; i < places.size(); i += step) {
      if (f.stopped()) return {};
      std::vector<at::Tensor> patches;
      for (std::size_t k = i; k < std::min(i + step, places.size()); ++k)
        patches.push_back(from_volume(window(image, places[k], l.patch), axes));
      at::Tensor y = network_->forward(at::stack(patches)).to(at::kFloat);
      if (!y.isfinite().all().item<bool>())
        throw Error(Exit::non_finite, "the network's output is NaN or infinite in the patches " +
                                          std::to_string(i + 1) + " to " +
                                          std::to_string(i + patches.size()) + " of " +
                                          std::to_string(places.size()));
      if (axes == 2) y = y.unsqueeze(-1);
      if (!sums.defined()) {
        Shape3 whole{};
        for (std::size_t d = 0; d < 3; ++d) {
          made[d] = y.size(static_cast<std::int64_t>(d) + 2);
          whole[d] = scaled(l.filled[d], made[d], l.patch[d]);
        }
        sums = at::zeros({y.size(1), whole[0], whole[1], whole[2]}, y.options());
        counts = at::zeros({1, whole[0], whole[1], whole[2]}, y.options());
      }
      for (std::size_t k = i; k < i + patches.size(); ++k) {
        Shape3 at{};
        for (std::size_t d = 0; d < 3; ++d) at[d] = scaled(places[k][d], made[d], l.patch[d]);
        window(sums, at, made).add_(y[static_cast<std::int64_t>(k - i)]);
        window(counts, at, made).add_(1);
      }
    }
    return sums.div_(counts);
  }

  static at::Tensor window(const at::Tensor& t, const Shape3& at, const Shape3& size) {
    at::Tensor part = t;
    for (std::size_t d = 0; d < 3; ++d)
      part = part.narrow(static_cast<std::int64_t>(d) + 1, at[d], size[d]);
    return part;
  }

  std::shared_ptr<Network> network_;
};

const Register<PatchInferer> registered;

}  // namespace
}  // namespace sluice
