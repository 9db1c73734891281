// Activations of a network of layers, in numbers.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/cli/npy.h"
#include "tests/cli/shell.h"
#include "tests/text.h"

TEST_CASE("a network of layers has MONAI's softmax, logsoftmax and celu") {
  const shell::Folder folder;
  npy::write(folder.path / "x.npy", {{1, 2, 2}, {0, -1, 0, -1}});
  const auto answer = [&](const std::string& act) {
    return shell::run("cd " + folder.path.string() +
                      "\n$SLUICE apply layers --param spatial_dims=1 in_channels=2 out_channels=2 "
                      "'layers={\"a\":{\"type\":\"act\",\"in\":\"image\",\"act\":" +
                      act + "}}' --in image=x.npy --out pred=y.npy");
  };
  const auto gives = [&](const std::string& act, const std::vector<float>& wanted) {
    CAPTURE(act);
    const auto r = answer(act);
    REQUIRE_MESSAGE(r.code == 0, r.err);
    const auto y = npy::read(folder.path / "y.npy");
    REQUIRE(y.size() == wanted.size());
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == doctest::Approx(wanted[i]));
  };
  const float a = 0.731058578f, b = 0.268941421f;  // of 0 and -1
  gives("\"softmax\"", {0.5, 0.5, 0.5, 0.5});
  gives("[\"softmax\",{\"dim\":-1}]", {a, b, a, b});
  gives("[\"logsoftmax\",{\"dim\":2}]", {std::log(a), std::log(b), std::log(a), std::log(b)});
  gives("[\"celu\",{\"alpha\":2}]", {0, 2 * std::expm1(-0.5f), 0, 2 * std::expm1(-0.5f)});
  CHECK(contains(answer("[\"softmax\",{\"dim\":0}]").err,
                 "softmax: dim is an axis behind the batch's, such as 1 or -1, found 0"));
  CHECK(contains(answer("[\"softmax\",{\"dim\":3}]").err,
                 "the dim of a softmax is 1 to 2, or -1 to -2, found 3"));
}
