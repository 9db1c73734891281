// dvf2ddf: MONAI's DVF2DDF, velocities integrated to displacements.
#include "nodes/model/displacements.h"

namespace sluice {
namespace {

struct Dvf2Ddf final : Node {
  struct Params {
    std::string key = "dvf", output_key = "ddf", padding_mode = "zeros";
    std::int64_t num_steps = 7;
  } p;

  static Spec spec() {
    Spec s("dvf2ddf",
           "Integrates a velocity field by scaling and squaring, which folds less than a field of "
           "displacements (Arsigny et al. 2006). With gradients.");
    s.in("sample")
        .out("sample")
        .param("key", &Params::key,
               "Field with velocities in voxels, [N, axes, ...] or [axes, ...].")
        .param("output_key", &Params::output_key, "Field for the displacements.")
        .param("num_steps", &Params::num_steps, "Squarings.")
        .range(1, 32)
        .takes("@key", Form::any);
    return add_padding<Params>(s).gives("@output_key", Form::any).like("@key");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Field field = out.at(p.key);
    const Displaced d(f.in(), p.key);
    field.tensor = d.as_given(sluice::dvf2ddf(d.field, p.num_steps, outside_of(p.padding_mode)));
    out.set(p.output_key, std::move(field));
    f.emit(std::move(out));
  }
};

const Register<Dvf2Ddf> registered;

}  // namespace
}  // namespace sluice
