// nnU-Net's checkpoints: several names of a parameter, and archives that torch.load() reads.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <fstream>

#include "engine/base/error.h"
#include "engine/base/read_file.h"
#include "engine/session/weights.h"
#include "engine/state/nnunet_names.h"
#include "engine/state/torch_file.h"
#include "engine/state/torch_writer.h"
#include "engine/state/zip_file.h"
#include "tests/temporary_folder.h"

using namespace sluice;
using Names = std::vector<std::string>;

namespace {

const std::string block = "encoder.stages.0.0.convs.0.";

// A checkpoint of one block, whose repeats are shared unless `other` is one of them.
std::string checkpoint(const TemporaryFolder& folder, const std::string& other = "") {
  const at::Tensor conv = at::arange(6, at::kFloat).view({2, 3}), norm = at::ones({2});
  TorchWriter w;
  w.begin().key("network_weights").begin();
  for (const auto& [name, t] : {std::pair{"conv.weight", conv}, {"norm.weight", norm}})
    for (const std::string& n : nnunet_names(block + name)) w.key(n).tensor(n == other ? t + 1 : t);
  w.key("decoder.seg_layers.0.bias").tensor(at::zeros({2}, at::kDouble));
  w.end();
  w.key("current_epoch").value(7);
  w.key("_best_ema").value(0.25);
  w.key("init_args").value({{"fold", "all"}, {"large", std::int64_t{1} << 40}, {"none", nullptr}});
  w.key("inference_allowed_mirroring_axes").value(Json::array({0, -2, true}));
  w.key("optimizer_state").begin().key("state").begin();
  w.key(3).begin().key("momentum_buffer").tensor(conv).end().end().end();
  w.end();
  const auto file = folder.path / "c.pth";
  std::ofstream(file, std::ios::binary) << w.archive("c");
  return file.string();
}

}  // namespace

TEST_CASE("nnU-Net's names of a parameter lead to one and back") {
  CHECK(nnunet_names(block + "norm.bias") ==
        Names{block + "norm.bias", block + "all_modules.1.bias", "decoder." + block + "norm.bias",
              "decoder." + block + "all_modules.1.bias"});
  CHECK(nnunet_names("encoder.stages.1.blocks.0.skip.1.conv.weight", 2).at(1) ==
        "encoder.stages.1.blocks.0.skip.1.all_modules.0.weight");
  CHECK(nnunet_names("decoder.stages.0.convs.1.norm.weight", 2) ==
        Names{"decoder.stages.0.convs.1.norm.weight",
              "decoder.stages.0.convs.1.all_modules.2.weight"});
  CHECK(nnunet_names("decoder.transpconvs.0.weight") == Names{"decoder.transpconvs.0.weight"});
  for (const char* name : {"encoder.stem.convs.0.conv.bias", "decoder.seg_layers.1.weight",
                           "decoder.stages.0.convs.0.norm.weight"})
    for (const std::string& n : nnunet_names(name)) CHECK(nnunet_name(n) == std::string(name));
}

TEST_CASE("of nnU-Net's repeated parameters one is read, and repeats that differ are refused") {
  const TemporaryFolder folder;
  const auto all = read_weights(checkpoint(folder));
  CHECK(all.size() == 3);
  CHECK(at::equal(all.at(block + "conv.weight"), at::arange(6, at::kFloat).view({2, 3})));
  CHECK((all.at("decoder.seg_layers.0.bias").scalar_type() == at::kDouble));
  CHECK(read_torch_file(folder.path / "c.pth").size() == 9);
  for (const std::string& other : nnunet_names(block + "norm.weight")) {
    CAPTURE(other);
    CHECK_THROWS_WITH_AS(read_weights(checkpoint(folder, other)),
                         doctest::Contains("are one parameter of nnU-Net's, but hold other"),
                         DataError);
  }
}

TEST_CASE("plain values of a checkpoint are read beside its tensors") {
  const TemporaryFolder folder;
  const Json values = read_torch_values(checkpoint(folder));
  CHECK((values["current_epoch"] == 7));
  CHECK((values["_best_ema"] == 0.25));
  CHECK(values["init_args"] ==
        Json{{"fold", "all"}, {"large", std::int64_t{1} << 40}, {"none", nullptr}});
  CHECK(values["inference_allowed_mirroring_axes"] == Json::array({0, -2, true}));
  CHECK(values["network_weights"][block + "conv.weight"].is_null());
}

TEST_CASE("tensors of one memory share it in a file where they are one, and only there") {
  const TemporaryFolder folder;
  const auto file = folder.path / "c.pth";
  const at::Tensor square = at::arange(9, at::kFloat).view({3, 3});
  const std::map<std::string, at::Tensor> all{
      {"again", square},          {"first", square},
      {"flat", square.view({9})}, {"nothing", at::zeros({0, 2})},
      {"none", at::zeros({0})},   {"top", square[0]},
      {"first.t", square.t()}};
  TorchWriter w;
  w.begin();
  for (const auto& [name, t] : all) w.key(name).tensor(t);
  // Each is gone before the next one is made, which then has its memory.
  for (int i = 0; i < 9; ++i) w.key("later" + std::to_string(i)).tensor(at::full({2, 64}, i).t());
  w.end();
  std::ofstream(file, std::ios::binary) << w.archive("c");
  const auto read = read_torch_file(file);
  REQUIRE(read.size() == all.size() + 9);
  for (const auto& [name, t] : all) CHECK_MESSAGE(at::equal(read.at(name), t), name);
  for (int i = 0; i < 9; ++i)
    CHECK(at::equal(read.at("later" + std::to_string(i)), at::full({64, 2}, i)));
  const std::string bytes = read_text(file);
  int storages = 0;
  const ZipFile zip(bytes, "c");
  for (const auto& [name, entry] : zip.entries()) storages += name.starts_with("c/data/");
  CHECK(storages == 15);  // of `again` and `first` there is one
}

TEST_CASE("a pickle whose values hold each other ends with a message") {
  const TemporaryFolder folder;
  // A list of 30 lists, each twice the one before: a billion values.
  std::string pickle = "\x80\x02]q";
  pickle += '\0';
  for (char i = 0; i < 30; ++i) {
    pickle += "](h";
    pickle += i;
    pickle += 'h';
    pickle += i;
    pickle += "eq";
    pickle += static_cast<char>(i + 1);
  }
  const auto file = folder.path / "bomb.pth";
  std::ofstream(file, std::ios::binary) << zip_of({{"a/data.pkl", pickle + '.'}});
  CHECK_THROWS_WITH_AS(read_torch_values(file), doctest::Contains("values without end"), DataError);
}

TEST_CASE("a checkpoint that asks for another function is refused by its name") {
  const TemporaryFolder folder;
  const std::string file = checkpoint(folder);
  const std::string bytes = read_text(file);
  const ZipFile zip(bytes, "c");
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [name, entry] : zip.entries()) {
    std::string content(zip.read(name));
    const std::string known = "ccollections\nOrderedDict";
    if (const auto at = content.find(known); at != std::string::npos)
      content.replace(at, known.size(), "csubprocess\nPopen");
    entries.emplace_back(name, content);
  }
  std::ofstream(file, std::ios::binary) << zip_of(entries);
  CHECK_THROWS_WITH_AS(read_weights(file), doctest::Contains("asks for \"subprocess.Popen\""),
                       DataError);
  CHECK_THROWS_WITH_AS(read_torch_values(file), doctest::Contains("asks for \"subprocess.Popen\""),
                       DataError);
}
