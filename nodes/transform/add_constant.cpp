// add_constant: given numbers as a field, such as the condition of a diffusion model that is asked
// for images.
#include <ATen/Functions.h>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"

namespace sluice {
namespace {

class AddConstant final : public Node {
 public:
  struct Params {
    std::string key;
    Json value;
    std::optional<std::string> over;
  } p;

  static Spec spec() {
    return Spec("add_constant", "Adds a field of given numbers, the same in every sample.")
        .in("sample")
        .out("sample")
        .param("key", &Params::key, "Field for them, float32.")
        .required()
        .param("value", &Params::value,
               "A number, or lists of numbers, of lists of numbers, ..., all of one length: "
               "[[0.2, 1]] has the shape [1, 2].")
        .required()
        .param("over", &Params::over,
               "A field [C, X(, Y, Z)] whose extents it has: each number of value fills a channel.")
        .passes()
        .takes("@over", Form::any)
        .when("over")
        .gives("@key", Form::image)
        .like("@over")
        .dtype("float32")
        .when("over")
        .gives("@key", Form::any)
        .dtype("float32")
        .unless("over", {});
  }

  void open(const OpenContext& context) override {
    std::vector<std::int64_t> shape;
    for (const Json* at = &p.value; at->is_array() && !at->empty(); at = &at->front())
      shape.push_back(static_cast<std::int64_t>(at->size()));
    std::vector<float> numbers;
    if (shape.size() > 5 || !collect(p.value, shape, 0, numbers))
      throw Error(Exit::usage, context.node + ": value needs a number, or lists of one length");
    if (p.over && shape.size() > 1)
      throw Error(Exit::usage, context.node + ": over needs a number or a list of numbers");
    numbers_ = at::tensor(numbers).reshape(shape);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    if (!p.over) {
      out.set(p.key, Field(numbers_, std::make_shared<Meta>()));
      return f.emit(std::move(out));
    }
    Field field = f.in().at(*p.over);
    const at::Tensor& image = field.tensor;
    if (image.dim() < 2)
      throw DataError("\"" + *p.over + "\" has " + std::to_string(image.dim()) +
                      " axes; needed is an image [C, X(, Y, Z)]");
    std::vector<std::int64_t> shape(static_cast<std::size_t>(image.dim()), 1);
    shape[0] = numbers_.numel();
    std::vector<std::int64_t> whole = image.sizes().vec();
    whole[0] = shape[0];
    field.tensor = numbers_.reshape(shape).expand(whole).contiguous();
    out.set(p.key, std::move(field));
    f.emit(std::move(out));
  }

 private:
  static bool collect(const Json& value, const std::vector<std::int64_t>& shape, std::size_t axis,
                      std::vector<float>& numbers) {
    if (axis == shape.size()) {
      if (value.is_number()) numbers.push_back(value.get<float>());
      return value.is_number();
    }
    if (!value.is_array() || std::ssize(value) != shape[axis]) return false;
    for (const Json& one : value)
      if (!collect(one, shape, axis + 1, numbers)) return false;
    return true;
  }

  at::Tensor numbers_;
};

const Register<AddConstant> registered;

}  // namespace
}  // namespace sluice
