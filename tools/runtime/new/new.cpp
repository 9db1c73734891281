#include "tools/runtime/new/new.h"

#include <iostream>
#include <sstream>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "engine/base/shell_word.h"
#include "engine/plan/plan.h"
#include "tools/runtime/bundle/bundle.h"
#include "tools/runtime/new/class_survey.h"
#include "tools/runtime/new/starter.h"
#include "tools/runtime/new_folder.h"
#include "tools/runtime/nnunet/best_configuration.h"
#include "tools/runtime/nnunet/postprocessing.h"
#include "tools/runtime/nnunet/prediction.h"
#include "tools/runtime/nnunet/recipe.h"
#include "tools/runtime/write_graph.h"

namespace sluice {

void must_be_right(const std::string& text) {
  Diagnostics diagnostics;
  const auto graph = load_graph(parse_document("the new graph", text, diagnostics),
                                Registry::global().catalogue(), {}, diagnostics);
  if (graph && make_plan(*graph, {}, diagnostics) && diagnostics.ok()) return;
  diagnostics.print(std::cerr, false);
  throw std::logic_error("the graph for this folder came out wrong: please report it");
}

namespace {

void say_written(const std::string& graph) {
  tell("wrote " + graph + "; `sluice run " + shell_word(graph) + "` runs it");
}

template <class S>
void tell_survey(const S& survey) {
  std::ostringstream lines;
  print_survey(survey, lines);
  tell(lines.str());
}

std::string graph_for_classes(const Json& request) {
  const ClassSurvey survey = survey_classes(request.at("folder").get<std::string>());
  tell_survey(survey);
  return classification_graph(survey);
}

std::string graph_for(const Json& request, bool segments) {
  const auto given = request.value("weights", std::vector<std::string>{});
  const std::string weights = given.empty() ? "" : given.front();
  std::vector<nnunet::TrainedModel> models;
  for (const std::string& path : given)
    if (nnunet::is_trained_model(path)) models.push_back(nnunet::read_trained_model(path));
  if (given.size() > 1 && models.size() != given.size())
    throw Error(Exit::usage,
                "several --weights are models of nnU-Net's, whose probabilities are averaged; of "
                "other runs name one, and the others' weights in its network's \"weights\"");
  if (!models.empty())
    return nnunet::prediction_graph(request.at("folder").get<std::string>(), models);
  const Survey survey = survey_folder(request.at("folder").get<std::string>(), segments);
  tell_survey(survey);
  const Recipe recipe = make_recipe(survey, segments);
  if (segments) return segmentation_graph(survey, recipe);
  if (weights.empty()) {
    std::cerr << "no --weights: the graph runs, but with a network that has learned nothing\n";
    return prediction_graph(survey, recipe, nullptr);
  }
  const Trained trained = read_trained(weights, Registry::global().catalogue());
  return prediction_graph(survey, recipe, &trained);
}

std::string graph_for_folds(const Json& request) {
  const std::string folder = request.at("folder");
  const auto cases = nnunet::validated_cases(folder);
  const auto dataset = nnunet::dataset_of(folder);
  const auto found = nnunet::find_postprocessing(cases, dataset);
  tell(nnunet::postprocessing_text(cases, found));
  return nnunet::postprocessing_graph(folder, dataset, cases, found);
}

// A folder: the choice, the graph that predicts by it, and what ensembles came to.
int new_best_configuration(const Json& request) {
  const std::filesystem::path folder = request.at("folder").get<std::string>(),
                              out = request.at("out").get<std::string>();
  NewFolder made(out);
  const auto found = nnunet::find_best_configuration(folder, made.path() / "ensembles");
  tell(nnunet::best_configuration_text(found));
  const std::string graph =
      nnunet::prediction_graph("", found.chosen().models, found.postprocessing.kept);
  must_be_right(graph);
  write_text(made.path() / "inference_information.json",
             nnunet::inference_information(found).dump(2) + "\n");
  write_graph(made.path() / "predict.json", graph);
  made.keep();
  tell("wrote " + (made.place() / "inference_information.json").string());
  say_written((made.place() / "predict.json").string());
  return static_cast<int>(Exit::done);
}

}  // namespace

int new_command(const Json& request) {
  if (request.at("kind") == "nnunet") return new_nnunet(request);
  const std::string out = request.value("out", "");
  if (!out.empty() && std::filesystem::exists(out))
    throw Error(Exit::usage, out + " is there already and stays as it is; name another file");
  const std::string kind = request.at("kind");
  if (kind == "bundle") return new_bundle(request);
  if (kind == "best_configuration") return new_best_configuration(request);
  const std::string text = kind == "classification"   ? graph_for_classes(request)
                           : kind == "postprocessing" ? graph_for_folds(request)
                                                      : graph_for(request, kind == "segmentation");
  must_be_right(text);
  write_graph(out, text);
  if (!out.empty()) say_written(out);
  return static_cast<int>(Exit::done);
}

}  // namespace sluice
