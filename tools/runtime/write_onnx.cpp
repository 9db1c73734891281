#include "tools/runtime/write_onnx.h"

#include <map>

#include "engine/base/error.h"
#include "engine/base/version.h"
#include "engine/run/registry.h"
#include "engine/state/checkpoint.h"
#include "tools/runtime/new/starter.h"

namespace sluice {
namespace {

std::map<std::string, std::string> metadata(const GraphNetwork& made, const std::string& run) {
  Json net = made.model->params;
  net["type"] = made.model->spec->name;
  std::map<std::string, std::string> all{{"network", net.dump()},
                                         {"weights_sha256", weights_sha256(made.tensors())}};
  try {
    all["preprocessing"] =
        Json(read_trained(run, Registry::global().catalogue(), made.model->name).transforms).dump();
  } catch (const Error&) {  // a graph without images from files
  }
  return all;
}

// A file's inputs are images of one size.
void require_images(const BuiltNetwork& network) {
  const std::vector<NetInput>& inputs = network.inputs();
  for (const NetInput& i : inputs)
    if (i.kind != NetInput::Kind::image || i.channels != inputs[0].channels || i.channels == 0 ||
        i.finer != 1)
      throw Error(Exit::usage, "is not exported: its input \"" + i.key +
                                   "\" is no image of the first one's size and channels");
}

}  // namespace

onnx::ExportOptions export_options(const GraphNetwork& made) {
  onnx::ExportOptions o;
  o.channels = made.built->channels();
  o.extents = made.extents;
  o.fits = [built = made.built](const std::vector<std::int64_t>& extents) {
    return built->unfit(extents).empty();
  };
  return o;
}

onnx::Exported write_onnx(const GraphNetwork& made, const std::string& run,
                          const std::filesystem::path& file, const onnx::ExportOptions& options) {
  onnx::Exported e;
  try {
    require_images(*made.built);
    e = onnx::exported(made.built->net(), options);
  } catch (const Error& why) {
    throw Error(why.exit, "models." + made.model->name + ": " + why.what());
  }
  e.model.producer_version = version;
  e.model.metadata = metadata(made, run);
  onnx::write_model(file, e.model);
  return e;
}

}  // namespace sluice
