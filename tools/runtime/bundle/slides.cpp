// Data sets of whole-slide images.
#include <algorithm>

#include "tools/runtime/bundle/translate.h"

namespace sluice::bundle {
namespace {

// The numbers of a list as the rows of an array of this shape.
Json shaped(const Json& numbers, const Json& shape, std::size_t axis, std::size_t& at) {
  if (axis == shape.size()) return at < numbers.size() ? numbers[at++] : Json();
  Json rows = Json::array();
  for (std::int64_t i = 0; i < shape[axis].get<std::int64_t>(); ++i)
    rows.push_back(shaped(numbers, shape, axis + 1, at));
  return rows;
}

}  // namespace

// CSVDataset: a slide and numbers a row. What `transforms` begin with and only names or shapes
// these is the list's own and goes.
std::string Translator::slide_list(const Item& list, Json body, const std::string& name,
                                   std::vector<ItemPtr>& transforms) {
  if (last_name(list.target()) != "CSVDataset") {
    missing(list, "of lists of slides there is CSVDataset", true);
    return name;
  }
  Json whole = {{"type", "csv_list"}, {"file", values.path(values.of(list, "src").text())}};
  for (const auto& [key, value] : values.of(list, "kwargs_read_csv").entries) {
    if (key == "header" && value.plain.is_null()) whole["header"] = false;
    if (key == "sep" || key == "delimiter") whole["delimiter"] = value.plain;
    if (key == "names")
      for (std::size_t i = 0; i < value.items.size(); ++i)
        whole["columns"][value.items[i].text()] = i;
  }
  for (const auto& [key, value] : values.of(list, "col_groups").entries)
    if (const auto columns = value.json())
      whole[columns->is_array() ? "groups" : "columns"][key.get<std::string>()] = *columns;
  for (const auto& item : transforms_of(values.of(list, "transform"))) {
    const Json found = captures("lambda x: os.path.join(_A, _B, x + _C)", *item);
    if (!found.is_object()) {
      missing(*item, "known is $lambda x: os.path.join(FOLDER, FOLDER, x + ENDING)", true);
      continue;
    }
    whole["root"] =
        values.path(found["_A"].get<std::string>() + "/" + found["_B"].get<std::string>());
    whole["suffix"] = found["_C"];
    report.add(*item, last_name(item->target()), Fate::translated, "root and suffix of csv_list");
  }
  while (!transforms.empty()) {
    const Item& item = *transforms.front();
    const Json found = captures("lambda x: x.reshape((1, *_A))", item);
    if (!found.is_object()) break;
    Json shape = found["_A"];
    shape.insert(shape.begin(), 1);
    const auto keys = values.of(item, "keys").json().value_or(Json::array());
    for (const auto& key : keys.is_array() ? keys : Json::array({keys})) {
      std::size_t at = 0;
      Json& group = whole["groups"][key.get<std::string>()];
      group = shaped(group, shape, 0, at);
    }
    report.add(item, last_name(item.target()), Fate::translated, "groups of csv_list");
    transforms.erase(transforms.begin());
  }
  report.add(list, "CSVDataset", Fate::translated, "csv_list");
  whole.update(body);
  return add_node(name, std::move(whole), comment_of(list));
}

// PatchWSIDataset: a region about the place of each row. MaskedPatchWSIDataset: one for each pixel
// of a slide's tissue.
std::string Translator::slides(const Item& set, const Value& data, Json body,
                               const std::string& name, std::vector<ItemPtr>& transforms) {
  const bool masked = last_name(set.target()) == "MaskedPatchWSIDataset";
  if (!data.is(Value::Kind::object)) {
    missing(set, "its data is " + data.describe() + ": CSVDataset is known", true);
    return name;
  }
  std::string last = slide_list(*data.item, std::move(body), name, transforms);
  const Json size = values.of(set, "patch_size").json().value_or(Json()),
             level = values.of(set, "patch_level").json().value_or(Json()),
             mask_level = masked ? values.of(set, "mask_level").json().value_or(Json()) : Json();
  rest(set, "left out", true);
  const auto leveled = [&](Json node) {
    if (level.is_number() && level != 0) node["level"] = level;
    return node;
  };
  if (masked) {
    Json grid = {{"type", "slide_grid"}, {"in", last}, {"size", size}, {"mask", "otsu"}};
    if (mask_level.is_number()) grid["mask_level"] = mask_level;
    last = add_node("grid", leveled(std::move(grid)), comment_of(set));
    last = add_node(
        "ahead",
        {{"type", "buffer"}, {"in", last}, {"size", std::max<std::int64_t>(256, 2 * batch_size_)}},
        "the grid lists a slide's places at once; so many are read ahead");
  }
  Json region = {{"type", "read_region"}, {"in", last}, {"size", size}};
  if (masked) region["center"] = false;
  report.add(set, last_name(set.target()), Fate::translated,
             masked ? "slide_grid and read_region" : "read_region");
  slides_ = true;
  return add_node("region", leveled(std::move(region)), comment_of(set));
}

}  // namespace sluice::bundle
