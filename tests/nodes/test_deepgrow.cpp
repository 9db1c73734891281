// Simulated clicks: MONAI's values and distributions (tests/golden/deepgrow.json), and what is
// refused.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

#include "drive.h"
#include "engine/base/error.h"
#include "engine/state/list_field.h"
#include "golden.h"
#include "kernels/image/clicks.h"
#include "kernels/image/spatial.h"

using namespace sluice;

namespace {

using Row = std::vector<std::int64_t>;

at::Tensor tensor_of_set(const Json& j) {
  at::Tensor t = at::zeros(shape_of(j), at::kFloat);
  for (const std::int64_t i : j["set"]) t.view(-1)[i] = 1;
  return t;
}

at::Tensor tensor_of_rows(const Json& j) {
  std::vector<std::int64_t> all;
  for (const Json& kind : j)
    for (const Json& row : kind)
      for (const std::int64_t v : row) all.push_back(v);
  return at::tensor(all, at::kLong)
      .to(at::kInt)
      .view({std::ssize(j), std::ssize(j[0]), std::ssize(j[0][0])});
}

Row row_of(const at::Tensor& rows, std::int64_t kind, std::int64_t i) {
  const at::Tensor row = rows[kind][i].to(at::kLong).contiguous();
  return {row.data_ptr<std::int64_t>(), row.data_ptr<std::int64_t>() + row.numel()};
}

Sample with(Sample s, const std::string& key, at::Tensor t) {
  s.set(key, Field(std::move(t), std::make_shared<const Meta>()));
  return s;
}

// How often each voxel is drawn, within five standard deviations of MONAI's probabilities.
void check_often(const Json& draw, const std::map<std::int64_t, int>& often, int n) {
  std::set<std::int64_t> known;
  for (std::size_t k = 0; k < draw["at"].size(); ++k) {
    const std::int64_t at = draw["at"][k];
    const double likely = draw["p"][k];
    known.insert(at);
    const auto found = often.find(at);
    CAPTURE(at);
    CHECK(std::abs((found == often.end() ? 0 : found->second) - n * likely) <=
          5 * std::sqrt(n * likely * (1 - likely)) + 1);
  }
  for (const auto& [at, count] : often) CHECK(known.count(at) == 1);
}

}  // namespace

TEST_CASE("first clicks are as likely as MONAI's in every voxel, and their rows are MONAI's") {
  constexpr int n = 600;
  for (const Json& c : golden("deepgrow.json")["seeds"]) {
    CAPTURE(c["name"].get<std::string>());
    Sample in = sample_of("label", tensor_of_set(c["label"]));
    const at::Tensor label = in.tensor("label");
    const bool slices = c.contains("sids");
    if (slices) {
      in = drive("find_all_valid_slices", Json::object(), {in}).at(0);
      const auto sids = c["sids"].get<std::vector<std::int64_t>>();
      CHECK(in.tensor("sids").equal(at::tensor(sids, at::kLong).to(at::kInt)));
    }
    const at::Tensor want = tensor_of_rows(c["guidance"]);
    std::vector<std::map<std::int64_t, int>> often(static_cast<std::size_t>(want.size(1)));
    std::map<std::int64_t, int> of_slice;
    for (std::uint64_t i = 0; i < n; ++i) {
      const Sample out = drive("add_initial_seed_point", Json::object(), {in}, at_index(i)).at(0);
      const at::Tensor got = out.tensor("guidance");
      REQUIRE(got.sizes() == want.sizes());
      CHECK(got[1].equal(want[1]));
      if (slices) ++of_slice[row_of(got, 0, 0)[1]];
      for (std::int64_t r = 0; r < got.size(1); ++r) {
        const Row row = row_of(got, 0, r);
        if (row.back() < 0) {
          CHECK((slices || row == row_of(want, 0, r)));
          continue;
        }
        std::int64_t at = 0;
        for (std::size_t d = 1; d < row.size(); ++d)
          at = at * label.size(static_cast<std::int64_t>(d)) + row[d];
        CHECK(label.view(-1)[at].item<float>() == 1);
        ++often[static_cast<std::size_t>(r)][at];
      }
    }
    if (slices) {
      check_often(c["draws"][0], of_slice, n);
      continue;  // the voxels of one slice alone are written down
    }
    for (std::size_t r = 0; r < c["draws"].size(); ++r) check_often(c["draws"][r], often[r], n);
  }
}

TEST_CASE("the weights of clicks are MONAI's") {
  for (const Json& c : golden("deepgrow.json")["corrections"]) {
    CAPTURE(c["name"].get<std::string>());
    if (c["draws"].empty()) continue;
    const Json& draw = c["draws"][0];
    at::Tensor mask = at::zeros(shape_of(c["label"]), at::kByte);
    for (const std::int64_t i : draw["at"]) mask.view(-1)[i] = 1;
    const at::Tensor volume = to_volume(mask)[0].contiguous();
    const std::vector<ClickSite> sites = click_sites(volume);
    const std::vector<double> sums = click_sums(sites);
    REQUIRE(sites.size() == draw["at"].size());
    for (std::size_t k = 0; k < sites.size(); ++k) {
      const Shape3& v = sites[k].voxel;
      CHECK((v[0] * volume.size(1) + v[1]) * volume.size(2) + v[2] ==
            draw["at"][k].get<std::int64_t>());
      CHECK((sums[k] - (k ? sums[k - 1] : 0)) / sums.back() ==
            doctest::Approx(draw["p"][k].get<double>()).epsilon(1e-8));
    }
  }
}

TEST_CASE("the weights of clicks stay finite however far a voxel is from the border") {
  std::vector<ClickSite> sites;
  for (std::int32_t d = 590; d <= 600; ++d) sites.push_back({{}, d});
  const std::vector<double> exact = click_sums(sites);
  for (ClickSite& s : sites) s.distance += 100;
  const std::vector<double> scaled = click_sums(sites);
  for (std::size_t k = 0; k < sites.size(); ++k)
    CHECK(exact[k] / exact.back() == doctest::Approx(scaled[k] / scaled.back()).epsilon(1e-12));
  const std::vector<ClickSite> last{{{}, 1}, {{7, 0, 0}, 2000}};
  CHECK(drawn_click(last, 0).voxel[0] == 7);
  std::vector<ClickSite> many;
  for (std::int64_t x = 0; x < 40000; ++x) many.push_back({{x, 0, 0}, 700});
  CHECK(drawn_click(many, 0.5).voxel[0] == 20000);
}

TEST_CASE("clicks are shown to a network as MONAI shows them") {
  for (const Json& c : golden("deepgrow.json")["signals"]) {
    const std::vector<std::int64_t> shape = shape_of(c);
    const std::int64_t channels = c["channels"];
    const at::Tensor image = golden_image(shape);
    const Sample in = with(sample_of("image", image), "guidance", tensor_of_rows(c["guidance"]));
    const at::Tensor out = drive("add_guidance_signal",
                                 {{"sigma", c["sigma"]}, {"number_intensity_ch", channels}}, {in})
                               .at(0)
                               .tensor("image");
    CHECK(out.size(0) == channels + 2);
    CHECK(out.narrow(0, 0, channels).equal(image.narrow(0, 0, channels)));
    CHECK(difference(out.narrow(0, channels, 2), c["signal"]) < 1e-6);
  }
}

TEST_CASE("corrections go to what is missed or too much as MONAI's do") {
  constexpr int n = 400;
  for (const Json& c : golden("deepgrow.json")["corrections"]) {
    CAPTURE(c["name"].get<std::string>());
    const auto axes = static_cast<std::int64_t>(c["label"]["shape"].size()) - 1;
    Sample in = with(sample_of("label", tensor_of_set(c["label"])), "pred",
                     tensor_of_set(c["pred"]) * 0.4 + 0.3);
    in = drive("find_discrepancy_regions", Json::object(), {in}).at(0);
    const at::Tensor wrong = in.tensor("discrepancy");
    for (int kind = 0; kind < 2; ++kind) {
      const auto set = c[kind ? "excess" : "missed"].get<std::vector<std::int64_t>>();
      CHECK(wrong[kind].flatten().nonzero().flatten().equal(at::tensor(set, at::kLong)));
    }
    const at::Tensor want = tensor_of_rows(c["guidance"]);
    in = with(with(in, "guidance", want.narrow(1, 0, 1).contiguous()), "probability", at::ones({}));
    std::map<std::int64_t, int> often;
    for (std::uint64_t i = 0; i < n; ++i) {
      const at::Tensor got =
          drive("add_random_guidance", Json::object(), {in}, at_index(i)).at(0).tensor("guidance");
      REQUIRE(got.sizes() == want.sizes());
      CHECK(got.narrow(1, 0, 1).equal(want.narrow(1, 0, 1)));
      if (got.size(1) == 1) continue;
      const int kind = row_of(want, 0, 1).back() >= 0 ? 0 : 1;
      CHECK(row_of(got, 1 - kind, 1) == Row(static_cast<std::size_t>(axes + 1), -1));
      std::int64_t at = 0;
      const Row row = row_of(got, kind, 1);
      for (std::int64_t d = 1; d <= axes; ++d)
        at = at * wrong.size(d + 1) + row[static_cast<std::size_t>(d)];
      ++often[at];
    }
    if (!c["draws"].empty()) check_often(c["draws"][0], often, n);
  }
}

TEST_CASE("a sample clicks as often as its probability says") {
  Sample in = with(sample_of("guidance", at::full({2, 1, 3}, -1, at::kInt)), "discrepancy",
                   at::ones({2, 1, 4, 4}, at::kByte));
  in = with(in, "probability", at::full({}, 0.3));
  int clicks = 0;
  for (std::uint64_t i = 0; i < 1000; ++i)
    clicks += drive("add_random_guidance", Json::object(), {in}, at_index(i))
                  .at(0)
                  .tensor("guidance")
                  .size(1) == 2;
  CHECK(std::abs(clicks - 300) < 60);
}

TEST_CASE("a label that cannot be clicked on is refused, and says what it is") {
  const auto said = [](const std::string& type, const Sample& in) {
    try {
      drive(type, Json::object(), {in});
    } catch (const DataError& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  CHECK(said("add_initial_seed_point", sample_of("label", at::zeros({1, 4, 4}))) ==
        "the label \"label\" has no voxel above 0.5 to click on");
  CHECK(said("add_initial_seed_point", sample_of("label", at::ones({2, 4, 4}))) ==
        "field \"label\" has 2 channels; needed is a label of one");
  const Sample in = with(sample_of("guidance", at::full({2, 1, 3}, -1, at::kInt)), "discrepancy",
                         at::ones({2, 1, 4, 4}, at::kByte));
  CHECK(said("add_random_guidance", in).find("probability") != std::string::npos);
}

TEST_CASE("a volume's slices are samples of their own, one for each label") {
  at::Tensor label = at::zeros({1, 3, 4, 5}, at::kByte);
  label[0].select(2, 1).slice(1, 0, 2).fill_(1);  // 6 voxels of 1 in slice 1
  label[0].select(2, 1)[0][3] = 2;                // and one of 2
  label[0].select(2, 4).fill_(2);                 // 12 of 2 in slice 4
  Affine affine = identity_affine;
  affine[2] = 0.5, affine[10] = 3, affine[11] = -7;
  Sample in = sample_of("image", golden_image({2, 3, 4, 5}), affine);
  in.set("label", sample_of("label", label, affine).at("label"));
  const auto all = drive("split_slices", Json::object(), {in});
  REQUIRE(all.size() == 3);
  CHECK(drive("split_slices", {{"min_voxels", 2}}, {in}).size() == 2);
  CHECK(all[0].name == "case_1_1");
  CHECK(all[2].name == "case_4_2");
  CHECK(all[2].tensor("image").equal(in.tensor("image").select(3, 4)));
  CHECK(all[0].tensor("label").sum().item<float>() == 6);
  CHECK(all[1].tensor("label").sum().item<float>() == 1);
  CHECK((all[1].tensor("label").scalar_type() == at::kFloat));
  const Affine& moved = all[2].at("image").geometry().affine;
  CHECK(moved[3] == 4 * 0.5);
  CHECK(moved[11] == -7 + 4 * 3);
  CHECK(drive("split_slices", {{"axis", 0}}, {in}).at(0).tensor("image").sizes().vec() ==
        std::vector<std::int64_t>{2, 4, 5});
  in.set("label", sample_of("label", at::ones({2, 3, 4, 5}), affine).at("label"));
  CHECK_THROWS_AS(drive("split_slices", Json::object(), {in}), DataError);
}

TEST_CASE("lists of clicks are filled up within a batch, other fields are not") {
  Sample few, many;
  few.set("guidance", list_field(at::ones({2, 1, 3}, at::kInt), 5));
  many.set("guidance", list_field(at::ones({2, 4, 3}, at::kInt), 6));
  const Sample out = Driver("batch", {{"size", 2}}).gather({few, many}).samples().at(0);
  CHECK(out.tensor("guidance").sizes().vec() == std::vector<std::int64_t>{2, 2, 4, 3});
  CHECK(out.tensor("guidance")[0].narrow(1, 1, 3).eq(-1).all().item<bool>());
  CHECK(out.tensor("guidance")[0].narrow(1, 0, 1).eq(1).all().item<bool>());
  CHECK(draws_of(*out.at("guidance").meta[1]) == 6);
  few.set("guidance", Field(few.tensor("guidance"), std::make_shared<const Meta>()));
  CHECK_THROWS_AS(Driver("batch", {{"size", 2}}).gather({few, many}), DataError);
}

TEST_CASE(
    "a user's clicks are voxels of the file, wherever orientation, crops and zooms move them") {
  Affine affine = identity_affine;  // axes permuted and flipped: LPS-like, 2 mm along the first
  affine[0] = 0, affine[1] = -1, affine[4] = 2, affine[5] = 0, affine[3] = 40, affine[7] = -30;
  at::Tensor image = at::zeros({1, 12, 20, 9});
  const std::vector<std::int64_t> on = {7, 11, 3}, beside = {2, 4, 6};
  image[0][7][11][3] = 1;
  image[0][2][4][6] = 2;
  Sample s = sample_of("image", image, affine);
  s = drive("orientation", {{"keys", "image"}, {"axcodes", "RAS"}}, {s}).at(0);
  s = drive("spatial_crop", {{"keys", "image"}, {"roi_start", {2, 1, 1}}, {"roi_end", {20, 12, 9}}},
            {s})
          .at(0);
  s = drive("flip", {{"keys", "image"}, {"spatial_axis", 1}}, {s}).at(0);
  const Json params = {{"foreground", {on}}, {"background", {beside, on}}};
  const at::Tensor guidance =
      drive("add_guidance_from_points", params, {s}).at(0).tensor("guidance");
  REQUIRE(guidance.sizes().vec() == std::vector<std::int64_t>{2, 3, 4});
  const auto value = [&](const Row& r) {
    return s.tensor("image")[0][r[1]][r[2]][r[3]].item<int>();
  };
  CHECK(value(row_of(guidance, 0, 0)) == 1);
  CHECK(value(row_of(guidance, 1, 1)) == 2);
  CHECK(value(row_of(guidance, 1, 2)) == 1);
  for (const auto& [kind, i] : {std::pair{1, 0}, {0, 1}, {0, 2}})
    CHECK(row_of(guidance, kind, i) == Row(4, -1));

  s.set("label", sample_of("label", s.tensor("image").gt(1).to(at::kByte)).at("label"));
  const Sample slice = drive("split_slices", Json::object(), {s}).at(0);
  const at::Tensor there =
      drive("add_guidance_from_points", params, {slice}).at(0).tensor("guidance");
  REQUIRE(there.sizes().vec() ==
          std::vector<std::int64_t>{2, 1, 3});  // the others: in other slices
  CHECK(slice.tensor("image")[0][there[1][0][1].item<int>()][there[1][0][2].item<int>()]
            .item<int>() == 2);
}

TEST_CASE("a user's click on the last voxel of a file stays in an image of coarser spacing") {
  at::Tensor image = at::zeros({1, 8, 12, 9});
  Sample s = sample_of("image", image);
  s = drive("spacing", {{"keys", "image"}, {"pixdim", 2}}, {s}).at(0);
  REQUIRE(s.tensor("image").sizes() == at::IntArrayRef{1, 4, 6, 5});
  const Json params = {{"foreground", {{7, 11, 8}, {0, 0, 0}, {7, 5, 3}}}};
  const at::Tensor on = drive("add_guidance_from_points", params, {s}).at(0).tensor("guidance");
  CHECK(row_of(on, 0, 0) == Row{0, 3, 5, 4});  // 7 / 2 is half a voxel behind the last one
  CHECK(row_of(on, 0, 1) == Row{0, 0, 0, 0});

  s.set("label", sample_of("label", at::ones({1, 4, 6, 5}, at::kByte)).at("label"));
  std::int64_t clicks = 0;  // each lies in one slice
  for (const Sample& slice : drive("split_slices", {{"axis", 0}}, {s}))
    clicks += drive("add_guidance_from_points", params, {slice}).at(0).tensor("guidance").size(1);
  CHECK(clicks == 3);
}

TEST_CASE("a user's click outside of the image is refused") {
  const Sample s = sample_of("image", at::zeros({1, 4, 5, 6}));
  const auto said = [](const Json& clicks, const Sample& in) {
    try {
      drive("add_guidance_from_points", {{"foreground", clicks}}, {in});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  CHECK(said({{3, 4, 5}}, s) == "nothing");
  CHECK(said({{4, 0, 0}}, s) ==
        "the click [4, 0, 0] is no voxel of \"image\", whose file has [4, 5, 6]");
  CHECK(said({{0, 0}}, s).find("[0, 0] is no voxel") != std::string::npos);
  CHECK(said(Json::array(), s).find("needs a click") != std::string::npos);
  const Sample none = drive("add_guidance_from_points", {{"allow_none", true}}, {s}).at(0);
  CHECK(none.tensor("guidance").sizes() == at::IntArrayRef{2, 0, 4});
  const Sample shown = drive("add_guidance_signal_deep_edit", Json::object(), {none}).at(0);
  CHECK(shown.tensor("image").sizes() == at::IntArrayRef{3, 4, 5, 6});
  CHECK(shown.tensor("image").abs().max().item<float>() == 0);
  const Sample cut =
      drive("spatial_crop", {{"keys", "image"}, {"roi_start", {1, 0, 0}}, {"roi_end", {4, 5, 6}}},
            {s})
          .at(0);
  CHECK(said({{0, 0, 0}}, cut).find("outside of what is left of \"image\"") != std::string::npos);
}

namespace {

// deepedit's names in MONAI's order: the background, then the others by name, numbered 0, 1, ...
const std::vector<std::string> edit_names{"background", "aorta", "liver", "spleen"};
const Json edit_labels = {0, 1, 2, 3};

at::Tensor edit_volume(const Json& c, const std::string& key) {
  return at::tensor(c[key].get<std::vector<std::int64_t>>(), at::kLong)
      .to(at::kFloat)
      .view(shape_of(c));
}

std::int64_t place(const Row& row, const at::Tensor& volume) {
  return (row[1] * volume.size(2) + row[2]) * volume.size(3) + row[3];
}

// The rows of a list that are clicks.
std::vector<Row> clicks_of(const at::Tensor& lists, std::int64_t k) {
  std::vector<Row> rows;
  for (std::int64_t i = 0; i < lists.size(1); ++i)
    if (const Row row = row_of(lists, k, i); row.back() >= 0) rows.push_back(row);
  return rows;
}

}  // namespace

TEST_CASE("labels, slices, first clicks and their channels are MONAI's in deepedit") {
  const Json& c = golden("deepgrow.json")["deepedit"];
  Sample s = drive("remap_labels_to_sequential", {{"label_names", c["label_names"]}},
                   {sample_of("label", edit_volume(c, "label"))})
                 .at(0);
  const at::Tensor label = s.tensor("label");
  CHECK(label.equal(edit_volume(c, "sequential")));
  const Json labels = {{"labels", edit_labels}};
  s = drive("find_all_valid_slices_missing_labels", labels, {s}).at(0);
  const at::Tensor sids = s.tensor("sids");
  REQUIRE(sids.size(0) == 4);
  for (std::int64_t k = 0; k < 4; ++k) {
    auto want = c["sids"][edit_names[static_cast<std::size_t>(k)]].get<std::vector<std::int64_t>>();
    std::erase(want, -1);
    const at::Tensor got = sids[k].masked_select(sids[k].ge(0));
    CHECK(got.equal(at::tensor(want, at::kLong).to(at::kInt)));
  }
  for (std::uint64_t i = 0; i < 50; ++i) {
    const at::Tensor guidance =
        drive("add_initial_seed_point_missing_labels", labels, {s}, at_index(i))
            .at(0)
            .tensor("guidance");
    for (std::int64_t k = 0; k < 4; ++k) {
      const std::vector<Row> rows = clicks_of(guidance, k);
      // No aorta; the organs have one region a slice, and may cut the background into several.
      CHECK((k == 0 ? rows.size() >= 1 : rows.size() == (k == 1 ? 0 : 1)));
      for (const Row& row : rows)
        CHECK(label.flatten()[place(row, label)].item<double>() == static_cast<double>(k));
    }
  }
  std::vector<std::int64_t> seeds;  // MONAI's, one a label
  for (const std::string& name : edit_names)
    for (const std::int64_t v : c["seeds"][name][0]) seeds.push_back(v);
  Sample shown = with(sample_of("image", at::ones({1, 10, 11, 9})), "guidance",
                      at::tensor(seeds, at::kLong).to(at::kInt).view({4, 1, 4}));
  shown = drive("add_guidance_signal_deep_edit", Json::object(), {shown}).at(0);
  const at::Tensor signal = shown.tensor("image").narrow(0, 1, 4);
  CHECK(difference(signal.slice(1, 0, {}, 3).slice(2, 0, {}, 2).slice(3, 0, {}, 2).contiguous(),
                   c["signal"]) < 1e-6);
  const at::Tensor emptied =
      drive("discard_add_guidance", {{"labels", 4}}, {shown}).at(0).tensor("image");
  CHECK(emptied.size(0) == 5);
  CHECK(emptied.narrow(0, 0, 1).eq(1).all().item<bool>());
  CHECK(emptied.narrow(0, 1, 4).abs().max().item<float>() == 0);
}

TEST_CASE("deepedit's clicks are drawn in MONAI's places, and whole labels are dropped") {
  const Json& c = golden("deepgrow.json")["deepedit"];
  Sample s = with(sample_of("label", edit_volume(c, "sequential")), "pred", edit_volume(c, "pred"));
  const Json labels = {{"labels", edit_labels}};
  s = drive("find_discrepancy_regions_deep_edit", labels, {s}).at(0);
  std::vector<std::int64_t> seeds;
  for (std::size_t k = 0; k < 4; ++k) {
    const at::Tensor wrong = s.tensor("discrepancy")[static_cast<std::int64_t>(k)];
    for (int kind = 0; kind < 2; ++kind)
      CHECK(wrong[kind].flatten().nonzero().flatten().equal(
          at::tensor(c[kind ? "excess" : "missed"][edit_names[k]].get<std::vector<std::int64_t>>(),
                     at::kLong)));
    for (const std::int64_t v : c["seeds"][edit_names[k]][0]) seeds.push_back(v);
  }
  s = with(with(s, "guidance", at::tensor(seeds, at::kLong).to(at::kInt).view({4, 1, 4})),
           "probability", at::ones({}));
  // Which of MONAI's draws went to which list.
  std::vector<std::vector<std::size_t>> draws(4);
  std::size_t drawn = 0;
  for (std::int64_t k = 0; k < 4; ++k) {
    const at::Tensor wrong = s.tensor("discrepancy")[k];
    if (wrong[0].any().item<bool>()) draws[static_cast<std::size_t>(k)].push_back(drawn++);
    for (std::int64_t other = 0; other < 4; ++other)
      if ((wrong[1] * s.tensor("label").eq(other)).sum().item<int>() > 50)
        draws[static_cast<std::size_t>(other)].push_back(drawn++);
  }
  REQUIRE(drawn == c["draws"].size());
  constexpr int n = 400;
  std::vector<std::map<std::int64_t, int>> often(c["draws"].size());
  std::vector<int> kept(4);
  std::set<std::size_t> totals;
  for (std::uint64_t i = 0; i < n; ++i) {
    const at::Tensor got =
        drive("add_random_guidance_deep_edit", labels, {s}, at_index(i)).at(0).tensor("guidance");
    std::size_t total = 0;
    for (std::int64_t k = 0; k < 4; ++k) {
      const std::vector<Row> rows = clicks_of(got, k);
      const Json& want = c["guidance"][edit_names[static_cast<std::size_t>(k)]];
      if (rows.empty()) continue;
      ++kept[static_cast<std::size_t>(k)];
      total += rows.size();
      REQUIRE(rows.size() == want.size());
      const std::vector<std::size_t>& new_ones = draws[static_cast<std::size_t>(k)];
      const std::size_t before = rows.size() - new_ones.size();
      for (std::size_t r = 0; r < rows.size(); ++r) {
        if (r < before)
          CHECK(rows[r] == want[r].get<Row>());
        else
          ++often[new_ones[r - before]][place(rows[r], s.tensor("label"))];
      }
    }
    totals.insert(total);
  }
  for (const std::size_t k : {0, 2, 3}) {
    CHECK(kept[k] > n / 4);
    CHECK(kept[k] < n);
  }
  CHECK(totals.size() > 2);
  for (std::size_t d = 0; d < often.size(); ++d) {
    int times = 0;
    for (const auto& [at, count] : often[d]) times += count;
    CHECK(times > 0);
    check_often(c["draws"][d], often[d], times);
  }
}

TEST_CASE("crops about the foreground are MONAI's, smaller or larger than the size asked for") {
  for (const Json& c : golden("deepgrow.json")["crops"]) {
    const at::Tensor label = tensor_of_set(c["label"]);
    Sample s = sample_of("label", label);
    s.set(
        "image",
        sample_of("image", at::arange(label.numel(), at::kFloat).view(label.sizes())).at("image"));
    const Sample out = drive("spatial_crop_foreground",
                             {{"spatial_size", c["size"]}, {"margin", c["margin"]}}, {s})
                           .at(0);
    INFO(c.dump());
    CHECK(out.tensor("image").sizes().vec() == shape_of(c));
    CHECK(out.tensor("label").sizes().vec() == shape_of(c));
    const at::Tensor flat = out.tensor("image").flatten();
    CHECK(flat[0].item<std::int64_t>() == c["first"].get<std::int64_t>());
    CHECK(flat[-1].item<std::int64_t>() == c["last"].get<std::int64_t>());
  }
  CHECK_THROWS_AS(
      drive("spatial_crop_foreground", {{"spatial_size", 4}},
            {with(sample_of("label", at::zeros({1, 4, 4})), "image", at::zeros({1, 4, 4}))}),
      DataError);
}
