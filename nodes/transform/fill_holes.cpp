// fill_holes: MONAI's FillHolesd.
#include "engine/run/registry.h"
#include "kernels/image/components.h"
#include "nodes/transform/transform.h"

namespace sluice {
namespace {

struct FillHoles final : Node {
  struct Params {
    std::vector<std::string> keys{"pred"};
    std::optional<std::vector<std::int64_t>> applied_labels;
    std::optional<std::int64_t> connectivity;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("fill_holes", "Gives what a label encloses that label; smaller numbers go first.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Label maps [1, X, Y(, Z)] or one-hot [C, X, Y(, Z)]; their type stays.")
        .param("applied_labels", &Params::applied_labels,
               "Labels (channels, where one-hot) to work on; null: all but 0.")
        .param("connectivity", &Params::connectivity,
               "A way out of a hole may change so many coordinates at once; null: all.")
        .range(1, 3)
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .takes("@keys", Form::image, 2, 3);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_volume(out, p.keys, p.allow_missing_keys,
                    [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t) {
                      const bool one_hot = volume.size(0) > 1;
                      auto labels = labels_in(volume, one_hot, p.applied_labels);
                      std::sort(labels.begin(), labels.end());
                      at::Tensor filled = volume.clone();
                      for (const double label : labels) {
                        if (label == 0) continue;
                        const at::Tensor mask =
                            with_filled_holes(mask_of(filled, one_hot, label),
                                              connectivity_of(p.connectivity, axes), axes);
                        if (one_hot)
                          filled[static_cast<std::int64_t>(label)].copy_(mask);
                        else
                          filled[0].masked_fill_(mask.to(at::kBool), label);
                      }
                      field.tensor = from_volume(filled, axes);
                    });
    f.emit(std::move(out));
  }
};

const Register<FillHoles> registered;

}  // namespace
}  // namespace sluice
