// separable_filtering: MONAI's separable_filtering, a kernel along each axis.
#include "kernels/image/filters.h"
#include "nodes/transform/filtering.h"

namespace sluice {
namespace {

struct SeparableFilteringParams : FilterParams {
  Json kernels;
  std::string mode = "zeros";
};

struct SeparableFiltering final : FilterNode<SeparableFilteringParams> {
  static Spec spec() {
    Spec s("separable_filtering",
           "Each voxel becomes the sum of those around it times a kernel, along one axis after the "
           "other. Gradients: image.");
    add_filter_params<Params>(s)
        .param("kernels", &Params::kernels,
               "A list of numbers, odd many, for all axes; or a list of such lists, one an axis.")
        .required()
        .param("mode", &Params::mode, "What lies outside.")
        .choices(padding_names);
    return on_tape(s);
  }

  void open(const OpenContext&) override {
    const bool one = p.kernels.is_array() && !p.kernels.empty() && p.kernels[0].is_number();
    for (const Json& kernel : one ? Json::array({p.kernels}) : p.kernels) {
      try {
        kernels_.push_back(at::tensor(ParamType<std::vector<double>>::parse(kernel), at::kDouble));
      } catch (const TypeError& e) {
        throw Error(Exit::usage, std::string("kernels: ") + e.what());
      }
      if (kernels_.back().numel() % 2 == 0)
        throw Error(Exit::usage, "kernels: each has an odd number of weights, found " +
                                     std::to_string(kernels_.back().numel()));
    }
    if (kernels_.empty()) throw Error(Exit::usage, "kernels: expected lists of numbers");
  }

 protected:
  at::Tensor of(const Sample&, FilterBatch& image) const override {
    require_one_an_axis(kernels_.size(), "kernels", image.axes());
    return separable_filtering(image.of, kernels_, p.mode);
  }

 private:
  std::vector<at::Tensor> kernels_;
};

const Register<SeparableFiltering> registered;

}  // namespace
}  // namespace sluice
