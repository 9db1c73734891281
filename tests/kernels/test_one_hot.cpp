#include <ATen/ATen.h>
#include <doctest/doctest.h>

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
