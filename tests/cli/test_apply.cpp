// `sluice apply` against MONAI's numbers (tests/golden), and what it says where it cannot.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/cli/apply_workplace.h"
#include "tests/cli/npy.h"
#include "tests/cli/shell.h"

using nlohmann::json;
using shell::Folder;

namespace {

json golden(const std::string& name) {
  return json::parse(std::ifstream(SLUICE_SOURCE_DIR "/tests/golden/" + name));
}

std::int64_t volume(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const auto s : shape) n *= s;
  return n;
}

// The inputs that the golden files' scripts made: make_intensity.py, make_train.py,
// make_spatial.py.
npy::Array waves(std::vector<std::int64_t> shape) {
  npy::Array a{std::move(shape), {}};
  for (std::int64_t i = 0; i < volume(a.shape); ++i)
    a.values.push_back(i % 5 ? static_cast<float>(100 * std::sin(0.7 * double(i)) + 20) : 0);
  return a;
}

npy::Array sines(std::vector<std::int64_t> shape, double first, double scale) {
  npy::Array a{std::move(shape), {}};
  for (std::int64_t i = 0; i < volume(a.shape); ++i)
    a.values.push_back(static_cast<float>(std::sin(first + double(i)) * scale));
  return a;
}

npy::Array classes(std::vector<std::int64_t> shape) {
  npy::Array a{std::move(shape), {}};
  for (std::int64_t i = 0; i < volume(a.shape); ++i) a.values.push_back(float(i * 7 % 3));
  return a;
}

npy::Array made_volume() {
  npy::Array a{{2, 13, 9, 11}, {}};
  for (int c = 0; c < 2; ++c)
    for (int x = 0; x < 13; ++x)
      for (int y = 0; y < 9; ++y)
        for (int z = 0; z < 11; ++z)
          a.values.push_back(float(std::sin(0.7 * x + 0.3) * std::cos(0.9 * y) + 0.3 * c) +
                             float(0.5 * std::sin(1.3 * z + c)));
  return a;
}

std::string params_of(const json& params) {
  std::string text;
  for (const auto& [name, value] : params.items())
    text += " --param " + name + "='" + value.dump() + "'";
  return text;
}

double largest_difference(const std::vector<float>& got, const json& expected, std::size_t every) {
  REQUIRE((expected.size() - 1) * every < got.size());
  double worst = 0, scale = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double want = expected[i];
    worst = std::max(worst, std::abs(double(got[i * every]) - want));
    scale = std::max(scale, std::abs(want));
  }
  return worst / scale;
}

}  // namespace

TEST_CASE("apply gives MONAI's intensities") {
  ApplyWorkplace w;
  const json document = golden("intensity.json");
  for (const json& c : document.at("cases")) {
    if (c["shape"].size() != 4) continue;
    CAPTURE(c["type"].dump() + c["params"].dump());
    npy::write(w.in("a.npy"), waves(c["shape"]));
    const auto r = w.apply(c["type"].get<std::string>() + " --in image=a.npy --out image=b.npy" +
                           params_of(c["params"]));
    INFO(r.err);
    REQUIRE(r.code == 0);
    CHECK(largest_difference(npy::read(w.in("b.npy")), c["expected"], 1) < 1e-6);
  }
}

TEST_CASE("apply resamples as MONAI does, and the affine comes from and goes to the file beside") {
  ApplyWorkplace w;
  npy::write(w.in("a.npy"), made_volume());
  const json document = golden("spatial.json");
  int tried = 0;
  for (const json& c : document.at("cases")) {
    const std::string type = c["case"];
    if (type != "spacing" && type != "orientation" && type != "spatial_pad" &&
        type != "resize_with_pad_or_crop")
      continue;
    CAPTURE(type + c["params"].dump());
    const json m = c["affine"];
    const auto row = [&](int i) { return json{m[i], m[i + 1], m[i + 2], m[i + 3]}; };
    w.folder.write("a.npy.json", json{{"affine", {row(0), row(4), row(8), row(12)}}}.dump());
    const auto r = w.apply(type + " --in image=a.npy --out image=b.npy" + params_of(c["params"]));
    INFO(r.err);
    REQUIRE(r.code == 0);
    std::vector<std::int64_t> shape;
    const auto got = npy::read(w.in("b.npy"), &shape);
    CHECK(json(shape) == c["out_shape"]);
    CHECK(largest_difference(got, c["values"], document["every"]) < 1e-5);
    const json affine = json::parse(w.folder.read("b.npy.json")).at("affine");
    for (std::size_t i = 0; i < 16; ++i)
      CHECK(affine[i / 4][i % 4].get<double>() ==
            doctest::Approx(c["out_affine"][i].get<double>()).epsilon(1e-6));
    ++tried;
  }
  CHECK(tried > 15);
}

TEST_CASE("apply moves an image by a field of displacements") {
  ApplyWorkplace w;
  const npy::Array image = made_volume();
  npy::write(w.in("a.npy"), image);
  npy::Array field{{3, 13, 9, 11}, std::vector<float>(3 * 13 * 9 * 11, 0.f)};
  std::fill_n(field.values.begin(), 13 * 9 * 11, 1.f);  // along the first axis
  npy::write(w.in("f.npy"), field);
  const auto r = w.apply("warp --in image=a.npy --in ddf=f.npy --out image=b.npy");
  INFO(r.err);
  REQUIRE(r.code == 0);
  const auto moved = npy::read(w.in("b.npy"));
  for (std::size_t c = 0; c < 2; ++c)
    for (std::size_t x = 0; x < 13; ++x)
      for (std::size_t i = 0; i < 99; ++i)
        CHECK(moved[(c * 13 + x) * 99 + i] ==
              doctest::Approx(image.values[(c * 13 + std::min<std::size_t>(x + 1, 12)) * 99 + i]));
}

TEST_CASE("apply prints and writes MONAI's losses") {
  ApplyWorkplace w;
  npy::write(w.in("pred.npy"), sines({2, 3, 4, 5, 3}, 1, 2));
  npy::write(w.in("label.npy"), classes({2, 1, 4, 5, 3}));
  int tried = 0;
  for (const std::string type :
       {"dice_loss", "dice_ce_loss", "dice_focal_loss", "tversky_loss", "generalized_dice_loss"}) {
    const json document = golden("losses/" + type + ".json");
    for (const json& c : document.at("cases")) {
      if (c["data"] != "b" || c["params"].value("reduction", "") == "none") continue;
      CAPTURE(type + c["params"].dump());
      const std::string line =
          type + " --in pred=pred.npy label=label.npy" + params_of(c["params"]);
      const auto r = w.apply(line + " --out loss=loss.npy");
      INFO(r.err);
      REQUIRE(r.code == 0);
      REQUIRE(r.out.starts_with("loss "));
      const float printed = std::stof(r.out.substr(5));
      CHECK(printed == doctest::Approx(c["value"].get<double>()).epsilon(1e-5));
      std::vector<std::int64_t> shape{7};
      CHECK(npy::read(w.in("loss.npy"), &shape) == std::vector<float>{printed});
      CHECK(shape.empty());
      CHECK(json::parse(w.apply(line + " --json").out)["values"]["loss"].get<float>() == printed);
      ++tried;
    }
  }
  CHECK(tried > 1);
}

TEST_CASE("apply fires a metric and flushes it") {
  ApplyWorkplace w;
  npy::write(w.in("p.npy"), {{1, 2, 2, 2}, {0, 1, 2, 2, 1, 1, 0, 0}});
  npy::write(w.in("t.npy"), {{1, 2, 2, 2}, {0, 1, 2, 1, 1, 1, 0, 2}});
  const auto r = w.apply(
      "dice_metric --in pred=p.npy truth=t.npy --param num_classes=3 "
      "include_background=false --out value=v.npy class_2=c.npy");
  INFO(r.err);
  REQUIRE(r.code == 0);
  // Class 1: 2 * 3 / (3 + 4); class 2: 2 * 1 / (2 + 2).
  const double one = 6.0 / 7, two = 0.5;
  const json again = json::parse(w.apply("dice_metric --in pred=p.npy truth=t.npy --json --param "
                                         "num_classes=3 include_background=false")
                                     .out);
  CHECK(again["values"]["value"].get<double>() == doctest::Approx((one + two) / 2));
  CHECK(again["params"]["keys"] == json{"pred", "truth"});
  CHECK(r.out.starts_with("value "));
  CHECK(r.out.find("\nclass_1 " + json(one).dump() + "\n") != std::string::npos);
  CHECK(npy::read<double>(w.in("v.npy")).at(0) == again["values"]["value"].get<double>());
  CHECK(npy::read<double>(w.in("c.npy")).at(0) == two);
}

TEST_CASE("apply draws the same for the same seed, and something else for another") {
  ApplyWorkplace w;
  npy::write(w.in("a.npy"), waves({1, 4, 5, 6}));
  const auto drawn = [&](const std::string& seed) {
    REQUIRE(w.apply("rand_gaussian_noise --in image=a.npy --out image=b.npy --param prob=1" + seed)
                .code == 0);
    return npy::read(w.in("b.npy"));
  };
  CHECK(drawn(" --seed 3") == drawn(" --seed 3"));
  CHECK(drawn(" --seed 3") != drawn(" --seed 4"));
  CHECK(drawn("") == drawn(" --seed 0"));
}

TEST_CASE("apply numbers the samples of a 1:n node, and asks for it") {
  ApplyWorkplace w;
  npy::write(w.in("a.npy"), waves({1, 6, 6, 6}));
  npy::write(w.in("l.npy"), classes({1, 6, 6, 6}));
  const std::string crop =
      "rand_crop_by_pos_neg_label --in image=a.npy label=l.npy --param spatial_size=4 "
      "num_samples=3 ";
  const auto one = w.apply(crop + "--out image=c.npy");
  CHECK(one.code == 2);
  CHECK(one.err.find("3 samples come out; {}") != std::string::npos);
  CHECK(one.err.find("--out image=c_{}.npy") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(w.in("c.npy")));
  CHECK(w.apply(crop + "--out image=of/c.nii").err.find("--out image=of/c_{}.nii\n") !=
        std::string::npos);
  REQUIRE(w.apply(crop + "--out image=c_{}.npy label=d_{}.nii.gz").code == 0);
  for (const char* name : {"c_0.npy", "c_1.npy", "c_2.npy", "d_0.nii.gz", "d_2.nii.gz"})
    CHECK(std::filesystem::exists(w.in(name)));
  CHECK_FALSE(std::filesystem::exists(w.in("c_3.npy")));
}

TEST_CASE("apply says what is wrong with its command line before it loads anything") {
  ApplyWorkplace w;
  npy::write(w.in("a.npy"), waves({1, 4, 4, 4}));
  const std::string io = " --in image=a.npy --out image=b.npy";
  const std::pair<std::string, const char*> wrong[] = {
      {"rand_flpi" + io, "did you mean \"rand_flip\"?"},
      {"RandFlipd" + io, "here it is called \"rand_flip\""},
      {"unet" + io, "needs \"spatial_dims\""},
      {"rand_flip --train" + io, "--train is of networks"},
      {"rand_flip --param prbo=1" + io, "did you mean \"prob\"?"},
      {"rand_flip --param prob=2" + io, "--> --param prob=2"},
      {"rand_flip --param prob=x" + io, "SL0222"},
      {"rand_flip --param prob=1 prob=0" + io, "given twice"},
      {"rand_flip --param prob" + io, "expected name=value"},
      {"rand_flip --param keys=label" + io, "keys names \"label\", which no --in gives"},
      {"spacing" + io, "needs \"pixdim\""},
      {"sliding_window" + io, "needs a network"},
      {"adam" + io, "needs a network"},
      {"decathlon" + io, "is a source"},
      {"batch" + io, "works on many samples"},
      {"shuffle" + io, "works on many samples"},
      {"cache" + io, "nothing to apply"},
      {"to_device" + io, "nothing to apply"},
      {"load_image" + io, "reads or writes files itself"},
      {"rand_flip --out image=b.npy", "give the node its fields"},
      {"rand_flip --in image --out image=b.npy", "--in image: expected key=FILE"},
      {"rand_flip --in image=a.npy image=a.npy --out image=b.npy", "--in image is given twice"},
      {"rand_flip --in image=a.npy --out image=b.npy c=b.npy", "--out writes b.npy twice"},
      {"rand_flip --in image=a.npy --out image=b.gif", ".npy, .nii and .nii.gz are written"},
      {"rand_flip --in image=a.txt --out image=b.npy", ".mha and .png are read"}};
  for (const auto& [line, text] : wrong) {
    CAPTURE(line);
    const auto r = shell::run("export SLUICE_RUNTIME=/nowhere.so; cd " + w.folder.path.string() +
                              " && $SLUICE apply " + line);
    CHECK(r.code == 2);
    CAPTURE(r.err);
    CHECK(r.err.find(text) != std::string::npos);
    CHECK(r.out.empty());
  }
}

TEST_CASE("apply gives a loss of vectors its vectors") {
  ApplyWorkplace w;
  npy::write(w.in("v.npy"), sines({4, 3}, 0.3, 1));
  for (const char* loss : {"contrastive_loss", "barlow_twins_loss", "mse_loss"}) {
    const auto r = w.apply(std::string(loss) + " --in pred=v.npy label=v.npy --out loss=o.npy");
    CHECK_MESSAGE(r.code == 0, r.err);
  }
}

TEST_CASE("apply names the file or the field that a node cannot use") {
  ApplyWorkplace w;
  npy::write(w.in("a.npy"), waves({1, 4, 4, 4}));
  npy::write(w.in("flat.npy"), {{3}, {1, 2, 3}});
  w.folder.write("bad.npy", "no array");
  npy::write(w.in("b.npy"), waves({1, 4, 4, 4}));
  w.folder.write("b.npy.json", "{\"affine\": [1, 2]}");
  struct Case {
    std::string line;
    int code;
    const char* text;
  };
  const Case cases[] = {
      {"rand_flip --in image=none.npy --out image=o.npy", 3, "none.npy: no such file"},
      {"rand_flip --in image=bad.npy --out image=o.npy", 3, "bad.npy: is no .npy file"},
      {"rand_flip --in image=b.npy --out image=o.npy", 3, "b.npy.json: expected {\"affine\""},
      {"rand_flip --in image=. --out image=o.npy", 2, "are read"},
      {"rand_flip --in image=a.npy --out label=o.npy", 2, "no such field comes out"},
      {"dice_loss --in image=a.npy", 3, "no field \"pred\""},
      {"dice_loss --in pred=flat.npy label=flat.npy", 3, "a loss takes batches"},
      {"spacing --param pixdim=2 --in image=flat.npy --out image=o.npy", 3, "has shape [3]"},
      {"rand_flip --in image=a.npy --out image=/proc/none/o.npy", 4, "/proc/none"},
      {"rand_flip --in image=flat.npy --out image=o.nii", 3, "o.nii: a volume has 3 axes"}};
  for (const auto& [line, code, text] : cases) {
    CAPTURE(line);
    const auto r = w.apply(line);
    CHECK(r.code == code);
    CAPTURE(r.err);
    CHECK(r.err.find(text) != std::string::npos);
    CHECK(r.err.find("frame #") == std::string::npos);
    CHECK_FALSE(std::filesystem::exists(w.in("o.npy")));
  }
}

TEST_CASE("apply keeps a real volume's geometry through NIfTI, and losses take NIfTI as a batch") {
  const std::string data = shell::test_data();
  if (data.empty()) {
    MESSAGE("skipped: SLUICE_TEST_DATA names no folder with real data");
    return;
  }
  ApplyWorkplace w;
  const std::string root = data + "/Task04_Hippocampus/";
  const std::string image = root + "imagesTr/hippocampus_001.nii.gz";
  const std::string label = root + "labelsTr/hippocampus_001.nii.gz";
  REQUIRE(w.apply("spacing --param pixdim=1.5 'mode=[\"bilinear\",\"nearest\"]' --in image=" +
                  image + " label=" + label + " --out image=i.nii.gz label=l.nii.gz")
              .code == 0);
  // Twice the same transform changes nothing: the file has the new geometry.
  const auto again = w.apply(
      "spacing --param pixdim=1.5 --in image=i.nii.gz --out image=j.npy "
      "--json");
  REQUIRE(again.code == 0);
  REQUIRE(w.apply("rand_flip --param prob=0 --in image=i.nii.gz --out image=k.npy").code == 0);
  CHECK(npy::read(w.in("j.npy")) == npy::read(w.in("k.npy")));
  CHECK(w.folder.read("j.npy.json") == w.folder.read("k.npy.json"));
  const auto dice = w.apply("dice_metric --param num_classes=3 --in pred=l.nii.gz label=l.nii.gz");
  CHECK(dice.out.starts_with("value 1\nmean 1\n"));
  const auto loss = w.apply("dice_loss --in pred=l.nii.gz label=l.nii.gz");
  INFO(loss.err);
  CHECK(loss.code == 0);
  CHECK(loss.out.starts_with("loss "));
}

TEST_CASE("apply without --out prints shape, type, range and affine of what comes out") {
  ApplyWorkplace w;
  npy::write(w.in("a.npy"), {{1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7.5F}});
  const std::string flip = "rand_flip --in image=a.npy --param prob=1 spatial_axis=0";
  CHECK(w.apply(flip).out == "image  float32 [1, 2, 2, 2], 0 to 7.5, no affine\n");
  npy::write(w.in("n.npy"), {{1, 1, 1, 1}, {-std::nanf("")}});
  CHECK(w.apply("rand_flip --in image=n.npy").out ==
        "image  float32 [1, 1, 1, 1], nan to nan, no affine\n");
  w.folder.write("a.npy.json", R"({"affine": [[2,0,0,5],[0,3,0,0],[0,0,4,0],[0,0,0,1]]})");
  CHECK(w.apply(flip).out ==
        "image  float32 [1, 2, 2, 2], 0 to 7.5, affine [[-2, 0, 0, 7], [0, 3, 0, 0], "
        "[0, 0, 4, 0], [0, 0, 0, 1]]\n");
  const auto r = w.apply(flip + " --json");
  REQUIRE(r.code == 0);
  const json field = json::parse(r.out).at("fields").at(0);
  CHECK(field.at("shape") == json({1, 2, 2, 2}));
  CHECK(field.at("most") == 7.5);
  CHECK(field.at("affine").at(0) == json({-2.0, 0.0, 0.0, 7.0}));
  const auto crops =
      w.apply("rand_spatial_crop --in image=a.npy --param roi_size=1 random_size=false");
  CHECK(crops.out.find("[1, 1, 1, 1]") != std::string::npos);
}

TEST_CASE("apply writes the gradients of a node's outputs to its fields, and checks them") {
  ApplyWorkplace w;
  npy::write(w.in("a.npy"), {{1, 1, 4}, {1, 2, 4, 8}});
  npy::write(w.in("g.npy"), {{1, 3, 1}, {-1.25F, .5F, 3.75F}});
  npy::write(w.in("r.npy"), {{1, 1, 3}, {1, -1, 2}});
  const std::string pull =
      "grid_pull --in image=a.npy grid=g.npy --param interpolation=3 'bound=\"dct2\"' ";
  const auto r = w.apply(pull +
                         "--out image=o.npy --grad image=r.npy --out-grad image=gi.npy "
                         "grid=gg.npy");
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(largest_difference(npy::read(w.in("o.npy")), {1.322917, 1.541667, 7.708333}, 1) < 1e-5);
  CHECK(largest_difference(npy::read(w.in("gi.npy")), {.182292, -.164062, .127604, 1.854167}, 1) <
        1e-5);
  std::vector<std::int64_t> shape;
  CHECK(largest_difference(npy::read(w.in("gg.npy"), &shape), {-.75, -1, -2}, 1) < 1e-5);
  CHECK(shape == std::vector<std::int64_t>{1, 3, 1});
  const auto checked = w.apply(pull + "--check-grad --grad image=r.npy");
  CHECK(checked.code == 0);
  CHECK(checked.out.find("grid ") != std::string::npos);
  const auto as_json = w.apply(pull + "--check-grad --json --grad image=r.npy");
  CHECK(as_json.code == 0);
  const json said = json::parse(as_json.out);
  CHECK(said.at("good") == true);
  CHECK(said.at("errors").at("grid").get<double>() < 1e-4);

  const auto both = w.apply(pull +
                            "--check-grad --grad image=r.npy --out image=co.npy "
                            "--out-grad grid=cg.npy");
  CHECK(both.code == 0);
  CHECK(both.out.find("grid ") == 0);
  CHECK(both.out.find("image ") == std::string::npos);
  CHECK(npy::read(w.in("co.npy")) == npy::read(w.in("o.npy")));
  CHECK(npy::read(w.in("cg.npy")) == npy::read(w.in("gg.npy")));

  // A loss needs no --grad: 1.
  npy::write(w.in("b.npy"), {{1, 1, 4}, {0, 2, 3, 9}});
  REQUIRE(w.apply("mse_loss --in pred=a.npy label=b.npy --out-grad pred=gp.npy").code == 0);
  CHECK(largest_difference(npy::read(w.in("gp.npy")), {.5, 0, .5, -.5}, 1) < 1e-6);

  for (const char* loss : {"sum_loss", "patch_adversarial_loss --param criterion=bce"}) {
    CAPTURE(loss);
    CHECK(w.apply(loss + std::string(" --in pred=a.npy --check-grad")).code == 0);
  }

  const std::pair<const char*, const char*> refused[] = {
      {"--grad image=r.npy", "--grad alone"},
      {"--grad image=a.npy --out-grad image=x.npy", "has shape [1, 1, 4]; the output has"},
      {"--grad image=r.npy --out-grad none=x.npy", "there are image, grid"},
      {"--grad none=r.npy --out-grad image=x.npy", "no such output; there are image"},
      {"--out-grad image=x.npy", "give the gradients of what comes out"}};
  for (const auto& [line, text] : refused) {
    CAPTURE(line);
    const auto bad = w.apply(pull + line);
    CHECK(bad.code == 2);
    CAPTURE(bad.err);
    CHECK(bad.err.find(text) != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(w.in("x.npy")));
  }
}

TEST_CASE("apply answers with a network, and writes gradients to its inputs and parameters") {
  ApplyWorkplace w;
  npy::write(w.in("x.npy"), sines({2, 1, 8, 8}, 0, 1));
  npy::write(w.in("g.npy"), sines({2, 2, 8, 8}, 3, 1));
  const std::string net =
      "unet --param spatial_dims=2 in_channels=1 out_channels=2 channels='[2,3]' strides='[2]' "
      "num_res_units=1 --in image=x.npy ";
  const auto r = w.apply(net + "--out pred=y.npy state=s.safetensors --seed 5");
  INFO(r.err);
  REQUIRE(r.code == 0);
  std::vector<std::int64_t> shape;
  const auto y = npy::read(w.in("y.npy"), &shape);
  CHECK(shape == std::vector<std::int64_t>{2, 2, 8, 8});
  const auto names =
      shell::run("cd " + w.folder.path.string() + " && $SLUICE weights s.safetensors");
  CHECK(names.out.find("model.0.conv.unit0.conv.weight") != std::string::npos);

  // Other weights are drawn by another seed, and the same ones come from the file.
  REQUIRE(w.apply(net + "--out pred=other.npy --seed 6").code == 0);
  CHECK(npy::read(w.in("other.npy")) != y);
  REQUIRE(w.apply(net + "--param weights=s.safetensors --out pred=same.npy --seed 6").code == 0);
  CHECK(npy::read(w.in("same.npy")) == y);

  // A step against the gradient of one bias changes the sum by the gradient's square.
  const auto grads = w.apply(net +
                             "--seed 5 --train --grad pred=g.npy --out-grad image=dx.npy "
                             "model.2.1.conv.unit0.conv.bias=db.npy state=ds.safetensors");
  INFO(grads.err);
  REQUIRE(grads.code == 0);
  CHECK(npy::read(w.in("dx.npy")).size() == 128);
  const auto db = npy::read(w.in("db.npy")), g = npy::read(w.in("g.npy"));
  REQUIRE(db.size() == 2);
  for (std::size_t c = 0; c < 2; ++c) {  // the last bias: the sum of what comes to its channel
    double sum = 0;
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t i = 0; i < 64; ++i) sum += double(g[(2 * n + c) * 64 + i]);
    CHECK(double(db[c]) == doctest::Approx(sum).epsilon(1e-4));
  }
  const auto checked = w.apply(net + "--train --check-grad --grad pred=g.npy");
  INFO(checked.out);
  CHECK(checked.code == 0);
  CHECK(checked.out.find("model.0.conv.unit0.conv.weight ") != std::string::npos);
  CHECK(checked.out.find("image ") != std::string::npos);
  const auto both = w.apply(net +
                            "--seed 5 --train --check-grad --grad pred=g.npy --out "
                            "state=cs.safetensors --out-grad image=cx.npy");
  INFO(both.err);
  CHECK(both.code == 0);
  CHECK(both.out.find("image ") == 0);
  CHECK(both.out.find("model.0") == std::string::npos);
  CHECK(npy::read(w.in("cx.npy")) == npy::read(w.in("dx.npy")));
  CHECK(std::filesystem::exists(w.in("cs.safetensors")));
}

TEST_CASE("apply says a network's name once") {
  ApplyWorkplace w;
  npy::write(w.in("x.npy"), sines({1, 2, 8, 8}, 0, 1));
  const auto r = w.apply(
      "unet --param spatial_dims=2 in_channels=1 out_channels=2 channels='[2,3]' strides='[2]' "
      "--in image=x.npy");
  CHECK(r.code == 3);
  CHECK(r.err == "error: unet takes [N, 1] and 2 spatial axes, got 2 axes and 2 channels\n");
}

TEST_CASE("apply says what a network's inputs, outputs and parameters are called") {
  ApplyWorkplace w;
  npy::write(w.in("x.npy"), sines({1, 1, 8, 8}, 0, 1));
  npy::write(w.in("t.npy"), {{1}, {7}});
  const std::string net =
      "diffusion_model_unet --param spatial_dims=2 in_channels=1 out_channels=1 channels='[4,4]' "
      "attention_levels='[false,false]' norm_num_groups=2 num_res_blocks=1 num_head_channels=2 ";
  const auto r = w.apply(net + "--in image=x.npy timesteps=t.npy");
  INFO(r.err);
  CHECK(r.code == 0);
  CHECK(r.out.find("pred  float32 [1, 1, 8, 8]") == 0);
  const std::string in = "--in image=x.npy timesteps=t.npy ";
  struct Case {
    std::string line;
    int code;
    const char* text;
  };
  const Case cases[] = {
      {"--in image=x.npy", 2,
       "no --in timesteps=FILE: diffusion_model_unet takes image, timesteps"},
      {"--in image=x.npy times=t.npy", 2,
       "--in times: diffusion_model_unet takes image, timesteps"},
      {"--in image=x.npy timesteps=x.npy", 3, "takes \"timesteps\" as [1], got [1, 1, 8, 8]"},
      {in + "--out pred_1=y.npy", 2, "--out pred_1: diffusion_model_unet gives pred, and state"},
      {in + "--grad pred=x.npy --out-grad conv_in.conv.weigth=y.npy", 2,
       "did you mean \"conv_in.conv.weight\"?"},
      {in + "--param partial=1", 2, "expected true or false"},
      {in + "--param weights=none.safetensors", 4, "none.safetensors"}};
  for (const Case& c : cases) {
    CAPTURE(c.line);
    const auto bad = w.apply(net + c.line);
    CAPTURE(bad.err);
    CHECK(bad.code == c.code);
    CHECK(bad.err.find(c.text) != std::string::npos);
  }
}

TEST_CASE("the resampler refuses what it cannot do in one line") {
  ApplyWorkplace w;
  npy::write(w.in("a.npy"), {{1, 1, 4}, {1, 2, 4, 8}});
  npy::write(w.in("g.npy"), {{1, 3, 1}, {-1.25F, .5F, 3.75F}});
  npy::write(w.in("two.npy"), {{2, 1, 4}, {1, 2, 4, 8, 1, 2, 4, 8}});
  npy::write(w.in("plane.npy"), {{1, 1, 2, 2}, {1, 2, 4, 8}});
  npy::write(w.in("empty.npy"), {{1, 1, 0}, {}});
  npy::write(w.in("three.npy"), {{1, 1, 3}, {1, 2, 4}});
  npy::write_as("<c8", w.in("complex.npy"), {1, 1, 4}, std::string(32, '\0'));
  struct Case {
    const char* line;
    int code;
    const char* text;
  };
  const Case cases[] = {
      {"grid_pull --param interpolation=8 --in image=a.npy", 2, "an order from 0 to 7"},
      {"grid_pull --param 'bound=\"sliding\"' --in image=a.npy", 2, "sliding is not implemented"},
      {"grid_pull --param bound=6 --in image=a.npy", 2, "sliding is not implemented"},
      {"grid_pull --param interpolation=-1 --in image=a.npy", 2, "an order from 0 to 7"},
      {"grid_pull --param 'interpolation=\"ninth\"' --in image=a.npy", 2, "or its name"},
      {"grid_pull --param 'bound=\"mirrored\"' --in image=a.npy", 2,
       "expected replicate, dct1, dct2, dst1, dst2, dft or zero"},
      {"grid_pull --in image=empty.npy", 3, "none empty"},
      {"grid_pull --param 'interpolation=[1,2]' --in image=a.npy", 3, "the grid has 1"},
      {"grid_pull --param prefilter=true --in image=a.npy", 2, "needs bound dct1, dct2 or dft"},
      {"grid_pull --in image=two.npy", 3, "has a batch of 2"},
      {"grid_pull --in image=plane.npy", 3, "a grid of 1 components needs"},
      {"grid_pull --in image=complex.npy", 3, "complex.npy: holds \"<c8\""},
      {"grid_pull --param 'bound=[\"zero\",\"zero\"]' --in image=a.npy", 3, "the grid has 1"},
      {"grid_grad --in image=two.npy", 3, "has a batch of 2"},
      {"grid_grad --in image=plane.npy", 3, "a grid of 1 components needs"},
      {"grid_push --in image=two.npy", 3, "has a batch of 2"},
      {"grid_push --param 'shape=[3,3]' --in image=three.npy", 3, "shape has 2 extents"},
      {"grid_push --in image=a.npy", 3, "each value needs its point"},
      {"grid_count --param 'shape=[3,3]' --in image=a.npy", 3, "shape has 2 extents"},
      {"grid_count --param 'shape=[0]' --in image=a.npy", 2, "shape"}};
  for (const auto& [line, code, text] : cases) {
    CAPTURE(line);
    const auto r = w.apply(std::string(line) + " grid=g.npy --out image=o.npy");
    CHECK(r.code == code);
    CAPTURE(r.err);
    CHECK(r.err.find(text) != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(w.in("o.npy")));
  }
}
