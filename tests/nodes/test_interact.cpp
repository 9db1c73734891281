// interact: the loop of predictions and clicks, beside what its nodes give one by one.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include "drive.h"
#include "engine/base/error.h"
#include "engine/base/warnings.h"
#include "engine/state/list_field.h"
#include "engine/state/resource.h"

using namespace sluice;

namespace {

// Finds what is bright or clicked on, and nothing where a click says so.
struct Bright final : Network {
  Tensors forward(const Tensors& all, std::size_t) override {
    const at::Tensor& x = all[0];
    rows += x.size(0);
    ++calls;
    graded |= c10::GradMode::is_enabled();
    at::Tensor y = x.narrow(1, 0, 1) + 3 * x.narrow(1, 1, 1) - 3 * x.narrow(1, 2, 1) - 0.5;
    if (calls > breaks_after) y = y / 0;
    return {y};
  }
  Named parameters() const override { return {}; }
  void train(bool on) override { training = on; }
  void initialise(std::uint64_t) override {}

  std::int64_t rows = 0, calls = 0, breaks_after = 1000;
  bool graded = false, training = true;
};

const Json body = {{{"type", "activations"}, {"sigmoid", true}},
                   {{"type", "find_discrepancy_regions"}},
                   {{"type", "add_random_guidance"}},
                   {{"type", "add_guidance_signal"}, {"sigma", 1}}};

// A slice with a first click; what is bright is not quite what is asked for.
Sample member(std::uint64_t i) {
  at::Tensor label = at::zeros({1, 24, 20}), image = at::zeros({1, 24, 20});
  const auto shift = static_cast<std::int64_t>(i % 5);
  label[0].slice(0, 3 + shift, 12 + shift).slice(1, 4, 12).fill_(1);
  image[0].slice(0, 6, 16).slice(1, 7 - shift, 16).fill_(1);
  Sample s = sample_of("image", image);
  s.set("label", sample_of("label", label).at("label"));
  s.name = "slice_" + std::to_string(i);
  const Stamp stamp = at_index(i);
  s = drive("add_initial_seed_point", Json::object(), {s}, stamp).at(0);
  return drive("add_guidance_signal", {{"sigma", 1}}, {s}, stamp).at(0);
}

Sample batch_of(std::uint64_t first, std::uint64_t n) {
  std::vector<Sample> members;
  for (std::uint64_t i = first; i < first + n; ++i) members.push_back(member(i));
  return Driver("batch", {{"size", n}}).gather(members).samples().at(0);
}

struct Clicked {
  std::shared_ptr<Bright> net = std::make_shared<Bright>();
  Fired fired;

  Clicked(Json params, const Sample& batch, std::uint64_t index = 0,
          std::int64_t breaks_after = 1000) {
    net->breaks_after = breaks_after;
    OpenContext context;
    context.resources = std::make_shared<Resources>();
    context.resources->add("net", net);
    params["net"] = "net";
    if (!params.contains("body")) params["body"] = body;
    fired = Driver("interact", params, context).fire({batch}, at_index(index));
  }
  Sample out() const { return fired.samples().at(0); }
  at::Tensor tensor(const std::string& key) const { return out().tensor(key); }
};

}  // namespace

TEST_CASE("every click lies where the prediction before it is wrong, and the image shows all") {
  const Sample in = batch_of(0, 3);
  const Clicked c({{"times", 4}, {"probability", "always"}, {"emit_at", {0, 1, 2, 3, 4}}}, in);
  const Sample out = c.out();
  const at::Tensor guidance = out.tensor("guidance"), label = out.tensor("label");
  CHECK(guidance.size(2) == in.tensor("guidance").size(2) + 4);
  CHECK(c.net->calls == 5);
  CHECK_FALSE(c.net->graded);
  CHECK_FALSE(c.net->training);
  CHECK(label.equal(in.tensor("label")));
  for (std::int64_t m = 0; m < 3; ++m) {
    for (std::int64_t j = 0; j < 4; ++j) {
      const at::Tensor wrong = label[m][0].gt(0.5).to(at::kInt) -
                               out.tensor("pred_" + std::to_string(j))[m][0].gt(0).to(at::kInt);
      const bool missed = wrong.eq(1).sum().item<int>() >= wrong.eq(-1).sum().item<int>();
      const at::Tensor row = guidance[m][missed ? 0 : 1][in.tensor("guidance").size(2) + j],
                       other = guidance[m][missed ? 1 : 0][in.tensor("guidance").size(2) + j];
      CHECK(other.eq(-1).all().item<bool>());
      CHECK(wrong[row[1].item<int>()][row[2].item<int>()].item<int>() == (missed ? 1 : -1));
    }
    Sample alone = sample_of("image", out.tensor("image")[m]);
    alone.set("guidance", Field(guidance[m], std::make_shared<const Meta>()));
    CHECK(drive("add_guidance_signal", {{"sigma", 1}}, {alone})
              .at(0)
              .tensor("image")
              .equal(out.tensor("image")[m]));
  }
  const auto errors = [&](int k) {
    return (out.tensor("pred_" + std::to_string(k)).gt(0) != label.gt(0.5)).sum().item<int>();
  };
  CHECK(errors(4) < errors(0));
}

TEST_CASE("neither the size of batches nor threads change a click") {
  for (const char* how : {"always", "falling"}) {
    const Json params = {{"times", 6}, {"probability", how}};
    const Clicked all(params, batch_of(0, 6));
    for (const std::uint64_t n : {1, 2, 3})
      for (std::uint64_t first = 0; first < 6; first += n) {
        const Clicked some(params, batch_of(first, n), first / n);
        const auto f = static_cast<std::int64_t>(first), size = static_cast<std::int64_t>(n);
        CHECK(some.tensor("image").equal(all.tensor("image").narrow(0, f, size)));
      }
    const int threads = at::get_num_threads();
    at::set_num_threads(4);
    CHECK(Clicked(params, batch_of(0, 6)).tensor("image").equal(all.tensor("image")));
    at::set_num_threads(threads);
  }
}

TEST_CASE("a member is predicted for where it clicks, and members click as often as is said") {
  const auto rows = [](const Json& params) {
    std::int64_t all = 0;
    for (std::uint64_t i = 0; i < 8; ++i) {
      const Clicked c(params, batch_of(i * 5, 5), i);
      all += c.net->rows;
      REQUIRE(c.fired.logs.size() == 1);
      CHECK(c.fired.logs[0].first == "passes");
      CHECK(c.fired.logs[0].second == doctest::Approx(c.net->rows / 5.0));
    }
    return all;
  };
  CHECK(rows({{"times", 15}, {"probability", "always"}}) == 8 * 5 * 15);
  CHECK(std::abs(rows({{"times", 15}}) - 8 * 5 * 8) < 60);
  CHECK(rows({{"times", 1}}) == 8 * 5);  // the first iteration's probability is 1
}

TEST_CASE("without corrections a batch goes on as it came") {
  const Sample in = batch_of(0, 2);
  const Clicked none({{"times", 0}}, in);
  CHECK(none.net->calls == 0);
  for (const auto& [key, field] : in.fields()) CHECK(none.tensor(key).equal(field.tensor));
  const Clicked looked({{"times", 0}, {"emit_at", 0}}, in);
  CHECK(looked.net->rows == 2);
  CHECK(looked.tensor("image").equal(in.tensor("image")));
  CHECK(looked.tensor("pred_0").sizes().vec() == std::vector<std::int64_t>{2, 1, 24, 20});
}

TEST_CASE("batches that are not corrected lose their clicks, all members alike") {
  const Sample in = batch_of(0, 3);
  const Clicked off({{"times", 3}, {"enter", 0}}, in);
  CHECK(off.net->calls == 0);
  CHECK(off.tensor("image").narrow(1, 0, 1).equal(in.tensor("image").narrow(1, 0, 1)));
  CHECK(off.tensor("image").narrow(1, 1, 2).abs().max().item<float>() == 0);
  int entered = 0;
  for (std::uint64_t i = 0; i < 60; ++i)
    entered += Clicked({{"times", 1}, {"enter", 0.4}}, batch_of(0, 1), i).net->calls;
  CHECK(std::abs(entered - 24) < 18);
}

TEST_CASE("a prediction that is not finite ends the run and says after how many corrections") {
  try {
    Clicked({{"times", 5}, {"probability", "always"}}, batch_of(0, 2), 0, 2);
    FAIL("went on");
  } catch (const Error& e) {
    CHECK((e.exit == Exit::non_finite));
    CHECK(std::string(e.what()) ==
          "network \"net\" predicts what is not finite after 2 of 5 corrections");
  }
}

TEST_CASE("what cannot be a body is refused, and one that changes nothing is told of") {
  const Sample in = batch_of(0, 1);
  const auto refused = [&](const Json& params) { CHECK_THROWS_AS(Clicked(params, in), Error); };
  refused({{"times", 1}, {"body", {{{"type", "cache"}}}}});
  refused({{"times", 1}, {"body", {{{"type", "split_slices"}}}}});
  refused({{"times", 1}, {"emit_at", {0, 2}}});
  refused({{"times", 1}, {"emit_at", {0, 1}}, {"enter", 0.5}});  // batches without predictions
  forget_warnings();
  const Json shows_nothing = {body[0], body[1], body[2]};
  const Clicked c({{"times", 2}, {"body", shows_nothing}}, in);
  CHECK(c.tensor("image").equal(in.tensor("image")));
  REQUIRE(warnings().size() == 1);
  CHECK(warnings()[0].find("its clicks change nothing") != std::string::npos);
  forget_warnings();
}
