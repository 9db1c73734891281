// The tree keeps its own rules: what each folder may include, and what the top level holds.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
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

const auto tbb = {"tbb/", "oneapi/"};
const auto torch = {"ATen/", "torch/", "c10/"};
const auto cuda = {"cuda", "nv"};

// A folder, the folders that its files may include beside itself, and which libraries they see.
struct Room {
  std::string folder;
  std::vector<std::string> may_include;
  bool sees_tbb = false, sees_torch = false;
};

const std::vector<Room> engine_rooms{
    {"base", {}},
    {"graph", {"base"}},
    {"group", {"base"}},
    {"plan", {"base", "graph", "group"}},
    {"trace", {"base", "graph", "group", "plan"}},
    {"judge", {"base", "graph", "group", "plan", "trace"}},
    {"run", {"base", "graph", "group", "plan", "trace"}, true},
    {"cache", {"base"}},
    {"state", {"base", "graph", "group", "plan", "trace", "run", "cache"}, false, true},
    {"session",
     {"base", "graph", "group", "plan", "trace", "judge", "run", "state", "cache"},
     true,
     true},
};

// All of them see LibTorch.
const std::vector<Room> kernel_rooms{
    {"base", {}},
    {"cuda", {"base"}},
    {"image", {"base", "cuda"}},
    {"files", {"base", "image"}},
    {"lists", {"base", "files"}},
    {"augment", {"base", "image", "cuda"}},
    {"net", {"base", "cuda"}},
    {"loss", {"base", "image", "cuda"}},
    {"optim", {"base", "cuda"}},
    {"infer", {"base", "cuda"}},
    {"onnx", {"base", "files", "lists", "net"}},
};

bool may_include(const std::string& top, const Room& room, const std::string& name) {
  if (starts(name, {(top + "/" + room.folder + "/").c_str()})) return true;
  for (const auto& other : room.may_include)
    if (starts(name, {(top + "/" + other + "/").c_str()})) return true;
  return false;
}

// Every folder of `top` is one of the rooms, and has a README.
void check_folders(const std::string& top, const std::vector<Room>& rooms) {
  std::set<std::string> known, there;
  for (const Room& room : rooms) known.insert(room.folder);
  for (const auto& e : fs::directory_iterator(root / top))
    if (e.is_directory())
      there.insert(e.path().filename());
    else
      CHECK_MESSAGE(e.path().filename() == "README.md", e.path().string(), " is in no folder");
  CHECK(there == known);
  for (const auto& folder : there) {
    CAPTURE(folder);
    CHECK(fs::exists(root / top / folder / "README.md"));
  }
}

// What a header defines that another could define too, by its namespace: types, and inline
// functions with the types of their parameters.
std::vector<std::string> defined(const fs::path& header) {
  static const std::regex space(R"(^namespace ([\w:]+) \{)"),
      type(R"(^(?:struct|class|enum class) (\w+)(?![\w<]).*\{)"),
      function(R"(^inline .*?(\w+)\(([^()]*)\).*\{)"), parameter_name(R"(\s*\w+(?=,|$))");
  std::vector<std::string> all;
  std::string in;
  std::smatch m;
  std::ifstream file(header);
  for (std::string line; std::getline(file, line);) {
    if (std::regex_search(line, m, space)) in = m[1].str() + "::";
    if (std::regex_search(line, m, type)) all.push_back(in + m[1].str());
    if (std::regex_search(line, m, function))
      all.push_back(in + m[1].str() + "(" + std::regex_replace(m[2].str(), parameter_name, "") +
                    ")");
  }
  return all;
}

}  // namespace

// The linker keeps one of two functions of a name, and the destructor of one of two types: of code
// that has the other one, it makes nonsense.
TEST_CASE("no two headers define the same name") {
  std::map<std::string, std::string> where;
  for (const char* folder : {"engine", "kernels", "nodes", "tools", "tests"})
    for (const auto& file : sources(folder)) {
      const std::string name = file.lexically_relative(root);
      // A program of its own; the engine's tests, whose Sample is another than the state's.
      if (starts(name, {"tools/dicom/", "tests/engine/toy.h"}) || file.extension() != ".h")
        continue;
      for (const std::string& what : defined(file)) {
        const auto [at, is_new] = where.emplace(what, name);
        CHECK_MESSAGE((is_new || at->second == name), what, ": ", at->second, " and ", name);
      }
    }
  CHECK(where.size() > 500);
}

TEST_CASE("each folder of engine includes only the folders below it") {
  check_folders("engine", engine_rooms);
  for (const Room& room : engine_rooms)
    for (const auto& file : sources("engine/" + room.folder))
      for (const auto& name : includes(file)) {
        INFO(file.string() << " includes " << name);
        CHECK_FALSE(starts(name, {"nodes/", "kernels/", "tools/", "tests/"}));
        if (starts(name, {"engine/"})) CHECK(may_include("engine", room, name));
        // NVTX is headers alone, and they may lack.
        if (file.stem() != "nvtx") CHECK_FALSE(starts(name, cuda));
        if (!room.sees_tbb) CHECK_FALSE(starts(name, tbb));
        if (!room.sees_torch) CHECK_FALSE(starts(name, torch));
      }
}

TEST_CASE("each folder of kernels includes only the folders below it, and of engine only base") {
  check_folders("kernels", kernel_rooms);
  for (const Room& room : kernel_rooms)
    for (const auto& file : sources("kernels/" + room.folder))
      for (const auto& name : includes(file)) {
        INFO(file.string() << " includes " << name);
        CHECK_FALSE(starts(name, {"nodes/", "tools/", "tests/"}));
        if (starts(name, {"kernels/"})) CHECK(may_include("kernels", room, name));
        if (starts(name, {"engine/"})) CHECK(starts(name, {"engine/base/"}));
      }
}

TEST_CASE("what editors ask is answered without LibTorch, and the server adds the wire alone") {
  for (const char* folder : {"tools/assist", "tools/lsp"})
    for (const auto& file : sources(folder))
      for (const auto& name : includes(file)) {
        INFO(file.string() << " includes " << name);
        if (starts(name, {"tools/"})) CHECK(starts(name, {"tools/assist/", "tools/lsp/"}));
        if (std::string(folder) == "tools/assist") CHECK_FALSE(starts(name, {"tools/lsp/"}));
        if (starts(name, {"engine/"}))
          CHECK(starts(name, {"engine/base/", "engine/graph/", "engine/plan/", "engine/judge/"}));
        CHECK_FALSE(starts(name, {"nodes/", "kernels/", "tests/"}));
        CHECK_FALSE(starts(name, tbb));
        CHECK_FALSE(starts(name, torch));
      }
}

TEST_CASE("the page's server and what it knows of runs see neither LibTorch nor the command line") {
  const auto runs = {"tools/runs/"};
  const auto web = {"tools/web/", "tools/assist/", "tools/lsp/lines.h", "tools/runs/"};
  for (const std::string folder : {"runs", "web"}) {
    CHECK(fs::exists(root / "tools" / folder / "README.md"));
    for (const auto& file : sources("tools/" + folder))
      for (const auto& name : includes(file)) {
        INFO(file.string() << " includes " << name);
        if (starts(name, {"tools/"})) CHECK(starts(name, folder == "runs" ? runs : web));
        if (starts(name, {"engine/"}) && folder == "runs") CHECK(starts(name, {"engine/base/"}));
        if (starts(name, {"engine/"}))
          CHECK(starts(name, {"engine/base/", "engine/graph/", "engine/plan/", "engine/judge/"}));
        CHECK_FALSE(starts(name, {"nodes/", "kernels/", "tests/"}));
        CHECK_FALSE(starts(name, tbb));
        CHECK_FALSE(starts(name, torch));
      }
  }
}

// Scripts without a build step stay readable by being short.
TEST_CASE("no module of a page is longer than 300 lines") {
  for (const char* folder : {"tools/web/page", "tools/page"})
    for (const auto& e : fs::directory_iterator(root / folder)) {
      if (e.path().extension() != ".js") continue;
      std::ifstream in(e.path());
      const auto lines = std::count(std::istreambuf_iterator<char>(in), {}, '\n');
      CHECK_MESSAGE(lines <= 300, e.path().string());
    }
}

TEST_CASE("nodes are one file each, and share headers only with their own family") {
  for (const auto& file : sources("nodes")) {
    INFO(file.string());
    const std::string family = file.parent_path().filename();
    for (const auto& name : includes(file)) {
      INFO("includes " << name);
      CHECK_FALSE(starts(name, {"tools/", "tests/"}));
      if (starts(name, {"nodes/"})) {
        // What families share stands beside them: nodes/fields.h, nodes/slide_params.h.
        const bool shared = name.find('/', 6) == name.npos;
        const bool own = shared || name.starts_with("nodes/" + family + "/");
        CHECK(own);
      }
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
