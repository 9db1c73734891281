// decollate: MONAI's Decollated, a batch taken apart.
#include <ATen/core/Tensor.h>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"

namespace sluice {
namespace {

struct Decollate final : Node {
  struct Params {
  } p;

  static Spec spec() {
    return Spec("decollate",
                "Takes batches apart: every field [N, C, X, Y, Z] becomes N samples [C, X, Y, Z], "
                "with each member's own geometry and name.")
        .in("sample")
        .out("sample")
        .expands("")
        .decollates()
        .any_device();
  }

  void process(Firing& f) override {
    std::size_t members = 0;
    for (const auto& [key, field] : f.in().fields()) members = std::max(members, field.meta.size());
    for (std::size_t i = 0; i < members; ++i) f.emit(member(f.in(), i, members));
  }

 private:
  // A field that is no batch, such as a loss, goes to each.
  static Sample member(const Sample& batch, std::size_t i, std::size_t members) {
    Sample out;
    out.name = batch.members.size() == members ? batch.members[i]
               : members == 1                  ? batch.name
                                               : batch.name + "_" + std::to_string(i);
    for (const auto& [key, field] : batch.fields()) {
      if (field.meta.size() != members || (field.tensor.defined() && field.tensor.dim() == 0)) {
        out.set(key, field);
        continue;
      }
      const bool stacked = field.tensor.defined() && field.tensor.dim() > 0 &&
                           field.tensor.size(0) == static_cast<std::int64_t>(members);
      if (field.tensor.defined() && !stacked)
        throw DataError("field \"" + key + "\" " + c10::str(field.tensor.sizes()) +
                        " is no batch of " + std::to_string(members));
      out.set(key,
              Field(stacked ? field.tensor.select(0, static_cast<std::int64_t>(i)) : at::Tensor(),
                    field.meta[i]));
    }
    return out;
  }
};

const Register<Decollate> registered;

}  // namespace
}  // namespace sluice
