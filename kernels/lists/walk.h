// What stands below a folder, as Python's glob and os.walk(followlinks=True) see it: through links
// to folders, and nothing whose name begins with a dot ("._case.nii.gz", ".ipynb_checkpoints").
//
// Invariant: it ends, since a link that leads back to a folder on its own way is not followed.
#pragma once

#include <filesystem>

#include "kernels/files/file_io.h"

namespace sluice {

inline bool is_hidden(const std::filesystem::path& path) {
  return path.filename().string().starts_with('.');
}

inline bool leads_back(const std::filesystem::path& link) {
  std::error_code none;
  for (auto folder = std::filesystem::absolute(link, none).parent_path();;
       folder = folder.parent_path()) {
    if (std::filesystem::equivalent(folder, link, none)) return true;
    if (folder == folder.parent_path()) return false;
  }
}

// Calls fn(entry, depth), where depth is 0 for what stands in `root` itself and at most `deepest`.
template <class Fn>
void walk(const std::filesystem::path& root, int deepest, Fn&& fn) {
  namespace fs = std::filesystem;
  std::error_code problem, none;
  for (fs::recursive_directory_iterator
           at(root, fs::directory_options::follow_directory_symlink, problem),
       end;
       !problem && at != end; at.increment(problem)) {
    const bool hidden = is_hidden(at->path());
    if (hidden || at.depth() >= deepest || (at->is_symlink(none) && leads_back(at->path())))
      at.disable_recursion_pending();
    if (!hidden) fn(*at, at.depth());
  }
  if (problem) fail_to_list(root, problem);
}

}  // namespace sluice
