// A package opened: its graph as nodes in their order, its network.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "tools/edge/engine.h"
#include "tools/edge/node.h"

namespace sluice::edge {

class Package {
 public:
  // DataError where a file is not as it was packaged; diagnostics to stderr and an Error(usage)
  // where the graph holds what is not run here. `images`: a folder; `out`: where files are written.
  Package(const std::filesystem::path& folder, const std::filesystem::path& images,
          const std::filesystem::path& out, int threads, bool whole);

  DataList cases() const { return steps_.front().node->list(); }
  // Segments one; a DataError names it. Null: what is wrong was said, and the graph goes on.
  std::optional<Case> run(const DataItem& item) const;

 private:
  struct Step {
    std::string name;
    std::unique_ptr<Node> node;
    bool quarantines = false;
  };
  std::vector<Step> steps_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace sluice::edge
