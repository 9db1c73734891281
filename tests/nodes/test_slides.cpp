// Slides: places, regions, tissue, patches, maps, detections and their score, against MONAI's
// (tests/golden/make_slides.py).
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <set>

#include "engine/base/error.h"
#include "engine/state/checkpoint.h"
#include "kernels/files/npy.h"
#include "kernels/files/slide.h"
#include "kernels/image/tissue.h"
#include "tests/nodes/drive.h"
#include "tests/nodes/golden.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

// The golden script's pictures: [rows, columns, channels].
at::Tensor tissue(std::int64_t rows, std::int64_t columns) {
  const at::Tensor y = at::arange(rows, at::kLong).view({-1, 1}).expand({rows, columns}),
                   x = at::arange(columns, at::kLong).view({1, -1}).expand({rows, columns});
  const at::Tensor dy = y - rows / 2, dx = x - columns / 2;
  const at::Tensor inside = (dy * dy + dx * dx).lt((rows / 3) * (rows / 3)).unsqueeze(2);
  const at::Tensor pink = at::stack({200 - (7 * x + 3 * y).remainder(40),
                                     120 + (5 * x + 11 * y).remainder(50), 170 + x.remainder(3)},
                                    2);
  const at::Tensor glass = at::tensor({243, 242, 244}, at::kLong).view({1, 1, 3});
  return at::where(inside, pink, glass).to(at::kByte).contiguous();
}

at::Tensor tumour_mask(std::int64_t n) {
  const at::Tensor y = at::arange(n, at::kLong).view({-1, 1}),
                   x = at::arange(n, at::kLong).view({1, -1});
  const auto r = [&](int cy, int cx) { return (y - cy) * (y - cy) + (x - cx) * (x - cx); };
  const at::Tensor ring = r(60, 190).lt(900).logical_and(r(60, 190).gt(400));
  const at::Tensor spots = r(160, 60).lt(9).logical_or(r(150, 180).lt(40));
  return r(70, 60)
      .lt(500)
      .logical_or(ring)
      .logical_or(spots)
      .to(at::kByte)
      .unsqueeze(2)
      .contiguous();
}

at::Tensor probability() {
  const at::Tensor y = at::arange(64, at::kDouble).view({-1, 1}),
                   x = at::arange(64, at::kDouble).view({1, -1});
  const auto bump = [&](double cy, double cx, double s, double a) {
    return a * (-((y - cy) * (y - cy) + (x - cx) * (x - cx)) / s).exp();
  };
  return bump(17, 15, 30, .9) + bump(15, 47, 20, .8) + bump(40, 16, 9, .65) + bump(50, 50, 40, .75);
}

void write(const std::filesystem::path& path, const at::Tensor& pixels, SlideFormat format) {
  const std::int64_t row = pixels.size(1) * pixels.size(2);
  format.tile = 64;
  format.compression = "deflate";
  write_slide(path, pixels.size(0), pixels.size(1), pixels.size(2), format,
              [&](std::int64_t top, std::int64_t rows, std::uint8_t* to) {
                std::copy_n(pixels.const_data_ptr<std::uint8_t>() + top * row, rows * row, to);
              });
}

Field file_field(const std::filesystem::path& path) {
  auto meta = std::make_shared<Meta>();
  meta->path = path.string();
  return Field(at::Tensor(), std::move(meta));
}

Sample slide_sample(const std::filesystem::path& path) {
  Sample s;
  s.name = path.stem().string();
  s.set("image", file_field(path));
  return s;
}

Sample placed(const std::filesystem::path& path, std::int64_t row, std::int64_t column) {
  Sample s = slide_sample(path);
  s.set("location", Field(at::tensor({row, column}, at::kLong), s.at("image").meta));
  return s;
}

std::vector<std::vector<std::int64_t>> rows_of(const at::Tensor& t) {
  std::vector<std::vector<std::int64_t>> rows;
  for (std::int64_t i = 0; i < t.size(0); ++i) {
    rows.emplace_back();
    for (std::int64_t d = 0; d < t.size(1); ++d)
      rows.back().push_back(t[i][d].item<std::int64_t>());
  }
  return rows;
}

using Rows = std::vector<std::vector<std::int64_t>>;

}  // namespace

TEST_CASE("foreground_mask finds MONAI's tissue") {
  const at::Tensor bytes = tissue(48, 56).permute({2, 0, 1}).contiguous();
  for (const Json& c : golden("slides.json")["foreground_mask"]) {
    CAPTURE(c.dump());
    const bool whole = c["dtype"] == "uint8";
    const at::Tensor image = whole ? bytes : bytes.to(at::kDouble).div(255).to(at::kFloat);
    const at::Tensor mask =
        drive("foreground_mask", c["params"], {sample_of("image", image)})[0].tensor("image");
    CHECK((mask.scalar_type() == image.scalar_type()));
    CHECK(mask.sizes().vec() == std::vector<std::int64_t>{1, 48, 56});
    CHECK(mask.sum(at::kLong).item<std::int64_t>() == c["sum"].get<std::int64_t>());
    const at::Tensor rows = mask[0].to(at::kLong).sum(1);
    for (std::int64_t y = 0; y < 48; ++y)
      CHECK(rows[y].item<std::int64_t>() ==
            c["rows"][static_cast<std::size_t>(y)].get<std::int64_t>());
  }
  const auto why = [&](const Json& params) {
    return message_of([&] { Driver("foreground_mask", params); });
  };
  CHECK(contains(why({{"threshold", nullptr}}), "at least one channel"));
  CHECK(contains(why({{"threshold", {{"X", 3}}}}), "one of the channels RGB, found \"X\""));
  CHECK(contains(why({{"hsv_threshold", "yen"}}), "expected \"otsu\" or a number"));
  CHECK(contains(message_of([&] {
                   drive("foreground_mask", {}, {sample_of("image", at::zeros({1, 4, 4}))});
                 }),
                 "needed is [3, X, Y]"));
}

TEST_CASE("grid_patch takes MONAI's patches, and rand_grid_patch those of a drawn place") {
  const at::Tensor image =
      at::arange(2 * 11 * 14, at::kDouble).sin().view({2, 11, 14}).to(at::kFloat);
  for (const Json& c : golden("slides.json")["grid_patch"]) {
    CAPTURE(c["params"].dump());
    const Sample out = drive("grid_patch", c["params"], {sample_of("image", image)})[0];
    CHECK(out.tensor("image").sizes().vec() == c["shape"].get<std::vector<std::int64_t>>());
    CHECK(difference(out.tensor("image"), c["values"]) < 1e-6);
    CHECK(rows_of(out.tensor("location")) == c["location"].get<Rows>());
  }
  // Without a pad_mode a patch is cut to the image, with one the image is filled up to it.
  for (const auto& [pad, rows] : {std::pair{"", 11}, {"constant", 16}})
    CHECK(drive("grid_patch", {{"patch_size", {16, 7}}, {"pad_mode", pad}},
                {sample_of("image", image)})[0]
              .tensor("image")
              .sizes()
              .vec() == std::vector<std::int64_t>{2, 2, rows, 7});
  std::set<Rows> places;
  for (std::uint64_t i = 0; i < 30; ++i) {
    const Sample out = drive("rand_grid_patch", {{"patch_size", {4, 5}}},
                             {sample_of("image", image)}, at_index(i))[0];
    const Rows at = rows_of(out.tensor("location"));
    CHECK(at.front()[0] <= 3);
    CHECK(at.front()[1] <= 4);
    const Sample same = drive("grid_patch", {{"patch_size", {4, 5}}, {"offset", at.front()}},
                              {sample_of("image", image)})[0];
    CHECK(at::equal(out.tensor("image"), same.tensor("image")));
    places.insert(at);
  }
  CHECK(places.size() > 8);  // of 20
  const auto drawn = [&](std::uint64_t i) {
    return rows_of(
        drive(
            "rand_grid_patch",
            {{"patch_size", {2, 2}}, {"max_offset", 0}, {"num_patches", 4}, {"sort_fn", "random"}},
            {sample_of("image", image)}, at_index(i))[0]
            .tensor("location"));
  };
  CHECK(drawn(0) == drawn(0));
  CHECK(drawn(0) != drawn(1));
  CHECK(contains(message_of([&] {
                   drive("rand_grid_patch", {{"patch_size", {4, 4}}, {"min_offset", 6}},
                         {sample_of("image", image)});
                 }),
                 "is above max_offset"));
  CHECK(contains(message_of([&] {
                   drive("grid_patch", {{"patch_size", {4, 4, 4}}}, {sample_of("image", image)});
                 }),
                 "patch_size has 3 axes"));
}

TEST_CASE("a whole axis of a grid of patches begins at its offset, and a grid has a patch") {
  const at::Tensor image = at::arange(1, 55, at::kFloat).view({1, 6, 9});
  const auto patches = [&](const char* type, const Json& params, std::uint64_t i = 0) {
    return drive(type, params, {sample_of("image", image)}, at_index(i))[0].tensor("image");
  };
  for (const char* pad : {"", "constant"}) {
    const at::Tensor got = patches(
        "grid_patch",
        {{"patch_size", {0, 3}}, {"offset", {1, 0}}, {"num_patches", 3}, {"pad_mode", pad}});
    CHECK(got.sizes() == at::IntArrayRef({3, 1, 5, 3}));
    CHECK(got.sum().item<double>() == 1440);
    // Of an image that is shorter than a patch there is one, wherever it begins.
    for (std::uint64_t i = 0; i < 20; ++i)
      CHECK(patches("rand_grid_patch", {{"patch_size", {8, 3}}, {"pad_mode", pad}}, i).size(0) > 0);
  }
  const at::Tensor drawn = patches(
      "rand_grid_patch", {{"patch_size", {0, 3}}, {"min_offset", {2, 0}}, {"max_offset", {2, 0}}});
  CHECK(drawn.sizes() == at::IntArrayRef({3, 1, 4, 3}));
  CHECK(at::equal(drawn[0][0], image[0].slice(0, 2).slice(1, 0, 3)));
  const auto why = [&](const Json& params) {
    return message_of([&] { patches("grid_patch", params); });
  };
  CHECK(why({{"patch_size", {0, 3}}, {"offset", {6, 0}}}) ==
        "\"image\" [1, 6, 9] has no patch: axis 0 has an extent of 6, and the first patch begins "
        "at offset 6");
  CHECK(why({{"patch_size", {2, 3}}, {"offset", {0, 7}}}) ==
        "\"image\" [1, 6, 9] has no patch: axis 1 has an extent of 9, and the first patch, of 3, "
        "begins at offset 7");
}

TEST_CASE("prob_nms has MONAI's detections") {
  const at::Tensor map = probability().unsqueeze(0);
  for (const Json& c : golden("slides.json")["prob_nms"]) {
    CAPTURE(c["params"].dump());
    const Sample out = drive("prob_nms", c["params"], {sample_of("prob_map", map)})[0];
    CHECK(difference(out.tensor("probs"), c["probs"]) < 1e-12);
    CHECK(rows_of(out.tensor("coords")) == c["coords"].get<Rows>());
  }
  // A flat map has one place a box; sigma is what gaussian_smooth does before.
  const Sample flat =
      drive("prob_nms", {{"box_size", 4}}, {sample_of("prob_map", at::full({1, 8, 8}, 0.7))})[0];
  CHECK(rows_of(flat.tensor("coords")).front() == std::vector<std::int64_t>{0, 0});
  const at::Tensor smooth = drive("gaussian_smooth", {{"keys", "prob_map"}, {"sigma", 1.5}},
                                  {sample_of("prob_map", map)})[0]
                                .tensor("prob_map");
  const Json params{{"sigma", 1.5}, {"prob_threshold", 0.2}}, later{{"prob_threshold", 0.2}};
  CHECK(at::equal(drive("prob_nms", params, {sample_of("prob_map", map)})[0].tensor("coords"),
                  drive("prob_nms", later, {sample_of("prob_map", smooth)})[0].tensor("coords")));
  CHECK(drive("prob_nms", {{"prob_threshold", 1}}, {sample_of("prob_map", map)})[0]
            .tensor("coords")
            .sizes() == at::IntArrayRef({0, 2}));
  at::Tensor broken = map.clone();
  broken[0][3][3] = NAN;
  CHECK(contains(message_of([&] { drive("prob_nms", {}, {sample_of("prob_map", broken)}); }),
                 "not finite"));
}

TEST_CASE("slide_grid lists the places of MONAI's sliding and masked data sets") {
  TemporaryFolder folder;
  write(folder / "s.tif", tissue(300, 401), {.levels = 4, .mpp = 0.5});
  for (const Json& c : golden("slides.json")["places"]) {
    CAPTURE(c["params"].dump());
    Json params = {{"mask", c["mask"]}};
    for (const auto& [key, value] : c["params"].items())
      params[key == "patch_size" ? "size" : key == "patch_level" ? "level" : key] = value;
    const auto all = drive("slide_grid", params, {slide_sample(folder / "s.tif")});
    REQUIRE(all.size() == c["location"].size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      CHECK(rows_of(all[i].tensor("location").unsqueeze(0))[0] ==
            c["location"][i].get<std::vector<std::int64_t>>());
      CHECK(rows_of(all[i].tensor("mask_location").unsqueeze(0))[0] ==
            c["mask_location"][i].get<std::vector<std::int64_t>>());
      CHECK(all[i].tensor("num_patches").item<std::int64_t>() == std::ssize(all));
    }
  }
  // A mask of one's own: a patch about each of its pixels.
  at::Tensor mask = at::zeros({75, 100, 1}, at::kByte);
  mask[10][20] = mask[74][99] = 255;
  write(folder / "m.tif", mask, {.levels = 1});
  Sample s = slide_sample(folder / "s.tif");
  s.set("mask", file_field(folder / "m.tif"));
  const Json by_file{{"mask", "file"}, {"mask_level", 2}, {"size", 16}};
  const auto two = drive("slide_grid", by_file, {s});
  REQUIRE(two.size() == 2);
  CHECK(rows_of(two[0].tensor("location").unsqueeze(0))[0] == std::vector<std::int64_t>{34, 74});
  CHECK(rows_of(two[1].tensor("mask_location").unsqueeze(0))[0] ==
        std::vector<std::int64_t>{74, 99});
  write(folder / "m.tif", mask.narrow(0, 0, 70), {.levels = 1});
  CHECK(contains(message_of([&] { drive("slide_grid", by_file, {s}); }),
                 "m.tif: has no level of 75 x 100 pixels, as the slide's level 2 has"));
  CHECK(contains(message_of([&] {
                   drive("slide_grid", {{"size", 16}, {"mask_level", 4}}, {s});
                 }),
                 "s.tif: has no level 4; its levels are 0 to 3"));
  CHECK(Driver("slide_grid", {{"size", 4096}, {"mask_level", 0}}).fire({s}).samples().size() ==
        1);  // cut to the slide
  // 298 / 8.064 is 37: the map has the rows 0 to 36.
  const auto small =
      drive("slide_grid", {{"size", 4}, {"mask_level", 3}}, {slide_sample(folder / "s.tif")});
  for (const Sample& at : small) {
    CHECK(at.tensor("mask_location")[0].item<std::int64_t>() < 37);
    CHECK(at.tensor("mask_location")[1].item<std::int64_t>() < 50);
  }
}

TEST_CASE("read_region reads about a centre, from a corner, by level or by micrometres") {
  TemporaryFolder folder;
  const at::Tensor pixels = tissue(300, 401), first = pixels.permute({2, 0, 1});
  write(folder / "s.tif", pixels, {.levels = 4, .mpp = 0.5});
  const auto read = [&](const Json& params, std::int64_t y, std::int64_t x) {
    return drive("read_region", params, {placed(folder / "s.tif", y, x)})[0].tensor("image");
  };
  CHECK(at::equal(read({{"size", 31}}, 100, 150), first.narrow(1, 85, 31).narrow(2, 135, 31)));
  CHECK(at::equal(read({{"size", {20, 33}}, {"center", false}}, 100, 150),
                  first.narrow(1, 100, 20).narrow(2, 150, 33)));
  CHECK(at::equal(read({{"size", 16}, {"mpp", 1.01}, {"center", false}}, 64, 32),
                  read({{"size", 16}, {"level", 1}, {"center", false}}, 64, 32)));
  const at::Tensor rim = read({{"size", 8}, {"outside", 255}}, 0, 0);
  CHECK(rim.narrow(1, 0, 4).eq(255).all().item<bool>());
  CHECK(at::equal(rim.narrow(1, 4, 4).narrow(2, 4, 4), first.narrow(1, 0, 4).narrow(2, 0, 4)));
  write(folder / "g.tif", pixels.narrow(2, 0, 1).contiguous(), {.levels = 1});
  const at::Tensor grey =
      drive("read_region", {{"size", 9}}, {placed(folder / "g.tif", 50, 50)})[0].tensor("image");
  CHECK(grey.size(0) == 3);
  CHECK(at::equal(grey[0], grey[2]));
  CHECK(drive("read_region", {{"size", 9}, {"channels", 1}}, {placed(folder / "g.tif", 50, 50)})[0]
            .tensor("image")
            .size(0) == 1);
  const auto why = [&](const Json& params, const char* file = "s.tif") {
    return message_of([&] { drive("read_region", params, {placed(folder / file, 5, 5)}); });
  };
  CHECK(contains(why({{"size", 9}, {"channels", 1}}), "is in colour"));
  CHECK(contains(why({{"size", 9}, {"channels", 2}}), "channels is 1 or 3"));
  CHECK(contains(why({{"size", 9}, {"level", 9}}), "s.tif: has no level 9"));
  CHECK(contains(why({{"size", 9}, {"mpp", 7}}), "has no level of 7.0"));
  CHECK(contains(why({{"size", 9}, {"mpp", 1}}, "g.tif"),
                 "g.tif: does not say how many micrometres"));
  CHECK(contains(why({{"size", 9}}, "gone.tif"), "gone.tif"));
  Sample pathless = placed("", 3, 3);
  CHECK(contains(message_of([&] {
                   drive("read_region", {{"size", 9}}, {pathless});
                 }),
                 "has no path of a slide"));
}

TEST_CASE("probability_map waits for a slide's last patch, and is whole or an error") {
  TemporaryFolder folder;
  const auto slides = folder / "\xff slides";  // no UTF-8, as a folder's name need not be
  std::filesystem::create_directories(slides);
  write(slides / "s.tif", tissue(300, 401), {.levels = 4});
  const auto places =
      drive("slide_grid", {{"size", 60}, {"mask_level", 3}}, {slide_sample(slides / "s.tif")});
  OpenContext context;
  context.out_dir = folder.path;
  Driver map("probability_map", {{"output_dir", "maps"}}, context),
      resumed("probability_map", {{"output_dir", "maps"}}, context);
  at::Tensor expected = at::zeros({37, 50}, at::kDouble);
  for (std::size_t i = 0; i < places.size(); ++i) {
    Sample s = places[i];
    const double value = 0.25 + 0.001 * static_cast<double>(i);
    s.set("pred", Field(at::full({1, 1, 1}, value, at::kDouble), s.at("location").meta));
    const at::Tensor at = s.tensor("mask_location");
    expected[at[0].item<std::int64_t>()][at[1].item<std::int64_t>()] = value;
    Driver& node = i < places.size() / 2 ? map : resumed;
    if (i == places.size() / 2) {
      State state;
      map.node().save(state);
      Checkpoint c;
      c.optimizer = state.tensors;
      c.state = {{"values", state.values}};
      save_checkpoint(folder.path, "cut", c);
      c = load_checkpoint(folder / "cut");
      state.tensors = c.optimizer;
      state.values = c.state.at("values");
      resumed.node().load(state);
    }
    const Fired fired = node.fire({s}, at_index(i));
    if (i + 1 < places.size()) {
      CHECK(fired.outs.empty());
    } else {
      REQUIRE(fired.outs.size() == 1);
      CHECK(fired.outs[0].sample->name == "s");
      CHECK(at::equal(fired.outs[0].sample->tensor("prob_map")[0], expected));
    }
  }
  CHECK(at::equal(read_npy(folder / "maps/s.npy"), expected));
  resumed.flush();
  CHECK(contains(message_of([&] { map.flush(); }), "s.tif: 15 of its patches did not come"));
  Sample batch = places[0];
  batch.set("pred", Field(at::zeros({2, 1}), batch.at("location").meta));
  CHECK(contains(message_of([&] { map.fire({batch}); }), "one number a patch"));
}

TEST_CASE("two slides of one name are refused instead of one file for both") {
  TemporaryFolder folder;
  OpenContext context;
  context.out_dir = folder.path;
  Driver map("probability_map", {{"output_dir", "maps"}}, context),
      draw("slide_overview", Json::object(), context);
  const auto patch_of = [&](std::uint64_t i, const char* of) {
    std::filesystem::create_directories(folder / of);
    const auto file = folder / of / "s.tif";
    write(file, tissue(64, 64), {.levels = 1});
    Sample s = drive("slide_grid", {{"size", 64}, {"mask_level", 0}}, {slide_sample(file)}).at(0);
    s.set("pred", Field(at::zeros({1}), s.at("location").meta));
    s.set("num_patches", Field(at::ones({1}, at::kLong), s.at("location").meta));
    draw.fire({map.fire({s}, at_index(i)).samples().at(0)}, at_index(i));
  };
  patch_of(0, "a");
  const std::string why = message_of([&] { patch_of(1, "b"); });
  CHECK(contains(why, "maps/s.npy is the file of two samples, \"s\" of "));
  CHECK(contains(why, "a/s.tif and \"s\" of "));
  Sample other = slide_sample(folder / "b/s.tif");
  other.set("prob_map", Field(at::zeros({1, 1, 1}), other.at("image").meta));
  CHECK(contains(message_of([&] { draw.fire({other}, at_index(1)); }),
                 "overviews/s.png is the file of two samples"));
}

TEST_CASE("lesion_froc has MONAI's score, and masks that are no masks are refused") {
  TemporaryFolder folder;
  const Json& all = golden("slides.json");
  write(folder / "m.tif", tumour_mask(256), {.levels = 3, .nearest = true, .mpp = 0.5});
  Sample s = drive("prob_nms", {{"box_size", 6}, {"resolution_level", 2}},
                   {sample_of("prob_map", probability().unsqueeze(0))})[0];
  s.set("tumor_mask", file_field(folder / "m.tif"));
  for (const Json& c : all["lesion_froc"]) {
    Json params = c["params"];
    params["level"] = 2;
    params["keys"] = {"probs", "tumor_mask"};
    Driver node("lesion_froc", params);
    node.fire({s});
    CHECK(node.flush().at(0).second == doctest::Approx(c["mean"].get<double>()));
  }
  const auto why = [&](Json params) {
    params["keys"] = {"probs", "tumor_mask"};
    return message_of([&] { Driver("lesion_froc", params).fire({s}); });
  };
  CHECK(contains(why({{"level", 3}}), "has no level 3"));
  write(folder / "m.tif", tumour_mask(256).mul(255), {.levels = 3, .nearest = true});
  CHECK(contains(why({{"level", 2}}), "give pixel_spacing"));
  CHECK(contains(why({{"level", 2}, {"pixel_spacing", 0.5}}),
                 "has values up to 255; a tumour mask is 0 and 1"));
}

TEST_CASE(
    "with isolated tumour cells lesion_froc's lowest probability is a threshold, as MONAI's") {
  TemporaryFolder folder;
  at::Tensor mask = at::zeros({64, 64, 1}, at::kByte);
  mask.slice(0, 4, 24).slice(1, 4, 24).fill_(1);
  mask[50][50][0] = 1;
  write(folder / "m.tif", mask, {.levels = 1});
  Sample s = sample_of("probs", at::tensor({0.9, 0.8, 0.4}, at::kDouble));
  s.set("coords",
        Field(at::tensor({40, 10, 40, 30, 10, 10}, at::kLong).view({3, 2}), s.at("probs").meta));
  s.set("tumor_mask", file_field(folder / "m.tif"));
  const Json params = {{"keys", {"probs", "tumor_mask"}},
                       {"pixel_spacing", 1},
                       {"grow_distance", 2},
                       {"itc_diameter", 4},
                       {"eval_thresholds", {0.5, 1, 2, 4}}};
  Driver node("lesion_froc", params);
  node.fire({s});
  CHECK(node.flush().at(0).second == doctest::Approx(0.5));  // compute_froc_score's
}

TEST_CASE("find_lesions grows, fills, numbers and measures as MONAI does") {
  const Json& c = golden("slides.json")["lesions"];
  const Lesions found = find_lesions(tumour_mask(256).squeeze(2), c["grow"], c["itc"]);
  CHECK(found.labels.max().item<int>() == c["labels"].get<int>());
  for (std::size_t i = 0; i < found.isolated.size(); ++i) {
    const auto label = static_cast<std::int64_t>(i) + 1;
    CHECK(found.labels.eq(label).sum().item<std::int64_t>() == c["sizes"][i].get<std::int64_t>());
    const auto isolated = c["isolated"].get<std::vector<std::int64_t>>();
    CHECK(found.isolated[i] == (std::ranges::count(isolated, label) > 0));
  }
}

TEST_CASE("save_slide writes what read_region reads") {
  TemporaryFolder folder;
  OpenContext context;
  context.out_dir = folder.path;
  const at::Tensor image = tissue(200, 300).permute({2, 0, 1}).contiguous();
  Driver save("save_slide",
              {{"output_dir", ""}, {"compression", "deflate"}, {"tile", 64}, {"mpp", 0.25}},
              context);
  Sample s = sample_of("image", image);
  const Sample out = save.fire({s}).samples().at(0);
  CHECK(out.at("image").geometry().path == (folder / "case.tif").string());
  Sample at = placed(folder / "case.tif", 0, 0);
  CHECK(at::equal(
      drive("read_region", {{"size", {200, 300}}, {"center", false}}, {at})[0].tensor("image"),
      image));
  Driver maps("save_slide", {{"compression", "none"}, {"scale", 255}, {"output_postfix", "map"}},
              context);
  s.set("image", Field(at::tensor({0.0, 0.5, 1.0, 0.25}).view({1, 2, 2}), s.at("image").meta));
  maps.fire({s});
  CHECK(contains(message_of([&] { maps.fire({s}, at_index(1)); }),
                 "case_map.tif is the file of two samples, \"case\" and \"case\""));
  at = placed(folder / "case_map.tif", 0, 0);
  const at::Tensor map =
      drive("read_region", {{"size", 2}, {"channels", 1}, {"center", false}}, {at})[0].tensor(
          "image");
  CHECK(at::equal(map.flatten(), at::tensor({0, 128, 255, 64}, at::kByte)));
  s.set("image", Field(at::full({1, 4, 4}, 1.5), s.at("image").meta));
  CHECK(contains(message_of([&] { maps.fire({s}); }), "outside of 0..255"));
  CHECK(contains(message_of([&] { Driver("save_slide", {{"tile", 100}}); }), "a multiple of 16"));
  Driver many("save_slide", {{"levels", 9}}, context);
  CHECK(contains(message_of([&] {
                   many.fire({sample_of("image", at::zeros({1, 40, 40}))});
                 }),
                 "have fewer than 9 levels"));
}

TEST_CASE("csv_list without names: columns by number, several as one field, and a suffix") {
  TemporaryFolder folder;
  folder.write_text("r.csv", "a,30,40,1,0,0,1,0,0,1,0,0\nb,31,41,0,0,0,0,0,0,0.5,0,0\n");
  Json params{{"file", (folder / "r.csv").string()},
              {"header", false},
              {"columns", {{"image", 0}}},
              {"groups", {{"location", {2, 1}}, {"label", {{{3, 6, 9}, {4, 7, 10}, {5, 8, 11}}}}}},
              {"suffix", ".tif"}};
  Driver source("csv_list", params);
  const Sample b = *source.fire({}, at_index(1)).outs.at(0).sample;
  CHECK(b.at("image").geometry().path == (folder / "b.tif").string());
  CHECK(rows_of(b.tensor("location").unsqueeze(0))[0] == std::vector<std::int64_t>{41, 31});
  CHECK((b.tensor("location").scalar_type() == at::kLong));
  CHECK(b.tensor("label").sizes() == at::IntArrayRef({1, 3, 3}));
  CHECK((b.tensor("label").scalar_type() == at::kFloat));
  CHECK(b.tensor("label")[0][0][2].item<float>() == 0.5f);
  const Sample split = drive(
      "grid_split",
      {{"keys", {"image", "label"}}, {"grid", {3, 3}}, {"size", 4}, {"even_keys", "label"}}, {[&] {
        Sample s = b;
        s.set("image", Field(at::arange(144).view({1, 12, 12}).to(at::kFloat), s.at("label").meta));
        return s;
      }()})[2];
  CHECK(split.tensor("label").sizes() == at::IntArrayRef({1, 1, 1}));
  CHECK(split.tensor("label").item<float>() == 0.5f);
  CHECK(split.tensor("image").sizes() == at::IntArrayRef({1, 4, 4}));
  const auto why = [&](const char* key, Json value) {
    Json other = params;
    other[key] = std::move(value);
    return message_of([&] { Driver("csv_list", other); });
  };
  CHECK(contains(why("columns", {{"image", 12}}), "r.csv:1: there is no column 12; there are 12"));
  CHECK(contains(why("columns", {{"image", "a"}}), "there are no names"));
  CHECK(contains(why("columns", 3), "columns: expected an object"));
  CHECK(contains(why("groups", {{"label", {{1, 2}, {3}}}}),
                 "groups.label: its lists have no one shape"));
  CHECK(contains(why("groups", {{"label", {0, 1}}}), "\"a\" is no number"));
}

TEST_CASE("synthetic_slides writes the same slide each time, with its mask and regions") {
  TemporaryFolder folder;
  const auto make = [&](const char* to) {
    Driver source("synthetic_slides", {{"output_dir", (folder / to).string()},
                                       {"size", 512},
                                       {"regions", 6},
                                       {"region_size", 48},
                                       {"compression", "deflate"},
                                       {"first", 3}});
    CHECK(source.fire({}, at_index(0)).outs.at(0).sample->at("tumor_mask").geometry().path ==
          (folder / to / "masks/slide_03.tif").string());
    CHECK(source.fire({}, at_index(1)).ended);
  };
  make("a");
  make("b");
  CHECK(bytes_of(folder / "a/images/slide_03.tif") == bytes_of(folder / "b/images/slide_03.tif"));
  CHECK(bytes_of(folder / "a/regions.csv") == bytes_of(folder / "b/regions.csv"));
  Driver rows("csv_list",
              {{"file", (folder / "a/regions.csv").string()},
               {"header", false},
               {"suffix", ".tif"},
               {"root", (folder / "a/masks").string()},
               {"columns", {{"image", 0}}},
               {"groups", {{"location", {2, 1}}, {"label", {3, 4, 5, 6, 7, 8, 9, 10, 11}}}}});
  CHECK(rows.node().epoch_size() == 6);
  double tumour = 0;
  for (std::uint64_t i = 0; i < 6; ++i) {
    const Sample row = *rows.fire({}, at_index(i)).outs.at(0).sample;
    const at::Tensor mask =
        drive("read_region", {{"size", 48}, {"channels", 1}}, {row})[0].tensor("image");
    const at::Tensor cells =
        mask.to(at::kDouble).view({3, 16, 3, 16}).mean(at::IntArrayRef{1, 3}).gt(0.5).to(at::kLong);
    CHECK(at::equal(cells.flatten(), row.tensor("label")));
    tumour += cells.sum().item<double>();
  }
  CHECK(tumour > 5);
}

TEST_CASE("save_detections writes a line a point") {
  TemporaryFolder folder;
  OpenContext context;
  context.out_dir = folder.path;
  Driver node("save_detections", Json::object(), context);
  Sample s = sample_of("probs", at::tensor({0.75, 0.5}, at::kDouble));
  s.set("coords", Field(at::tensor({3, 4, 5, 6}, at::kLong).view({2, 2}), s.at("probs").meta));
  node.fire({s});
  node.flush();
  const Bytes bytes = bytes_of(folder / "detections.csv");
  CHECK(std::string(bytes.begin(), bytes.end()) == "case,0.75,3,4\ncase,0.5,5,6\n");
  s.name = "Smith, \"J\"";
  node.fire({s});
  node.flush();
  const Bytes named = bytes_of(folder / "detections.csv");
  CHECK(std::string(named.begin(), named.end()).starts_with("\"Smith, \"\"J\"\"\",0.75,3,4\n"));
  s.set("coords", Field(at::zeros({3, 2}), s.at("probs").meta));
  CHECK(contains(message_of([&] { node.fire({s}); }), "are no points"));
}
