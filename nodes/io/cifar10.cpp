// cifar10: the images of CIFAR-10's binary batches (Krizhevsky 2009), held in memory as bytes.
#include "kernels/lists/cifar.h"
#include "nodes/io/picture_set.h"

namespace sluice {
namespace {

struct Cifar10 final : PictureSet<CifarBatches> {
  static Spec spec() {
    Spec s("cifar10", "Emits the images of CIFAR-10's binary batches with their classes.");
    s.out("sample",
          "Fields \"image\", float32 [3, 32, 32] from 0 to 1 (colour, row, column), and \"label\", "
          "the class.");
    return add_params(s, "Folder with data_batch_*.bin and test_batch.bin.",
                      "training: data_batch_*.bin; test: test_batch.bin.", "3");
  }
};

const Register<Cifar10> registered;

}  // namespace
}  // namespace sluice
