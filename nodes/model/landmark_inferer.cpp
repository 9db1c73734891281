// landmark_inferer: a network of slices shown every slice of a volume, as the Model Zoo's
// valve_landmarks does (LandmarkInferer).
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct LandmarkInferer final : Node {
  struct Params {
    std::string net, key = "image", output_key = "pred";
    std::int64_t spatial_dim = 0, stack_dim = 0, sw_batch_size = 1;
  } p;

  static Spec spec() {
    return Spec("landmark_inferer",
                "Shows a network each slice of a volume and stacks what it says of them, as "
                "coordinates of landmarks.")
        .in("sample")
        .out("sample")
        .param("net", &Params::net,
               "The network's name in \"models\"; it is read as for validation.")
        .required()
        .param("key", &Params::key, "The volume, [C, X, Y, Z]; the network takes [N, C, X, Y].")
        .param("output_key", &Params::output_key,
               "Field for the result: [slices, ...] of what is [...] for a slice.")
        .param("spatial_dim", &Params::spatial_dim, "The axis that slices lie across.")
        .range(0, 2)
        .param("stack_dim", &Params::stack_dim,
               "Which axis of the result counts the slices; negative: from the last.")
        .param("sw_batch_size", &Params::sw_batch_size, "Slices in one forward pass.")
        .at_least(1)
        .lane(LaneKind::step)
        .limit(1)
        .reads("net")
        .takes("@key", Form::image, 3, 3)
        .gives("@output_key", Form::any)
        .dtype("float32")
        .any_device();
  }

  void open(const OpenContext& context) override { network_ = context.resources->network(p.net); }

  void process(Firing& f) override {
    const at::NoGradGuard no_grad;
    network_->train(false);
    const Field& field = image_field(f.in(), p.key);
    require_spatial(field.tensor, p.key, 3);
    const at::Tensor slices = field.tensor.to(at::kFloat).movedim(p.spatial_dim + 1, 0);
    std::vector<at::Tensor> said;
    for (std::int64_t at = 0; at < slices.size(0); at += p.sw_batch_size) {
      if (f.stopped()) return;
      const std::int64_t n = std::min(p.sw_batch_size, slices.size(0) - at);
      said.push_back(network_->forward(slices.narrow(0, at, n).contiguous()).to(at::kFloat));
      if (!said.back().isfinite().all().item<bool>())
        throw Error(Exit::non_finite, "the network's output is NaN or infinite in the slices " +
                                          std::to_string(at) + " to " + std::to_string(at + n - 1));
    }
    at::Tensor stacked = at::cat(said);
    if (p.stack_dim < -stacked.dim() || p.stack_dim >= stacked.dim())
      throw DataError("stack_dim " + std::to_string(p.stack_dim) + " is no axis of a result of " +
                      std::to_string(stacked.dim()) + " axes");
    Field made = field;
    made.tensor = stacked.movedim(0, p.stack_dim).contiguous();
    Sample out = f.in();
    out.set(p.output_key, std::move(made));
    f.emit(std::move(out));
  }

 private:
  std::shared_ptr<Network> network_;
};

const Register<LandmarkInferer> registered;

}  // namespace
}  // namespace sluice
