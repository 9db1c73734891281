#include "tools/runtime/nnunet/recipe.h"

#include <iostream>

#include "engine/base/error.h"
#include "engine/base/file_ending.h"
#include "engine/base/letter_case.h"
#include "engine/base/message.h"
#include "engine/base/shell_word.h"
#include "kernels/lists/nnunet_list.h"
#include "tools/nnunet/planner.h"
#include "tools/runtime/new/new.h"
#include "tools/runtime/nnunet/measure.h"
#include "tools/runtime/nnunet/training.h"
#include "tools/runtime/write_graph.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using namespace nnunet;

void must_be_new(const std::string& file) {
  if (!file.empty() && fs::exists(file))
    throw Error(Exit::usage, file + " is there already and stays as it is; name another file");
}

Fingerprint fingerprint_for(const Json& request, const Dataset& dataset) {
  const std::string given = request.at("fingerprint");
  if (!given.empty()) return read_fingerprint(given, dataset);
  const fs::path out = request.at("write_fingerprint").get<std::string>();
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
  if (d.reader_named) json["overwrite_image_reader_writer"] = d.reader;
  return json;
}

// The folds that graphs are written for: those of splits_final.json, else as many as were asked
// for; 0 where there is one case, which makes none.
std::int64_t folds_of(const Dataset& d, std::int64_t asked) {
  if (const auto listed = listed_folds(d.root)) return *listed;
  if (d.training == 1) return 0;
  if (d.training < asked)
    throw DataError((d.root / "dataset.json").string() + ": " + std::to_string(d.training) +
                    " cases make no " + std::to_string(asked) + " folds; name fewer by --folds");
  return asked;
}

void must_be_trainable(const Dataset& d) {
  const std::string where = (d.root / "dataset.json").string();
  if (lower_case(d.ending).starts_with(".tif"))
    throw DataError(where + ": files end with " + d.ending +
                    ", in which training finds no voxel size (CASE.json beside them counts for "
                    "--plan-only alone); graphs are written for volumes such as .nii.gz");
  if (is_picture_name(d.ending) || d.reader == "NaturalImage2DIO" || d.reader == "Tiff3DIO")
    throw DataError(where + ": files end with " + d.ending + " and are read by " + d.reader +
                    "; graphs are written for volumes (--plan-only plans pictures too)");
}

// A graph a configuration, and beside it the folder that nnU-Net would keep the trained model in.
int write_graphs(const Json& request, const Plans& plans, std::int64_t folds) {
  const fs::path out = request.at("out").get<std::string>();
  std::vector<Configuration> all = plans.configurations;
  if (plans.cascade()) {
    all.push_back(*plans.find("3d_fullres"));
    all.back().name = "3d_cascade_fullres";
    all.back().why.insert(all.back().why.begin(),
                          "3d_fullres with the labels that 3d_lowres predicts");
  }
  for (const Configuration& c : all) {
    const fs::path folder =
        out / (std::string("nnUNetTrainer__") + plans.planner.plans_name + "__" + c.name);
    fs::create_directories(folder);
    write_text(folder / "plans.json", plans_json(plans).dump(2) + "\n");
    write_text(folder / "dataset.json", dataset_json(plans.dataset).dump(2) + "\n");
    TrainedModel model = read_model_folder(folder);
    for (std::size_t axis = 0; axis < c.dims(); ++axis)
      model.mirror_axes.push_back(static_cast<std::int64_t>(axis));
    const std::string text =
        training_graph(plans, c, model, folds, request.value("probabilities", false));
    must_be_right(text);
    const fs::path file = out / (c.name + ".json");
    write_graph(file, text);
    tell("wrote " + file.string() + "; `sluice run " + shell_word(file.string()) + " --out " +
         shell_word((out / c.name).string()) + " --each vars.fold=" + fold_numbers(folds) +
         "` trains " + (folds > 0 ? "its folds" : "on the one case"));
  }
  return static_cast<int>(Exit::done);
}

}  // namespace

int new_nnunet(const Json& request) {
  const Dataset dataset = read_dataset(request.at("folder").get<std::string>());
  const Planner* planner = find_planner(request.at("planner"));
  const bool plan_only = request.at("plan_only");
  if (request.at("fingerprint") == "") must_be_new(request.at("write_fingerprint"));
  std::int64_t folds = 0;
  if (!plan_only) {  // before the cases are measured, which may take hours
    must_be_new(request.at("out"));
    must_be_trainable(dataset);
    folds = folds_of(dataset, request.at("folds"));
  }
  const Plans plans =
      make_plans(dataset, fingerprint_for(request, dataset), *planner, request.at("gpu_memory"));
  if (plan_only) {
    std::cout << (request.at("json").get<bool>() ? plans_json(plans).dump(2) + "\n"
                                                 : plans_text(plans))
              << std::flush;
    return static_cast<int>(Exit::done);
  }
  tell(plans_text(plans));
  return write_graphs(request, plans, folds);
}

}  // namespace sluice
