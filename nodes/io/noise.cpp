// noise: numbers that are drawn, as latents of generators; torch.rand's and torch.randn's.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "nodes/io/io.h"

namespace sluice {
namespace {

struct Noise final : Node {
  struct Params {
    std::int64_t num_samples = 0, first = 0, seed = 0;
    std::vector<std::int64_t> shape;
    std::string key = "latent", distribution = "uniform";
  } p;

  static Spec spec() {
    return Spec("noise", "Draws numbers: the latents of which a generator makes images.")
        .out("sample", "The numbers, float32, and nothing else; samples are called 0, 1, ...")
        .param("num_samples", &Params::num_samples, "Samples of an epoch.")
        .required()
        .at_least(1)
        .param("shape", &Params::shape, "Of a sample's numbers: [64].")
        .required()
        .length(1, 5)
        .range(1, 1 << 24)
        .param("key", &Params::key, "Field for them.")
        .param(
            "distribution", &Params::distribution,
            "uniform: in [0, 1), torch.rand's; normal: of mean 0 and deviation 1, torch.randn's.")
        .choices({"uniform", "normal"})
        .param("first", &Params::first, "Number of the first one: sample n is the same everywhere.")
        .at_least(0)
        .param("seed", &Params::seed,
               "Sample n is what torch draws with torch.Generator().manual_seed(seed + n).")
        .at_least(0)
        .source()
        .gives("@key", Form::any)
        .dtype("float32");
  }

  void process(Firing& f) override {
    emit_in_order(f, static_cast<std::uint64_t>(p.num_samples), false,
                  [this](std::uint64_t i) { return item_record(i); });
  }

  SamplePtr item_record(std::uint64_t item) const override {
    const auto number = static_cast<std::uint64_t>(p.first) + item;
    auto generator =
        at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(p.seed) + number);
    const auto options = at::TensorOptions().dtype(at::kFloat);
    const at::Tensor drawn = p.distribution == "normal" ? at::randn(p.shape, generator, options)
                                                        : at::rand(p.shape, generator, options);
    Sample sample;
    sample.name = std::to_string(number);
    sample.set(p.key, Field(drawn, std::make_shared<Meta>()));
    return std::make_shared<const Sample>(std::move(sample));
  }
  std::optional<std::uint64_t> epoch_size() const override {
    return static_cast<std::uint64_t>(p.num_samples);
  }
};

const Register<Noise> registered;

}  // namespace
}  // namespace sluice
