// The tree keeps its own rules: what each folder may include, and what the top level holds.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

const fs::path root = SLUICE_SOURCE_DIR;

std::vector<fs::path> sources(const std::string& folder) {
  std::vector<fs::path> all;
  for (const auto& e : fs::recursive_directory_iterator(root / folder)) {
    const auto ext = e.path().extension();
    if (ext == ".h" || ext == ".cpp" || ext == ".cu") all.push_back(e.path());
  }
  return all;
}

std::vector<std::string> includes(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> all;
  static const std::regex line(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::smatch m;
  for (std::string s; std::getline(in, s);)
    if (std::regex_search(s, m, line)) all.push_back(m[1]);
  return all;
}

bool starts(const std::string& s, std::initializer_list<const char*> prefixes) {
  for (const char* p : prefixes)
    if (s.rfind(p, 0) == 0) return true;
  return false;
}

const auto torch = {"ATen/", "torch/", "c10/"};
const auto cuda = {"cuda", "nv"};

}  // namespace

TEST_CASE("the pure layers of engine include neither TBB nor CUDA nor LibTorch") {
  for (const auto& file : sources("engine")) {
    const std::string stem = file.stem();
    const bool uses_tbb = stem == "scheduler" || stem == "station" || stem == "station_fire";
    const bool uses_torch =
        std::set<std::string>{"sample",        "resource",    "checkpoint",   "transform",
                              "safetensors",   "cache_tiers", "disk_tier",    "packed_sample",
                              "tensor_device", "cuda_graph",  "recorded_step"}
            .count(stem) > 0;
    for (const auto& name : includes(file)) {
      INFO(file.string() << " includes " << name);
      CHECK_FALSE(starts(name, {"nodes/", "tools/", "tests/"}));
      if (stem != "nvtx") CHECK_FALSE(starts(name, cuda));  // headers alone, and they may lack
      if (!uses_tbb) CHECK_FALSE(starts(name, {"tbb/", "oneapi/"}));
      if (!uses_torch) CHECK_FALSE(starts(name, torch));
    }
  }
}

TEST_CASE("kernels know no node, and of the engine only errors, random numbers and who is timed") {
  for (const auto& file : sources("kernels"))
    for (const auto& name : includes(file)) {
      INFO(file.string() << " includes " << name);
      CHECK_FALSE(starts(name, {"nodes/", "tools/", "tests/"}));
      if (starts(name, {"engine/"})) {
        const bool leaf = name == "engine/base/error.h" || name == "engine/base/random.h" ||
                          name == "engine/base/philox.h" || name == "engine/run/helped.h";
        CHECK(leaf);
      }
    }
}

TEST_CASE("nodes are one file each, and share headers only with their own family") {
  for (const auto& file : sources("nodes")) {
    INFO(file.string());
    const std::string family = file.parent_path().filename();
    for (const auto& name : includes(file)) {
      INFO("includes " << name);
      CHECK_FALSE(starts(name, {"tools/", "tests/"}));
      if (starts(name, {"nodes/"})) CHECK(name.starts_with("nodes/" + family + "/"));
    }
  }
}

TEST_CASE("the top level holds its eight entries and dot-files") {
  const std::set<std::string> known{"CMakeLists.txt", "engine", "nodes", "graphs",
                                    "kernels",        "tools",  "tests", "README.md"};
  for (const auto& e : fs::directory_iterator(root)) {
    const std::string name = e.path().filename();
    const bool made = name.rfind("build", 0) == 0 || name == "runs" || name == "data";
    INFO(name);
    const bool expected = name[0] == '.' || made || known.count(name) > 0;
    CHECK(expected);
  }
}

// CMake splits lists at ';', so ctest would ask for two tests that do not exist and see none fail.
TEST_CASE("no test's name has a semicolon") {
  static const std::regex name(R"re(TEST_CASE\(\s*"([^"]*))re");
  for (const auto& file : sources("tests")) {
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
      INFO(file.string());
      CHECK((*it)[1].str().find(';') == std::string::npos);
    }
  }
}
