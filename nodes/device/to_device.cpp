// to_device: moves every field's tensor to where the training region runs.
#include <ATen/Context.h>

#include "engine/error.h"
#include "engine/registry.h"
#include "engine/sample.h"

namespace sluice {
namespace {

struct ToDevice final : Node {
  struct Params {
    std::string device = "auto";
    std::int64_t ahead = 2;
  } p;

  static Spec spec() {
    return Spec("to_device", "Moves every field to the device.")
        .in("sample")
        .out("sample")
        .param("device", &Params::device, "auto: the GPU where there is one, else the CPU.")
        .choices({"auto", "cpu", "cuda"})
        .param("ahead", &Params::ahead, "How many samples may be in flight behind it.")
        .at_least(1)
        .lane(LaneKind::copy)
        .gate("ahead")
        .moves("device")
        .any_device();
  }

  void open(const OpenContext&) override {
    const bool gpu = p.device != "cpu" && at::hasCUDA();
    if (p.device == "cuda" && !gpu)
      throw Error(Exit::gpu, "no CUDA device here; say \"device\": \"auto\" or \"cpu\"");
    device_ = at::Device(gpu ? at::kCUDA : at::kCPU);
  }

  void process(Firing& f) override {
    bool there = true;
    for (const auto& [key, field] : f.in().fields())
      there = there && (!field.tensor.defined() || field.tensor.device().type() == device_.type());
    if (there) return f.emit_ptr(f.ptr());
    Sample out = f.in();
    for (auto& [key, field] : out.fields())
      if (field.tensor.defined()) field.tensor = field.tensor.to(device_);
    f.emit(std::move(out));
  }

 private:
  at::Device device_{at::kCPU};
};

const Register<ToDevice> registered;

}  // namespace
}  // namespace sluice
