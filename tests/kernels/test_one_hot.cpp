#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "kernels/image/labels.h"
#include "kernels/image/one_hot.h"

using namespace sluice;

TEST_CASE("one_hot is a channel a class for labels of any type, and 0 for what is no class") {
  at::manual_seed(5);
  for (const auto from : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf,
                          at::kBFloat16, at::kFloat, at::kDouble, at::kBool})
    for (const std::int64_t classes : {1, 3, 300})
      for (const auto to : {at::kFloat, at::kDouble, at::kHalf}) {
        CAPTURE(at::toString(from));
        CAPTURE(classes);
        at::Tensor label = at::randint(0, from == at::kBool ? 2 : 5, {2, 1, 23, 300}).to(from);
        if (at::isSignedType(from)) label[1][0][2][1] = -1;
        if (at::isFloatingType(from)) label[0][0][2][3] = 1.5;
        label = label.transpose(2, 3);  // not contiguous
        const at::Tensor got = one_hot(label, classes, to), wide = label.to(at::kDouble);
        REQUIRE((got.scalar_type() == to));
        REQUIRE(got.sizes() == at::IntArrayRef{2, classes, 300, 23});
        for (std::int64_t c = 0; c<classes; c += classes> 10 ? 64 : 1)  // 256 is no byte
          CHECK(at::equal(got.select(1, c), wide.eq(c).to(to).select(1, 0)));
      }
}

TEST_CASE("one_hot_classes undoes one_hot, and gives nothing where channels are shared") {
  at::manual_seed(6);
  const at::Tensor label = at::randint(0, 5, {1, 23, 130}, at::kLong);
  for (const auto type : {at::kFloat, at::kByte, at::kLong, at::kHalf}) {
    CAPTURE(at::toString(type));
    at::Tensor hot = one_hot(label.unsqueeze(0), 5, at::kDouble)[0].to(type);
    const auto found = kernels::one_hot_classes(hot);
    REQUIRE(found);
    CHECK(at::equal(*found, label.to(at::kByte)));
    at::Tensor counts = at::ones({23, 130}, at::kBool);
    const std::int64_t is = label[0][4][7].item<std::int64_t>();
    for (const bool twice : {true, false}) {
      hot[is == 2 ? 1 : 2][4][7] = twice;  // two channels, then none
      if (!twice) hot[is][4][7] = 0;
      counts[4][7] = true;
      CHECK_FALSE(kernels::one_hot_classes(hot, counts));
      counts[4][7] = false;
      CHECK(kernels::one_hot_classes(hot, counts));
    }
  }
}

TEST_CASE("masks of a map are where it is a value, or is not 0") {
  const at::Tensor map = at::tensor({0., 1., 1.5, 2., 256., -1.});
  CHECK(at::equal(kernels::class_mask(map, 1), map.eq(1)));
  CHECK(at::equal(kernels::set_mask(map), map.ne(0)));
  // 256 is no byte
  CHECK_FALSE(kernels::class_mask(at::zeros({3}, at::kByte), 256).any().item<bool>());
}
