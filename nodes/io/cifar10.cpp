// cifar10: the images of CIFAR-10's binary batches (Krizhevsky 2009), held in memory as bytes.
#include <ATen/Functions.h>

#include "kernels/cifar.h"
#include "nodes/io/io.h"

namespace sluice {
namespace {

struct Cifar10 final : Node {
  struct Params {
    std::string root, split = "training";
    bool shuffle = false;
    std::optional<std::int64_t> limit;
  } p;

  static Spec spec() {
    return Spec("cifar10", "Emits the images of CIFAR-10's binary batches with their classes.")
        .out("sample",
             "Fields \"image\", float32 [3, 32, 32] from 0 to 1 (colour, row, column), and "
             "\"label\", the class.")
        .param("root", &Params::root, "Folder with data_batch_*.bin and test_batch.bin.")
        .required()
        .param("split", &Params::split, "training: data_batch_*.bin; test: test_batch.bin.")
        .choices({"training", "test"})
        .param("shuffle", &Params::shuffle, "A new order in every epoch.")
        .param("limit", &Params::limit, "Only the first n images.")
        .at_least(1)
        .source()
        .gives("image", Form::image)
        .channels("3")
        .dtype("float32")
        .gives("label", Form::any)
        .dtype("int64");
  }

  void open(const OpenContext&) override {
    batches_ = CifarBatches(p.root, p.split == "training");
    size_ = std::min<std::uint64_t>(batches_.size(),
                                    p.limit ? static_cast<std::uint64_t>(*p.limit) : UINT64_MAX);
    for (std::int64_t c = 0; c < 10; ++c) classes_.push_back(at::scalar_tensor(c, at::kLong));
  }

  void process(Firing& f) override {
    emit_in_order(f, size_, p.shuffle, [this](std::uint64_t i) { return item_record(i); });
  }

  SamplePtr item_record(std::uint64_t i) const override {
    return picture_of(batches_.name(i), batches_.path(i), batches_.image(i),
                      classes_[static_cast<std::size_t>(batches_.label(i))]);
  }

  std::optional<std::uint64_t> epoch_size() const override { return size_; }

 private:
  CifarBatches batches_;
  std::uint64_t size_ = 0;
  std::vector<at::Tensor> classes_;  // shared by all samples of a class
};

const Register<Cifar10> registered;

}  // namespace
}  // namespace sluice
