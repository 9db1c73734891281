// Diffusion: MONAI's schedulers step by step, what a model trains on, and images made of noise.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include <map>

#include "drive.h"
#include "engine/base/error.h"
#include "engine/state/resource.h"
#include "golden.h"
#include "kernels/infer/noise_schedule.h"
#include "tests/nodes/filled.h"

using namespace sluice;

namespace {

NoiseSettings settings_of(const Json& given) {
  NoiseSettings p;
  const auto set = [&](const char* key, auto& member) {
    if (given.contains(key)) member = given[key].get<std::decay_t<decltype(member)>>();
  };
  set("scheduler", p.scheduler);
  set("schedule", p.schedule);
  set("prediction_type", p.prediction_type);
  set("variance_type", p.variance_type);
  set("num_train_timesteps", p.num_train_timesteps);
  set("steps_offset", p.steps_offset);
  set("base_img_size_numel", p.base_img_size_numel);
  set("beta_start", p.beta_start);
  set("beta_end", p.beta_end);
  set("clip_sample", p.clip_sample);
  set("clip_sample_min", p.clip_sample_min);
  set("clip_sample_max", p.clip_sample_max);
  set("skip_prk_steps", p.skip_prk_steps);
  set("eta", p.eta);
  set("use_discrete_timesteps", p.use_discrete_timesteps);
  set("use_timestep_transform", p.use_timestep_transform);
  if (given.contains("set_alpha_to_one"))
    p.set_alpha_to_one = given["set_alpha_to_one"].get<bool>();
  return p;
}

// Of make_diffusion.py.
const std::vector<std::int64_t> shape{2, 1, 4, 3};
at::Tensor counted() { return at::arange(24, at::kFloat); }
at::Tensor answer_to(const at::Tensor& x, const at::Tensor& t) {
  return 0.6 * x + 0.3 * at::sin(3 * x + t.view({-1, 1, 1, 1}) / 100);
}
at::Tensor image() { return counted().sin().view(shape); }
at::Tensor noise() { return counted().mul(1.3).cos().view(shape); }

// Says answer_to(), plus a tenth of the condition where there is one: a second channel or a
// context.
struct Answers final : Network {
  Tensors forward(const Tensors& all, std::size_t) override {
    inputs = all;
    at::Tensor y = answer_to(all[0].narrow(1, 0, 1), all[1]);
    if (all[0].size(1) > 1) y = y + all[0].narrow(1, 1, 1) / 10;
    if (all.size() > 2) y = y + all[2].view({-1, 1, 1, 1}) / 10;
    return {y};
  }
  Named parameters() const override { return {}; }
  void initialise(std::uint64_t) override {}
  Tensors inputs;
};

struct Sampler {
  OpenContext context;
  std::shared_ptr<Answers> net = std::make_shared<Answers>();
  Sampler() {
    context.resources = std::make_shared<Resources>();
    context.resources->add("net", net);
  }
  at::Tensor made(Json params, const Sample& sample) {
    params["net"] = "net";
    return Driver("diffusion_inferer", params, context)
        .fire({sample})
        .samples()
        .at(0)
        .tensor("pred");
  }
};

}  // namespace

TEST_CASE("Schedulers add noise and take it away as MONAI's do") {
  for (const Json& c : golden("diffusion.json")) {
    CAPTURE(c["params"].dump());
    const NoiseSchedule schedule(settings_of(c["params"]));
    const std::vector<float> at = c["at"];
    CHECK(difference(schedule.noisy(image(), noise(), at), c["noisy"]) < 1e-6);
    if (c.contains("velocity")) {
      NoiseSettings v = schedule.settings();
      v.prediction_type = "v_prediction";
      CHECK(difference(NoiseSchedule(v).target(image(), noise(), at), c["velocity"]) < 1e-6);
    }
    Denoising steps(schedule, c["steps"], 12, 2);
    CHECK(steps.timesteps() == c["timesteps"].get<std::vector<float>>());
    at::Tensor x = noise();
    int drawn = 0;
    for (std::size_t i = 0; i < steps.timesteps().size(); ++i) {
      const at::Tensor t = at::full({2}, steps.timesteps()[i]);
      x = steps.step(i, answer_to(x, t), x,
                     [&] { return (counted().mul(0.7) + drawn++).cos().view(shape); });
    }
    CHECK(difference(x, c["end"]) < 2e-5);
    if (!c.contains("likelihood")) continue;
    at::Tensor sum = at::zeros(2, at::kDouble);
    for (const float t : steps.timesteps()) {
      const at::Tensor noisy = schedule.noisy(image(), noise(), {t, t});
      const at::Tensor y = answer_to(noisy, at::full({2}, t));
      sum += steps.divergence(y, noisy, image(), static_cast<std::int64_t>(t), 2 / 255.0)
                 .flatten(1)
                 .mean(1);
    }
    CHECK(difference(sum, c["likelihood"]) < 1e-4);
  }
}

TEST_CASE("Noisy images, their timesteps and what is to be said of them go together") {
  const Sample sample = sample_of("image", at::stack({image()[0], image()[1], image()[0]}));
  const at::Tensor x = sample.tensor("image");
  for (const char* type : {"epsilon", "sample", "v_prediction"}) {
    CAPTURE(type);
    Driver driver("diffusion_prepare_batch",
                  {{"prediction_type", type}, {"num_train_timesteps", 50}});
    const Sample out = driver.fire({sample}).samples().at(0);
    const at::Tensor t = out.tensor("timesteps"), noisy = out.tensor("noisy");
    CHECK(t.sizes() == at::IntArrayRef{3});
    CHECK(t.min().item<float>() >= 0);
    CHECK(t.max().item<float>() < 50);
    NoiseSettings p;
    p.num_train_timesteps = 50;
    p.prediction_type = type;
    const NoiseSchedule schedule(p);
    // The noise follows from the noisy image, and the target from the noise.
    at::Tensor e = at::empty_like(x);
    std::vector<float> at;
    for (std::int64_t n = 0; n < 3; ++n) {
      at.push_back(t[n].item<float>());
      const auto share = schedule.shares(at.back());
      e[n] = (noisy[n] - share.signal * x[n]) / share.noise;
    }
    CHECK(at::allclose(out.tensor("target"), schedule.target(x, e, at), 1e-3, 1e-3));
    CHECK(at::equal(out.tensor("image"), x));
    CHECK(at::equal(driver.fire({sample}).samples().at(0).tensor("noisy"), noisy));
    CHECK_FALSE(
        at::equal(driver.fire({sample}, at_index(1)).samples().at(0).tensor("noisy"), noisy));
  }
}

TEST_CASE("Noise is standard normal, and timesteps are drawn evenly or about the middle") {
  const Sample sample = sample_of("image", at::zeros({1000, 1, 8, 8}));
  const auto drawn = [&](const Json& params) {
    return Driver("diffusion_prepare_batch", params).fire({sample}).samples().at(0);
  };
  const Sample even = drawn(Json::object());
  const at::Tensor e = even.tensor("target").to(at::kDouble);
  CHECK(std::abs(e.mean().item<double>()) < 0.02);
  CHECK(std::abs(e.std().item<double>() - 1) < 0.02);
  CHECK(std::abs(even.tensor("timesteps").mean().item<double>() - 499.5) < 40);
  CHECK(at::equal(even.tensor("timesteps"), even.tensor("timesteps").floor()));
  const at::Tensor middle = drawn({{"scheduler", "rflow"},
                                   {"sample_method", "logit-normal"},
                                   {"use_discrete_timesteps", false},
                                   {"scale", 0.25}})
                                .tensor("timesteps");
  CHECK(std::abs(middle.mean().item<double>() - 500) < 10);
  CHECK(middle.std().item<double>() < 80);
  CHECK_FALSE(at::equal(middle, middle.floor()));
}

TEST_CASE("A sampler asks its network at each timestep, and with guidance for two answers") {
  Sampler sampler;
  Sample sample = sample_of("image", noise());
  const Json ddim{{"scheduler", "ddim"}, {"num_inference_steps", 5}};
  const auto expected = [&](const std::function<at::Tensor(const at::Tensor&)>& more) {
    NoiseSettings p;
    p.scheduler = "ddim";
    const NoiseSchedule schedule(p);
    Denoising steps(schedule, 5, 12, 2);
    at::Tensor x = noise();
    for (std::size_t i = 0; i < 5; ++i)
      x = steps.step(i, more(answer_to(x, at::full({2}, steps.timesteps()[i]))), x, {});
    return x;
  };
  CHECK(at::equal(sampler.made(ddim, sample), expected([](const at::Tensor& y) { return y; })));
  CHECK(sampler.net->inputs[1].sizes() == at::IntArrayRef{2});

  // A condition as a channel, and as a further input.
  sample.set("map", sample_of("map", at::full({2, 1, 4, 3}, 2.f)).at("map"));
  sample.set("context", sample_of("context", at::full({2}, 2.f)).at("context"));
  Json channel = ddim, input = ddim;
  channel["condition_key"] = "map";
  input["keys"] = {"image", "context"};
  for (Json params : {channel, input}) {
    CHECK(at::allclose(sampler.made(params, sample),
                       expected([](const at::Tensor& y) { return y + 0.2; })));
    params["cfg"] = 3.0;  // -0.1 without, 0.2 with: -0.1 + 3 * 0.3
    CHECK(at::allclose(sampler.made(params, sample),
                       expected([](const at::Tensor& y) { return y + 0.8; }), 1e-4, 1e-5));
    CHECK(sampler.net->inputs[0].size(0) == 4);
  }

  // Of what ddpm draws nothing depends on the run.
  const Json ddpm{{"num_train_timesteps", 10}, {"num_inference_steps", 10}};
  CHECK(at::equal(sampler.made(ddpm, sample), sampler.made(ddpm, sample)));
}

TEST_CASE("A sampler with a controlnet makes MONAI's images, with and without guidance") {
  for (const Json& c : golden("inferers.json")["controlnet"]) {
    CAPTURE(c["cfg"]);
    OpenContext context;
    context.resources = std::make_shared<Resources>();
    for (const char* name : {"net", "controlnet"}) {
      const auto net = Registry::global().make_network(
          name == std::string("net") ? "diffusion_model_unet" : name, c[name]);
      fill(*net);
      context.resources->add(name, net);
    }
    Sample sample = sample_of("image", sines({2, 1, 8, 12}));
    sample.set("cn_cond", sample_of("cn_cond", sines({2, 2, 16, 24}, 2)).at("cn_cond"));
    sample.set("context", sample_of("context", sines({2, 5, 3}, 3)).at("context"));
    const Json params{{"net", "net"},
                      {"controlnet", "controlnet"},
                      {"keys", {"image", "context"}},
                      {"controlnet_keys", {"cn_cond", "context"}},
                      {"scheduler", "ddim"},
                      {"clip_sample", false},
                      {"num_inference_steps", 4},
                      {"cfg", c["cfg"]}};
    const auto made = [&] {
      return Driver("diffusion_inferer", params, context)
          .fire({sample})
          .samples()
          .at(0)
          .tensor("pred");
    };
    const at::Tensor followed = made();
    CHECK(difference(followed, c["image"]) < 1e-4);
    sample.set("cn_cond", sample_of("cn_cond", at::zeros({2, 2, 16, 24})).at("cn_cond"));
    CHECK_FALSE(at::allclose(followed, made(), 1e-3, 1e-3));  // it follows its image
  }
}

TEST_CASE("An image's likelihood is a number a member, of the same noise at every timestep") {
  Sampler sampler;
  Sample sample = sample_of("image", image() / 2);
  sample.set("map", sample_of("map", at::full({2, 1, 4, 3}, 2.f)).at("map"));
  const auto likelihood = [&](Json params, std::uint64_t index = 0) {
    params["net"] = "net";
    params["num_train_timesteps"] = 20;
    return Driver("diffusion_likelihood", params, sampler.context)
        .fire({sample}, at_index(index))
        .samples()
        .at(0)
        .tensor("likelihood");
  };
  const at::Tensor plain = likelihood(Json::object());
  CHECK(plain.sizes() == at::IntArrayRef{2, 1});
  CHECK(plain.min().item<float>() > 0);
  CHECK(at::equal(plain, likelihood(Json::object())));
  CHECK_FALSE(at::equal(plain, likelihood(Json::object(), 1)));
  CHECK_FALSE(at::equal(plain, likelihood({{"condition_key", "map"}})));
  CHECK(sampler.net->inputs[0].size(1) == 2);
  // An image is more likely where more of its numbers count as it.
  const at::Tensor coarse = likelihood({{"original_input_range", {0, 4}}});
  CHECK(at::lt(coarse, plain).all().item<bool>());
  CHECK_THROWS_WITH(likelihood({{"scheduler", "ddim"}}), doctest::Contains("those of ddpm"));
  CHECK_THROWS_WITH(likelihood({{"scaled_input_range", {1, 0}}}), doctest::Contains("[low, high]"));
}

TEST_CASE("Encoder and decoder of an autoencoder are together the whole of it") {
  Json params{{"spatial_dims", 2},    {"in_channels", 1},    {"out_channels", 1},
              {"channels", {4, 8}},   {"num_res_blocks", 1}, {"attention_levels", {false, true}},
              {"norm_num_groups", 2}, {"latent_channels", 3}};
  const auto made = [&](const char* part) {
    params["part"] = part;
    auto net = Registry::global().make_network("autoencoder_kl", params);
    net->initialise(1);
    net->train(false);
    return net;
  };
  const auto whole = made("all"), encoder = made("encoder"), decoder = made("decoder");
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, t] : whole->parameters()) weights[name] = t;
  std::size_t taken = 0;
  for (const auto& net : {encoder, decoder})
    for (const auto& [name, t] : net->parameters()) {
      REQUIRE(weights.contains(name));
      at::Tensor(t).copy_(weights[name]);
      ++taken;
    }
  CHECK(taken == weights.size());
  const at::Tensor x = at::sin(at::arange(2 * 8 * 12, at::kFloat)).view({2, 1, 8, 12});
  const auto expected = whole->forward({x}, 3), latent = encoder->forward({x}, 3);
  CHECK(latent[0].sizes() == at::IntArrayRef{2, 3, 4, 6});
  CHECK(at::equal(latent[0], latent[1]));  // no draw outside of training
  CHECK(at::equal(latent[1], expected[1]));
  CHECK(at::equal(latent[2], expected[2]));
  CHECK(at::allclose(decoder->forward({latent[0]}, 1)[0], expected[0], 1e-5, 1e-6));
}

TEST_CASE("Latent images are scaled before noise is added, and back in the end") {
  const Sample sample = sample_of("image", image() * 2);
  Driver scaled("diffusion_prepare_batch", {{"prediction_type", "sample"}, {"scale_factor", 0.5}});
  const at::Tensor target = scaled.fire({sample}).samples().at(0).tensor("target");
  CHECK(at::equal(target, image()));
  Sampler sampler;
  const Sample start = sample_of("image", noise());
  const Json ddim{{"scheduler", "ddim"}, {"num_inference_steps", 3}};
  Json halved = ddim;
  halved["scale_factor"] = 0.5;
  CHECK(at::equal(sampler.made(halved, start), sampler.made(ddim, start) * 2));
}

TEST_CASE("Diffusion refuses what does not fit") {
  Sampler sampler;
  const auto refuses = [&](const Json& params, const Sample& sample, const char* why) {
    CHECK_THROWS_WITH(sampler.made(params, sample), doctest::Contains(why));
  };
  const Sample good = sample_of("image", noise());
  refuses({{"num_train_timesteps", 10}, {"num_inference_steps", 11}}, good,
          "num_inference_steps must be from 1 to num_train_timesteps, 10, found 11");
  refuses({{"scheduler", "pndm"}, {"num_inference_steps", 3}}, good, "at least 4");
  refuses({{"scheduler", "pndm"}}, good, "asks the network 1009 times");
  refuses({{"scheduler", "pndm"}, {"num_inference_steps", 50}, {"prediction_type", "sample"}}, good,
          "epsilon or v_prediction");
  refuses({{"scheduler", "ddim"}, {"steps_offset", 1000}}, good, "steps_offset must be below");
  refuses({{"cfg", 2.0}}, good, "cfg needs a condition");
  refuses(Json::object(), sample_of("image", at::zeros({4, 3})), "needed is a batch of images");
  Sample two = good;
  two.set("map", sample_of("map", at::zeros({2, 1, 4, 4})).at("map"));
  refuses({{"condition_key", "map"}, {"num_inference_steps", 1}}, two,
          "\"map\" does not go with the image");
}

TEST_CASE("A network that nobody trains keeps nothing for a backward pass") {
  const Json params{{"spatial_dims", 2},   {"in_channels", 1},
                    {"part", "encoder"},   {"channels", {4, 8}},
                    {"num_res_blocks", 1}, {"attention_levels", {false, false}},
                    {"norm_num_groups", 2}};
  const auto net = Registry::global().make_network("autoencoder_kl", params);
  net->initialise(1);
  net->train(true);
  const at::Tensor x = at::ones({1, 1, 8, 8});
  CHECK(net->forward({x}, 1)[0].requires_grad());
  for (const auto& [name, weight] : net->parameters()) at::Tensor(weight).requires_grad_(false);
  CHECK_FALSE(net->forward({x}, 1)[0].requires_grad());
  // A gradient may still go through it, to what was before.
  at::Tensor wanted = x.clone().requires_grad_();
  net->forward({wanted}, 2)[1].sum().backward();
  CHECK(wanted.grad().abs().sum().item<double>() > 0);
}

TEST_CASE("Gradients go through a model node whose network nobody trains") {
  OpenContext context;
  context.resources = std::make_shared<Resources>();
  const auto net = Registry::global().make_network("unet", {{"spatial_dims", 2},
                                                            {"in_channels", 1},
                                                            {"out_channels", 1},
                                                            {"channels", {4, 8}},
                                                            {"strides", {2}}});
  net->initialise(1);
  for (const auto& [name, weight] : net->parameters()) at::Tensor(weight).requires_grad_(false);
  context.resources->add("net", net);
  Driver driver("model", {{"net", "net"}}, context);
  const auto pred = [&](const at::Tensor& x) {
    return driver.fire({sample_of("image", x)}).samples().at(0).tensor("pred");
  };
  at::Tensor x = sines({1, 1, 8, 8}).requires_grad_();
  pred(x).sum().backward();
  CHECK(x.grad().abs().sum().item<double>() > 0);
  CHECK_FALSE(pred(x.detach()).requires_grad());
}

TEST_CASE("What a controlnet says has the gradient of the network that takes it, trained or not") {
  const auto net =
      Registry::global().make_network("diffusion_model_unet", {{"spatial_dims", 2},
                                                               {"in_channels", 1},
                                                               {"out_channels", 1},
                                                               {"num_res_blocks", 1},
                                                               {"channels", {4, 6}},
                                                               {"norm_num_groups", 2},
                                                               {"attention_levels", {false, true}},
                                                               {"num_head_channels", 2},
                                                               {"additional_residuals", true}});
  fill(*net);
  for (const auto& [name, weight] : net->parameters()) at::Tensor(weight).requires_grad_(false);
  net->train(false);
  Network::Tensors inputs{sines({1, 1, 8, 8}), at::full({1}, 30.f)};
  for (const std::vector<std::int64_t>& size : std::vector<std::vector<std::int64_t>>{
           {1, 4, 8, 8}, {1, 4, 8, 8}, {1, 4, 4, 4}, {1, 6, 4, 4}, {1, 6, 4, 4}})
    inputs.push_back(sines(size, 3 + static_cast<double>(inputs.size())));
  const auto answer = [&] { return (net->forward(inputs, 1)[0] * sines({1, 1, 8, 8}, 9)).sum(); };
  const std::size_t first = 2;
  for (std::size_t k = first; k < inputs.size(); ++k) inputs[k].requires_grad_();
  answer().backward();
  const at::NoGradGuard no_grad;
  for (std::size_t k = first; k < inputs.size(); ++k) {
    CAPTURE(k);
    const at::Tensor gradient = inputs[k].grad(), begin = inputs[k].detach(),
                     way = sines(begin.sizes(), 50);
    const auto along = [&](double step) {
      inputs[k] = begin + step * way;
      return answer().item<double>();
    };
    const double expected = (along(0.01) - along(-0.01)) / 0.02;
    inputs[k] = begin;
    REQUIRE(gradient.defined());
    CHECK((gradient * way).sum().item<double>() == doctest::Approx(expected).epsilon(1e-2));
  }
}

TEST_CASE("binarize_labels makes a channel of each binary digit") {
  const auto digits = [](const at::Tensor& label, std::int64_t bits) {
    return drive("binarize_labels", {{"bits", bits}}, {sample_of("label", label)})
        .at(0)
        .tensor("label");
  };
  const at::Tensor label = at::tensor({0, 1, 6, 255}, at::kByte).view({1, 2, 2});
  const at::Tensor made = digits(label, 8);
  CHECK(made.sizes() == at::IntArrayRef{8, 2, 2});
  CHECK(made.dtype() == at::kFloat);
  const at::Tensor weights = at::exp2(at::arange(8, at::kFloat)).view({8, 1, 1});
  CHECK(at::equal((made * weights).sum(0, true), label.to(at::kFloat)));
  CHECK(at::equal(digits(label.to(at::kFloat), 2), made.narrow(0, 0, 2)));
  CHECK_THROWS_WITH_AS(digits(made, 8), doctest::Contains("has 8 channels"), DataError);
}

TEST_CASE(
    "MAISI's network takes a sample's numbers beside its image, so many as it has layers for") {
  const auto net = Registry::global().make_network("diffusion_model_unet_maisi",
                                                   {{"spatial_dims", 2},
                                                    {"in_channels", 1},
                                                    {"out_channels", 1},
                                                    {"num_res_blocks", 1},
                                                    {"num_channels", {4}},
                                                    {"norm_num_groups", 2},
                                                    {"attention_levels", {false}},
                                                    {"num_head_channels", 2},
                                                    {"include_spacing_input", true}});
  fill(*net);
  net->train(false);
  const at::NoGradGuard no_grad;
  const auto answer = [&](const at::Tensor& spacing) {
    return net->forward({sines({2, 1, 8, 8}), at::full({2}, 30.f), spacing}, 1)[0];
  };
  const at::Tensor spacing = at::full({2, 3}, 100.f);
  CHECK_FALSE(at::allclose(answer(spacing), answer(spacing / 2), 1e-3, 1e-3));
  CHECK_THROWS_WITH(answer(at::ones({2, 4})),
                    "diffusion_model_unet_maisi takes \"spacing_tensor\" as [2, 3], got [2, 4]");
}

TEST_CASE("given numbers become a field of their shape, or the channels of an image") {
  const Sample image = [] {
    Sample s;
    s.set("image", Field(at::zeros({2, 3, 4}), std::make_shared<const Meta>()));
    return s;
  }();
  const auto added = [&](Json params) {
    params["key"] = "given";
    return drive("add_constant", params, {image}).at(0).tensor("given");
  };
  CHECK(at::equal(added({{"value", {{0.5, 1}, {2, 3}}}}),
                  at::tensor({0.5f, 1.f, 2.f, 3.f}).view({2, 2})));
  CHECK(added({{"value", 2}}).dim() == 0);
  const at::Tensor spread = added({{"value", {1, 2.5}}, {"over", "image"}});
  CHECK(spread.sizes() == at::IntArrayRef{2, 3, 4});
  CHECK(at::equal(spread[0], at::ones({3, 4})));
  CHECK(at::equal(spread[1], at::full({3, 4}, 2.5f)));
  for (const Json& wrong : {Json{{1, 2}, {3}}, Json{"a"}, Json::array(), Json{1, {2}}})
    CHECK_THROWS_WITH_AS(added({{"value", wrong}}), doctest::Contains("lists of one length"),
                         Error);
  CHECK_THROWS_WITH_AS(added({{"value", Json::parse("[[1, 2]]")}, {"over", "image"}}),
                       doctest::Contains("a list of numbers"), Error);
}
