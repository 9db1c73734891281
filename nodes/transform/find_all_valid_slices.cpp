// find_all_valid_slices: MONAI's FindAllValidSlicesd of deepgrow.
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "nodes/transform/one_channel.h"

namespace sluice {
namespace {

struct FindAllValidSlices final : Node {
  struct Params {
    std::string label = "label", sids = "sids";
  } p;

  static Spec spec() {
    return Spec("find_all_valid_slices", "Lists the slices in which a label has voxels.")
        .in("sample")
        .out("sample")
        .param("label", &Params::label, "The label, [1, X, Y, Z].")
        .param("sids", &Params::sids,
               "A new field: the places along the first axis, int32 [slices]; none where the label "
               "is empty.")
        .takes("@label", Form::image, 3, 3)
        .gives("@sids", Form::any);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor& label = one_channel(out, p.label, 3);
    const at::Tensor used = label[0].sum({1, 2}).ne(0).nonzero().flatten().to(at::kInt);
    if (used.numel() > 0) out.set(p.sids, list_field(used));
    f.emit(std::move(out));
  }
};

const Register<FindAllValidSlices> registered;

}  // namespace
}  // namespace sluice
