// idx: the images of a data set in IDX files (MNIST, Fashion-MNIST), held in memory as bytes.
#include "kernels/lists/idx.h"

#include "nodes/io/picture_set.h"

namespace sluice {
namespace {

struct Idx final : PictureSet<IdxImages> {
  static Spec spec() {
    Spec s("idx", "Emits the images of MNIST's or Fashion-MNIST's IDX files with their classes.");
    s.out("sample",
          "Fields \"image\", float32 [1, rows, columns] from 0 to 1, and \"label\", the class.");
    return add_params(
        s, "Folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-..., plain or .gz.",
        "training: train-*; test: t10k-*.", "1");
  }
};

const Register<Idx> registered;

}  // namespace
}  // namespace sluice
