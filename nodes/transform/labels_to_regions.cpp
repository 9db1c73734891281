// labels_to_regions: nnU-Net's regions, which may overlap, as channels of a label.
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "nodes/fields.h"
#include "nodes/transform/one_channel.h"

namespace sluice {
namespace {

struct LabelsToRegions final : Node {
  struct Params {
    std::vector<std::string> keys{"label"};
    std::vector<std::vector<std::int64_t>> regions;
  } p;

  static Spec spec() {
    return Spec("labels_to_regions", "Makes a channel of each region, a region being some labels.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Labels [1, ...]; they become uint8 [regions, ...].")
        .param("regions", &Params::regions, "The labels of each region.")
        .required()
        .takes("@keys", Form::image)
        .changes("@keys")
        .dtype("uint8");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, false, [&](Field& field, std::size_t i) {
      one_channel(field.tensor, p.keys[i]);
      std::vector<at::Tensor> channels;
      for (const auto& region : p.regions) {
        at::Tensor inside = at::zeros_like(field.tensor, at::kBool);
        for (const std::int64_t label : region) inside.logical_or_(field.tensor.eq(label));
        channels.push_back(inside);
      }
      field.tensor = at::cat(channels).to(at::kByte);
    });
    f.emit(std::move(out));
  }
};

const Register<LabelsToRegions> registered;

}  // namespace
}  // namespace sluice
