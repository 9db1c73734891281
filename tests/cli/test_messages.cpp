// Every diagnostic as a user sees it. tests/golden/messages holds for each code a small faulty
// graph (SL0203.json; SL0402.toy.json with the toy types) or a command line (SL0501.args), and the
// text that is printed (SL0203.txt). SLUICE_UPDATE_GOLDEN=1 writes the texts anew.
#include <doctest/doctest.h>

#include <regex>
#include <set>
#include <sstream>

#include "tests/cli/types.h"
#include "tests/engine/toy_graph.h"

using namespace sluice;
namespace fs = std::filesystem;

namespace {

const fs::path folder = SLUICE_SOURCE_DIR "/tests/golden/messages";

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string printed(const std::string& file, const Catalogue& catalogue) {
  std::ostringstream out;
  types::check(file, read(folder / file), catalogue).print(out, false);
  return out.str();
}

// What is printed for a code; "" where there is no example of it.
std::string example(const std::string& code) {
  static const Catalogue toy = toys::catalogue();
  if (fs::exists(folder / (code + ".json"))) return printed(code + ".json", types::real());
  if (fs::exists(folder / (code + ".toy.json"))) return printed(code + ".toy.json", toy);
  const std::string args = read(folder / (code + ".args"));
  if (args.empty()) return "";
  return shell::run("cd " + folder.string() + "; $SLUICE check " + args).err;
}

std::size_t count(const std::string& text, const std::string& pattern) {
  const std::regex all(pattern);
  return static_cast<std::size_t>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), all), std::sregex_iterator()));
}

}  // namespace

TEST_CASE("Every code has an example, whose text is the one that is kept") {
  const char* update = std::getenv("SLUICE_UPDATE_GOLDEN");
  CHECK(all_codes().size() >= 60);
  for (const CodeText& c : all_codes()) {
    const std::string code(c.code);
    const std::string text = example(code);
    CAPTURE(code);
    CHECK_MESSAGE(count(text, "\\[" + code + "\\]") == 1, text);
    CHECK_MESSAGE(count(text, "(error|warning)\\[") == 1, "one mistake, one diagnostic:\n" << text);
    if (update && *update) std::ofstream(folder / (code + ".txt"), std::ios::binary) << text;
    CHECK(text == read(folder / (code + ".txt")));
  }
}

TEST_CASE("Every kept text belongs to a code") {
  for (const auto& e : fs::directory_iterator(folder)) {
    const std::string name = e.path().filename().string();
    if (!name.starts_with("SL")) continue;
    CHECK_MESSAGE(find_code(name.substr(0, 6)), name);
  }
}

TEST_CASE("Examples name their place with a caret, and what would have been right") {
  // Nothing to point at: a file that is not there or not text, and options.
  const std::set<std::string> without{"SL0101", "SL0105", "SL0501", "SL0502",
                                      "SL0503", "SL0511", "SL0512"};
  for (const CodeText& c : all_codes()) {
    const std::string text = read(folder / (std::string(c.code) + ".txt"));
    CAPTURE(text);
    const bool caret = count(text, "\n +\\| +\\^+") == 1;
    const bool listed = without.count(std::string(c.code)) > 0;
    CHECK(caret != listed);
  }
}

TEST_CASE("sluice check prints what the tests compare") {
  const auto r = shell::run("cd " + folder.string() + "; $SLUICE check SL*[0-9].json");
  CHECK(r.code == 2);
  std::string all;
  std::set<fs::path> files;
  for (const auto& e : fs::directory_iterator(folder)) files.insert(e.path());
  for (const auto& file : files)
    if (file.extension() == ".json" && file.stem().extension().empty() &&
        file.stem().string().starts_with("SL"))
      all += read(folder / (file.stem().string() + ".txt"));
  CHECK(r.err == all);
}
