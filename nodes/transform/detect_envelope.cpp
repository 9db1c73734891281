// detect_envelope: MONAI's DetectEnvelope, of ultrasound.
#include <ATen/Functions.h>

#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct DetectEnvelope final : EachKey<DetectEnvelope> {
  struct Params : KeyParams {
    std::int64_t axis = 1;
    std::optional<std::int64_t> n;
  } p;

  static Spec spec() {
    return each_key_spec<Params>(
               "detect_envelope",
               "The amplitude along an axis: |x + i H(x)|, H Hilbert's transform.",
               "Fields to change, each [C, ...]; they become float32.")
        .param("axis", &Params::axis, "The axis, 0 for the channels.")
        .at_least(0)
        .param("n", &Params::n, "Cut the axis, or fill it with zeros, to so many elements first.")
        .at_least(1)
        .any_device()
        .takes("@keys", Form::image)
        .gives("@keys", Form::image)
        .dtype("float32");
  }

  void change(Field& field, std::size_t i) const {
    const std::int64_t axis = axis_of(p.axis, field.tensor, p.keys[i]);
    const at::Tensor f = at::fft_fft(field.tensor.to(at::kFloat), p.n, axis);
    const std::int64_t n = f.size(axis);
    // 1 at frequency 0, 2 at those above it, 0 at those below; that of n / 2 counts as below.
    at::Tensor step = at::zeros({n}, f.options().dtype(at::kFloat));
    step.narrow(0, 0, (n + 1) / 2).fill_(2);
    step[0].fill_(1);
    std::vector<std::int64_t> shape(static_cast<std::size_t>(f.dim()), 1);
    shape[static_cast<std::size_t>(axis)] = n;
    field.tensor = at::fft_ifft(f * step.view(shape), {}, axis).abs();
  }
};

const Register<DetectEnvelope> registered;

}  // namespace
}  // namespace sluice
