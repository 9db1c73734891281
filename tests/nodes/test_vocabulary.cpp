// What random transforms of artefacts, batches and signals keep, what nodes refuse, and nodes that
// hold a network or files. What draws nothing is MONAI's: test_monai.cpp.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <fstream>
#include <memory>
#include <tuple>

#include "engine/base/error.h"
#include "engine/state/checkpoint.h"
#include "engine/state/resource.h"
#include "engine/state/zip_file.h"
#include "kernels/files/file_io.h"
#include "kernels/files/npy.h"
#include "tests/nodes/drive.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

at::Tensor counted(std::vector<std::int64_t> shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return at::arange(n, at::kFloat).view(shape);
}

std::string refusal(const std::string& type, const Json& params, const Sample& in) {
  try {
    drive(type, params, {in});
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
bool says(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

// Gives back its input, enlarged `zoom` times along each axis.
struct Copying final : Network {
  std::int64_t zoom;
  at::Tensor weight = at::ones({1});
  explicit Copying(std::int64_t times = 1) : zoom(times) {}
  Tensors forward(const Tensors& x, std::size_t) override {
    at::Tensor y = x[0];
    for (std::int64_t d = 2; d < y.dim(); ++d) y = y.repeat_interleave(zoom, d);
    return {y};
  }
  Named parameters() const override { return {{"w", weight}}; }
  void initialise(std::uint64_t) override {}
};

OpenContext with_network(std::shared_ptr<Network> net) {
  OpenContext context;
  context.resources = std::make_shared<Resources>();
  context.resources->add("net", std::move(net));
  return context;
}

Sample predicted(const std::string& type, Json params, const Sample& in, std::int64_t zoom = 1) {
  params["net"] = "net";
  Driver node(type, params, with_network(std::make_shared<Copying>(zoom)));
  return node.fire({in}).samples().at(0);
}

}  // namespace

TEST_CASE("a coarse shuffle moves voxels inside of its boxes alone, channel by channel") {
  const Sample in = sample_of("image", counted({2, 8, 7, 6}));
  const Json params = {{"prob", 1.0}, {"holes", 2}, {"spatial_size", 3}};
  const at::Tensor out = drive("rand_coarse_shuffle", params, {in})[0].tensor("image");
  const at::Tensor moved = out.ne(in.tensor("image"));
  CHECK(moved.sum().item<std::int64_t>() > 20);
  CHECK(moved.sum().item<std::int64_t>() <= 2 * 2 * 27);
  for (int c = 0; c < 2; ++c) {
    const at::Tensor sorted = std::get<0>(out[c].flatten().sort());
    CHECK(sorted.equal(in.tensor("image")[c].flatten()));
  }
  CHECK(!out[0].eq(out[1] - 336).all().item<bool>());  // by a permutation of its own
  CHECK(says(
      refusal("rand_coarse_shuffle", {{"holes", 3}, {"max_holes", 2}, {"spatial_size", 1}}, in),
      "max_holes is below holes"));
}

TEST_CASE("mixed images and labels are mixed by one weight and one partner") {
  const std::int64_t n = 6;
  Sample in = sample_of("image", at::arange(n, at::kFloat).view({n, 1, 1, 1}).expand({n, 1, 5, 4}));
  in.set("label", sample_of("label", at::eye(n)).at("label"));
  for (const char* type : {"mix_up", "cut_mix"}) {
    CAPTURE(type);
    const bool cuts = type[0] == 'c';
    Json params = {{"keys", cuts ? Json{"image"} : Json{"image", "label"}}};
    if (cuts) params["label_keys"] = {"label"};
    const Sample out = drive(type, params, {in})[0];
    const at::Tensor label = out.tensor("label"), image = out.tensor("image");
    CHECK(label.sum(1).allclose(at::ones({n})));
    for (std::int64_t i = 0; i < n; ++i) {
      const double own = label[i][i].item<double>();
      const at::Tensor others = label[i].clone();
      others[i] = 0;
      const auto partner = others.argmax().item<std::int64_t>();
      if (!cuts) {
        const double wanted = own * double(i) + (1 - own) * double(own < 1 ? partner : i);
        CHECK(image[i].allclose(at::full({1, 5, 4}, wanted), 1e-5, 1e-5));
      } else {
        CHECK(image[i].eq(i).logical_or(image[i].eq(partner)).all().item<bool>());
      }
    }
    params["batch_size"] = 5;
    CHECK(says(refusal(type, params, in), "batch_size is 5"));
    params.erase("batch_size");
    Sample whole = in;
    whole.set("label", sample_of("label", at::arange(n)).at("label"));
    CHECK(says(refusal(type, params, whole), "cannot be mixed"));
  }
  const at::Tensor cut = drive("cut_out", Json::object(), {in})[0].tensor("image");
  CHECK(cut.eq(0).logical_or(cut.eq(in.tensor("image"))).all().item<bool>());
}

TEST_CASE("weights of a mix are drawn from Beta(alpha, alpha)") {
  // Mean 1/2, variance 1 / (4 (2 alpha + 1)).
  for (const double alpha : {0.4, 1.0, 3.0}) {
    CAPTURE(alpha);
    const std::int64_t n = 2000;
    Sample in = sample_of("image", at::zeros({n, 1, 1, 1}));
    in.set("label", sample_of("label", at::arange(n, at::kFloat)).at("label"));
    // With the partner's label 0 the weight is what is left of one's own.
    in.set("one", sample_of("one", at::ones({n, 1})).at("one"));
    const Sample out = drive("mix_up", {{"keys", {"image", "label"}}, {"alpha", alpha}}, {in})[0];
    CHECK(out.tensor("label").mean().item<double>() == doctest::Approx(999.5).epsilon(0.05));
  }
}

TEST_CASE("noise of one draw: a spike in k-space, Rician noise") {
  const at::Tensor image = (counted({1, 8, 6}) * 0.37).sin() + 2;
  const Sample in = sample_of("image", image);
  const at::Tensor spiked =
      drive("rand_k_space_spike_noise", {{"prob", 1.0}, {"intensity_range", {{6.0, 6.0}}}}, {in})[0]
          .tensor("image");
  const at::Tensor change = at::fft_fftn(spiked - image, {}, at::IntArrayRef{1, 2}).abs();
  CHECK(change.gt(1e-2).sum().item<std::int64_t>() <= 2);  // the place and its mirror image
  CHECK(change.max().item<double>() > 1);
  const Sample large = sample_of("image", at::full({2, 60, 60}, 100.0));
  const at::Tensor noisy =
      drive("rand_rician_noise", {{"prob", 1.0}, {"std", 3.0}, {"sample_std", false}}, {large})[0]
          .tensor("image");
  CHECK(noisy.std().item<double>() == doctest::Approx(3).epsilon(0.05));
  CHECK(noisy.mean().item<double>() == doctest::Approx(100).epsilon(0.01));
  CHECK(says(refusal("rand_rician_noise", {{"std", {1.0, 2.0}}}, large), "channel_wise"));
  CHECK(says(refusal("k_space_spike_noise", {{"loc", {{8, 0}}}}, in), "is no place"));
}

TEST_CASE("smooth fields are one for all keys, within their bounds") {
  Sample in = sample_of("image", at::ones({1, 16, 12, 8}));
  in.set("other", sample_of("other", at::ones({2, 16, 12, 8}) * 2).at("other"));
  const Json params = {{"keys", {"image", "other"}},
                       {"prob", 1.0},
                       {"rand_size", {3, 3, 2}},
                       {"gamma", {0.5, 1.5}},
                       {"mode", "trilinear"}};
  const Sample out = drive("rand_smooth_field_adjust_intensity", params, {in})[0];
  const at::Tensor field = out.tensor("image");
  CHECK(out.tensor("other")[1].allclose(2 * field[0]));
  CHECK(field.min().item<double>() >= 0.5);
  CHECK(field.max().item<double>() <= 1.5);
  CHECK((field.diff(1, 1).abs().max() < 0.3).item<bool>());
  CHECK(
      says(refusal("rand_smooth_field_adjust_contrast", {{"prob", 1.0}, {"rand_size", {3, 3}}}, in),
           "rand_size has 2 numbers"));
  CHECK(says(refusal("rand_smooth_field_adjust_contrast",
                     {{"prob", 1.0}, {"rand_size", {3, 3, 3}}, {"spatial_size", 9}}, in),
             "where spatial_size is"));
  const at::Tensor still = drive("rand_smooth_deform",
                                 {{"prob", 1.0},
                                  {"rand_size", {3, 3, 3}},
                                  {"def_range", 1e-6},
                                  {"grid_mode", "bilinear"},
                                  {"grid_align_corners", true}},
                                 {sample_of("image", counted({1, 9, 7, 5}))})[0]
                               .tensor("image");
  CHECK(still.allclose(counted({1, 9, 7, 5}), 1e-3, 1e-2));
  Json cubic{{"prob", 1.0},
             {"rand_size", {3, 3}},
             {"def_range", 1e-6},
             {"grid_mode", "bicubic"},
             {"grid_align_corners", true}};
  CHECK(drive("rand_smooth_deform", cubic, {sample_of("image", counted({1, 9, 7}))})[0]
            .tensor("image")
            .allclose(counted({1, 9, 7}), 1e-3, 1e-2));
  cubic["rand_size"] = {3, 3, 3};
  CHECK(says(refusal("rand_smooth_deform", cubic, sample_of("image", counted({1, 9, 7, 5}))),
             "bicubic sampling is of pictures"));
}

TEST_CASE("pads by the extremes of an axis are numpy's, axis after axis") {
  const at::Tensor image = at::tensor({5.0, 1.0, 4.0, 2.0, 8.0, 3.0}).view({1, 2, 3});
  const auto padded = [&](const char* mode) {
    return drive("border_pad", {{"keys", "image"}, {"spatial_border", {1, 1}}, {"mode", mode}},
                 {sample_of("image", image)})[0]
        .tensor("image");
  };
  const at::Tensor least = at::tensor({1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 5.0, 1.0, 4.0, 1.0,
                                       2.0, 2.0, 8.0, 3.0, 2.0, 1.0, 2.0, 1.0, 3.0, 1.0});
  CHECK(padded("minimum").to(at::kDouble).equal(least.to(at::kDouble).view({1, 4, 5})));
  const at::Tensor most = at::tensor({8.0, 5.0, 8.0, 4.0, 8.0, 5.0, 5.0, 1.0, 4.0, 5.0,
                                      8.0, 2.0, 8.0, 3.0, 8.0, 8.0, 5.0, 8.0, 4.0, 8.0});
  CHECK(padded("maximum").to(at::kDouble).equal(most.to(at::kDouble).view({1, 4, 5})));
}

TEST_CASE("noise is torch's, the same sample from any seed and first that add up to it") {
  const auto drawn = [](Json params, std::uint64_t at) {
    params.update({{"num_samples", 3}, {"shape", {2, 5}}});
    return Driver("noise", params).fire({}, at_index(at)).samples().at(0);
  };
  // torch.rand([2, 5], generator=torch.Generator().manual_seed(7)), and randn.
  const at::Tensor uniform = drawn({{"seed", 6}}, 1).tensor("latent");
  CHECK(uniform.sizes() == at::IntArrayRef({2, 5}));
  CHECK(uniform.flatten()[0].item<float>() == doctest::Approx(0.53492254));
  CHECK(uniform.flatten()[9].item<float>() == doctest::Approx(0.851268351));
  const Sample normal =
      drawn({{"seed", 2}, {"first", 5}, {"distribution", "normal"}, {"key", "z"}}, 0);
  CHECK(normal.name == "5");
  CHECK(normal.tensor("z").flatten()[0].item<float>() == doctest::Approx(-0.146795094));
  CHECK(Driver("noise", {{"num_samples", 3}, {"shape", {2}}}).fire({}, at_index(3)).ended);
}

TEST_CASE("repeat_sample emits the same sample several times") {
  const Sample in = sample_of("image", counted({1, 2, 2}));
  const auto out = drive("repeat_sample", {{"times", 3}}, {in});
  REQUIRE(out.size() == 3);
  for (const Sample& s : out)
    CHECK(s.tensor("image").const_data_ptr() == in.tensor("image").const_data_ptr());
}

TEST_CASE("parts of signals are replaced and cut at the end, shifts and notches do what they say") {
  const Sample in = sample_of("signal", at::full({2, 50}, 7.0));
  for (const char* type : {"signal_rand_drop", "signal_rand_add_sine_partial",
                           "signal_rand_add_square_pulse_partial"}) {
    CAPTURE(type);
    Json params = {{"boundaries", {0.2, 0.2}}};
    if (std::string(type) != "signal_rand_drop") params["fraction"] = {0.2, 0.2};
    for (int k = 0; k < 8; ++k) {
      const at::Tensor out = drive(type, params, {in}, at_index(k))[0].tensor("signal");
      const at::Tensor changed = out[0].ne(7);
      CHECK(out[0].equal(out[1]));
      const auto n = changed.sum().item<std::int64_t>();
      CHECK(n >= 1);
      CHECK(n <= 10);
      const auto first = changed.to(at::kInt).argmax().item<std::int64_t>();
      CHECK(changed.narrow(0, first, n).all().item<bool>());
      CHECK((n == 10 || first + n == 50));
    }
  }
  const Sample steps = sample_of("signal", counted({2, 10}));
  Json shift = {{"boundaries", {0.3, 0.3}}};
  CHECK(drive("signal_rand_shift", shift, {steps})[0].tensor("signal").equal(
      counted({2, 10}).roll(3, 1)));
  shift["mode"] = "constant";
  shift["filling"] = -1;
  const at::Tensor late = drive("signal_rand_shift", shift, {steps})[0].tensor("signal");
  CHECK(late[0].narrow(0, 0, 3).eq(-1).all().item<bool>());
  CHECK(late[1].narrow(0, 3, 7).equal(counted({2, 10})[1].narrow(0, 0, 7)));
  // scipy's iirnotch(50, 5, 500), by lfilter forwards and backwards.
  const at::Tensor t = at::arange(200, at::kDouble);
  const at::Tensor wave = ((t * (2 * M_PI * 50 / 500)).sin() * 0.4 + (t * 0.05).sin() * 0.3);
  const at::Tensor out =
      drive("signal_remove_frequency",
            {{"frequency", 50.0}, {"quality_factor", 5.0}, {"sampling_freq", 500.0}},
            {sample_of("signal", wave.to(at::kFloat).unsqueeze(0))})[0]
          .tensor("signal");
  const std::pair<int, double> wanted[] = {{0, 0.002485},    {3, 0.203195},  {50, 0.178419},
                                           {100, -0.287722}, {150, 0.28085}, {199, -0.137434}};
  for (const auto& [at, value] : wanted)
    CHECK(out[0][at].item<double>() == doctest::Approx(value).epsilon(1e-4));
  CHECK(says(refusal("signal_fill_empty", Json::object(), sample_of("signal", at::zeros({5}))),
             "[channels, length]"));
}

TEST_CASE("a prediction behind transforms is turned back before its statistics are taken") {
  const at::Tensor image = counted({1, 6, 5, 4}).remainder(3);
  const Sample in = sample_of("image", image);
  const Json params = {
      {"transforms",
       {{{"type", "rand_flip"}, {"prob", 0.5}, {"spatial_axis", 0}, {"keys", "image"}},
        {{"type", "rand_rotate90"}, {"prob", 0.5}, {"keys", "image"}}}},
      {"num_examples", 8}};
  const Sample out = predicted("test_time_augmentation", params, in);
  CHECK(out.tensor("pred_mean").allclose(image));
  CHECK(out.tensor("pred_mode").equal(image));
  CHECK(out.tensor("pred_std").abs().max().item<double>() < 1e-6);
  // What changes values shows in the deviation; `body` sees each prediction.
  const Json noisy = {
      {"transforms", {{{"type", "rand_gaussian_noise"}, {"prob", 1.0}, {"std", 0.5}}}},
      {"body", {{{"type", "as_discrete"}, {"threshold", 1.0}}}},
      {"num_examples", 16},
      {"batch_size", 4}};
  const Sample shares = predicted("test_time_augmentation", noisy, in);
  const at::Tensor mean = shares.tensor("pred_mean");
  CHECK((mean * 16).frac().abs().max().item<double>() < 1e-5);
  CHECK(mean.masked_select(image.eq(2)).mean().item<double>() > 0.9);
  CHECK(shares.tensor("pred_std").max().item<double>() > 0.1);
  CHECK_THROWS_AS(predicted("test_time_augmentation", params, in, 2), DataError);
}

TEST_CASE("patches give the image again, whatever their overlap and where they end") {
  for (const Json& image_shape : {Json{2, 7, 5}, Json{1, 7, 5, 9}}) {
    const at::Tensor image = counted(image_shape.get<std::vector<std::int64_t>>());
    const Sample in = sample_of("image", image);
    for (const Json& params : {Json{{"patch_size", 3}}, Json{{"patch_size", 4}, {"overlap", 0.5}},
                               Json{{"patch_size", 4}, {"overlap", 3}, {"batch_size", 5}},
                               Json{{"patch_size", 20}}, Json{{"patch_size", 0}}}) {
      CAPTURE(params.dump());
      const Sample out = predicted("patch_inferer", params, in);
      CHECK(out.tensor("pred").equal(image));
      CHECK(out.at("pred").geometry().affine == in.at("image").geometry().affine);
    }
    const Sample twice = predicted("patch_inferer", {{"patch_size", 3}}, in, 2);
    at::Tensor large = image;
    for (std::int64_t d = 1; d < image.dim(); ++d) large = large.repeat_interleave(2, d);
    CHECK(twice.tensor("pred").equal(large));
    CHECK(twice.at("pred").geometry().affine[0] == doctest::Approx(0.5));
    const at::Tensor some =
        predicted("patch_inferer", {{"patch_size", 3}, {"offset", 1}, {"pad_mode", nullptr}}, in)
            .tensor("pred");
    CHECK(some.isnan().any().item<bool>());
    CHECK(some.eq(image).logical_or(some.isnan()).all().item<bool>());
    CHECK_THROWS_AS(predicted("patch_inferer", {{"patch_size", 3}, {"offset", 7}}, in), DataError);
    CHECK_THROWS_AS(predicted("patch_inferer", {{"patch_size", 3}, {"overlap", 3}}, in), DataError);
    const Json wrong = image.dim() == 3 ? Json{1, 1, 1} : Json{1, 1};
    for (const char* name : {"patch_size", "overlap", "offset"}) {
      Json params = {{"patch_size", 3}};
      params[name] = wrong;
      CHECK_THROWS_WITH_AS(predicted("patch_inferer", params, in),
                           doctest::Contains((std::string(name) + " has one entry or " +
                                              std::to_string(image.dim() - 1) + ", found " +
                                              std::to_string(wrong.size()))
                                                 .c_str()),
                           DataError);
    }
  }
}

TEST_CASE("swa is the mean of the weights at the ends of epochs") {
  auto trained = std::make_shared<Copying>(), mean = std::make_shared<Copying>();
  OpenContext context = with_network(trained);
  context.resources->add("mean", mean);
  const Json params = {{"net", "mean"}, {"of", "net"}, {"from_epoch", 1}, {"swa_freq", 2}};
  auto node = std::make_unique<Driver>("swa", params, context);
  double sum = 0;
  for (std::uint32_t epoch = 0; epoch < 6; ++epoch) {
    trained->weight.fill_(epoch + 1.0);
    node->fire({Sample()}, at_index(0, epoch));
    node->flush(epoch);
    if (epoch % 2 == 1) sum += epoch + 1.0;
    const double wanted = epoch == 0 ? 1 : sum / ((epoch + 1) / 2);
    CHECK(mean->weight.item<double>() == doctest::Approx(wanted));
    State state;  // goes on where it was saved
    node->node().save(state);
    const at::Tensor weight = mean->weight.clone();
    node = std::make_unique<Driver>("swa", params, context);
    node->node().load(state);
    mean->weight.copy_(weight);
  }
}

TEST_CASE("the rows of an .npz file's arrays are samples") {
  const TemporaryFolder folder;
  const auto bytes_of = [&](const at::Tensor& t) {
    write_npy(folder / "one.npy", t);
    std::ifstream file(folder / "one.npy", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const at::Tensor images = counted({3, 4, 5, 2}), labels = at::arange(3);
  const std::string zip =
      zip_of({{"images.npy", bytes_of(images)}, {"labels.npy", bytes_of(labels)}});
  const auto path = folder.write_text("data.npz", zip);
  Json params = {{"file", path.string()},
                 {"keys", {"image", "label"}},
                 {"arrays", {"images", "labels"}},
                 {"channel_dim", {-1, nullptr}}};
  Driver source("npz_items", params);
  for (int i = 0; i < 3; ++i) {
    const Sample s = source.fire({}, at_index(i)).samples().at(0);
    CHECK(s.tensor("image").equal(images[i].movedim(-1, 0)));
    CHECK(s.tensor("label").item<std::int64_t>() == i);
  }
  CHECK(source.fire({}, at_index(3)).ended);
  Json part = params;
  part.update({{"shares", {2, 1}}, {"share", 1}});
  CHECK(
      Driver("npz_items", part).fire({}, at_index(0)).samples().at(0).tensor("label").item<int>() ==
      2);
  params["channel_dim"] = {"no_channel", nullptr};
  CHECK(Driver("npz_items", params).fire({}, at_index(0)).samples().at(0).tensor("image").dim() ==
        4);
  params["arrays"] = {"images", "classes"};
  CHECK_THROWS_WITH_AS(Driver("npz_items", params),
                       (path.string() + ": has no array \"classes.npy\"; it has images.npy, "
                                        "labels.npy")
                           .c_str(),
                       DataError);
  folder.write_text("short.npz", zip.substr(0, zip.size() / 2));
  params["file"] = (folder / "short.npz").string();
  CHECK_THROWS_AS(Driver("npz_items", params), DataError);
}

TEST_CASE("a file mapping says which file was made of which, and keeps what it has") {
  const TemporaryFolder folder;
  OpenContext context;
  context.out_dir = folder.path;
  const auto of_file = [](const std::string& path) {
    auto meta = std::make_shared<Meta>();
    meta->path = path;
    return Field(at::zeros({1}), std::move(meta));
  };
  for (int round = 0; round < 2; ++round) {
    Driver node("write_file_mapping", Json::object(), context);
    for (const char* name : {"a", "b"}) {
      Sample s;
      s.set("image", of_file(std::string("/in/") + name));
      s.set("pred", of_file(std::string("/out/") + name));
      node.fire({s});
    }
    node.flush();
  }
  std::ifstream file(folder / "mapping.json");
  CHECK(Json::parse(file) == Json{{{"input", "/in/a"}, {"output", "/out/a"}},
                                  {{"input", "/in/b"}, {"output", "/out/b"}}});
  Sample same;
  same.set("image", of_file("/in/a"));
  same.set("pred", of_file("/in/a"));
  Driver node("write_file_mapping", Json::object(), context);
  CHECK_THROWS_AS(node.fire({same}), DataError);
}

TEST_CASE("a file of an epoch that was cut in the middle holds the whole epoch") {
  const TemporaryFolder folder;
  OpenContext context;
  context.out_dir = folder.path;
  const auto written = [&](const char* type, const Json& params, const char* file, bool cut) {
    const auto opened = [&] { return std::make_unique<Driver>(type, params, context); };
    auto node = opened();
    for (const std::string name : {"a", "b", "c"}) {
      Sample s;
      for (const char* key : {"image", "pred"}) {
        auto meta = std::make_shared<Meta>();
        meta->path = (folder / (key + name)).string();
        s.set(key, Field(at::ones({1}), std::move(meta)));
      }
      node->fire({s});
      if (!cut || name != "b") continue;
      State state;
      node->node().save(state);
      node = opened();
      node->node().load(state);
    }
    node->flush();
    const FileBytes bytes = read_file(folder / file);
    std::filesystem::remove(folder / file);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const std::tuple<const char*, Json, const char*> sinks[] = {
      {"write_file_mapping", Json::object(), "mapping.json"},
      {"write_datalist", {{"output", "d.json"}, {"keys", "image"}}, "d.json"},
      {"save_classification", Json::object(), "predictions.csv"}};
  for (const auto& [type, params, file] : sinks) {
    CAPTURE(type);
    const std::string whole = written(type, params, file, false);
    CHECK(says(whole, "c"));
    CHECK(written(type, params, file, true) == whole);
  }
}

TEST_CASE("what later parameters and nodes refuse") {
  const Sample volume = sample_of("image", counted({1, 4, 4, 4})),
               picture = sample_of("image", counted({1, 4, 4}));
  const Json image = {{"keys", "image"}};
  const auto with = [&](Json more) {
    more["keys"] = "image";
    return more;
  };
  CHECK(says(refusal("orientation", with({{"axcodes", "RA"}}), volume), "fewer than 3 axes"));
  CHECK(says(refusal("orientation", with({{"axcodes", "SA"}}), picture), "one direction each"));
  CHECK(says(refusal("orientation", with({{"labels", Json::parse(R"([["a", "a"], ["b", "c"]])")}}),
                     volume),
             "pairs"));
  CHECK(says(refusal("affine", with({{"affine", {{1, 0}, {0, 1}}}}), volume), "3 rows of 3"));
  CHECK(says(
      refusal("affine", with({{"affine", {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}, {"scale_params", 1}}),
              picture),
      "instead of"));
  CHECK(says(refusal("pad", with({{"to_pad", {{0, 0}, {1, 1}, {1, 1}}}}), volume), "3 pairs"));
  CHECK(says(refusal("pad", with({{"to_pad", {{1, 0}, {1, 1}, {1, 1}}}}), picture), "not padded"));
  CHECK(says(refusal("grid_distortion",
                     with({{"num_cells", 2}, {"distort_steps", {{1, 1}, {1, 1, 1}}}}), picture),
             "its cells need 3"));
  CHECK(says(refusal("generate_heatmap", {{"spatial_shape", {8, 8}}, {"keys", "points"}},
                     sample_of("points", at::zeros({2, 3}))),
             "points of 3 axes"));
  CHECK(
      says(refusal("convert_box_mode", {{"src_mode", "xywh"}}, sample_of("box", at::zeros({2, 6}))),
           "not of mode xywh"));
  CHECK(says(refusal("add_extreme_points_channel", with({{"label_key", "image"}}),
                     sample_of("image", at::zeros({1, 4, 4}))),
             "no foreground"));
  Sample boxed = sample_of("image", counted({1, 4, 4}));
  boxed.set("box", sample_of("box", at::tensor({0, 0, 9, 2}).view({1, 4})).at("box"));
  boxed.set("label", sample_of("label", at::ones({1})).at("label"));
  CHECK(says(refusal("box_to_mask", Json::object(), boxed), "not inside the image"));
  CHECK(says(refusal("crop_foreground", {{"keys", "image"}, {"channel_indices", {3}}}, volume),
             "names channel 3"));
  const auto nothing = drive("crop_foreground", {{"keys", "image"}, {"allow_empty", true}},
                             {sample_of("image", at::zeros({1, 4, 4, 4}))});
  CHECK(nothing[0].tensor("image").numel() == 0);
}

TEST_CASE("a label's class is its largest number, and a drawn point lies on the object") {
  const Sample label = sample_of("label", at::tensor({0, 3, 1, 3}).view({1, 2, 2}));
  const auto classes = drive("set_label_class", {{"offset", -1}}, {label});
  CHECK(classes[0].tensor("label").dim() == 0);
  CHECK(classes[0].tensor("label").item<std::int64_t>() == 2);

  Sample in = sample_of("image", at::zeros({3, 12, 10}));
  at::Tensor object = at::zeros({1, 12, 10}), others = at::zeros({1, 12, 10}, at::kInt);
  object.slice(1, 2, 6).slice(2, 3, 8).fill_(1);
  others[0][9][1] = others[0][9][3] = 4;
  in.set("label", sample_of("label", object).at("label"));
  in.set("others", sample_of("others", others).at("others"));
  for (const bool by_distance : {false, true})
    for (int i = 0; i < 8; ++i) {
      Driver node("add_point_guidance_signal", {{"use_distance", by_distance}, {"drop_rate", 0}});
      const Sample out = *node.fire({in}, at_index(i)).outs.at(0).sample;
      const at::Tensor image = out.tensor("image");
      REQUIRE(image.size(0) == 5);
      CHECK(image[3].sum().item<float>() == 1);
      CHECK((image[3] * object[0]).sum().item<float>() == 1);
      CHECK(image[4].sum().item<float>() == 1);
      CHECK(image[4][9][2].item<float>() == 1);
    }
  CHECK(says(refusal("split_label", {{"keys", "label"}, {"mask_value", nullptr}},
                     sample_of("label", at::zeros({2, 4, 4}))),
             "needed is a label of one"));
}

TEST_CASE("HoVerNet's post-processing says what it cannot take") {
  Sample in = sample_of("nucleus_prediction", counted({2, 8, 8}));
  in.set("horizontal_vertical", sample_of("hv", at::zeros({2, 8, 8})).at("hv"));
  const std::string node = "hover_net_instance_map_post_processing";
  CHECK(says(refusal(node, Json::object(), in), "has one value everywhere"));
  CHECK(says(refusal(node, {{"activation", "sigmoid"}}, in), "needs one"));
  in.set("horizontal_vertical", sample_of("hv", at::zeros({2, 8, 7})).at("hv"));
  CHECK(says(refusal(node, Json::object(), in), "does not lie on"));
  in.set("horizontal_vertical", sample_of("hv", at::zeros({3, 8, 8})).at("hv"));
  CHECK(says(refusal(node, Json::object(), in), "horizontal and vertical"));
}

TEST_CASE("connected_components numbers equal values as skimage.measure.label does") {
  const auto numbered = [](const at::Tensor& map, Json params = Json::object()) {
    return drive("connected_components", params, {sample_of("label", map)})[0].tensor("label");
  };
  const at::Tensor flat =
      at::tensor({1, 1, 0, 2, 2, 0, 1, 2, 0, 0, 3, 0, 0, 1, 1, 3, 3, 0, 1, 0}).view({1, 4, 5});
  CHECK(at::equal(numbered(flat),
                  at::tensor({1, 1, 0, 2, 2, 0, 1, 2, 0, 0, 3, 0, 0, 4, 4, 3, 3, 0, 4, 0}, at::kInt)
                      .view({1, 4, 5})));
  CHECK(at::equal(numbered(flat, {{"connectivity", 1}}),
                  at::tensor({1, 1, 0, 2, 2, 0, 1, 3, 0, 0, 4, 0, 0, 5, 5, 4, 4, 0, 5, 0}, at::kInt)
                      .view({1, 4, 5})));
  const at::Tensor i = at::arange(210, at::kLong),
                   solid =
                       (i * i * 7).floor_divide(3).remainder(11).remainder(3).view({1, 5, 6, 7});
  for (const auto& [connectivity, count, sum] :
       {std::tuple{1, 35, 97818}, {2, 7, 12758}, {3, 5, 12013}}) {
    const at::Tensor found = numbered(solid, {{"connectivity", connectivity}});
    CHECK(found.max().item<int>() == count);
    CHECK((found.flatten() * (i.remainder(97) + 1)).sum().item<int>() == sum);
  }
  CHECK_THROWS_AS(numbered(at::cat({flat, flat})), DataError);
}
