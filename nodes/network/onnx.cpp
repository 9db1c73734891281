// onnx: a network that is a file in the ONNX format, asked through ONNX Runtime: of `sluice
// export`, of torch.onnx.export, of any other engine. It predicts; nothing in it can be trained.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdlib>
#include <list>
#include <utility>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "kernels/onnx/model.h"
#include "kernels/onnx/runtime.h"

namespace sluice {
namespace {

struct OnnxNetwork final : Network {
  struct Params {
    std::string file, provider = "auto", engine_cache = "~/.cache/sluice/engines";
    std::int64_t spatial_dims = 3, in_channels = 1, out_channels = 1, threads = 0;
  } p;

  static Spec spec() {
    return Spec::network(
               "onnx",
               "A network in an ONNX file, which ONNX Runtime computes (pip install "
               "onnxruntime, or onnxruntime-gpu). It predicts and has no weights to train.")
        .param("file", &Params::file, "What `sluice export` or torch.onnx.export wrote.")
        .required()
        .param("spatial_dims", &Params::spatial_dims, "What the file takes: 1, 2 or 3.")
        .range(1, 3)
        .required()
        .param("in_channels", &Params::in_channels, "Channels of the image that it takes.")
        .at_least(1)
        .required()
        .param("out_channels", &Params::out_channels, "Channels of its first output.")
        .at_least(1)
        .required()
        .param("threads", &Params::threads, "That compute a batch; 0: as many as cores.")
        .at_least(0)
        .param("provider", &Params::provider,
               "Where it is computed; auto: the best that opens, TensorRT before CUDA before the "
               "CPU.")
        .choices({"auto", "cpu", "cuda", "tensorrt"})
        .param("engine_cache", &Params::engine_cache,
               "tensorrt: a folder in which engines are kept; building one takes minutes.");
  }

  // Every cause of a refusal is found before the engine is loaded.
  void open() {
    head_ = onnx::read_head(p.file);
    if (head_.inputs.size() != 1)
      refuse("takes " + std::to_string(head_.inputs.size()) + " inputs; one image is given");
    const onnx::Port& in = head_.inputs[0];
    require("in_channels", p.in_channels, in);
    require("out_channels", p.out_channels, head_.outputs[0]);
    if (in.extents.size() != static_cast<std::size_t>(p.spatial_dims + 2))
      refuse("takes " + std::to_string(std::max<std::size_t>(in.extents.size(), 2) - 2) +
             " spatial axes, spatial_dims is " + std::to_string(p.spatial_dims));
    if (in.type != onnx::Type::float32) refuse("takes other numbers than float32");
    const bool int8 = std::ranges::find(head_.operators, "QuantizeLinear") != head_.operators.end();
    if (p.provider == "cuda" && int8)
      refuse("computes with 8 bits, for which provider \"cuda\" has no convolution");
    options_ = {.provider = p.provider,
                .threads = static_cast<int>(p.threads),
                .cache = p.engine_cache,
                .input = in.name};
    if (p.engine_cache.starts_with("~/"))
      if (const char* home = std::getenv("HOME")) options_.cache = home + p.engine_cache.substr(1);
    // TensorRT builds for a size, which a batch has.
    const auto there = onnx::providers();
    const bool builds = std::ranges::find(there, "tensorrt") != there.end();
    if (!builds || p.provider == "cpu" || p.provider == "cuda") open_for({});
  }

  Tensors forward(const Tensors& x, std::size_t count) override {
    const at::Tensor& image = x[0];
    if (x.size() != 1) refuse("takes one image, got " + std::to_string(x.size()) + " inputs");
    if (count > head_.outputs.size())
      refuse("has " + std::to_string(head_.outputs.size()) + " outputs, and " +
             std::to_string(count) + " are asked for");
    const auto& extents = head_.inputs[0].extents;
    bool fits = image.dim() == std::ssize(extents);
    for (std::size_t a = 1; fits && a < extents.size(); ++a)
      fits = !extents[a].symbol.empty() ||
             extents[a].number == image.size(static_cast<std::int64_t>(a));
    if (!fits)
      refuse("was exported for images of " + text(extents) + ", got " + c10::str(image.sizes()) +
             ": `sluice export --size` makes one of another size");
    const Opened& opened = opened_for(image);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) names.push_back(head_.outputs[i].name);
    const std::int64_t samples = image.size(0), at_a_time = batch(opened, samples);
    std::vector<Tensors> parts(count);
    for (std::int64_t n = 0; n < samples; n += at_a_time) {
      const std::int64_t here = std::min(at_a_time, samples - n);
      const at::Tensor part = image.narrow(0, n, here).cpu();
      const Tensors y =
          opened.engine.run({head_.inputs[0].name}, {filled_up(part, at_a_time)}, names);
      for (std::size_t i = 0; i < count; ++i)
        parts[i].push_back(y[i].narrow(0, 0, here).to(at::kFloat));
    }
    Tensors all;
    for (const auto& part : parts) all.push_back(at::cat(part).to(image.device()));
    return all;
  }
  Named parameters() const override { return {}; }
  void initialise(std::uint64_t) override {}  // the file's weights
  int spatial_axes() const override { return static_cast<int>(p.spatial_dims); }
  std::size_t output_count() const override { return head_.outputs.size(); }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Exit::usage, p.file + " " + why);
  }
  void require(const char* name, std::int64_t wanted, const onnx::Port& port) const {
    const bool known = port.extents.size() > 1 && port.extents[1].symbol.empty();
    if (known && port.extents[1].number != wanted)
      refuse("has " + std::to_string(port.extents[1].number) + " channels in \"" + port.name +
             "\", " + name + " is " + std::to_string(wanted));
  }
  struct Opened {
    onnx::Engine engine;
    std::vector<std::int64_t> size;  // of a whole batch, which TensorRT's engine was built for
    Opened(const std::string& file, const onnx::EngineOptions& options)
        : engine(file, options), size(options.size) {}
  };
  const Opened& open_for(std::vector<std::int64_t> size) {
    options_.size = std::move(size);
    return opened_.emplace_front(p.file, options_);
  }
  // Images come in any order of their sizes, so the engines of a few sizes stay: the one used last
  // stands first.
  const Opened& opened_for(const at::Tensor& image) {
    const auto found = std::ranges::find_if(opened_, [&](const Opened& o) {
      return o.engine.provider() != "tensorrt" ||
             image.sizes().slice(1) == at::IntArrayRef(o.size).slice(1);
    });
    if (found == opened_.end()) {
      if (opened_.size() == most_opened) opened_.pop_back();
      return open_for(image.sizes().vec());
    }
    opened_.splice(opened_.begin(), opened_, found);
    return opened_.front();
  }
  // As many samples as the file was made for, or TensorRT's engine was built for.
  std::int64_t batch(const Opened& opened, std::int64_t samples) const {
    const onnx::Extent& n = head_.inputs[0].extents[0];
    if (n.symbol.empty()) return n.number;
    return opened.engine.provider() == "tensorrt" ? opened.size[0] : samples;
  }
  // With its first sample.
  static at::Tensor filled_up(const at::Tensor& x, std::int64_t samples) {
    auto more = x.sizes().vec();
    more[0] = samples - x.size(0);
    return more[0] == 0 ? x : at::cat({x, x.narrow(0, 0, 1).expand(more)});
  }
  static std::string text(const std::vector<onnx::Extent>& extents) {
    std::string all;
    for (const auto& e : extents)
      all += (all.empty() ? "[" : ", ") + (e.symbol.empty() ? std::to_string(e.number) : e.symbol);
    return all + "]";
  }

  onnx::Head head_;
  onnx::EngineOptions options_;
  static constexpr std::size_t most_opened = 4;  // each holds the weights on the GPU
  std::list<Opened> opened_;
};

const struct Registered {
  Registered() {
    Registry::global().add(
        OnnxNetwork::spec(), nullptr,
        [](const Spec& spec, const Json& params) -> std::shared_ptr<Network> {
          auto network = std::make_shared<OnnxNetwork>();
          spec.apply(&network->p, params);
          network->open();
          return network;
        },
        __FILE__);
  }
} registered_onnx;

}  // namespace
}  // namespace sluice
