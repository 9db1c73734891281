// Every transform against MONAI: stored values of small cases, and, where SLUICE_MONAI_PYTHON
// names an interpreter with MONAI 1.6.1, random inputs beside the living MONAI.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/run/registry.h"
#include "golden.h"
#include "monai_cases.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

std::map<std::string, monai::Summary> run_all(const Json& document,
                                              const std::filesystem::path& folder) {
  std::map<std::string, monai::Summary> found;
  for (const Json& one : document["cases"]) {
    const monai::Outcome outcome = monai::run(one, folder);
    monai::Summary& s = found[one["type"]];
    ++s.cases;
    s.worst.error = std::max(s.worst.error, outcome.error);
    s.worst.ties = std::max(s.worst.ties, outcome.ties);
    INFO(one["type"].get<std::string>());
    INFO(one["params"].dump());
    INFO(one["in"].dump().substr(0, 300));
    CHECK_MESSAGE(outcome.wrong.empty(), outcome.wrong, outcome.error, " ", outcome.ties);
  }
  return found;
}

}  // namespace

TEST_CASE("transforms give MONAI 1.6.1's stored values") {
  for (const char* file : {"transforms.json", "more_transforms.json", "further_transforms.json",
                           "inverse_transforms.json", "pathology_transforms.json"}) {
    Json document = golden(file);
    for (Json& one : document["cases"])
      for (Json& field : one["in"]) {
        const Json tensor = document["inputs"].at(field["input"].get<std::string>());
        field = tensor;
      }
    run_all(document, "");
  }
}

TEST_CASE("transforms give MONAI's values on random inputs") {
  const char* python = std::getenv("SLUICE_MONAI_PYTHON");
  if (!python) {
    MESSAGE("skipped: SLUICE_MONAI_PYTHON names no interpreter with MONAI; tests/monai/compare.sh");
    return;
  }
  const char* count = std::getenv("SLUICE_MONAI_CASES");
  const TemporaryFolder folder;
  const std::string command = std::string(python) +
                              " " SLUICE_SOURCE_DIR "/tests/monai/make_cases.py " +
                              folder.path.string() + " --count " + (count ? count : "10");
  REQUIRE(std::system(command.c_str()) == 0);
  std::ifstream file(folder.path / "cases.json");
  const auto found = run_all(Json::parse(file), folder.path);
  MESSAGE("\n" << monai::table(found));
}
