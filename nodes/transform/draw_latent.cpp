// draw_latent: numbers for each sample, as a generator makes images of them.
#include "kernels/image/intensity.h"
#include "nodes/transform/transform.h"

namespace sluice {
namespace {

struct DrawLatent final : Node {
  struct Params {
    std::string key = "latent", distribution = "normal";
    std::vector<std::int64_t> shape;
  } p;

  static Spec spec() {
    return Spec("draw_latent",
                "Adds a field of drawn numbers: what a generator makes an image of, beside a real "
                "one. Other numbers in each epoch.")
        .in("sample")
        .out("sample")
        .param("shape", &Params::shape, "Of the numbers: [64].")
        .required()
        .length(1, 5)
        .range(1, 1 << 24)
        .param("key", &Params::key, "Field for them, float32.")
        .param("distribution", &Params::distribution,
               "normal: of mean 0 and deviation 1; uniform: in [0, 1).")
        .choices({"normal", "uniform"})
        .random()
        .passes()
        .gives("@key", Form::any)
        .dtype("float32");
  }

  void process(Firing& f) override {
    Random random = f.random();
    at::Tensor drawn = at::zeros(p.shape, at::kFloat);
    if (p.distribution == "normal") {
      drawn = kernels::add_noise(drawn, 0, 1, random.stream());
    } else {
      float* const to = drawn.mutable_data_ptr<float>();
      for (std::int64_t i = 0; i < drawn.numel(); ++i) to[i] = unit_float(random.bits());
    }
    Sample out = f.in();
    out.set(p.key, Field(std::move(drawn), std::make_shared<Meta>()));
    f.emit(std::move(out));
  }
};

const Register<DrawLatent> registered;

}  // namespace
}  // namespace sluice
