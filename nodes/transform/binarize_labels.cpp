// binarize_labels: the binary digits of labels as channels, as MAISI's ControlNet reads them
// (binarize_labels of its scripts). Guo et al. 2024.
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "nodes/fields.h"
#include "nodes/transform/one_channel.h"

namespace sluice {
namespace {

struct BinarizeLabels final : Node {
  struct Params {
    std::vector<std::string> keys{"label"};
    std::int64_t bits = 8;
  } p;

  static Spec spec() {
    return Spec("binarize_labels",
                "Makes a channel of each binary digit of a label, as MAISI's ControlNet reads it.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Labels [1, ...], whole numbers from 0; they become float32 [bits, ...], the lowest "
               "digit first.")
        .param("bits", &Params::bits, "Digits; what a label has more is left out.")
        .range(1, 31)
        .takes("@keys", Form::image)
        .changes("@keys")
        .dtype("float32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, false, [&](Field& field, std::size_t i) {
      const at::Tensor label = one_channel(field.tensor, p.keys[i])[0].to(at::kInt);
      auto sizes = field.tensor.sizes().vec();
      sizes[0] = p.bits;
      at::Tensor digits = at::empty(sizes, field.tensor.options().dtype(at::kFloat));
      for (std::int64_t bit = 0; bit < p.bits; ++bit)
        digits[bit].copy_(label.bitwise_and(std::int64_t{1} << bit).ne(0));
      field.tensor = std::move(digits);
    });
    f.emit(std::move(out));
  }
};

const Register<BinarizeLabels> registered;

}  // namespace
}  // namespace sluice
