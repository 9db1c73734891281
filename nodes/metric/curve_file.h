// What a metric leaves for `sluice report` beside its numbers: curves/NODE.json in the run's
// folder, of the last epoch.
//
//   {"kind": "froc", "x": false positives an image, "y": sensitivity, "mean": score}
//   {"kind": "roc", "lines": [{"name": class, "x": false positive rate, "y": true positive rate}]}
//   {"kind": "confusion", "names": classes, "counts": a row a true class}
#pragma once

#include "engine/group/ranks.h"
#include "engine/run/registry.h"
#include "kernels/files/file_io.h"

namespace sluice {

class CurveFile {
 public:
  void open(const OpenContext& context) {
    const bool first = !context.ranks || context.ranks->world.rank == 0;
    if (!context.out_dir.empty() && first)
      path_ = context.out_dir / "curves" / (context.node + ".json");
  }
  void write(const Json& curve) const {
    if (path_.empty()) return;
    const std::string text = curve.dump(-1, ' ', false, Json::error_handler_t::replace);
    write_file(path_, {{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
  }

 private:
  std::filesystem::path path_;
};

}  // namespace sluice
