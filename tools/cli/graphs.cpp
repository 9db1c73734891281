// `sluice graphs`: the ready graphs that come with the program, for those who have no checkout.
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "engine/base/message.h"
#include "engine/base/read_file.h"
#include "tools/cli/cli.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

// Beside the runtime (a wheel), beside the program (a bundle), or where the build folder stands.
fs::path graphs_folder() {
  std::error_code problem;
  const fs::path program = fs::read_symlink("/proc/self/exe", problem).parent_path();
  for (const fs::path& folder : {fs::path(runtime_file()).parent_path() / "graphs",
                                 program / "graphs", program.parent_path() / "graphs"})
    if (fs::exists(folder / "brain.json", problem)) return folder;
  throw IoError("the ready graphs are not beside the program");
}

Json read_graph(const fs::path& file) {
  return Json::parse(read_text(file), nullptr, /*allow_exceptions=*/false,
                     /*ignore_comments=*/true);
}

std::vector<std::string> names(const fs::path& folder) {
  std::vector<std::string> all;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json" && read_graph(entry.path()).contains("nodes"))
      all.push_back(entry.path().stem().string());
  std::sort(all.begin(), all.end());
  return all;
}

void list(const fs::path& folder) {
  const auto all = names(folder);
  std::size_t width = 0;
  for (const auto& name : all) width = std::max(width, name.size());
  for (const auto& name : all)
    std::cout << name << std::string(width - name.size() + 2, ' ')
              << printable(read_graph(folder / (name + ".json")).value("desc", "")) << '\n';
}

// The file, and what its "parts" name, at the same places beside it.
int copy(const fs::path& folder, const std::string& name, const std::string& to) {
  const fs::path from = folder / (name + ".json");
  std::vector<std::pair<fs::path, fs::path>> files{{from, to}};
  const Json parts = read_graph(from).value("parts", Json::object());
  for (const auto& [part, what] : parts.items())
    if (what.is_string()) {
      const std::string file = what.get<std::string>();
      files.emplace_back(folder / file, fs::path(to).parent_path() / file);
    }
  for (const auto& [source, target] : files)
    if (fs::exists(target)) {
      print_error(target.string() + " is there already; give another -o");
      return code(Exit::usage);
    }
  for (const auto& [source, target] : files) {
    if (target.has_parent_path()) fs::create_directories(target.parent_path());
    write_whole(target.string(), read_text(source));
  }
  return code(Exit::done);
}

}  // namespace

int graphs(const Options& options) {
  const fs::path folder = graphs_folder();
  if (options.name.empty()) {
    list(folder);
    return code(Exit::done);
  }
  const auto all = names(folder);
  if (std::find(all.begin(), all.end(), options.name) == all.end()) {
    const std::string hint = did_you_mean(options.name, all);
    print_error("no ready graph is called \"" + options.name + "\"" +
                (hint.empty() ? "" : "; " + hint) + "\n`sluice graphs` lists them all");
    return code(Exit::usage);
  }
  if (!options.out.empty()) return copy(folder, options.name, options.out);
  std::cout << read_text(folder / (options.name + ".json"));
  return code(Exit::done);
}

}  // namespace sluice::cli
