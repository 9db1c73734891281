// Classifiers' names against MONAI 1.6.1 (tests/golden/make_classify.py); loss and metrics.
#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <openssl/sha.h>

#include <cmath>

#include "engine/base/error.h"
#include "engine/state/checkpoint.h"
#include "engine/state/resource.h"
#include "tests/nodes/drive.h"
#include "tests/nodes/golden_train.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

// By value: a range-for must hold on to it.
Json classify(const std::string& part) { return golden("classify.json").at(part); }

std::shared_ptr<Network> make_net(const Json& c) {
  return Registry::global().make_network(c["type"], c["params"]);
}

std::string digest(const Network::Named& list) {
  std::string all;
  for (const auto& [name, t] : list) all += (all.empty() ? "" : "\n") + name;
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(all.data()), all.size(), hash);
  std::string hex;
  for (unsigned char byte : hash) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

Sample batch(const at::Tensor& pred, const at::Tensor& label) {
  Sample s = sample_of("pred", pred);
  s.set("label", Field(label, std::make_shared<const Meta>()));
  return s;
}

at::Tensor classes_of(const Json& list) {
  return at::tensor(list.get<std::vector<std::int64_t>>(), at::kLong);
}

double metric(const std::vector<std::pair<std::string, double>>& all, const std::string& name) {
  for (const auto& [key, value] : all)
    if (key == name) return value;
  FAIL("no metric " << name);
  return 0;
}

}  // namespace

TEST_CASE("classifiers have the names of MONAI's state_dict, in order, and counts") {
  for (const auto& c : classify("nets")) {
    CAPTURE(c["type"].dump());
    CAPTURE(c["params"].dump());
    const auto net = make_net(c);
    std::int64_t count = 0;
    for (const auto& [name, p] : net->parameters()) count += p.numel();
    CHECK(count == c["count"].get<std::int64_t>());
    CHECK(digest(net->parameters()) == c["parameters_sha256"]);
    CHECK(digest(net->buffers()) == c["buffers_sha256"]);
  }
}

TEST_CASE("lenet refuses images of another size and number of channels in words") {
  const auto net = Registry::global().make_network("lenet", Json::object());
  CHECK_THROWS_WITH_AS(net->forward(at::zeros({1, 3, 28, 28})),
                       "lenet was made for images of image_size [32, 32], got [28, 28]", DataError);
  CHECK_THROWS_WITH_AS(net->forward(at::zeros({1, 1, 32, 32})),
                       "lenet takes [N, 3] and 2 spatial axes, got 2 axes and 1 channels",
                       DataError);
}

TEST_CASE("a class that the network lacks names value and sample") {
  Sample s = batch(sines({2, 3}), at::tensor({1, 3}, at::kLong));
  auto first = std::make_shared<Meta>(), second = std::make_shared<Meta>();
  first->path = "/data/1.png";
  second->path = "/data/2.png";
  s.set("label", Field(s.tensor("label"), std::vector<MetaPtr>{first, second}));
  CHECK_THROWS_WITH_AS(drive("cross_entropy_loss", Json::object(), {s}),
                       "label value 3 in /data/2.png; the network has classes 0 to 2", DataError);
  CHECK_NOTHROW(drive("cross_entropy_loss", {{"ignore_index", 3}}, {s}));
  CHECK_THROWS_WITH_AS(
      drive("cross_entropy_loss", Json::object(), {batch(sines({2, 3}), at::zeros({2, 3, 1}))}),
      "label float [2, 3, 1] does not fit the output [2, 3]", DataError);
}

TEST_CASE("cross entropy of maps is LibTorch's, by weights, of ignored labels, in either layout") {
  const at::Tensor pred = sines({2, 3, 5, 6, 7}),
                   label = at::arange(420).remainder(3).view({2, 5, 6, 7});
  const at::Tensor weight = at::tensor({1.f, 2.f, 0.5f});
  for (const std::int64_t ignored : {-100, 1, 255, 257})  // 257: a byte of it is class 1
    for (const bool weighted : {false, true})
      for (const char* reduction : {"mean", "sum"})
        for (const bool last : {false, true}) {
          CAPTURE(ignored);
          CAPTURE(weighted);
          CAPTURE(reduction);
          CAPTURE(last);
          const at::Tensor marked = label.masked_fill(
              label.eq(2).logical_and(pred.select(1, 0) > 0), ignored == 1 ? 2 : ignored);
          const auto layout =
              last ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::Contiguous;
          const at::Tensor a = pred.clone(layout).requires_grad_(),
                           b = pred.clone().requires_grad_();
          Json params = {{"ignore_index", ignored}, {"reduction", reduction}};
          if (weighted) params["weight"] = {1, 2, 0.5};
          const Sample made = drive("cross_entropy_loss", params, {batch(a, marked)})[0];
          const at::Tensor ours = made.tensor("loss");
          const at::Tensor theirs = at::cross_entropy_loss(
              b, marked, weighted ? std::optional(weight) : std::nullopt,
              *reduction == 'm' ? at::Reduction::Mean : at::Reduction::Sum, ignored, 0);
          CHECK(ours.item<double>() == doctest::Approx(theirs.item<double>()).epsilon(1e-6));
          ours.backward();
          theirs.backward();
          CHECK(a.grad().is_contiguous(layout));
          CHECK(at::allclose(a.grad(), b.grad(), 1e-5, 1e-6));
        }
}

TEST_CASE("losses of classes take them as any integer type") {
  const at::Tensor pred = sines({2, 2, 5, 6}), label = at::arange(60).remainder(2).view({2, 5, 6});
  for (const char* type : {"cross_entropy_loss", "nll_loss"})
    for (const double smoothing : {0., 0.1}) {
      Json params = Json::object();
      if (*type == 'c') params["label_smoothing"] = smoothing;  // above 0 it is LibTorch's
      const auto of = [&](const at::Tensor& classes) {
        return drive(type, params, {batch(pred, classes)})[0].tensor("loss").item<float>();
      };
      for (const auto t : {at::kByte, at::kChar, at::kShort, at::kInt, at::kBool}) {
        CAPTURE(at::toString(t));
        CHECK(of(label.to(t)) == of(label));
      }
      const at::Tensor some = label.masked_fill(label.eq(1), -100);  // ignored
      CHECK(of(some.to(at::kChar)) == of(some));
    }
}

TEST_CASE("accuracy counts over batches and by class, and goes on after a checkpoint") {
  const at::Tensor scores = at::tensor({2., 1., 0., 0., 3., 1., 0., 0., 1.}).reshape({3, 3});
  const Json names = {{"class_names", {"a", "b", "c"}}};
  Driver whole("accuracy", names);
  whole.fire({batch(scores, classes_of({0, 1, 1}))});
  State saved;
  whole.node().save(saved);
  whole.fire({batch(scores.narrow(0, 0, 1), classes_of({2}))});
  const auto found = whole.flush();
  CHECK(metric(found, "mean") == 0.5);
  CHECK(metric(found, "class_a") == 1);
  CHECK(metric(found, "class_b") == 0.5);
  CHECK(metric(found, "class_c") == 0);

  Driver second("accuracy", names);
  second.node().load(saved);
  second.fire({batch(scores.narrow(0, 0, 1), classes_of({2}))});
  CHECK(second.flush() == found);
  CHECK_THROWS_AS(
      Driver("accuracy", {{"class_names", {"a"}}}).fire({batch(scores, classes_of({0, 1, 1}))}),
      Error);
  CHECK_THROWS_WITH_AS(whole.fire({batch(scores, classes_of({0, 1, 3}))}),
                       "member 2: class 3; there are 0 to 2", DataError);
}

TEST_CASE("ignite's Accuracy of one-hot classes counts two wrong elements for a wrong class") {
  Driver node("element_accuracy", {{"argmax", true}});
  const at::Tensor scores = at::tensor({2., 1., 0., 0., 3., 1., 0., 0., 1.}).reshape({3, 3});
  node.fire({batch(scores, classes_of({0, 1, 1}))});
  CHECK(metric(node.flush(), "mean") == doctest::Approx(7. / 9));
}

TEST_CASE("a measure of confusion is the mean of the classes', or that of their counts' sum") {
  const at::Tensor scores = at::tensor({2., 1., 0., 0., 3., 1., 0., 0., 1.}).reshape({3, 3});
  for (const auto& [average, mean] : {std::pair{"macro", 5. / 9}, std::pair{"micro", 2. / 3}}) {
    Driver node("confusion_matrix", {{"metric_name", "f1 score"}, {"average", average}});
    node.fire({batch(scores, classes_of({0, 1, 1}))});
    CHECK(metric(node.flush(), "mean") == doctest::Approx(mean));
  }
}

TEST_CASE("one score is a logit of two classes") {
  Driver node("accuracy");
  node.fire({batch(at::tensor({-1., 2., 0.}).reshape({3, 1}), classes_of({0, 1, 1}))});
  CHECK(metric(node.flush(), "mean") == doctest::Approx(2. / 3));
}

TEST_CASE("the running mean is logged at every so many batches and the rest is the epoch's") {
  Driver node("running_mean", {{"every", 2}});
  std::vector<double> logged;
  for (double v : {1., 3., 5., 9., 2.})
    for (const auto& [name, value] : node.fire({sample_of("loss", at::scalar_tensor(v))}).logs)
      logged.push_back(value);
  CHECK(logged == std::vector<double>{2, 7});
  CHECK(metric(node.flush(), "mean") == 2);
  node.fire({sample_of("loss", at::scalar_tensor(8.))});
  CHECK(metric(node.flush(), "mean") == 8);
}

TEST_CASE("cifar10 reads records in the files' order, shuffles all of them and refuses half ones") {
  TemporaryFolder folder;
  Bytes one(2 * 3073), two(3073);
  one[0] = 3;
  one[1] = 255;      // red, row 0, column 0
  one[1 + 33] = 51;  // red, row 1, column 1
  one[3073] = 9;
  one[3073 + 1 + 1024] = 102;  // green of the second record
  two[0] = 7;
  folder.write("data_batch_1.bin", one);
  folder.write("data_batch_2.bin", two);
  const std::string root = folder.path.string();
  Driver source("cifar10", {{"root", root}});
  CHECK(source.node().epoch_size() == 3);
  std::vector<Sample> all;
  for (std::uint64_t i = 0; i < 3; ++i) all.push_back(source.fire({}, at_index(i)).samples().at(0));
  CHECK(source.fire({}, at_index(3)).ended);
  CHECK(all[0].name == "data_batch_1:0");
  CHECK(all[2].name == "data_batch_2:0");
  CHECK(all[0].tensor("label").item<int>() == 3);
  CHECK(all[1].tensor("label").item<int>() == 9);
  CHECK(all[2].tensor("label").item<int>() == 7);
  CHECK(all[0].tensor("image").sizes() == at::IntArrayRef({3, 32, 32}));
  CHECK(all[0].tensor("image")[0][0][0].item<float>() == 1.f);
  CHECK(all[0].tensor("image")[0][1][1].item<float>() == 51.f / 255.f);
  CHECK(all[1].tensor("image")[1][0][0].item<float>() == 102.f / 255.f);

  Driver shuffled("cifar10", {{"root", root}, {"shuffle", true}, {"limit", 2}});
  std::vector<std::uint64_t> items;
  for (std::uint64_t i = 0; i < 2; ++i)
    items.push_back(shuffled.fire({}, at_index(i)).outs.at(0).item);
  std::sort(items.begin(), items.end());
  CHECK(items == std::vector<std::uint64_t>{0, 1});

  two.push_back(0);
  folder.write("data_batch_2.bin", two);
  CHECK(message_of([&] {
          Driver("cifar10", {{"root", root}});
        }).ends_with("data_batch_2.bin: 3,074 bytes are no whole number of records of 3,073"));
  one[3073] = 10;
  folder.write("data_batch_1.bin", one);
  CHECK(message_of([&] {
          Driver("cifar10", {{"root", root}});
        }).ends_with("data_batch_1.bin: record 1 has the label 10; there are 0 to 9"));
  CHECK(message_of([&] {
          Driver("cifar10", {{"root", root}, {"split", "test"}});
        }).ends_with("no file matches \"test_batch.bin\""));
}

TEST_CASE("the softmax of rocauc compares samples by their probabilities") {
  const at::Tensor logits = at::tensor({5., 5., 1., 0.}).reshape({2, 2});
  Driver raw("rocauc"), soft("rocauc", {{"softmax", true}});
  raw.fire({batch(logits, classes_of({1, 0}))});
  soft.fire({batch(logits, classes_of({1, 0}))});
  CHECK(metric(raw.flush(), "class_0") == 0);   // 5 > 1
  CHECK(metric(soft.flush(), "class_0") == 1);  // 0.5 < 0.73
}
