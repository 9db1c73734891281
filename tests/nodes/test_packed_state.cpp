// A state on its way between processes: whole, or refused.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "engine/base/error.h"
#include "engine/state/packed_state.h"

using namespace sluice;

namespace {

// Of one tensor `t`, described so.
std::string packed(const Json& tensor) {
  std::string text;
  Json::to_msgpack({{"values", Json::object()}, {"tensors", {{"t", tensor}}}}, text);
  return text;
}

}  // namespace

TEST_CASE("a state is unpacked as it was packed") {
  State state;
  state.values = {{"seen", 7}};
  state.tensors["rows"] = at::arange(6, at::kDouble).reshape({2, 3}).t();
  state.tensors["flags"] = at::tensor({1, 0}).to(at::kBool);
  state.tensors["none"] = at::zeros({0, 3}, at::kBFloat16);
  const State back = unpacked_state(packed_state(state));
  CHECK(back.values == state.values);
  REQUIRE(back.tensors.size() == 3);
  for (const auto& [name, tensor] : state.tensors) {
    CAPTURE(name);
    CHECK(std::string(at::toString(back.tensors.at(name).scalar_type())) ==
          at::toString(tensor.scalar_type()));
    CHECK(at::equal(back.tensors.at(name), tensor));
  }
}

TEST_CASE("what is no state is refused") {
  const Json bytes = Json::binary({1, 2, 3, 4});
  const auto refused = [](const std::string& text, const char* why) {
    CAPTURE(why);
    CHECK_THROWS_WITH_AS(unpacked_state(text), doctest::Contains(why), DataError);
  };
  CHECK(unpacked_state(packed({{"dtype", "U8"}, {"shape", Json::array({4})}, {"data", bytes}}))
            .tensors.size() == 1);
  refused("", "not a state: ");
  refused("\xc1", "not a state: ");
  refused(packed({{"dtype", "U8"}, {"shape", Json::array({4})}}), "not a state: ");
  refused(packed({{"dtype", "U8"}, {"shape", Json::array({4})}, {"data", "text"}}),
          "not a state: ");
  refused(packed({{"dtype", "U9"}, {"shape", Json::array({4})}, {"data", bytes}}),
          "not a state: unknown dtype U9");
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  using Shape = std::vector<std::int64_t>;
  for (const Shape& shape : {Shape{3}, Shape{-4}, Shape{-2, -2}, Shape{most, 2},
                             Shape{0, most, most}, Shape{1LL << 62, 4}, Shape{1LL << 40}}) {
    CAPTURE(Json(shape).dump());
    refused(packed({{"dtype", "U8"}, {"shape", shape}, {"data", bytes}}),
            "not a state: \"t\" has other bytes than its shape");
  }
}
