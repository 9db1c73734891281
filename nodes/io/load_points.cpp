// load_points: landmarks from files.
#include "kernels/files/points.h"

#include "engine/run/registry.h"
#include "engine/state/list_field.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct LoadPoints final : Node {
  struct Params {
    std::vector<std::string> keys{"points"};
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("load_points",
                "Reads each key's file of points, a row each: .csv, .txt (lines, or a JSON list of "
                "lists) or .npy, as they stand there, in voxels or millimetres.")
        .in("sample", "Fields with paths.")
        .out("sample", "[points, axes] float32; a batch fills shorter lists up with rows of -1.")
        .param("keys", &Params::keys, "Fields to load.")
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .takes("@keys", Form::record)
        .gives("@keys", Form::any)
        .dtype("float32")
        .lane(LaneKind::io);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for (const std::string& key : p.keys) {
      if (p.allow_missing_keys && !out.has(key)) continue;
      const std::string& path = out.at(key).geometry().path;
      if (path.empty()) throw DataError("field \"" + key + "\" has no path to load from");
      const at::Tensor points = read_points(path);
      if (points.size(1) != 2 && points.size(1) != 3)
        throw DataError(path + ": rows of " + std::to_string(points.size(1)) +
                        " numbers; points have 2 or 3 axes");
      out.set(key, list_field(points.to(at::kFloat)));
    }
    f.emit(std::move(out));
  }
};

const Register<LoadPoints> registered;

}  // namespace
}  // namespace sluice
