// `sluice data index` writes a manifest, `sluice data diff` says what has changed since.
#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "engine/base/cause.h"
#include "engine/base/message.h"
#include "kernels/lists/manifest.h"
#include "tools/runtime/data/data_command.h"
#include "tools/runtime/data/data_set.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// `above`: the folders that lead here, without links. A link to one of them would lead round and
// round.
void add_files(const fs::path& folder, const fs::path& manifest, std::vector<fs::path>& above,
               std::set<fs::path>& files) {
  std::error_code problem;
  const fs::path real = fs::canonical(folder, problem);
  if (std::find(above.begin(), above.end(), real) != above.end()) return;
  above.push_back(real);
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem)) {
    const fs::path path = fs::absolute(at->path()).lexically_normal();
    if (path.filename().string().starts_with('.')) continue;
    std::error_code unknown;  // a link that leads nowhere is named where it is read
    if (at->is_directory(unknown))
      add_files(path, manifest, above, files);
    else if (path != manifest)
      files.insert(path);
  }
  if (problem) throw IoError(folder.string() + ": cannot list the folder: " + problem.message());
  above.pop_back();
}

// Every file below a folder, hidden ones and the manifest itself left out; links to folders are
// followed.
std::set<fs::path> files_below(const fs::path& folder, const fs::path& manifest) {
  std::set<fs::path> files;
  std::vector<fs::path> above;
  add_files(folder, manifest, above, files);
  return files;
}

std::set<fs::path> files_of_graph(const Json& request) {
  std::set<fs::path> files;
  const DataSet set = data_set_of_graph(Options::from_json(request));
  for (const Finding& f : set.findings) throw DataError(f.file + ": " + f.text);
  for (const DataCase& one : set.cases)
    for (const auto& [key, file] : one.files)
      if (fs::is_directory(file))
        files.merge(files_below(file, {}));
      else
        files.insert(fs::absolute(file).lexically_normal());
  return files;
}

// The deepest folder that holds all of them.
fs::path common_folder(const std::set<fs::path>& files) {
  fs::path common = files.begin()->parent_path();
  for (const fs::path& file : files)
    while (file.lexically_relative(common).string().starts_with(".."))
      common = common.parent_path();
  return common;
}

// All digests; every file that cannot be read is named in one Error.
void add_digests(Manifest& manifest, const std::set<fs::path>& files) {
  const std::vector<fs::path> all(files.begin(), files.end());
  std::vector<std::string> digests(all.size()), problems(all.size());
  tbb::parallel_for(std::size_t{0}, all.size(), [&](std::size_t i) {
    try {
      digests[i] = sha256_of_file(all[i]);
    } catch (...) {
      const Cause why = cause(Exit::io);
      if (why.of_machine) throw;
      problems[i] = why.text;
    }
  });
  std::string failed;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!problems[i].empty()) failed += (failed.empty() ? "" : "\n  ") + problems[i];
    manifest.digests[manifest.relative(all[i])] = digests[i];
  }
  if (!failed.empty()) throw IoError(failed);
}

Manifest manifest_as_it_is(const fs::path& folder, const fs::path& manifest_file) {
  Manifest manifest(folder);
  add_digests(manifest, files_below(folder, fs::absolute(manifest_file).lexically_normal()));
  return manifest;
}

// ---- diff ---------------------------------------------------------------------------------------

// The same files, their paths relative to the deepest folder that holds all of them: that of the
// data where the manifest lies somewhere else.
Manifest from_common_folder(const Manifest& m) {
  std::set<fs::path> files;
  for (const auto& [path, digest] : m.digests) files.insert((m.folder() / path).lexically_normal());
  if (files.empty()) return m;
  Manifest out(common_folder(files));
  for (const auto& [path, digest] : m.digests)
    out.digests[out.relative((m.folder() / path).lexically_normal())] = digest;
  return out;
}

bool lies_outside(const Manifest& m) {
  return std::any_of(m.digests.begin(), m.digests.end(),
                     [](const auto& entry) { return entry.first.starts_with(".."); });
}

std::size_t paths_in_both(const Manifest& a, const Manifest& b) {
  return static_cast<std::size_t>(
      std::count_if(a.digests.begin(), a.digests.end(),
                    [&](const auto& entry) { return b.digests.count(entry.first) > 0; }));
}

// Of both ways to call a manifest's files the one that the other side's names speak for.
Manifest named_like(const Manifest& m, const Manifest& other) {
  Manifest common = from_common_folder(m);
  return paths_in_both(common, other) > paths_in_both(m, other) ? common : m;
}

struct FileChange {
  const char* kind;
  std::string path, from;
};

// A file that is gone and one that is new with the same bytes have moved.
std::vector<FileChange> changes(const Manifest& before, const Manifest& after) {
  std::multimap<std::string, std::string> gone;  // digest -> path
  for (const auto& [path, digest] : before.digests)
    if (!after.digests.count(path)) gone.emplace(digest, path);
  std::vector<FileChange> found;
  for (const auto& [path, digest] : after.digests) {
    const auto old = before.digests.find(path);
    if (old != before.digests.end()) {
      if (old->second != digest) found.push_back({"changed", path, ""});
      continue;
    }
    const auto moved = gone.find(digest);
    found.push_back(moved == gone.end() ? FileChange{"added", path, ""}
                                        : FileChange{"moved", path, moved->second});
    if (moved != gone.end()) gone.erase(moved);
  }
  for (const auto& [digest, path] : gone) found.push_back({"missing", path, ""});
  std::sort(found.begin(), found.end(), [](const FileChange& a, const FileChange& b) {
    return std::string_view(a.kind) != b.kind ? std::string_view(a.kind) < b.kind : a.path < b.path;
  });
  return found;
}

fs::path manifest_file_of(const fs::path& given) {
  const fs::path file = fs::is_directory(given) ? given / Manifest::usual_name : given;
  if (!fs::exists(file))
    throw Error(Exit::usage, file.string() + ": no such manifest; `sluice data index` writes one");
  return file;
}

void print(const std::vector<FileChange>& all, std::size_t files) {
  for (const FileChange& c : all)
    fmt::print("{:<8} {}{}\n", c.kind, printable(c.path),
               c.from.empty() ? "" : printable("  (was " + c.from + ")"));
  fmt::print("{} of {} files differ\n", all.size(), files);
}

}  // namespace

int index_data(const Json& request) {
  const fs::path given = request.at("graphs").front().get<std::string>();
  std::string out = request.value("out", "");
  const bool is_folder = fs::is_directory(given);
  if (is_folder) require_alone(request);
  const fs::path usual = fs::absolute(given / Manifest::usual_name).lexically_normal();
  const auto files = is_folder ? files_below(given, usual) : files_of_graph(request);
  if (files.empty()) throw DataError(given.string() + ": there are no files to index");
  if (out.empty())
    out = ((is_folder ? given : common_folder(files)) / Manifest::usual_name).string();
  Manifest manifest(fs::path(out).parent_path());
  add_digests(manifest, files);
  manifest.digests.erase(manifest.relative(out));  // of an older manifest under that name
  manifest.write(out);
  if (request.value("json", false))
    std::cout << Json{{"manifest", out}, {"files", manifest.digests.size()}}.dump(2) << "\n";
  else
    fmt::print("{}: {} files\n", printable(out), manifest.digests.size());
  return static_cast<int>(Exit::done);
}

int diff_data(const Json& request) {
  const auto given = request.at("graphs").get<std::vector<std::string>>();
  const fs::path file = manifest_file_of(given.front());
  const bool alone = given.size() == 1;
  Manifest before = Manifest::read(file);
  if (alone && lies_outside(before)) before = from_common_folder(before);
  const fs::path other = alone ? before.folder() : fs::path(given[1]);
  Manifest after = fs::is_directory(other) ? manifest_as_it_is(other, file) : Manifest::read(other);
  if (!alone) {
    before = named_like(before, after);
    after = named_like(after, before);
  }
  const auto found = changes(before, after);
  if (request.value("json", false)) {
    Json all = Json::array();
    for (const FileChange& c : found) {
      all.push_back({{"kind", c.kind}, {"file", c.path}});
      if (!c.from.empty()) all.back()["from"] = c.from;
    }
    const Json answer = {{"files", before.digests.size()}, {"changes", std::move(all)}};
    std::cout << answer.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    print(found, before.digests.size());
  }
  return static_cast<int>(found.empty() ? Exit::done : Exit::data);
}

}  // namespace sluice
