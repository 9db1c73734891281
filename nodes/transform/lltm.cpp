// lltm: MONAI's LLTM, a recurrent cell without a forget gate.
#include "kernels/net/lltm.h"
#include "engine/run/registry.h"
#include "nodes/transform/filtering.h"

namespace sluice {
namespace {

struct Lltm final : Node {
  struct Params {
    std::string input_key = "input", weights_key = "weights", bias_key = "bias",
                old_h_key = "old_h", old_cell_key = "old_cell", new_h_key = "new_h",
                new_cell_key = "new_cell";
  } p;

  static Spec spec() {
    Spec s("lltm",
           "[i, o, c] = [old_h, input] weights^T + bias; new_cell = old_cell + elu(c) sigmoid(i); "
           "new_h = tanh(new_cell) sigmoid(o). Gradients: input, weights, bias, old_h, old_cell.");
    s.in("sample")
        .out("sample")
        .param("input_key", &Params::input_key, "Field [N, features].")
        .param("weights_key", &Params::weights_key, "Field [3 state, state + features].")
        .param("bias_key", &Params::bias_key, "Field [3 state] or [1, 3 state].")
        .param("old_h_key", &Params::old_h_key, "Field [N, state].")
        .param("old_cell_key", &Params::old_cell_key, "Field [N, state].")
        .param("new_h_key", &Params::new_h_key, "Field for the new output, [N, state].")
        .param("new_cell_key", &Params::new_cell_key, "Field for the new cell, [N, state].");
    for (const char* key :
         {"@input_key", "@weights_key", "@bias_key", "@old_h_key", "@old_cell_key"})
      s.takes(key, Form::any, 0);
    s.gives("@new_h_key", Form::any).gives("@new_cell_key", Form::any);
    return on_tape(s);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor x = out.tensor(p.input_key), h = out.tensor(p.old_h_key);
    const auto require = [&](const std::string& key, at::IntArrayRef shape) {
      if (out.tensor(key).sizes() != shape)
        throw shape_error(key, out.tensor(key), "; expected " + list_text(shape));
    };
    for (const auto& [key, t] : {std::pair{p.input_key, x}, std::pair{p.old_h_key, h}})
      if (t.dim() != 2) throw shape_error(key, t, "; expected two axes");
    const std::int64_t state = h.size(1);
    require(p.old_h_key, {x.size(0), state});
    require(p.old_cell_key, {x.size(0), state});
    require(p.weights_key, {3 * state, state + x.size(1)});
    const at::Tensor bias = out.tensor(p.bias_key).reshape(-1);
    if (bias.numel() != 3 * state) require(p.bias_key, {3 * state});
    const LltmState made =
        lltm(x, {h, out.tensor(p.old_cell_key)}, out.tensor(p.weights_key), bias);
    const auto meta = std::make_shared<const Meta>();
    out.set(p.new_h_key, Field(made.h, meta));
    out.set(p.new_cell_key, Field(made.cell, meta));
    f.emit(std::move(out));
  }
};

const Register<Lltm> registered;

}  // namespace
}  // namespace sluice
