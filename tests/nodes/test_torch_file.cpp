// Files of torch.save(): what they hold is read, what they ask for is not done, and damaged ones
// are refused. tests/golden/make_weights.py made them.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "engine/base/error.h"
#include "engine/state/torch_file.h"
#include "tests/campaign.h"
#include "tests/temporary_folder.h"

using namespace sluice;
namespace fs = std::filesystem;

namespace {

const fs::path folder = SLUICE_SOURCE_DIR "/tests/golden/weights";

at::Tensor waves(at::IntArrayRef shape) {
  const auto n = c10::multiply_integers(shape);
  return at::sin(0.1 * at::arange(n, at::kDouble) + static_cast<double>(n)).reshape(shape);
}

using Tensors = std::map<std::string, at::Tensor>;

void check_state(const Tensors& all, const std::string& prefix = "") {
  const auto same = [&](const std::string& name, const at::Tensor& wanted, at::ScalarType type) {
    CAPTURE(name);
    REQUIRE(all.contains(prefix + name));
    const at::Tensor& t = all.at(prefix + name);
    CHECK(std::string(at::toString(t.scalar_type())) == at::toString(type));
    CHECK(t.is_contiguous());
    CHECK(at::equal(t, wanted.to(type)));
  };
  CHECK(all.size() == 10);
  same("conv.weight", waves({3, 2, 3}), at::kFloat);
  same("conv.bias", waves({3}), at::kBFloat16);
  same("half", waves({4}), at::kHalf);
  same("double", waves({2, 2}), at::kDouble);
  same("turned", waves({2, 3}).t(), at::kFloat);
  same("part", waves({10}).slice(0, 3, 7), at::kFloat);
  same("shared", waves({10}).slice(0, 3, 7), at::kFloat);
  same("count", at::scalar_tensor(7, at::kLong), at::kLong);
  same("flags", at::tensor({1, 0}), at::kBool);
  same("none", at::zeros({0, 3}), at::kFloat);
}

std::string why_no_tensor(const std::string& file, const std::string& key = "") {
  try {
    read_torch_file(folder / file, {key});
  } catch (const DataError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("files of torch.save() are read in all their forms") {
  for (const char* file : {"state.pt", "old.pt", "old4.pt", "protocol5.pt", "extra.pt"}) {
    CAPTURE(file);
    CHECK(is_torch_file(folder / file));
    check_state(read_torch_file(folder / file));
  }
  check_state(read_torch_file(folder / "trainer.pt"), "module.");
  check_state(read_torch_file(folder / "nnunet.pt"));
  check_state(read_torch_file(folder / "nnunet.pt", {"network_weights"}));
  check_state(read_torch_file(folder / "two.pt", {"ema"}));
  CHECK(contains(why_no_tensor("two.pt"), "weights in \"net\", \"ema\": say which"));
  CHECK(contains(why_no_tensor("two.pt", "teacher"),
                 "has no \"teacher\"; there are \"net\", \"ema\""));
  // One tensor beside the weights is not taken for them.
  CHECK(contains(why_no_tensor("beside.pt"), "weights in \"net\": say which"));
  check_state(read_torch_file(folder / "beside.pt", {"net"}));
}

TEST_CASE("tensors of torch.save() that are not read are refused by their reason") {
  CHECK(contains(why_no_tensor("repeated.pt"), "\"rows\" is larger than its storage"));
  CHECK(contains(why_no_tensor("negated.pt"), "is a negated view"));
  CHECK(contains(why_no_tensor("uint16.pt"), "\"count\" is of a type that is not read: uint16"));
}

TEST_CASE("numpy's arrays in files of torch.save() are lists of their rows") {
  const Json values = read_torch_values(folder / "arrays.pt");
  CHECK(values["rows"] == Json{{1, 0, -200}, {2, 300, 4}});
  CHECK(values["small"] == Json{{1, 0, -100}, {2, 100, 4}});
  CHECK(values["real"] == Json{0.5, 75, 1});
  CHECK(values["columns"].is_null());  // in another order than it is read in
}

TEST_CASE("what a file would have run is refused by its name") {
  for (const char* file : {"evil.pt", "evil_raw.pt"}) {
    CAPTURE(file);
    CHECK(
        contains(why_no_tensor(file), "asks for \"posix.system\", which no file of weights needs"));
  }
  CHECK(!fs::exists("ran"));
}

TEST_CASE("damaged files of torch.save() are refused, or hold the same tensors") {
  const TemporaryFolder temporary;
  const fs::path file = temporary.path / "damaged.pt";
  std::mt19937 random(static_cast<std::uint32_t>(campaign::seed()));
  std::uint64_t refused = 0, other = 0, rounds = 0;
  for (campaign::Cases cases("damaged_pt", 600, 10000); cases.next(); ++rounds) {
    const auto i = cases.index();
    const bool is_old = i % 3 == 0;  // without checksums
    const fs::path from = folder / (is_old ? "old.pt" : i % 3 == 1 ? "state.pt" : "nnunet.pt");
    const Bytes whole = bytes_of(from);
    std::string bytes(whole.begin(), whole.end());
    for (int n = 1 + static_cast<int>(random() % 3); n-- > 0;) {
      const auto at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.resize(at + 1);
          break;
        case 2:
          bytes.erase(at, 1 + random() % 9);
          break;
        default:
          bytes.insert(at, 1 + random() % 9, static_cast<char>(random()));
      }
      if (bytes.empty()) bytes = "P";
    }
    std::ofstream(file, std::ios::binary) << bytes;
    try {
      const Tensors was = read_torch_file(from), is = read_torch_file(file);
      if (!is_old) read_torch_values(file);
      for (const auto& [name, t] : is)
        if (!is_old && (!was.contains(name) || !at::equal(was.at(name), t))) ++other;
    } catch (const DataError&) {
      ++refused;
    }
  }
  MESSAGE(rounds << " damaged files, " << refused << " refused");
  CHECK(other == 0);
  CHECK(refused > rounds / 2);
}
