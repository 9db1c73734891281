// A program that saves a loader's first image and what a network says of it, as an autoencoder's
// reconstruction.
//
//   source (its first sample) ─ transforms ─ batch of one ─ model ─ decollate ─┬─ save the image
//                                                                             └─ save the answer
#include <algorithm>

#include "tools/runtime/bundle/translate.h"

namespace sluice::bundle {

// Of the source's samples.
void Translator::first_alone(const Item& loading) {
  for (Entry& node : graph.nodes) {
    if (node.name != source_) continue;
    Json& body = node.body;
    const Spec& spec = *catalogue_.find(body["type"].get<std::string>());
    if (!spec.find_param("to")) {
      body["limit"] = 1;
      continue;
    }
    for (const char* part : {"fold", "shares", "num_partitions"})
      if (body.contains(part))
        missing(loading, "its first sample is that of a part of a list: write the part's own list",
                true);
    const std::int64_t from = body.value("from", std::int64_t{0});
    if (from == -1)
      body.erase("to");
    else
      body["to"] = from + 1;
  }
}

void Translator::answers(const std::vector<Value>& effects) {
  const auto batch_of = [](const Value& shown) -> const Value& {
    return shown.is(Value::Kind::answer) ? shown.items[0] : shown;
  };
  std::vector<Value> saves;
  std::copy_if(effects.begin(), effects.end(), std::back_inserter(saves),
               [](const Value& v) { return v.name == "save"; });
  const Value batch = batch_of(saves[0].items[0]);
  Value net;
  for (const Value& save : saves) {
    const Value& shown = save.items[0];
    const Item& at = save.item ? *save.item : *shown.item;
    if (shown.is(Value::Kind::made) || batch_of(shown).item->id != batch.item->id ||
        batch_of(shown).name != batch.name)
      return missing(at, "what is saved beside a loader's first image is of that image alone",
                     true);
    if (!shown.is(Value::Kind::answer)) continue;
    if (!shown.name.empty())
      return missing(at, "of a network's outputs one is saved: write [0] behind its call", true);
    if (net.item && net.item->id != shown.item->id)
      return missing(at, "of one network answers are saved", true);
    net.kind = Value::Kind::object;
    net.item = shown.item;
  }
  if (!net.item || batch.name.empty() || !sampled_network(&net, "net", effects))
    return missing(*batch.item, "no answer of a known network to a field of it is saved", true);
  if (const Json type = graph.models.back().body["type"];
      type == "autoencoder_kl" || type == "autoencoder_kl_maisi" || type == "spade_autoencoder_kl")
    report.add(*net.item, last_name(net.item->target()), Fate::replaced,
               "its image is made of the latent image's mean, where MONAI draws about it");
  look_at_calls();

  const Item& loading = *batch.item;
  Value loads;
  loads.kind = Value::Kind::object;
  loads.item = batch.item;
  const Loader data = loader(loads, false, "cases", {}, Json::object());
  if (data.last.empty()) return;
  first_alone(loading);
  if (values.is_true(loading, "shuffle"))
    report.add(*loading.find("shuffle"), last_name(loading.target()) + ".shuffle", Fate::replaced,
               "the first sample of the list, where MONAI draws one");
  if (patches_ > 1)
    report.add(loading, last_name(loading.target()), Fate::replaced,
               "each of the image's patches is saved, where the program takes the first");
  const std::string comment = comment_of(*net.item);
  std::string last =
      add_node("batch", {{"type", "batch"}, {"in", data.last}, {"size", 1}}, comment_of(loading));
  last = add_node("answer", {{"type", "model"}, {"in", last}, {"net", "net"}, {"keys", batch.name}},
                  comment);
  last = add_node("each", {{"type", "decollate"}, {"in", last}}, comment);
  for (const Value& save : saves) {
    const Value& shown = save.items[0];
    const int left_out = shown.plain.is_null() ? 0 : shown.plain.get<int>();
    if (!save.item && (left_out != 2 || dims_ != 2)) {
      missing(*shown.item, "a picture shows a channel of a 2-D image: write x[0, 0, ...]", true);
      continue;
    }
    if (save.item && left_out != 1)
      report.add(*save.item, last_name(save.item->target()), Fate::replaced,
                 "the image is saved with its channel: MONAI's takes the first axis for channels");
    saved(save, shown.is(Value::Kind::answer) ? "pred" : batch.name, last);
  }
}

}  // namespace sluice::bundle
