// remap_labels_to_sequential: MONAI's RemapLabelsToSequentiald of deepedit.
#include <map>
#include <numeric>

#include "kernels/image/labels.h"
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct RemapLabelsToSequential final : EachKey<RemapLabelsToSequential> {
  struct Params : KeyParams {
    std::vector<std::string> keys{"label"};
    Json label_names = Json::object();
  } p;

  static Spec spec() {
    return each_key_spec<Params>(
               "remap_labels_to_sequential",
               "Numbers labels 1, 2, ... in their names' order; all others are 0.",
               "Fields to change; they become float32.")
        .param("label_names", &Params::label_names,
               "Names and their numbers in the files: {\"spleen\": 1, \"liver\": 6, "
               "\"background\": 0}.")
        .required()
        .takes("@keys", Form::image)
        .changes("@keys")
        .dtype("float32");
  }

  void open(const OpenContext&) override {
    if (!p.label_names.is_object() || p.label_names.empty())
      throw Error(Exit::usage, "label_names needs an object of names and numbers");
    std::map<std::string, double> sorted;
    for (const auto& [name, number] : p.label_names.items()) {
      if (!number.is_number())
        throw Error(Exit::usage,
                    "label_names: \"" + name + "\" is " + number.dump() + "; needed is a number");
      if (name != "background") sorted[name] = number;
    }
    for (const auto& [name, number] : sorted) numbers_.push_back(number);
  }

  void change(Field& field, std::size_t) const {
    std::vector<double> order(numbers_.size());
    std::iota(order.begin(), order.end(), 1);
    field.tensor = kernels::map_labels(field.tensor, numbers_, order, at::kFloat, 0);
  }

 private:
  std::vector<double> numbers_;  // in the order of the names
};

const Register<RemapLabelsToSequential> registered;

}  // namespace
}  // namespace sluice
