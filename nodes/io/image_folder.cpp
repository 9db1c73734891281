// image_folder: images in one folder for each class, as torchvision's ImageFolder and MONAI's
// MedNIST tutorial have them.
#include <ATen/Functions.h>

#include "kernels/lists/class_list.h"
#include "nodes/io/io.h"

namespace sluice {
namespace {

struct ImageFolder final : Node {
  struct Params : RecordParams<> {
    std::string root, split = "training", key = "image", label_key = "label";
    double val_frac = 0;
    std::int64_t seed = 0;
  } p;

  static Spec spec() {
    Spec s("image_folder",
           "Emits the images of a folder with one sub-folder for each class: a path and the "
           "class's number. Classes are sorted by name.");
    s.out("sample", "An image's path and \"label\", its class.")
        .param("root", &Params::root, "Folder with a sub-folder for each class.")
        .required()
        .param("split", &Params::split, "Which part of a split by val_frac.")
        .choices({"training", "validation"})
        .param("val_frac", &Params::val_frac,
               "Share of all images held out for \"validation\"; 0: all are \"training\".")
        .range(0, 1)
        .param("seed", &Params::seed, "Seed of that split; not of the run.")
        .range(0, 4294967295.0)
        .param("key", &Params::key, "The image's field.")
        .param("label_key", &Params::label_key, "The class's field, int64.");
    return add_record_params<Params>(s, "Only the first n images.")
        .lane(LaneKind::io)
        .gives("@key", Form::record)
        .gives("@label_key", Form::any)
        .dtype("int64");
  }

  void open(const OpenContext&) override {
    list_ = class_folder(p.root, p.key);
    if (p.val_frac > 0 || p.split == "validation")
      list_ = split_classes(list_, p.split, p.val_frac, static_cast<std::uint32_t>(p.seed));
    limit_list(list_.items, p.limit);
    for (std::size_t c = 0; c < list_.classes.size(); ++c)
      classes_.push_back(at::scalar_tensor(static_cast<std::int64_t>(c), at::kLong));
  }

  void process(Firing& f) override {
    emit_in_order(f, list_.items.size(), p.shuffle,
                  [this](std::uint64_t i) { return item_record(i); });
  }

  SamplePtr item_record(std::uint64_t i) const override {
    Sample sample = record_of(list_.items.at(i));
    sample.set(p.label_key, Field(classes_[static_cast<std::size_t>(list_.labels[i])],
                                  std::make_shared<const Meta>()));
    return std::make_shared<const Sample>(std::move(sample));
  }

  std::optional<std::uint64_t> epoch_size() const override { return list_.items.size(); }

 private:
  ClassList list_;
  std::vector<at::Tensor> classes_;  // shared by all samples of a class
};

const Register<ImageFolder> registered;

}  // namespace
}  // namespace sluice
