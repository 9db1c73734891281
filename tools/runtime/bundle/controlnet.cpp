// MAISIControlNetTrainer, a script that is known by its text: a controlnet learns to lead a
// diffusion model, which stays as it is, by labels.
//
//   latents, label ─ copy of the label: what errors weigh ─ label's digits ─ batch ─ noisy
//   noisy, digits ─ follow (controlnet) ─ residuals ─ forward (net) ─ loss ─ step
#include "tools/runtime/bundle/translate.h"

namespace sluice::bundle {

namespace {

// Of a body, or as the type has it.
Json param_of(const Json& body, const Catalogue& catalogue, const char* name) {
  const Spec* spec = catalogue.find(body["type"].get<std::string>());
  const ParamSpec* param = spec ? spec->find_param(name) : nullptr;
  return body.value(name, param ? param->fallback : Json());
}

// Skips of a diffusion U-Net: of the first convolution, of each block, of each halving.
std::int64_t skips_of(const Json& body, const Catalogue& catalogue) {
  const Json blocks = param_of(body, catalogue, "num_res_blocks");
  const std::size_t levels = param_of(body, catalogue, "num_channels").size();
  std::int64_t skips = static_cast<std::int64_t>(levels);
  for (std::size_t level = 0; level < levels; ++level)
    skips += (!blocks.is_array()        ? blocks
              : blocks.size() == levels ? blocks[level]
                                        : blocks[0])
                 .get<std::int64_t>();
  return skips;
}

}  // namespace

void Translator::lead(const Item& trainer) {
  const std::string kind = last_name(trainer.target()), comment = comment_of(trainer);
  report.add(trainer, kind, Fate::translated, "the nodes of the graph; the script's text is known");
  precision(trainer);
  const Value settings = values.of(trainer, "hyper_kwargs");
  const auto setting = [&](const char* name) {
    for (const auto& [key, value] : settings.entries)
      if (key == name) return value.json().value_or(Json());
    return Json();
  };
  const Json weight = setting("weighted_loss"), weighted = setting("weighted_loss_label");
  if (!weight.is_number() || !weighted.is_array())
    return missing(trainer, "hyper_kwargs say no weighted_loss and weighted_loss_label", true);
  std::vector<Value> effects;
  asked_for_.clear();
  required(trainer, effects);
  const Value net = values.of(trainer, "diffusion_unet"), its = values.of(trainer, "controlnet");
  if (!sampled_network(&net, "net", effects) || !sampled_network(&its, "controlnet", effects))
    return missing(trainer, "its networks are not known", true);
  Json &net_body = graph.models[0].body, &its_body = graph.models[1].body;
  if (net_body["type"] != "diffusion_model_unet_maisi" || its_body["type"] != "controlnet_maisi")
    return missing(trainer, "its networks are not MAISI's", true);
  const char* const halved_by = "conditioning_embedding_num_channels";
  const std::size_t convolutions = param_of(its_body, catalogue_, halved_by).size();
  if (convolutions < 1 || convolutions > 32)
    return missing(trainer,
                   std::string("its controlnet's ") + halved_by + " has " +
                       std::to_string(convolutions) + " numbers: 1 to 32 are taken",
                   true);
  net_body["additional_residuals"] = true;
  if (const auto epochs = values.of(trainer, "max_epochs").json()) graph.run["epochs"] = *epochs;
  look_at_calls();
  handlers(values.of(trainer, "train_handlers"), true);

  // Numbers of a sample that the network reads beside the timesteps.
  std::vector<std::string> numbers;
  for (const char* name : {"top_region_index", "bottom_region_index", "spacing"})
    if (net_body.value("include_" + std::string(name) + "_input", false)) numbers.push_back(name);
  const Loader data =
      loader(values.of(trainer, "train_data_loader"), true, "train", numbers, Json::object());
  if (data.last.empty()) return;
  for (Entry& node : graph.nodes)  // latents lie on a coarser grid than labels
    if (node.body["type"] == "load_image") node.body["check_geometry"] = false;
  std::string last = data.last;
  const auto next = [&](const char* name, Json body) {
    body["in"] = last;
    last = add_node(name, std::move(body), comment);
  };
  const bool weighs = weight > 1;
  if (weighs) {
    next("weigh", {{"type", "copy_items"}, {"keys", "label"}, {"names", "weight"}});
    next("latent_size", {{"type", "zoom"},
                         {"keys", "weight"},
                         {"zoom", 1.0 / static_cast<double>(std::int64_t{1} << (convolutions - 1))},
                         {"mode", "nearest"},
                         {"keep_size", false}});
    next("weighted",
         {{"type", "labels_to_regions"}, {"keys", "weight"}, {"regions", Json::array({weighted})}});
    next("weights", {{"type", "scale_intensity_range"},
                     {"keys", "weight"},
                     {"a_min", 0},
                     {"a_max", 1},
                     {"b_min", 1},
                     {"b_max", weight}});
  }
  next("digits", {{"type", "binarize_labels"}});
  Json batch = {{"type", "batch"}, {"size", data.batch_size}};
  if (data.drop_last) batch["drop_last"] = true;
  next("batch", std::move(batch));

  Json noisy = {{"type", "diffusion_prepare_batch"}};
  if (const Json factor = setting("scale_factor"); factor.is_number())
    noisy["scale_factor"] = factor;
  else
    report.add(*trainer.find("hyper_kwargs"), kind + ".hyper_kwargs", Fate::missing,
               "its scale_factor stands in the diffusion model's file: give it with --set "
               "scale_factor=NUMBER",
               true);
  const Value scheduler = values.of(trainer, "noise_scheduler");
  if (!noise_schedule(scheduler, "diffusion_prepare_batch", noisy) || noisy["scheduler"] == "rflow")
    missing(trainer, "its noise_scheduler is " + scheduler.describe(), true);
  noisy.erase("prediction_type");  // it is the noise that the script has the network say
  next("noisy", std::move(noisy));
  Json residuals = Json::array(), inputs = {"noisy", "timesteps"};
  for (std::int64_t i = 0; i < skips_of(its_body, catalogue_); ++i)
    residuals.push_back("down_" + std::to_string(i));
  residuals.push_back("middle");
  next("follow", {{"type", "model"},
                  {"net", "controlnet"},
                  {"keys", {"noisy", "timesteps", "label"}},
                  {"output_keys", residuals}});
  for (const std::string& name : numbers) inputs.push_back(name);
  for (const Json& residual : residuals) inputs.push_back(residual);
  next("forward", {{"type", "model"}, {"net", "net"}, {"keys", inputs}});

  Json loss = {{"type", "l1_loss"}, {"label_key", "target"}};
  if (weighs) loss["mask_key"] = "weight";
  next("loss", std::move(loss));
  if (const Value given = values.of(trainer, "loss_function"); given.is(Value::Kind::object)) {
    values.of(*given.item, "reduction");
    report.add(*given.item, last_name(given.item->target()), Fate::dropped,
               "the script takes the weighted l1_loss");
  }
  if (const Value given = values.of(trainer, "inferer"); given.is(Value::Kind::object))
    report.add(*given.item, last_name(given.item->target()), Fate::dropped,
               "the script asks the networks itself");
  values.of(trainer, "key_train_metric");
  if (const Value step = values.of(trainer, "optimizer"); step.is(Value::Kind::object))
    optimizer(*step.item, last, "controlnet");
  rest(trainer, "nothing here does what it says", true);
}

}  // namespace sluice::bundle
