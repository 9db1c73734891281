// The filters through `sluice apply`: golden values, gradients to fields and to parameters that are
// trained, and what is refused.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/cli/apply_workplace.h"
#include "tests/cli/npy.h"
#include "tests/cli/shell.h"

namespace {

struct FilterWorkplace : ApplyWorkplace {
  void check(const std::string& file, const std::vector<float>& wanted, double within) const {
    CAPTURE(file);
    const std::vector<float> got = npy::read(in(file));
    REQUIRE(got.size() == wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - wanted[i]) < within);
  }
  FilterWorkplace() {
    const auto write = [&](const char* name, std::vector<std::int64_t> shape,
                           std::vector<float> values) {
      npy::write(in(name), {std::move(shape), std::move(values)});
    };
    write("x.npy", {1, 1, 6}, {0, .25F, 1, .75F, 0, .5F});
    write("guide.npy", {1, 1, 6}, {0, 0, 1, 1, 1, 0});
    write("six.npy", {1, 1, 6}, {1, 2, 3, 4, 5, 6});
    write("short.npy", {1, 1, 5}, {1, 2, 3, 4, 5});
    write("two.npy", {1, 2, 6}, {0, .4F, 1.1F, .9F, .2F, .6F, .3F, 1.7F, .2F, .8F, 1.1F, .1F});
    write("plane.npy", {1, 2, 3}, {0, .25F, 1, .75F, 0, .5F});
    write("labels.npy", {1, 1, 6}, {0, 1, 2, -1, 0, 1});
    write("logits.npy", {1, 2, 6}, {1, .5F, -.5F, -1, .2F, .7F, 0, 0, 0, 0, 0, 0});
    write("even.npy", {2}, {1, 1});
    write("deep.npy", {1, 1, 1, 3}, {1, 1, 1});
  }
};

}  // namespace

TEST_CASE("apply filters, with gradients to fields and to trained parameters") {
  const FilterWorkplace w;
  const auto r = w.apply(
      "trainable_joint_bilateral_filter --in image=x.npy guide=guide.npy --param spatial_dims=1 "
      "'spatial_sigma=[1]' color_sigma=0.5 --out image=o.npy --grad image=six.npy --out-grad "
      "image=gi.npy guide=gg.npy spatial_sigma=gs.npy color_sigma=gc.npy");
  INFO(r.err);
  REQUIRE(r.code == 0);
  w.check("o.npy", {.104593F, .202599F, .800872F, .609091F, .346103F, .466863F}, 1e-5);
  w.check("gi.npy", {1.355936F, 1.711213F, 3.185298F, 4.549724F, 4.487683F, 5.710145F}, 1e-5);
  w.check("gg.npy", {-.055173F, .012446F, .042941F, -.099107F, .697303F, -.59841F}, 1e-5);
  w.check("gs.npy", {.43335F}, 1e-5);
  w.check("gc.npy", {-1.282274F}, 1e-5);
  std::vector<std::int64_t> shape;
  npy::read(w.in("gc.npy"), &shape);
  CHECK(shape.empty());  // a single number
  CHECK(w.apply("crf --in pred=logits.npy image=x.npy --param spatial_dims=1 --out pred=q.npy")
            .code == 0);
  const std::vector<float> q = npy::read(w.in("q.npy"));
  REQUIRE(q.size() == 12);
  CHECK(std::abs(q[0] - .999048F) < 1e-5);
  CHECK(std::abs(q[3] - .992895F) < 1e-5);
  const auto bad = w.apply(
      "bilateral_filter --in image=x.npy --grad image=six.npy --out-grad image=gi.npy "
      "color_sigma=no.npy");
  CHECK(bad.code == 2);
  CHECK(bad.err.find("a parameter that is not trained") != std::string::npos);
}

TEST_CASE("apply gives MONAI's numbers of image_filter") {
  const FilterWorkplace w;
  std::vector<float> values;
  for (int i = 0; i < 12; ++i) values.push_back(static_cast<float>(std::pow(i, 1.3)));
  npy::write(w.in("im.npy"), {{1, 3, 4}, values});
  const std::pair<const char*, std::vector<float>> cases[] = {
      {"median",
       {1, 2.462289F, 4.171167F, 4.171167F, 6.062866F, 8.103283F, 10.270619F, 12.549530F,
        14.928528F, 14.928528F, 17.398638F, 19.952623F}},
      {"sharpen",
       {-7.062866F, -5.565572F, -3.130342F, 5.844017F, 7.282520F, 5.784292F, 8.285372F, 25.721361F,
        51.181137F, 44.008759F, 49.509354F, 80.420357F}},
      {"sobel", {0, 0,         0,         0, 7.831791F, 8.152018F, 8.724079F, 8.975917F,
                 0, 0,         0,         0, 0,         1.667511F, 1.904354F, 0,
                 0, 1.987737F, 2.156191F, 0, 0,         2.307962F, 2.408028F, 0}}};
  for (const auto& [filter, wanted] : cases) {
    const auto r = w.apply("image_filter --in image=im.npy --param 'filter=\"" +
                           std::string(filter) + "\"' --out image=o.npy");
    INFO(r.err);
    REQUIRE(r.code == 0);
    w.check("o.npy", wanted, 2e-5);
  }
}

TEST_CASE("apply holds the filters' gradients against central differences") {
  const FilterWorkplace w;
  for (
      const std::string line :
      {"bilateral_filter --in image=x.npy --param spatial_dims=1 fast_approx=false spatial_sigma=1 "
       "--grad image=six.npy",
       "joint_bilateral_filter --in image=x.npy guide=guide.npy --param spatial_dims=1 "
       "spatial_sigma=1 --grad image=six.npy",
       "trainable_bilateral_filter --in image=x.npy --param spatial_dims=1 spatial_sigma=0.9 "
       "--grad image=six.npy --out-grad image=a.npy spatial_sigma=b.npy color_sigma=c.npy",
       "gaussian_filter --in image=x.npy --param spatial_dims=1 --grad image=six.npy --out-grad "
       "image=a.npy sigma=b.npy",
       "phl_filter --in image=x.npy features=two.npy --param spatial_dims=1 --grad image=six.npy "
       "--out-grad image=a.npy",
       "crf --in pred=logits.npy image=x.npy --param spatial_dims=1 --grad pred=two.npy --out-grad "
       "pred=a.npy",
       "savitzky_golay_filter --in image=x.npy --param spatial_dims=1 window_length=3 order=1 "
       "--grad image=six.npy",
       "sharpen_filter --in image=x.npy --param spatial_dims=1 --grad image=six.npy"}) {
    CAPTURE(line);
    const auto r = w.apply(line + " --check-grad");
    CAPTURE(r.err);
    CHECK(r.code == 0);
  }
}

TEST_CASE("apply holds gradients of what joins, copies and activates against differences") {
  const FilterWorkplace w;
  for (const std::string line :
       {"concat_items --in image=x.npy guide=guide.npy --param 'keys=[\"image\", \"guide\"]' "
        "name=both dim=1 --grad both=two.npy --out-grad image=a.npy guide=b.npy",
        "copy_items --in image=x.npy --param 'names=[\"more\"]' --grad more=six.npy --out-grad "
        "image=a.npy",
        "activations --in pred=logits.npy --param softmax=true spatial_dims=1 --grad pred=two.npy "
        "--out-grad pred=a.npy",
        "activations --in pred=logits.npy --param sigmoid=true other=tanh --grad pred=two.npy "
        "--out-grad pred=a.npy"}) {
    CAPTURE(line);
    const auto r = w.apply(line + " --check-grad");
    CAPTURE(r.err);
    CHECK(r.code == 0);
  }
}

namespace {

struct Refusal {
  const char* line;
  int code;
  const char* text;
};

// Each in one line with the text, and nothing is written. The image is x.npy where none is named.
void check_refusals(const FilterWorkplace& w, const std::vector<Refusal>& cases) {
  for (const auto& [line, code, text] : cases) {
    CAPTURE(line);
    std::string call = line;
    if (call.find("image=") == std::string::npos) {
      const auto in = call.find(" --in ");
      if (in == std::string::npos)
        call += " --in image=x.npy";
      else
        call.insert(in + 6, "image=x.npy ");
    }
    const auto r = w.apply(call + " --out image=o.npy");
    CHECK(r.code == code);
    CAPTURE(r.err);
    CHECK(r.err.find(text) != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(w.in("o.npy")));
  }
}

}  // namespace

TEST_CASE("the filters refuse what they cannot do in one line") {
  const FilterWorkplace w;
  check_refusals(
      w,
      {{"bilateral_filter --param spatial_sigma=0", 2, "spatial_sigma"},
       {"trainable_bilateral_filter --param spatial_dims=1 color_sigma=-1", 2, "color_sigma"},
       {"trainable_bilateral_filter --param spatial_dims=1 'spatial_sigma=[1,2]'", 3,
        "2 sigmas for 1 axes"},
       {"trainable_bilateral_filter --in image=two.npy --param spatial_dims=1", 3,
        "has 2 channels; a trained filter takes one"},
       {"joint_bilateral_filter --in guide=short.npy --param spatial_dims=1", 3,
        "differ in members or extents"},
       {"phl_filter --in features=short.npy --param spatial_dims=1", 3,
        "differ in members or extents"},
       {"joint_bilateral_filter --in guide=guide.npy --param spatial_dims=1 'spatial_sigma=[1,2]'",
        3, "2 sigmas for 1 axes"},
       {"joint_bilateral_filter --in guide=guide.npy --param 'spatial_sigma=[0]'", 2,
        "spatial_sigma"},
       {"trainable_joint_bilateral_filter --in guide=guide.npy --param spatial_dims=1 "
        "'spatial_sigma=[1,2]'",
        3, "2 sigmas for 1 axes"},
       {"bilateral_filter --param color_sigma=0", 2, "color_sigma"},
       {"phl_filter --in features=two.npy --param spatial_dims=1 'sigmas=[1,0]'", 2, "sigmas"},
       {"phl_filter --in features=two.npy --param spatial_dims=1 'sigmas=[1]'", 3,
        "1 for 2 features"},
       {"phl_filter --in features=two.npy --param spatial_dims=1 'sigmas=[1,2,3]'", 3,
        "3 for 2 features"},
       {"crf --in pred=logits.npy --param spatial_dims=1 'compatibility_matrix=[[1,0]]'", 3,
        "expected 2 rows of 2 numbers"},
       {"crf --in pred=logits.npy --param iterations=-1", 2, "iterations"},
       {"crf --in pred=logits.npy --param gaussian_spatial_sigma=0", 2, "gaussian_spatial_sigma"},
       {"crf --in pred=logits.npy --param bilateral_color_sigma=-1", 2, "bilateral_color_sigma"},
       {"gaussian_mixture_model --in label=labels.npy --param spatial_dims=1", 3,
        "holds labels -1 to 2; mixture_count 2 knows -1 (none) to 1"},
       {"gaussian_mixture_model --in label=short.npy --param spatial_dims=1", 3,
        "needed is one channel of the image's extents"},
       {"gaussian_mixture_model --in label=labels.npy --param mixture_size=0", 2, "mixture_size"},
       {"savitzky_golay_filter --param window_length=4 order=1", 2,
        "expected an odd number, found 4"},
       {"savitzky_golay_filter --param window_length=5 order=5", 2, "less than the window's 5"},
       {"savitzky_golay_filter --param spatial_dims=1 window_length=5 order=2 axis=3", 3,
        "axis: expected 2 to 2"},
       {"hilbert_transform --param spatial_dims=1 axis=1", 3, "axis: expected 2 to 2"},
       {"laplace_filter --param size=4", 2, "size: expected an odd number"},
       {"elliptical_filter --param size=4", 2, "size: expected an odd number"},
       {"sharpen_filter --param size=4", 2, "size: expected an odd number"},
       {"mean_filter --param size=2", 2, "size: expected an odd number"},
       {"image_filter --param 'filter=\"mean\"' filter_size=4", 2, "filter_size: expected an odd"},
       {"image_filter --param 'filter=\"gauss\"'", 2, "sigma: the filter gauss needs it"},
       {"apply_filter --in kernel=even.npy --param spatial_dims=1", 3,
        "each side of a kernel is odd"},
       {"apply_filter --in kernel=deep.npy --param spatial_dims=1", 3, "needs a kernel of 1 to 3"},
       {"gaussian_filter --param spatial_dims=3", 3,
        "needed is [B, C, ...] or [C, ...] with 3 axes"},
       {"median_filter --param spatial_dims=1 'radius=[1,1]'", 3, "radius has one entry, found 2"},
       {"median_filter --param radius=-1", 2, "radius"},
       {"separable_filtering --param 'kernels=[1,2]'", 2, "odd number of weights, found 2"}});
}

TEST_CASE("the filters refuse fields of other sizes and kinds, by name") {
  const FilterWorkplace w;
  npy::write(w.in("nan.npy"), {{1}, {NAN}});
  npy::write(w.in("empty.npy"), {{1, 1, 0}, {}});
  npy::write(w.in("three.npy"), {{1, 3}, {1, 1, 1}});
  npy::write(w.in("old.npy"), {{1, 2}, {1, 1}});
  npy::write_as("<c8", w.in("complex.npy"), {1, 1, 6}, std::string(48, '\0'));
  check_refusals(
      w,
      {{"trainable_bilateral_filter --in spatial_sigma=nan.npy --param spatial_dims=1", 3,
        "spatial_sigma: nan is no finite number above 0"},
       {"trainable_bilateral_filter --in color_sigma=nan.npy --param spatial_dims=1", 3,
        "color_sigma: nan is no finite number above 0"},
       {"trainable_joint_bilateral_filter --in guide=two.npy --param spatial_dims=1", 3,
        "\"guide\" has 2 channels; a trained filter takes one"},
       {"bilateral_filter --in image=complex.npy --param spatial_dims=1", 3, "complex"},
       {"median_filter --in image=empty.npy --param spatial_dims=1", 3, "none empty"},
       {"crf --in pred=short.npy --param spatial_dims=1", 3, "differ in members or extents"},
       {"gaussian_mixture_model --in label=x.npy --param spatial_dims=1", 3,
        "holds numbers that are not whole"},
       {"gaussian_mixture_model --in label=labels.npy --param mixture_count=0", 2, "mixture_count"},
       {"gaussian_filter --param sigma=0", 2, "sigma"},
       {"gaussian_filter --param spatial_dims=1 'sigma=[1,2]'", 3, "2 sigmas for 1 axes"},
       {"separable_filtering --param spatial_dims=1 'kernels=[[1],[1]]'", 3,
        "kernels has one entry, found 2"},
       {"apply_filter --in kernel=three.npy image=two.npy --param spatial_dims=1", 3,
        "the image has 2 on that axis"},
       {"hilbert_transform --param n=0", 2, "\"n\": expected at least 1"},
       {"image_filter --param 'filter=\"savitzky_golay\"' filter_size=3 order=3", 2,
        "less than the window's 3"},
       {"lltm --in image=x.npy input=three.npy weights=three.npy bias=old.npy old_h=old.npy "
        "old_cell=old.npy",
        3, "\"weights\" has shape [1, 3]; expected [6, 5]"},
       {"lltm --in image=x.npy input=x.npy weights=three.npy bias=old.npy old_h=old.npy "
        "old_cell=old.npy",
        3, "\"input\" has shape [1, 1, 6]; expected two axes"}});
  // Whole numbers become floats.
  npy::write_as("|u1", w.in("bytes.npy"), {1, 1, 6}, {"\0\1\2\3\4\5", 6});
  const auto r =
      w.apply("median_filter --in image=bytes.npy --param spatial_dims=1 --out image=o.npy");
  INFO(r.err);
  CHECK(r.code == 0);
  w.check("o.npy", {0, 1, 2, 3, 4, 5}, 1e-6);
}

TEST_CASE("a loss behind crf is lowered, through a network that holds a trained filter") {
  const shell::Folder folder;
  folder.write("g.json", R"({
    "run": { "epochs": 6, "seed": 3 },
    "models": { "net": { "type": "layers", "spatial_dims": 2, "in_channels": 1, "out_channels": 2,
      "layers": { "smooth": { "type": "trainable_bilateral_filter", "in": "image" },
                  "median": { "type": "median_filter", "in": "smooth" },
                  "first":  { "type": "convolution", "in": "median", "out_channels": 4 },
                  "logits": { "type": "conv", "in": "first", "out_channels": 2 } } } },
    "nodes": {
      "train": { "type": "synthetic", "num_samples": 4, "spatial_size": [24, 24], "rad_max": 8,
                 "rad_min": 4, "num_objs": 3, "num_seg_classes": 1, "noise_max": 0.5 },
      "batch": { "type": "batch", "in": "train", "size": 2 },
      "fwd":   { "type": "model", "in": "batch", "net": "net" },
      "crf":   { "type": "crf", "in": "fwd", "spatial_dims": 2, "update_factor": 0.5,
                 "bilateral_spatial_sigma": 2, "gaussian_spatial_sigma": 1.5 },
      "loss":  { "type": "dice_loss", "in": "crf", "to_onehot_y": true },
      "step":  { "type": "adam", "in": "loss", "net": "net", "lr": 0.02 } } })");
  const auto r = shell::run("cd " + folder.path.string() + "\n$SLUICE run g.json --quiet --out r");
  INFO(r.err);
  REQUIRE(r.code == 0);
  std::vector<double> losses;
  std::istringstream lines(folder.read("r/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto entry = nlohmann::json::parse(line);
    if (entry.value("log", "") == "step.loss") losses.push_back(entry.at("value"));
  }
  REQUIRE(losses.size() > 1);
  CHECK(losses.back() < 0.8 * losses.front());
  const auto weights = shell::run("cd " + folder.path.string() + "\n$SLUICE weights r --json");
  CHECK(weights.out.find("smooth.sigma_x") != std::string::npos);
}
