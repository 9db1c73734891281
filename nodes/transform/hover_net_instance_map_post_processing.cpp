// hover_net_instance_map_post_processing: MONAI's HoVerNetInstanceMapPostProcessingd.
#include "nodes/transform/hover.h"

namespace sluice {
namespace {

struct HoverNetInstanceMap final : Node {
  struct Params {
    std::string nuclear_prediction_key = "nucleus_prediction",
                hover_map_key = "horizontal_vertical", instance_map_key = "instance_map";
    std::string activation = "softmax";
    std::optional<double> mask_threshold;
    std::int64_t min_object_size = 10, sobel_kernel_size = 5, marker_radius = 2,
                 watershed_connectivity = 1;
    double marker_threshold = 0.4;
  } p;

  static Spec spec() {
    return Spec("hover_net_instance_map_post_processing",
                "Instances of nuclei from HoVerNet's mask and distances: generate_watershed_mask, "
                "generate_instance_border, generate_distance_map, generate_watershed_markers and "
                "watershed in one.")
        .in("sample")
        .out("sample")
        .param("nuclear_prediction_key", &Params::nuclear_prediction_key, "Logits, [C, X, Y].")
        .param("hover_map_key", &Params::hover_map_key,
               "Horizontal and vertical distances, [2, X, Y]; constant ones are refused.")
        .param("instance_map_key", &Params::instance_map_key,
               "Field for the instances' numbers, int32 [1, X, Y].")
        .param("activation", &Params::activation,
               "softmax: the largest channel is not 0; sigmoid: of one channel.")
        .choices({"softmax", "sigmoid"})
        .param("mask_threshold", &Params::mask_threshold, "Of the sigmoid; null: 0.5.")
        .param("min_object_size", &Params::min_object_size,
               "Pixels that an object of the mask, and a marker, has at least.")
        .at_least(0)
        .param("sobel_kernel_size", &Params::sobel_kernel_size, "Pixels of Sobel's kernel.")
        .at_least(3)
        .odd()
        .param("marker_threshold", &Params::marker_threshold,
               "From this border on a pixel is no marker.")
        .param("marker_radius", &Params::marker_radius, "Of the disk that opens markers, pixels.")
        .at_least(0)
        .param("watershed_connectivity", &Params::watershed_connectivity,
               "In how many coordinates neighbours may differ at once.")
        .range(1, 3)
        .takes("@nuclear_prediction_key", Form::image, 2, 2)
        .takes("@hover_map_key", Form::image, 2, 2)
        .gives("@instance_map_key", Form::image)
        .dtype("int32");
  }
  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor& logits = logits_of(out, p.nuclear_prediction_key, p.activation);
    const at::Tensor& hover = hover_of(out, p.hover_map_key, logits, p.nuclear_prediction_key);
    const at::Tensor mask = nuclei_mask(logits, p.activation == "softmax",
                                        p.mask_threshold.value_or(0.5), p.min_object_size);
    const at::Tensor border = instance_border(mask, hover, p.sobel_kernel_size);
    const at::Tensor markers = nuclei_markers(
        mask, border, p.marker_threshold, static_cast<double>(p.marker_radius), p.min_object_size);
    const auto meta = out.at(p.nuclear_prediction_key).meta;
    out.set(p.instance_map_key, Field(watershed(nuclei_depth(mask, border), markers, mask,
                                                static_cast<int>(p.watershed_connectivity)),
                                      meta));
    f.emit(std::move(out));
  }
};

const Register<HoverNetInstanceMap> registered;

}  // namespace
}  // namespace sluice
