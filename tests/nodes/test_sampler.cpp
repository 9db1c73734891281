// weighted_random_sampler: an epoch's items by weight and by class.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine/base/error.h"
#include "tests/nodes/run_graph.h"
#include "tests/temporary_folder.h"

using namespace sluice;
namespace fs = std::filesystem;

namespace {

struct Table {
  TemporaryFolder folder;
  fs::path file = folder / "items.csv";
  // 100 items: class 1 for the last ten, weights 0 to 3 in turn.
  Table() {
    std::ofstream out(file);
    out << "image,weight,class\n";
    for (int i = 0; i < 100; ++i) out << i << ".nii," << i % 4 << ',' << (i >= 90) << '\n';
  }

  // What the epochs' samples are, by name.
  std::vector<std::vector<std::string>> epochs(const Json& params, int seed = 0) const {
    Json sampler = params;
    sampler["type"] = "weighted_random_sampler";
    sampler["in"] = "list";
    const Json graph = {
        {"run", {{"epochs", 3}, {"seed", seed}}},
        {"nodes",
         {{"list",
           {{"type", "csv_list"}, {"file", file.string()}, {"values", {"weight", "class"}}}},
          {"draw", sampler},
          {"end", {{"type", "collect"}, {"in", "draw"}}}}}};
    const Collected found = run_graph(graph);
    if (!found.failure.empty()) throw std::runtime_error(found.failure);
    std::vector<std::vector<std::string>> names;
    for (int e = 0; e < 3; ++e) {
      names.emplace_back();
      const auto it = found.epochs.find("end/" + std::to_string(e));
      if (it != found.epochs.end())
        for (const SamplePtr& s : it->second) names.back().push_back(s->name);
    }
    return names;
  }
};

int number(const std::string& name) { return std::stoi(name.substr(name.find_last_of('/') + 1)); }

}  // namespace

TEST_CASE("classes come equally often, whatever their frequency, and epochs differ") {
  const Table t;
  const Json by_class = {{"class_key", "class"}, {"num_samples", 4000}};
  const auto epochs = t.epochs(by_class);
  for (const auto& names : epochs) {
    REQUIRE(names.size() == 4000);
    int rare = 0;
    for (const auto& name : names) rare += number(name) >= 90;
    CHECK(std::abs(rare - 2000) < 160);  // five standard deviations
  }
  CHECK(epochs[0] != epochs[1]);
  CHECK(t.epochs(by_class) == epochs);
  CHECK(t.epochs(by_class, 1) != epochs);
}

TEST_CASE("an item comes as often as its weight says, and never where that is 0") {
  const Table t;
  const auto epochs = t.epochs({{"weight_key", "weight"}, {"num_samples", 6000}});
  int count[4] = {};
  for (const auto& name : epochs[2]) ++count[number(name) % 4];
  CHECK(count[0] == 0);
  for (int w = 1; w < 4; ++w) CHECK(std::abs(count[w] - 1000 * w) < 5 * std::sqrt(1000.0 * w));
}

TEST_CASE("without replacement no item comes twice, and heavy ones come first") {
  const Table t;
  const auto epochs =
      t.epochs({{"weight_key", "weight"}, {"num_samples", 75}, {"replacement", false}});
  std::set<std::string> all(epochs[0].begin(), epochs[0].end());
  CHECK(all.size() == 75);  // all of a weight above 0
  double place[4] = {};
  for (const auto& names : epochs)
    for (std::size_t i = 0; i < names.size(); ++i)
      place[number(names[i]) % 4] += static_cast<double>(i) / 75;
  CHECK(place[3] < place[1]);
  CHECK_THROWS_WITH(
      t.epochs({{"weight_key", "weight"}, {"num_samples", 76}, {"replacement", false}}),
      doctest::Contains("75 of a weight above 0"));
}

TEST_CASE("a sampler says which item has no number, and refuses weights of another length") {
  const Table t;
  CHECK_THROWS_WITH(t.epochs({{"weight_key", "wait"}}),
                    doctest::Contains("gives no number \"wait\""));
  CHECK_THROWS_WITH(t.epochs({{"weights", {1, 2}}}),
                    doctest::Contains("2 for a list of 100 items"));
  CHECK_THROWS_WITH(t.epochs({{"weights", {0}}, {"num_samples", 3}}), doctest::Contains("weights"));
}
