// split_label: MONAI's SplitLabeld of nuclick.
#include <ATen/Functions.h>

#include <algorithm>

#include "engine/run/registry.h"
#include "kernels/image/components.h"
#include "kernels/image/spatial.h"
#include "nodes/transform/one_channel.h"

namespace sluice {
namespace {

struct SplitLabel final : Node {
  struct Params {
    std::string keys = "label", others = "others";
    std::optional<std::string> mask_value = "mask_value";
    std::int64_t others_value = 0;
    bool to_binary_mask = true;
  } p;

  static Spec spec() {
    return Spec("split_label", "One object of a label, and the others apart.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "The label, [1, X, Y(, Z)]; it becomes the object alone, uint8.")
        .param("others", &Params::others,
               "Field for the other objects: a number for each component whose pixels share faces, "
               "int32.")
        .param("mask_value", &Params::mask_value,
               "A field with the object's number; null: the largest below others_value.")
        .param("others_value", &Params::others_value,
               "Without mask_value: from this number on a voxel is another object's.")
        .param("to_binary_mask", &Params::to_binary_mask, "1 instead of the object's number.")
        .takes("@keys", Form::image, 2, 3)
        .takes("@mask_value", Form::any, 0)
        .when("mask_value")
        .gives("@keys", Form::image)
        .dtype("uint8")
        .gives("@others", Form::image)
        .dtype("int32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor label = one_channel(out, p.keys);
    const auto meta = out.at(p.keys).meta;
    at::Tensor object = label;
    double value = 0;
    if (p.mask_value) {
      const at::Tensor& given = out.tensor(*p.mask_value);
      if (given.numel() != 1) throw DataError("field \"" + *p.mask_value + "\" is not one number");
      value = given.item<double>();
      object = label.masked_fill(label.ne(value), 0);
    } else {
      object = label.masked_fill(label.ge(p.others_value), 0);
      value = object.max().item<double>();
    }
    if (p.to_binary_mask)
      object = object.gt(0);
    else if (value < 0 || value > 255)
      throw DataError("object " + std::to_string(std::llround(value)) + " of \"" + p.keys +
                      "\" is no uint8; see to_binary_mask");
    const at::Tensor rest = label.ne(value).logical_and(label.gt(0));
    out.set(p.keys, Field(object.to(at::kByte), meta));
    out.set(p.others, Field(numbered(rest), meta));
    f.emit(std::move(out));
  }

 private:
  static at::Tensor numbered(const at::Tensor& mask) {
    const at::Tensor set = to_volume(mask)[0].contiguous();
    at::Tensor numbers = at::zeros_like(set, at::kInt);
    auto* to = numbers.mutable_data_ptr<std::int32_t>();
    for (const auto& run : find_components(set, 1).runs)
      std::fill(to + run.row * set.size(2) + run.begin, to + run.row * set.size(2) + run.end,
                run.component + 1);
    return numbers.view(mask.sizes());
  }
};

const Register<SplitLabel> registered;

}  // namespace
}  // namespace sluice
