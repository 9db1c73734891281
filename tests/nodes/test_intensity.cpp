#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "drive.h"
#include "engine/base/error.h"
#include "golden.h"
#include "kernels/augment/pending.h"
#include "kernels/image/bias_field.h"
#include "kernels/image/intensity.h"

using namespace sluice;

namespace {

at::Tensor result(const std::string& type, const Json& params, const at::Tensor& image,
                  std::uint64_t index = 0) {
  return drive(type, params, {sample_of("image", image)}, at_index(index)).at(0).tensor("image");
}

struct HostPlays {
  HostPlays() { host_plays_device(true); }
  ~HostPlays() { host_plays_device(false); }
};

at::Tensor ramp(std::int64_t n) { return at::arange(n, at::kFloat).view({1, n, 1, 1}); }

}  // namespace

TEST_CASE("intensity transforms give MONAI 1.6.1's values") {
  const Json document = golden("intensity.json");
  for (const Json& c : document["cases"]) {
    CAPTURE(c["type"].get<std::string>());
    CAPTURE(c["params"].dump());
    const at::Tensor y = result(c["type"], c["params"], golden_image(shape_of(c)));
    CHECK((y.scalar_type() == at::kFloat));
    CHECK(difference(y, c["expected"]) < 1e-6);
  }
}

TEST_CASE("a bias field gives MONAI 1.6.1's values for given coefficients") {
  for (const Json& c : golden("intensity.json")["bias"]) {
    CAPTURE(c["shape"].dump());
    const at::Tensor x = golden_image(shape_of(c));
    const int degree = c["degree"], rank = static_cast<int>(x.dim()) - 1;
    std::vector<double> coefficients(kernels::bias_coefficients(rank, degree));
    for (std::size_t k = 0; k < coefficients.size(); ++k) coefficients[k] = 0.02 * k - 0.1;
    const auto table = kernels::bias_table(rank, degree, coefficients);
    CHECK(difference(kernels::apply_bias_field(x, degree, table), c["expected"]) < 1e-6);
  }
}

TEST_CASE(
    "normalising and scaling as jobs are the host's, for images of any type, also flat ones") {
  const at::Tensor wave = at::sin(at::arange(2 * 9 * 8 * 7, at::kFloat) * 0.37f).view({2, 9, 8, 7});
  at::Tensor zeros = at::relu(wave), half = (wave > 0) * 5.3f, mixed = wave * 40 + 1e4f;
  mixed[0] = 0.1f;  // a flat channel
  const at::Tensor images[] = {wave * 3 + 1,
                               zeros,
                               half,
                               mixed,
                               at::full({2, 9, 8, 7}, 0.1f),
                               at::zeros({2, 9, 8, 7}),
                               (wave * 100 + 110).to(at::kByte),
                               (zeros * 3000 - 700).to(at::kShort),
                               zeros.view({2, 24, 21})};
  std::vector<std::pair<const char*, Json>> all{
      {"scale_intensity_range", {{"a_min", -1}, {"a_max", 9}, {"b_min", 2}, {"b_max", 3}}},
      {"scale_intensity_range",
       {{"a_min", 0}, {"a_max", 2}, {"b_min", 0}, {"b_max", 1}, {"clip", true}}},
      {"scale_intensity_range", {{"a_min", 1}, {"a_max", 1}, {"b_min", 4}}},
      {"scale_intensity", {{"minv", nullptr}, {"maxv", nullptr}, {"factor", 0.3}}}};
  for (const bool each : {false, true}) {
    all.push_back({"scale_intensity", {{"channel_wise", each}}});
    all.push_back({"scale_intensity", {{"minv", -2}, {"maxv", 5}, {"channel_wise", each}}});
    all.push_back({"scale_intensity", {{"minv", nullptr}, {"channel_wise", each}}});
    for (const bool nonzero : {false, true}) {
      const Json how = {{"channel_wise", each}, {"nonzero", nonzero}};
      for (Json more : {Json::object(), Json{{"subtrahend", 2}}, Json{{"divisor", 7}},
                        Json{{"divisor", 0}}, Json{{"subtrahend", 2}, {"divisor", 7}},
                        Json{{"subtrahend", {1, 2}}, {"divisor", {3, 0}}},
                        Json{{"subtrahend", {1, 2}}}, Json{{"divisor", {3, 0}}}}) {
        more.update(how);
        all.push_back({"normalize_intensity", more});
      }
    }
  }
  for (const auto& [type, params] : all)
    for (const at::Tensor& image : images) {
      CAPTURE(std::string(type));
      CAPTURE(params.dump());
      CAPTURE(c10::str(image.scalar_type(), " ", image[1].min(), " ", image[1].max()));
      const at::Tensor host = result(type, params, image);
      const HostPlays plays;
      const bool lists = params.contains("subtrahend") != params.contains("divisor") &&
                         (params.value("subtrahend", params.value("divisor", Json())).is_array());
      if (lists && !params.at("channel_wise").get<bool>()) {
        CHECK_THROWS_AS(result(type, params, image), DataError);
        continue;
      }
      const at::Tensor job = result(type, params, image);
      REQUIRE((job.scalar_type() == at::kFloat));
      REQUIRE(job.sizes() == host.sizes());
      const double most = std::max(1.0, host.abs().max().item<double>());
      CHECK((job - host).abs().max().item<double>() <= 1e-6 * most);
    }
}

TEST_CASE("intensity transforms never write to their input and take any dtype and layout") {
  const at::Tensor x = at::arange(48, at::kShort).view({2, 4, 3, 2}).transpose(1, 2);
  const at::Tensor before = x.clone();
  const at::Tensor plain = x.contiguous().to(at::kFloat);
  const std::pair<const char*, Json> all[] = {
      {"normalize_intensity", {{"nonzero", true}}},
      {"scale_intensity", Json::object()},
      {"scale_intensity_range", {{"a_min", 3.0}, {"a_max", 30.0}}},
      {"rand_scale_intensity", {{"prob", 1.0}, {"factors", 0.5}}},
      {"rand_shift_intensity", {{"prob", 1.0}, {"offsets", 0.5}}},
      {"rand_gaussian_noise", {{"prob", 1.0}}},
      {"rand_adjust_contrast", {{"prob", 1.0}}},
      {"rand_bias_field", {{"prob", 1.0}}}};
  for (const auto& [type, params] : all) {
    CAPTURE(type);
    const at::Tensor y = result(type, params, x);
    CHECK(y.is_contiguous());
    CHECK(at::equal(x, before));
    CHECK(at::equal(y, result(type, params, plain)));
    CHECK_FALSE(at::equal(y, plain));
  }
}

TEST_CASE("a flat image becomes 0 when normalised and x minv when scaled") {
  const at::Tensor flat = at::full({1, 2, 2, 2}, 7.0f);
  CHECK(at::equal(result("normalize_intensity", {}, flat), at::zeros_like(flat)));
  CHECK(at::equal(result("scale_intensity", {{"minv", 0.5}}, flat), flat * 0.5));
}

TEST_CASE("nonzero leaves an image of zeros alone") {
  const at::Tensor zeros = at::zeros({1, 2, 2, 2});
  CHECK(at::equal(result("normalize_intensity", {{"nonzero", true}}, zeros), zeros));
}

TEST_CASE("moments keep their digits beside a large mean") {
  const at::Tensor x = ramp(100000).remainder(2) + 1e6f;
  const auto m = kernels::moments(x, false, false).at(0);
  CHECK(m.mean == doctest::Approx(1000000.5).epsilon(1e-12));
  CHECK(m.std == doctest::Approx(0.5).epsilon(1e-9));
}

TEST_CASE("subtrahend values that do not fit the channels are refused") {
  CHECK_THROWS_WITH_AS(
      result("normalize_intensity", {{"subtrahend", {1.0, 2.0, 3.0}}}, at::ones({2, 2, 2, 2})),
      "field \"image\" has 2 channels, but subtrahend or divisor has 3 values", DataError);
}

TEST_CASE("a key that a sample lacks is an error unless allowed") {
  const Sample sample = sample_of("image", ramp(4));
  const Json keys = {{"keys", {"image", "other"}}};
  Json allowed = keys;
  allowed["allow_missing_keys"] = true;
  CHECK_THROWS_AS(drive("scale_intensity", keys, {sample}), DataError);
  CHECK(drive("scale_intensity", allowed, {sample}).at(0).has("image"));
}

TEST_CASE("prob 0 passes the very sample on") {
  const auto sample = std::make_shared<const Sample>(sample_of("image", ramp(4)));
  for (const char* type : {"rand_gaussian_noise", "rand_adjust_contrast", "rand_bias_field"}) {
    const auto fired = Driver(type, {{"prob", 0.0}}).fire_ports({{sample}}, at_index(0));
    CHECK(fired.outs.at(0).sample == sample);
  }
}

TEST_CASE("all keys share one draw, and another stamp is another draw") {
  const std::pair<const char*, Json> all[] = {{"rand_gaussian_noise", Json::object()},
                                              {"rand_adjust_contrast", Json::object()},
                                              {"rand_bias_field", Json::object()},
                                              {"rand_scale_intensity", {{"factors", 0.5}}},
                                              {"rand_shift_intensity", {{"offsets", {1.0, 2.0}}}}};
  for (auto [type, params] : all) {
    CAPTURE(type);
    params["prob"] = 1.0;
    params["keys"] = {"image", "other"};
    Sample sample = sample_of("image", ramp(50));
    sample.set("other", sample.at("image"));
    const Sample out = drive(type, params, {sample}, at_index(3)).at(0);
    CHECK(at::equal(out.tensor("image"), out.tensor("other")));
    const Sample next = drive(type, params, {sample}, at_index(4)).at(0);
    CHECK_FALSE(at::equal(out.tensor("image"), next.tensor("image")));
  }
}

TEST_CASE("channel_wise draws differ between channels") {
  const at::Tensor y =
      result("rand_shift_intensity", {{"prob", 1.0}, {"offsets", 1.0}, {"channel_wise", true}},
             at::zeros({3, 2, 2, 2}));
  CHECK(at::equal(y.amax({1, 2, 3}), y.amin({1, 2, 3})));
  CHECK(y[0][0][0][0].item<float>() != y[1][0][0][0].item<float>());
}

TEST_CASE("shifts stay within their bounds and fill them") {
  double low = 1e9, high = -1e9;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const auto y = result("rand_shift_intensity", {{"prob", 1.0}, {"offsets", 2.0}},
                          at::zeros({1, 1, 1, 1}), i);
    low = std::min<double>(low, y.item<float>());
    high = std::max<double>(high, y.item<float>());
  }
  CHECK(low >= -2.0);
  CHECK(low < -1.9);
  CHECK(high <= 2.0);
  CHECK(high > 1.9);
}

TEST_CASE("noise has the given mean and deviation and is normal up to the fourth moment") {
  const at::Tensor y = result("rand_gaussian_noise",
                              {{"prob", 1.0}, {"mean", 2.0}, {"std", 3.0}, {"sample_std", false}},
                              at::zeros({1, 100, 100, 50}));
  const at::Tensor z = (y.to(at::kDouble) - 2.0) / 3.0;
  CHECK(std::abs(z.mean().item<double>()) < 5 / std::sqrt(5e5));
  CHECK(std::abs(z.pow(2).mean().item<double>() - 1) < 0.01);
  CHECK(std::abs(z.pow(3).mean().item<double>()) < 0.02);
  CHECK(std::abs(z.pow(4).mean().item<double>() - 3) < 0.07);
  CHECK(z.abs().max().item<double>() > 4);
  CHECK(z.isfinite().all().item<bool>());
}

TEST_CASE("noise is random access: a voxel's draw is its number's alone") {
  const Random::Stream stream{0x1234567890abcdefull, 99};
  const at::Tensor all = kernels::add_noise(at::zeros({1, 1001}), 0, 1, stream).flatten();
  for (std::uint64_t i : {0, 1, 2, 3, 4, 255, 256, 999, 1000}) {
    const Block4 block = philox(i / 4, stream.counter_high, stream.key);
    float x, y;
    normal_pair(block.v[i % 4 / 2 * 2], block.v[i % 4 / 2 * 2 + 1], x, y);
    CHECK(all[i].item<float>() == doctest::Approx(i % 2 ? y : x).epsilon(1e-4));
  }
}

TEST_CASE("the short series stay within 3e-7 of libm's functions") {
  double log_error = 0, exp_error = 0, sin_error = 0, pow_error = 0;
  for (int i = 1; i < 200000; ++i) {
    const float x = static_cast<float>(i) / 200000.0f;
    const float y = (x - 0.5f) * 40;
    float s, c;
    kernels::sincos_turn(x, s, c);
    const double log2x = std::log2(static_cast<double>(x));
    log_error = std::max(
        log_error, std::abs(kernels::log2_positive(x) - log2x) / std::max(std::abs(log2x), 1e-3));
    exp_error = std::max(exp_error, std::abs(kernels::exp2_bounded(y) / std::exp2(double{y}) - 1));
    sin_error = std::max({sin_error, std::abs(s - std::sin(6.283185307179586 * double{x})),
                          std::abs(c - std::cos(6.283185307179586 * double{x}))});
    for (float g : {0.5f, 1.0f, 2.2f, 4.5f})
      pow_error =
          std::max(pow_error, std::abs(kernels::pow_unit(x, g) - std::pow(double{x}, double{g})));
  }
  CHECK(log_error < 3e-7);
  CHECK(exp_error < 3e-7);
  CHECK(sin_error < 3e-7);
  CHECK(pow_error < 3e-7);
  CHECK(kernels::pow_unit(0, 0.5f) == 0);
  CHECK(std::isnan(kernels::pow_unit(std::numeric_limits<float>::quiet_NaN(), 0.5f)));
  CHECK(kernels::pow_unit(1, 4.5f) == 1);
}

TEST_CASE("NaN stays where it was") {
  at::Tensor x = ramp(20).clone();
  x.view(-1)[7] = std::nanf("");
  const at::Tensor y =
      result("scale_intensity_range",
             {{"a_min", 0.0}, {"a_max", 9.0}, {"b_min", 0.0}, {"b_max", 1.0}, {"clip", true}}, x);
  CHECK(y.isnan().sum().item<std::int64_t>() == 1);
  CHECK(y.view(-1)[7].isnan().item<bool>());
}

TEST_CASE(
    "where a NaN is, the image's range and percentiles are NaN, and so is all that they make") {
  at::Tensor x = ramp(40).clone();
  x.view(-1)[7] = std::nanf("");
  const std::pair<const char*, Json> all[] = {
      {"scale_intensity", Json::object()},
      {"adjust_contrast", {{"gamma", 1.5}}},
      {"scale_intensity_fixed_mean",
       {{"factor", 0.5}, {"fixed_mean", false}, {"preserve_range", true}}},
      {"rand_histogram_shift", {{"prob", 1.0}}},
      {"clip_intensity_percentiles", {{"lower", 10}, {"upper", 90}}},
      {"clip_intensity_percentiles", {{"upper", 90}, {"sharpness_factor", 2}}},
      {"scale_intensity_range_percentiles",
       {{"lower", 10}, {"upper", 90}, {"b_min", 0.0}, {"b_max", 1.0}, {"clip", true}}}};
  for (const auto& [type, params] : all) {
    CAPTURE(std::string(type));
    CHECK(result(type, params, x).isnan().all().item<bool>());
    if (std::string(type) != "scale_intensity" && std::string(type) != "adjust_contrast") continue;
    const HostPlays plays;
    CHECK(result(type, params, x).isnan().all().item<bool>());
  }
  const Json each = {{"lower", 10}, {"upper", 90}, {"channel_wise", true}};
  const at::Tensor two = result("clip_intensity_percentiles", each, at::cat({x, ramp(40)}));
  CHECK(two[0].isnan().all().item<bool>());
  CHECK_FALSE(two[1].isnan().any().item<bool>());
}

TEST_CASE("a cval that the field's type cannot hold is refused in words") {
  const Sample small = sample_of("image", at::arange(4, at::kByte).view({1, 2, 2}));
  const Json params = {{"keys", "image"}, {"threshold", 1}, {"cval", -1}};
  CHECK_THROWS_WITH_AS(drive("threshold_intensity", params, {small}),
                       doctest::Contains("field \"image\" is uint8, which cannot hold cval -1"),
                       DataError);
}

TEST_CASE("parameters that make no sense are refused when the run begins") {
  CHECK_THROWS(Driver("rand_adjust_contrast", {{"gamma", {0.0, 2.0}}}));
  CHECK_THROWS(Driver("rand_scale_intensity", {{"factors", {1.0, 2.0, 3.0}}}));
  CHECK_THROWS(Driver("rand_bias_field", {{"coeff_range", {1.0}}}));
}
