// The graphs and runs below one folder, under names of the server's own: no path comes from a page.
//
// Invariant: a file is opened below the folder and nowhere else: no "..", no link that leads out
// (openat2, RESOLVE_BENEATH); regular files of at most 16 MiB.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/json.h"

namespace sluice::web {

struct Refusal {
  int status;
  std::string why;
  Json more = Json::object();
};

constexpr std::size_t largest_file = 16u << 20;

std::string sha256_of(const std::string& text);

class Places {
 public:
  explicit Places(std::filesystem::path root);
  ~Places();
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  const std::filesystem::path& root() const { return root_; }

  // {"id", "name"} of each file that looks like a graph; of runs their rows, with "id".
  Json graphs();
  Json runs();
  // The id of what was named on the command line.
  std::string add_graph(const std::filesystem::path& file);
  std::string add_run(const std::filesystem::path& folder);

  // Relative to root; a Refusal (404) where the id is nobody's.
  std::string graph(const std::string& id) const;
  std::filesystem::path run(const std::string& id) const;
  std::string run_name(const std::string& id) const;

  std::string read(const std::string& relative, std::size_t most = largest_file) const;
  // Replaces the file by one that is whole, if its digest is still `expected`: else a Refusal (409)
  // with the text that is there.
  void write(const std::string& relative, const std::string& text, const std::string& expected);
  // A new file beside a graph, by a name without folders; its id. A Refusal: 409 where it is there.
  std::string create(const std::string& beside, const std::string& name, const std::string& text);

 private:
  int open(const std::string& relative, int flags) const;

  const std::filesystem::path root_;
  int fd_ = -1;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> graphs_, runs_;  // id -> path below root
};

}  // namespace sluice::web
