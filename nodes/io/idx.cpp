// idx: the images of a data set in IDX files (MNIST, Fashion-MNIST), held in memory as bytes.
#include "kernels/idx.h"

#include <ATen/Functions.h>

#include "nodes/io/io.h"

namespace sluice {
namespace {

struct Idx final : Node {
  struct Params {
    std::string root, split = "training";
    bool shuffle = false;
    std::optional<std::int64_t> limit;
  } p;

  static Spec spec() {
    return Spec("idx",
                "Emits the images of MNIST's or Fashion-MNIST's IDX files with their classes.")
        .out("sample",
             "Fields \"image\", float32 [1, rows, columns] from 0 to 1, and \"label\", the class.")
        .param("root", &Params::root,
               "Folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-..., plain or "
               ".gz.")
        .required()
        .param("split", &Params::split, "training: train-*; test: t10k-*.")
        .choices({"training", "test"})
        .param("shuffle", &Params::shuffle, "A new order in every epoch.")
        .param("limit", &Params::limit, "Only the first n images.")
        .at_least(1)
        .source()
        .gives("image", Form::image)
        .channels("1")
        .dtype("float32")
        .gives("label", Form::any)
        .dtype("int64");
  }

  void open(const OpenContext&) override {
    images_ = IdxImages(p.root, p.split == "training");
    size_ = std::min<std::uint64_t>(images_.size(),
                                    p.limit ? static_cast<std::uint64_t>(*p.limit) : UINT64_MAX);
    for (std::int64_t c = 0; c < images_.classes(); ++c)
      classes_.push_back(at::scalar_tensor(c, at::kLong));
  }

  void process(Firing& f) override {
    emit_in_order(f, size_, p.shuffle, [this](std::uint64_t i) { return item_record(i); });
  }

  SamplePtr item_record(std::uint64_t i) const override {
    return picture_of(images_.name(i), images_.path(), images_.image(i),
                      classes_[static_cast<std::size_t>(images_.label(i))]);
  }

  std::optional<std::uint64_t> epoch_size() const override { return size_; }

 private:
  IdxImages images_;
  std::uint64_t size_ = 0;
  std::vector<at::Tensor> classes_;  // shared by all samples of a class
};

const Register<Idx> registered;

}  // namespace
}  // namespace sluice
