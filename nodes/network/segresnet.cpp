// segresnet: MONAI's SegResNet (monai.networks.nets.SegResNet 1.6.1). Myronenko 2018, without the
// autoencoder's branch.
//
//   x ─ convInit ─ blocks ──────────────────────────── + ─ blocks ─ norm, ReLU, 1x1 ─▶ logits
//                    └─ stride 2 ─ blocks ──── + ─ blocks ─ 1x1, x2 ─┘
//                                    └─ stride 2 ─ blocks ─ 1x1, x2 ─┘
#include "nodes/network/segresnet_parts.h"

namespace sluice {
namespace {

struct SegResNet final : ImageNetwork<SegResNet> {
  using Params = SegResParams;
  Params p;

  static Spec spec() {
    return seg_res_spec<Params>("segresnet",
                                "Residual encoder and decoder, 2-D or 3-D (MONAI's SegResNet).");
  }
  Values build(const Scope& s, const Value& image) const {
    const SegRes net{p};
    net.check();
    return {net.logits(s, net.encode(s, image))};
  }
  std::string unfit(at::IntArrayRef extents) const override { return SegRes{p}.unfit(extents); }
};

const RegisterNetwork<SegResNet> registered;

}  // namespace
}  // namespace sluice
