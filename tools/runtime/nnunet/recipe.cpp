#include "tools/runtime/nnunet/recipe.h"

#include <iostream>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "kernels/files/file_io.h"
#include "tools/nnunet/planner.h"
#include "tools/runtime/new/new.h"
#include "tools/runtime/nnunet/measure.h"
#include "tools/runtime/nnunet/training.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using namespace nnunet;

void write_text(const fs::path& file, const std::string& text) {
  write_file(file, {{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
}

void must_be_new(const fs::path& file) {
  if (!file.empty() && fs::exists(file))
    throw Error(Exit::usage,
                file.string() + " is there already and stays as it is; name another file");
}

Fingerprint fingerprint_for(const Json& request, const Dataset& dataset) {
  const std::string given = request.at("fingerprint");
  if (!given.empty()) return read_fingerprint(given, dataset);
  const fs::path out = request.at("write_fingerprint").get<std::string>();
  must_be_new(out);
  const Fingerprint measured = measure(dataset);
  if (!out.empty()) write_text(out, fingerprint_json(measured).dump(2) + "\n");
  return measured;
}

// dataset.json as nnU-Net has it, whoever's the folder's own is.
Json dataset_json(const Dataset& d) {
  Json json{{"channel_names", Json::object()}, {"labels", Json::object()}};
  for (std::size_t c = 0; c < d.channels.size(); ++c)
    json["channel_names"][std::to_string(c)] = d.channels[c];
  for (const Label& label : d.labels)
    json["labels"][label.name] =
        label.values.size() == 1 ? Json(label.values.front()) : Json(label.values);
  if (d.regions) json["regions_class_order"] = d.region_order;
  json["numTraining"] = d.training;
  json["file_ending"] = d.ending;
  return json;
}

// plans.json and dataset.json, which nnU-Net reads, and a graph a configuration.
int write_graphs(const Json& request, const Plans& plans) {
  const fs::path out = request.at("out").get<std::string>();
  must_be_new(out);
  fs::create_directories(out);
  write_text(out / "plans.json", plans_json(plans).dump(2) + "\n");
  write_text(out / "dataset.json", dataset_json(plans.dataset).dump(2) + "\n");
  for (const Configuration& c : plans.configurations) {
    TrainedModel model = read_model_folder(out, c.name);
    for (std::size_t axis = 0; axis < c.dims(); ++axis)
      model.mirror_axes.push_back(static_cast<std::int64_t>(axis));
    const std::string text = training_graph(plans, c, model, request.at("folds"));
    must_be_right(text);
    const fs::path file = out / (c.name + ".json");
    write_text(file, text);
    tell("wrote " + file.string() + "; `sluice run " + file.string() + " --out " +
         (out / "runs").string() + " --each vars.fold=0,1,2,3,4` trains its folds");
  }
  return static_cast<int>(Exit::done);
}

}  // namespace

int new_nnunet(const Json& request) {
  const Dataset dataset = read_dataset(request.at("folder").get<std::string>());
  const Planner* planner = find_planner(request.at("planner"));
  const Plans plans =
      make_plans(dataset, fingerprint_for(request, dataset), *planner, request.at("gpu_memory"));
  if (request.at("plan_only").get<bool>()) {
    std::cout << (request.at("json").get<bool>() ? plans_json(plans).dump(2) + "\n"
                                                 : plans_text(plans))
              << std::flush;
    return static_cast<int>(Exit::done);
  }
  tell(plans_text(plans));
  return write_graphs(request, plans);
}

}  // namespace sluice
