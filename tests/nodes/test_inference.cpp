#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/GradMode.h>
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <optional>
#include <set>

#include "drive.h"
#include "engine/base/error.h"
#include "engine/state/averaged_network.h"
#include "engine/state/checkpoint.h"
#include "engine/state/resource.h"
#include "golden.h"
#include "kernels/image/labels.h"

using namespace sluice;

namespace {

// Two channels that depend on the place in the window, as make_intensity.py's net().
struct Toy final : Network {
  using Network::forward;
  Tensors forward(const Tensors& all, std::size_t) override {
    const at::Tensor& x = all[0];
    largest_batch = std::max(largest_batch, x.size(0));
    ++calls;
    grad = grad || c10::GradMode::is_enabled();
    const at::Tensor ramp =
        at::arange(x[0][0].numel(), at::kFloat).view(x.sizes().slice(2)).div(50);
    return {at::cat({x * 2 + 1, x * ramp}, 1)};
  }
  Named parameters() const override { return {}; }
  void train(bool on) override { training = on; }
  void initialise(std::uint64_t) override {}

  std::int64_t largest_batch = 0, calls = 0;
  bool grad = false, training = true;
};

// Toy's middle, `margin` voxels from a window's edges, and 3 less that.
struct ToyMiddle final : Network {
  explicit ToyMiddle(std::int64_t m) : margin(m) {}
  std::size_t output_count() const override { return 2; }
  Tensors forward(const Tensors& all, std::size_t count) override {
    at::Tensor y = Toy().forward(all, 1)[0];
    for (std::int64_t a = 2; a < y.dim(); ++a) y = y.narrow(a, margin, y.size(a) - 2 * margin);
    return count == 1 ? Tensors{y} : Tensors{y, 3 - y};
  }
  Named parameters() const override { return {}; }
  void initialise(std::uint64_t) override {}
  const std::int64_t margin;
};

// Toy's outputs on grids so many times coarser.
struct ToyCoarse final : Network {
  explicit ToyCoarse(std::vector<std::int64_t> f) : factors(std::move(f)) {}
  std::size_t output_count() const override { return factors.size(); }
  Tensors forward(const Tensors& all, std::size_t) override {
    seen.push_back(all[0].sizes().vec());
    Tensors out;
    for (const std::int64_t k : factors) {
      out.push_back(Toy().forward(all, 1)[0]);
      for (std::int64_t a = 2; a < all[0].dim(); ++a)
        out.back() = out.back().slice(a, 0, {}, k).contiguous();
    }
    return out;
  }
  Named parameters() const override { return {}; }
  void initialise(std::uint64_t) override {}
  const std::vector<std::int64_t> factors;
  std::vector<std::vector<std::int64_t>> seen;
};

struct Coarse {
  std::shared_ptr<ToyCoarse> net;
  Sample sample;
  Coarse(Json params, const std::vector<std::int64_t>& factors, const at::Tensor& image)
      : net(std::make_shared<ToyCoarse>(factors)) {
    OpenContext context;
    context.resources = std::make_shared<Resources>();
    context.resources->add("net", net);
    params.update({{"net", "net"}, {"smaller_outputs", "coarse"}});
    for (std::size_t i = 0; i < factors.size(); ++i)
      params["output_key"].push_back("map_" + std::to_string(i));
    sample =
        Driver("sliding_window", params, context).fire({sample_of("image", image)}).samples().at(0);
  }
};

Sample middles_of(Json params, std::int64_t margin, const at::Tensor& image) {
  OpenContext context;
  context.resources = std::make_shared<Resources>();
  context.resources->add("net", std::make_shared<ToyMiddle>(margin));
  params["net"] = "net";
  if (!params.contains("output_key")) params["output_key"] = {"pred", "other"};
  return Driver("sliding_window", params, context)
      .fire({sample_of("image", image)})
      .samples()
      .at(0);
}

struct Inferred {
  std::shared_ptr<Toy> net = std::make_shared<Toy>();
  Sample sample;

  Inferred(Json params, const at::Tensor& image) {
    OpenContext context;
    context.resources = std::make_shared<Resources>();
    context.resources->add("net", net);
    params["net"] = "net";
    Driver driver("sliding_window", params, context);
    sample = driver.fire({sample_of("image", image)}).samples().at(0);
  }
  const at::Tensor& pred() const { return sample.tensor("pred"); }
};

// Counts the bytes that tensors hold on the host while it is in place.
class Counted final : public c10::Allocator {
 public:
  Counted() : host_(at::GetAllocator(at::kCPU)) { at::SetAllocator(at::kCPU, this, 100); }
  ~Counted() override { at::SetAllocator(at::kCPU, host_, 100); }
  at::DataPtr allocate(std::size_t bytes) override {
    held += static_cast<std::int64_t>(bytes);
    most = std::max<std::int64_t>(most, held);
    auto* block = new Block{host_->allocate(bytes), bytes};
    return {block->memory.get(), block, let_go, at::kCPU};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  static inline std::atomic<std::int64_t> held{0}, most{0};

 private:
  struct Block {
    at::DataPtr memory;
    std::size_t bytes;
  };
  static void let_go(void* block) {
    held -= static_cast<std::int64_t>(static_cast<Block*>(block)->bytes);
    delete static_cast<Block*>(block);
  }
  c10::Allocator* const host_;
};

// As make_intensity.py's dice_inputs().
std::pair<at::Tensor, at::Tensor> dice_inputs() {
  const at::Tensor scores = at::arange(3 * 3 * 120, at::kDouble).mul(1.3).sin();
  const at::Tensor label =
      at::arange(3 * 120, at::kLong).mul(7).remainder(11).remainder(3).view({3, 1, 6, 5, 4});
  label[1].masked_fill_(label[1].eq(2), 0);
  return {scores.to(at::kFloat).view({3, 3, 6, 5, 4}), label};
}

// A map a class of its points in the window, each of its label plus the class' number.
struct Pointed final : Network {
  Tensors forward(const Tensors& all, std::size_t) override {
    const at::Tensor &x = all[0], &classes = all[1], &points = all[2], &labels = all[3];
    at::Tensor y = at::zeros({x.size(0), classes.size(1), x.size(2), x.size(3), x.size(4)});
    for (std::int64_t n = 0; n < y.size(0); ++n)
      for (std::int64_t k = 0; k < y.size(1); ++k)
        for (std::int64_t i = 0; i < labels.size(2); ++i) {
          const auto label = labels[n][k][i].item<std::int64_t>();
          if (label < 0) continue;
          const auto at = [&](int a) { return points[n][k][i][a].item<std::int64_t>(); };
          y[n][k][at(0)][at(1)][at(2)] = label + classes[n][k].item<std::int64_t>();
        }
    return {y};
  }
  Named parameters() const override { return {}; }
  void initialise(std::uint64_t) override {}
};

Sample pair_of(at::Tensor pred, at::Tensor label) {
  Sample s = sample_of("pred", std::move(pred));
  s.set("label", Field(std::move(label), s.at("pred").meta));
  return s;
}

double metric(const std::vector<std::pair<std::string, double>>& all, const std::string& name) {
  for (const auto& [n, value] : all)
    if (n == name) return value;
  FAIL("no metric " << name);
  return 0;
}

}  // namespace

TEST_CASE("Prompts are the same in each window, and points move to where it begins") {
  OpenContext context;
  context.resources = std::make_shared<Resources>();
  context.resources->add("net", std::make_shared<Pointed>());
  // Two images, two classes, points all over; the last axis is shorter than its window.
  const at::Tensor image = at::zeros({2, 1, 9, 7, 3});
  const at::Tensor i = at::arange(2 * 2 * 5);
  const at::Tensor points =
      at::stack({i * 4 % 9, i * 3 % 7, i * 2 % 3}, 1).view({2, 2, 5, 3}).to(at::kFloat);
  const at::Tensor labels = (i % 4 - 1).view({2, 2, 5});  // some are none
  const at::Tensor classes = at::tensor({10, 20, 30, 40}).view({2, 2});
  const auto shown = [&](Json params, bool alone) {
    Sample s = sample_of("image", alone ? image[1] : image);
    s.set("class_vector",
          sample_of("class_vector", alone ? classes[1] : classes).at("class_vector"));
    s.set("point_coords", sample_of("point_coords", alone ? points[1] : points).at("point_coords"));
    s.set("point_labels", sample_of("point_labels", alone ? labels[1] : labels).at("point_labels"));
    params.update(
        {{"net", "net"}, {"further_keys", {"class_vector", "point_coords", "point_labels"}}});
    return Driver("sliding_window", params, context).fire({s}).samples().at(0).tensor("pred");
  };
  at::Tensor expected = at::zeros({2, 2, 9, 7, 3});
  for (std::int64_t n = 0; n < 2; ++n)
    for (std::int64_t k = 0; k < 2; ++k)
      for (std::int64_t at = 0; at < 5; ++at)
        if (const auto label = labels[n][k][at].item<std::int64_t>(); label >= 0) {
          const at::Tensor p = points[n][k][at].to(at::kLong);
          expected[n][k][p[0].item<std::int64_t>()][p[1].item<std::int64_t>()]
                  [p[2].item<std::int64_t>()] = label + classes[n][k].item<std::int64_t>();
        }
  const Json keys = {"point_coords", "point_labels"};
  for (const int batch : {1, 3, 16})
    for (const double overlap : {0.0, 0.5})
      for (const Json& roi : {Json{4, 4, 4}, Json{0, 0, 0}, Json{20, 7, 5}}) {
        CAPTURE(roi.dump());
        const Json params{{"roi_size", roi},
                          {"overlap", overlap},
                          {"sw_batch_size", batch},
                          {"point_keys", keys}};
        CHECK(at::allclose(shown(params, false), expected));
        CHECK(at::allclose(shown(params, true), expected[1]));
      }
  const auto refuses = [&](Json params, const char* why) {
    params["roi_size"] = {4, 4, 4};
    CHECK_THROWS_WITH(shown(params, false), doctest::Contains(why));
  };
  refuses({{"point_keys", {"point_coords"}}}, "point_keys are two");
  refuses({{"point_keys", {"point_coords", "clicks"}}}, "\"clicks\" is not one of further_keys");
  refuses({{"point_keys", keys}, {"mirror_axes", {0}}}, "leave out mirror_axes");
  refuses({{"point_keys", {"point_labels", "point_coords"}}}, "needed are [..., 3] and [...]");
}

TEST_CASE("sliding_window blends windows as MONAI 1.6.1 does") {
  for (const Json& c : golden("inference.json")["sliding_window"]) {
    CAPTURE(c["params"].dump());
    const at::Tensor x = golden_image(shape_of(c));
    const Inferred batch(c["params"], x);
    CHECK(difference(batch.pred(), c["expected"]) < 1e-6);
    CHECK(batch.net->largest_batch <= c["params"]["sw_batch_size"].get<std::int64_t>());
    if (x.size(0) > 1) continue;
    const Inferred single(c["params"], x[0]);
    CHECK(at::equal(single.pred(), batch.pred()[0]));
  }
}

TEST_CASE("windows whose outputs are their middle blend as MONAI's HoVerNet inferer does") {
  for (const Json& c : golden("inference.json")["middles"]) {
    CAPTURE(c["params"].dump());
    const Sample s = middles_of(c["params"], c["margin"], golden_image(shape_of(c)));
    CHECK(difference(s.tensor("pred"), c["expected"][0]) < 1e-6);
    CHECK(difference(s.tensor("other"), c["expected"][1]) < 1e-6);
  }
  const at::Tensor image = golden_image({1, 11, 8});
  const Json whole = {
      {"roi_size", {6, 6}}, {"overlap", 0.34}, {"extra_input_padding", {1, 1, 1, 1}}};
  const auto with = [&whole](Json more) {
    Json all = whole;
    all.update(more);
    return all;
  };
  // What is not asked for changes nothing; a single window's middle is no whole result.
  CHECK(at::equal(middles_of(with({{"output_key", "pred"}}), 1, image).tensor("pred"),
                  middles_of(whole, 1, image).tensor("pred")));
  CHECK(
      middles_of(with({{"sw_batch_size", 9}}), 1, golden_image({1, 4, 4})).tensor("pred").sizes() ==
      at::IntArrayRef{2, 4, 4});
  const auto refuses = [&](const Json& params, std::int64_t margin, const char* why) {
    CHECK_THROWS_WITH_AS(middles_of(params, margin, image), doctest::Contains(why), Error);
  };
  const char* needs = "makes 4 of a window's 6 voxels along axis 0; for all of the image it needs";
  refuses(with({{"overlap", 0.1}}), 1, needs);
  refuses(with({{"extra_input_padding", {1, 1, 1, 0}}}), 1, needs);
  refuses(with({{"extra_input_padding", Json::array()}}), 1, "extra_input_padding 1, 1 there");
  refuses(with({{"extra_input_padding", {1, 1, 1}}}), 1, "two an axis");
  refuses(with({{"extra_input_padding", {1, 1, 1, 1, 1, 1}}}), 1, "6 numbers for 2 axes");
  refuses(with({{"argmax", true}}), 1, "argmax is for one output; output_key names 2");
  refuses(with({{"output_key", {"a", "b", "c"}}}), 1, "has 2 outputs, but 3 are named");
  CHECK_THROWS_WITH_AS(
      middles_of(with({{"extra_input_padding", {9, 9, 9, 9}}, {"padding_mode", "reflect"}}), 1,
                 image),
      doctest::Contains("has 8 voxels, too few to be filled up by 9"), DataError);
}

TEST_CASE("windows whose outputs are on coarser grids blend as MONAI's do") {
  for (const Json& c : golden("inference.json")["coarse"]) {
    CAPTURE(c["params"].dump());
    const auto factors = c["factors"].get<std::vector<std::int64_t>>();
    const Coarse found(c["params"], factors, golden_image(shape_of(c)));
    for (std::size_t i = 0; i < factors.size(); ++i)
      CHECK(difference(found.sample.tensor("map_" + std::to_string(i)), c["expected"][i]) < 1e-6);
  }
  const auto refuses = [](const Json& params, const at::Tensor& image, const char* why) {
    CHECK_THROWS_WITH_AS(Coarse(params, {2}, image), doctest::Contains(why), Error);
  };
  const at::Tensor image = golden_image({1, 12, 8});
  refuses({{"roi_size", {7, 8}}}, image, "makes 4 of a window's 7 voxels along axis 0");
  refuses({{"roi_size", {8, 8}}, {"overlap", 0.4}}, golden_image({1, 13, 8}), "must be multiples");
  refuses({{"roi_size", {8, 8}}, {"extra_input_padding", {1, 1}}}, image, "they are of all of it");
}

TEST_CASE("an image with fewer voxels than a window is seen at once where whole_key says so") {
  const Json params = {{"roi_size", {8, 8}}, {"overlap", 0.5}, {"whole_key", "image"}};
  const auto seen = [&](const at::Tensor& image) { return Coarse(params, {2}, image).net->seen; };
  using Sizes = std::vector<std::vector<std::int64_t>>;
  CHECK(seen(golden_image({2, 1, 12, 5})) == Sizes{{2, 1, 12, 5}});
  CHECK(seen(golden_image({1, 16, 4})) == Sizes{{1, 1, 8, 8}, {1, 1, 8, 8}, {1, 1, 8, 8}});
}

TEST_CASE("sliding_window's argmax gives what a node argmax behind it gives") {
  at::manual_seed(11);
  const auto draw = [](std::int64_t low, std::int64_t high) {  // both included
    return at::randint(low, high + 1, {1}, at::kLong).item<std::int64_t>();
  };
  for (int i = 0; i < 40; ++i) {
    std::vector<std::int64_t> shape{draw(1, 3), 1}, roi;
    std::vector<double> overlap;
    const std::int64_t axes = draw(2, 3);
    for (std::int64_t a = 0; a < axes; ++a) {
      shape.push_back(draw(2, 13));
      roi.push_back(draw(0, 6));  // 0: the image's extent; some are larger than the image
      overlap.push_back(static_cast<double>(draw(0, 9)) / 10);
    }
    Json params = {{"roi_size", roi},
                   {"overlap", overlap},
                   {"mode", draw(0, 1) ? "gaussian" : "constant"},
                   {"sw_batch_size", draw(1, 5)}};
    CAPTURE(params.dump());
    const at::Tensor x = at::randn(shape).mul(4).round().div(4);
    const Inferred scores(params, x);
    params["argmax"] = true;
    const Inferred classes(params, x);
    const at::Tensor expected = scores.pred().argmax(1, true).to(at::kByte);
    CHECK((classes.pred().scalar_type() == at::kByte));
    CHECK(at::equal(classes.pred(), expected));
    CHECK(classes.net->calls == scores.net->calls);
    CHECK(at::equal(Inferred(params, x[0]).pred(), expected[0]));
  }
}

TEST_CASE("sliding_window holds its result, a pass of windows and a window's depth of planes") {
  constexpr std::int64_t x = 96, y = 20, z = 24, d = 8, batch = 2, channels = 2;
  const at::Tensor image = at::rand({1, x, y, z});
  const Json params = {{"roi_size", d}, {"sw_batch_size", batch}, {"mode", "gaussian"}};
  // Of a pass: windows, logits, and what Toy holds in between.
  const std::int64_t pass = 8 * batch * (1 + channels) * d * d * d * 4, plane = y * z * 4;
  const std::int64_t small = 16 << 10;
  for (const bool argmax : {false, true}) {
    Json with = params;
    with["argmax"] = argmax;
    Counted::held = Counted::most = 0;
    std::optional<Inferred> run;
    {
      const Counted count;
      run.emplace(with, image);
    }
    const std::int64_t result = argmax ? x * y * z : channels * x * plane;
    const std::int64_t depth = d * plane * (argmax ? channels + 1 : 1);
    CHECK(Counted::most >= result + depth);
    CHECK(Counted::most <= result + depth + pass + small);
    CHECK(Counted::most < result + x * plane);  // less than one volume of floats more
  }
}

TEST_CASE("mirror_axes takes the mean over all flips of a window, as nnU-Net does") {
  const at::Tensor image = at::sin(at::arange(2 * 9 * 7, at::kFloat)).view({1, 2, 9, 7});
  const Json window = {{"roi_size", {2, 4, 4}}, {"overlap", 0.5}, {"mode", "gaussian"}};
  Json mirrored = window;
  mirrored["mirror_axes"] = {0, 2};
  const Inferred found(mirrored, image);
  // A flip of the image flips its windows only where they lie alike on it: one window a time.
  Json whole = mirrored, plain = window;
  whole["roi_size"] = plain["roi_size"] = {2, 9, 7};
  at::Tensor expected = at::zeros({2, 2, 9, 7});
  for (const std::vector<std::int64_t>& axes :
       std::vector<std::vector<std::int64_t>>{{}, {1}, {3}, {1, 3}})
    expected += Inferred(plain, image.flip(axes)).pred().flip(axes) / 4;
  const Inferred alone(whole, image);
  CHECK(at::allclose(alone.pred(), expected, 1e-5, 1e-6));
  CHECK(alone.net->calls == 4);
  CHECK(found.pred().sizes() == expected.sizes());
  CHECK_FALSE(at::allclose(found.pred(), Inferred(window, image).pred()));

  CHECK_THROWS_WITH_AS(Inferred({{"roi_size", {4, 4}}, {"mirror_axes", {2}}}, image[0]),
                       doctest::Contains("axis 2 of 2"), Error);
  CHECK_THROWS_WITH_AS(Inferred({{"roi_size", {2, 4, 4}}, {"mirror_axes", {1, 1}}}, image),
                       doctest::Contains("twice"), Error);
}

TEST_CASE("sliding_window's network runs in evaluation mode and without a tape") {
  const Inferred run({{"roi_size", 4}}, golden_image({1, 6, 5, 4}));
  CHECK_FALSE(run.net->grad);
  CHECK_FALSE(run.net->training);
  CHECK(run.pred().sizes() == at::IntArrayRef{2, 6, 5, 4});
  CHECK(run.sample.at("pred").meta == run.sample.at("image").meta);
}

TEST_CASE("a volume no larger than the window takes one forward pass") {
  const at::Tensor x = golden_image({1, 4, 3, 4});
  const Inferred run({{"roi_size", 4}, {"mode", "gaussian"}}, x);
  CHECK(run.net->calls == 1);
  const Inferred whole({{"roi_size", {0, 0, 0}}}, x);
  CHECK(at::equal(whole.pred(), whole.net->forward(x.unsqueeze(0))[0]));
}

TEST_CASE("a gaussian importance map is a product of Gaussians and never below 1e-3") {
  // One window of four voxels that covers x = 1 .. 4 after x = 0 .. 3 in an image of five: the
  // blend of 1 (first window) and 0 (second) at x = 1 is w[1] / (w[1] + w[0]).
  struct Once final : Network {
    int calls = 0;
    Tensors forward(const Tensors& x, std::size_t) override {
      return {at::full_like(x[0], calls++ ? 0 : 1)};
    }
    Named parameters() const override { return {}; }
    void initialise(std::uint64_t) override {}
  };
  OpenContext context;
  context.resources = std::make_shared<Resources>();
  context.resources->add("net", std::make_shared<Once>());
  const Json params = {
      {"net", "net"}, {"roi_size", {4, 1, 1}}, {"mode", "gaussian"}, {"overlap", 0.9}};
  Driver driver("sliding_window", params, context);
  const at::Tensor y =
      driver.fire({sample_of("image", at::zeros({1, 5, 1, 1}))}).samples().at(0).tensor("pred");
  const auto w = golden("inference.json")["importance_4"].get<std::vector<double>>();
  CHECK(w[0] == doctest::Approx(std::exp(-1.5 * 1.5 / 0.5)).epsilon(1e-6));
  CHECK(y[0][1][0][0].item<float>() == doctest::Approx(w[1] / (w[1] + w[0])).epsilon(1e-6));
  CHECK(y[0][3][0][0].item<float>() == doctest::Approx(w[3] / (w[3] + w[2])).epsilon(1e-5));
}

TEST_CASE("sliding_window names a rank that does not fit") {
  CHECK_THROWS_AS(Inferred({{"roi_size", {4, 4}}}, golden_image({1, 4, 4, 4, 4})), DataError);
  const at::Tensor image = golden_image({1, 4, 4, 4});
  for (const char* name : {"overlap", "sigma_scale", "roi_divisible"}) {
    const std::string why = std::string(name) + " has one entry or 3, found 2";
    CHECK_THROWS_WITH_AS(Inferred({{"roi_size", {4, 4, 4}}, {name, {0, 0}}}, image), why.c_str(),
                         Error);
  }
}

TEST_CASE("one number for the window counts along each axis that the network has") {
  struct Flat final : Network {
    int spatial_axes() const override { return 2; }
    Tensors forward(const Tensors& x, std::size_t) override {
      CHECK(x[0].sizes() == at::IntArrayRef{1, 1, 4, 4});
      return {x[0] * 2};
    }
    // Of as many axes as a 3-D convolution's.
    Named parameters() const override { return {{"places", at::ones({1, 4, 4, 3, 3})}}; }
    void initialise(std::uint64_t) override {}
  };
  OpenContext context;
  context.resources = std::make_shared<Resources>();
  context.resources->add("net", std::make_shared<Flat>());
  Driver driver("sliding_window", {{"net", "net"}, {"roi_size", 4}, {"overlap", {0.5, 0}}},
                context);
  for (const at::Tensor& image : {golden_image({1, 7, 6}), golden_image({1, 1, 7, 6})})
    CHECK(at::allclose(driver.fire({sample_of("image", image)}).samples().at(0).tensor("pred"),
                       image * 2));
  CHECK(AveragedNetwork({std::make_shared<Flat>(), std::make_shared<Flat>()}).spatial_axes() == 2);
  CHECK(Toy().spatial_axes() == 0);
  for (const int axes : {2, 3}) {
    const Json params{{"spatial_dims", axes}, {"in_channels", 1}, {"out_channels", 2}};
    CHECK(Registry::global().make_network("basic_unet", params)->spatial_axes() == axes);
  }
}

TEST_CASE("sliding_window names an axis that is too short to be repeated up to its window") {
  const at::Tensor image = golden_image({1, 3, 4, 4});
  CHECK_THROWS_WITH_AS(Inferred({{"roi_size", {20, 0, 0}}, {"padding_mode", "circular"}}, image),
                       doctest::Contains("axis 0 of field \"image\" has 3 voxels"), DataError);
  CHECK_THROWS_AS(Inferred({{"roi_size", {9, 4, 4}}, {"padding_mode", "reflect"}}, image),
                  DataError);
  CHECK(Inferred({{"roi_size", {9, 0, 0}}, {"padding_mode", "circular"}}, image).pred().size(1) ==
        3);
}

TEST_CASE("worsen_label dilates or erodes the same samples in every epoch") {
  at::Tensor label = at::zeros({1, 9, 9, 9}, at::kByte);
  label.narrow(1, 3, 3).narrow(2, 3, 3).narrow(3, 3, 3).fill_(2);
  const auto voxels = [&](const std::string& name, const Json& params) {
    Sample s = sample_of("label", label);
    s.name = name;
    const at::Tensor out = drive("worsen_label", params, {s}).at(0).tensor("label");
    CHECK(out.mul(out.ne(2)).sum().item<int>() == 0);
    return out.ne(0).sum().item<int>();
  };
  std::set<int> seen;
  int changed = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string name = "case_" + std::to_string(i);
    const int n = voxels(name, Json::object());
    CHECK(voxels(name, Json::object()) == n);
    seen.insert(n);
    changed += n != 27;
  }
  CHECK(seen == std::set<int>{0, 1, 27, 81, 171});  // by 2 and 1 less, as it was, 1 and 2 more
  CHECK(changed > 50);
  CHECK(changed < 110);
  CHECK(voxels("case_0", {{"prob", 0}}) == 27);
}

TEST_CASE("argmax takes the first of equal channels, for a sample and for a batch") {
  const auto [scores, label] = dice_inputs();
  const Sample one = drive("argmax", {}, {sample_of("pred", scores[0])}).at(0);
  CHECK((one.tensor("pred").scalar_type() == at::kByte));
  CHECK(at::equal(one.tensor("pred"), scores[0].argmax(0, true).to(at::kByte)));
  const Sample all = drive("argmax", {}, {sample_of("pred", scores)}).at(0);
  CHECK(at::equal(all.tensor("pred"), scores.argmax(1, true).to(at::kByte)));
  CHECK(at::equal(kernels::argmax_channels(at::ones({4, 3000})), at::zeros({1, 3000}, at::kByte)));
}

TEST_CASE("a batch of pictures is not taken for one volume") {
  Sample batch = sample_of("pred", at::rand({3, 2, 5, 6}));
  batch.set("label",
            Field(at::ones({3, 1, 5, 6}), std::vector<MetaPtr>(3, std::make_shared<const Meta>())));
  batch.set("pred", Field(batch.tensor("pred"), batch.at("label").meta));
  const std::string why =
      "field \"pred\" [3, 2, 5, 6] is a batch of 3 samples of 2 spatial axes, and spatial_dims is "
      "3";
  CHECK(message_of([&] { drive("argmax", {}, {batch}); }).ends_with(why));
  CHECK(message_of([&] { Driver("dice_metric", {}).fire({batch}); }).ends_with(why));
  CHECK(drive("argmax", {{"spatial_dims", 2}}, {batch}).at(0).tensor("pred").size(1) == 1);
}

TEST_CASE("activations are softmax over channels or a sigmoid each") {
  const auto [scores, label] = dice_inputs();
  const auto soft = drive("activations", {{"softmax", true}}, {sample_of("pred", scores)});
  CHECK(at::equal(soft.at(0).tensor("pred"), scores.softmax(1)));
  const auto each = drive("activations", {{"sigmoid", true}}, {sample_of("pred", scores[0])});
  CHECK(at::equal(each.at(0).tensor("pred"), scores[0].sigmoid()));
}

TEST_CASE("dice_metric gives MONAI 1.6.1's means, by batch, sample or label map") {
  const auto [scores, label] = dice_inputs();
  for (const Json& c : golden("inference.json")["dice"]) {
    CAPTURE(c["params"].dump());
    Driver batch("dice_metric", c["params"]), single("dice_metric", c["params"]);
    Json params = c["params"];
    params["num_classes"] = 3;
    Driver map("dice_metric", params);
    batch.fire({pair_of(scores, label)});
    for (int n = 0; n < 3; ++n) {
      single.fire({pair_of(scores[n], label[n].to(at::kFloat))});
      map.fire({pair_of(scores[n].argmax(0, true).to(at::kShort), label[n])});
    }
    const auto got = batch.flush();
    CHECK(metric(got, "mean") == doctest::Approx(c["mean"].get<double>()).epsilon(2e-6));
    const int first = c["params"]["include_background"].get<bool>() ? 0 : 1;
    for (std::size_t k = 0; k < c["classes"].size(); ++k)
      CHECK(metric(got, "class_" + std::to_string(first + k)) ==
            doctest::Approx(c["classes"][k].get<double>()).epsilon(2e-6));
    CHECK(single.flush() == got);
    CHECK(map.flush() == got);
  }
}

TEST_CASE("dice_metric counts masks of their own where argmax is off") {
  const auto [scores, label] = dice_inputs();
  const at::Tensor p = scores.gt(0.2), t = scores.gt(0.5);
  Driver masks("dice_metric", {{"argmax", false}});
  masks.fire({pair_of(p, t)});
  double mean = 0;
  for (int n = 0; n < 3; ++n)
    for (int c = 0; c < 3; ++c)
      mean += 2 * (p[n][c] & t[n][c]).sum().item<double>() /
              (p[n][c].sum().item<double>() + t[n][c].sum().item<double>()) / 9;
  CHECK(metric(masks.flush(), "mean") == doctest::Approx(mean).epsilon(1e-12));
}

TEST_CASE("dice_metric takes one channel without num_classes as a binary map") {
  Driver binary("dice_metric");
  const at::Tensor p = at::tensor({0, 1, 1, 0}).view({1, 4, 1, 1});
  const at::Tensor t = at::tensor({0, 1, 0, 1}).view({1, 4, 1, 1});
  binary.fire({pair_of(p, t)});
  const auto got = binary.flush();
  CHECK(got.size() == 2);
  CHECK(metric(got, "class_1") == 0.5);
}

TEST_CASE("dice_metric names a label value that is no class, and of a batch the member") {
  const auto [scores, label] = dice_inputs();
  at::Tensor wrong = label[0].clone();
  wrong.view(-1)[77] = 9;
  CHECK_THROWS_WITH_AS(Driver("dice_metric").fire({pair_of(scores[0], wrong)}),
                       "the label has the value 9; classes are 0 to 2", DataError);
  at::Tensor half = label[0].to(at::kFloat);
  half.view(-1)[3] = 0.5;
  CHECK_THROWS_WITH_AS(Driver("dice_metric").fire({pair_of(scores[0], half)}),
                       "the label has the value 0.5; classes are 0 to 2", DataError);
  CHECK_THROWS_WITH_AS(
      Driver("dice_metric").fire({pair_of(scores.narrow(0, 0, 2), at::stack({label[0], wrong}))}),
      "member 1: the label has the value 9; classes are 0 to 2", DataError);
}

TEST_CASE("dice_metric says NaN where no sample had a class, and starts each epoch afresh") {
  Driver dice("dice_metric");
  const at::Tensor scores = at::zeros({2, 3, 3, 3});
  dice.fire({pair_of(scores, at::zeros({1, 3, 3, 3}))});
  const auto first = dice.flush();
  CHECK(metric(first, "class_0") == 1.0);
  CHECK(std::isnan(metric(first, "class_1")));
  dice.fire({pair_of(scores, at::ones({1, 3, 3, 3}))});
  CHECK(metric(dice.flush(), "mean") == 0.0);
}

TEST_CASE("dice_metric's sums survive save and load in the middle of an epoch") {
  const auto [scores, label] = dice_inputs();
  const Json params = {{"include_background", false}};
  Driver whole("dice_metric", params), before("dice_metric", params), after("dice_metric", params);
  for (int n = 0; n < 3; ++n) whole.fire({pair_of(scores[n], label[n])});
  before.fire({pair_of(scores[0], label[0])});
  State state;
  before.node().save(state);
  state.values = Json::parse(state.values.dump());
  after.node().load(state);
  for (int n = 1; n < 3; ++n) after.fire({pair_of(scores[n], label[n])});
  CHECK(after.flush() == whole.flush());
}

TEST_CASE("dice_metric refuses a prediction and a label of different extents") {
  CHECK_THROWS_AS(
      Driver("dice_metric").fire({pair_of(at::zeros({2, 3, 3, 3}), at::zeros({1, 3, 3, 4}))}),
      DataError);
}
