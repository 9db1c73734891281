// Samples that are made of several data sets side by side, as images for registration:
// IterableDataset over map(lambda t: dict(...), zip(*DATASETS)).
//
//   source ─ what all data sets begin with ─ copy a field each ─ what each goes on with ─ join
#include <algorithm>

#include "tools/runtime/bundle/translate.h"

namespace sluice::bundle {

namespace {

std::string text_of_lambda(const std::string& text, const At& at) {
  return text_of(*parse_expression(text, "", at));
}

}  // namespace

// Which fields a sample has: of each data set its field, and the one that joins all of them.
bool Translator::paired_fields(const Item& set, const Value& pairs, std::vector<std::string>& names,
                               std::string& joined) {
  names.assign(pairs.items.size(), "");
  if (!pairs.expr || pairs.expr->args[0]->kind != Expr::Kind::call ||
      pairs.expr->args[0]->args[0]->text != "dict" || pairs.expr->names.size() != 1)
    return false;
  const Expr& dict = *pairs.expr->args[0];
  for (std::size_t i = 1; i < dict.args.size(); ++i) {
    Expr value = *pairs.expr;  // lambda t: the field's value
    value.args[0] = dict.args[i];
    const std::string text = text_of(value), &name = dict.names[i - 1];
    const auto is = [&](const std::string& known) {
      return text == text_of_lambda("lambda t: " + known, set.at);
    };
    bool known = false;
    for (std::size_t k = 0; k < names.size(); ++k)
      if (is("t[" + std::to_string(k) + "]")) {
        names[k] = name;
        known = true;
      }
    for (const char* join : {"monai.transforms.concatenate(t)", "torch.cat(t)", "torch.cat(t, 0)",
                             "np.concatenate(t)", "numpy.concatenate(t)"})
      if (is(join)) {
        joined = name;
        known = true;
      }
    if (name.empty() || !known) return false;
  }
  // A field that no name stands for is a part of the joined one alone.
  for (std::size_t k = 0; k < names.size(); ++k)
    if (names[k].empty()) names[k] = joined.empty() ? "image" + std::to_string(k) : joined;
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

std::string Translator::side_by_side(const Item& set, Json body, const std::string& name,
                                     bool training) {
  const Value pairs = values.of(set, "data");
  std::vector<std::string> fields;
  std::string joined;
  if (!pairs.is(Value::Kind::pairs) || !paired_fields(set, pairs, fields, joined)) {
    missing(set,
            "known is $map(lambda t: dict(image=monai.transforms.concatenate(t), label=t[1]), "
            "zip(*@datasets)), found " +
                pairs.describe(),
            true);
    return "";
  }
  std::vector<ItemPtr> sets;
  std::vector<std::vector<ItemPtr>> changes;
  std::vector<std::string> orders, files;
  Value list;
  for (const Value& one : pairs.items) {
    ItemPtr inner = one.item;
    std::string order;
    if (last_name(inner->target()) == "ShuffleBuffer") {
      order = values.of(*inner, "seed").json().value_or(Json(0)).dump() + " " +
              values.of(*inner, "buffer_size").json().value_or(Json(512)).dump();
      values.of(*inner, "epochs");
      report.add(*inner, "ShuffleBuffer", training ? Fate::translated : Fate::replaced,
                 training ? "shuffle of the source" : "the files in their order");
      const Value data = values.of(*inner, "data");
      rest(*inner, "left out", true);
      if (!data.is(Value::Kind::object)) {
        missing(*inner, "its data is " + data.describe(), true);
        return "";
      }
      inner = data.item;
    }
    const std::string type = last_name(inner->target());
    list = values.of(*inner, "data");
    if ((type != "Dataset" && type != "CacheDataset") || !list.is(Value::Kind::paths)) {
      missing(*inner,
              "side by side stand Dataset and CacheDataset of lists of files, found " + type +
                  " of " + list.describe(),
              true);
      return "";
    }
    orders.push_back(order);
    const auto part = list.records ? std::to_string(list.records->from) + ":" +
                                         std::to_string(list.records->to.value_or(-1))
                                   : "";
    files.push_back(list.paths.json().dump() + part);
    sets.push_back(inner);
    changes.push_back(transforms_of(values.of(*inner, "transform")));
    report.add(*inner, type, Fate::translated,
               type == "Dataset" ? "a source" : "a source and cache");
  }
  for (std::size_t k = 1; k < sets.size(); ++k)
    if (orders[k] != orders[0] || files[k] != files[0]) {
      missing(set,
              "images of different files meet there, by another order of each data set: known are "
              "data sets of the same files and seed, which pair a file with itself; in a graph the "
              "node \"pair\" makes pairs of files that follow each other",
              true);
      return "";
    }

  // What all begin with is done once.
  std::size_t shared = 0;
  const auto alike = [&](std::size_t i) {
    return std::all_of(changes.begin(), changes.end(), [&](const auto& own) {
      return i < own.size() && own[i]->id == changes[0][i]->id && !is_random(*own[i]);
    });
  };
  while (!changes[0].empty() && alike(shared)) ++shared;
  auto records =
      list.records ? std::make_shared<Records>(*list.records) : std::make_shared<Records>();
  records->fields = {{fields[0], list.paths}};
  Value data;
  data.kind = Value::Kind::records;
  data.records = records;
  if (training) body["shuffle"] = true;
  std::string last = source(*sets[0], data, std::move(body), name, {}, {});
  source_ = last;
  const bool caches = last_name(sets[0]->target()) == "CacheDataset";
  const auto begin = [&](std::size_t k) { return changes[k].begin(); };
  preprocessing_ = {begin(0), begin(0) + static_cast<std::ptrdiff_t>(shared)};
  field_ = fields[0];
  last = chain(preprocessing_, last, caches ? sets[0] : nullptr);
  for (std::size_t k = 1; k < sets.size(); ++k)
    last = add_node(
        "copy", {{"type", "copy_items"}, {"in", last}, {"keys", fields[0]}, {"names", fields[k]}},
        comment_of(*sets[k]));
  for (std::size_t k = 0; k < sets.size(); ++k) {
    field_ = fields[k];
    last = chain({begin(k) + static_cast<std::ptrdiff_t>(shared), changes[k].end()}, last);
    rest(*sets[k], "left out", true);
  }
  field_.clear();
  report.add(set, last_name(set.target()), Fate::translated,
             "one file in each of the data sets, its image changed by each");
  if (joined.empty()) return last;
  return add_node("both",
                  {{"type", "concat_items"}, {"in", last}, {"keys", fields}, {"name", joined}},
                  comment_of(set));
}

}  // namespace sluice::bundle
