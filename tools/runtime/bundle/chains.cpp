// Data loaders and transforms.
#include <algorithm>

#include "tools/runtime/bundle/translate.h"

namespace sluice::bundle {

std::string class_name(const std::string& target);

namespace {

std::string dropped_because(const std::string& target) {
  for (const DroppedRow& row : dropped_rows())
    if (row.name == class_name(target) || row.name == last_name(target))
      return std::string(row.why);
  return "";
}

// What a tree of a table's lambda says where `_A` stands, in the bundle's.
using Captures = std::vector<std::pair<std::string, Json>>;

bool literal(const Expr& e, Json& value) {
  if (e.kind == Expr::Kind::constant) {
    value = e.value;
    return true;
  }
  if (e.kind == Expr::Kind::unary && e.text == "-" && literal(*e.args[0], value) &&
      value.is_number()) {
    value =
        value.is_number_integer() ? Json(-value.get<std::int64_t>()) : Json(-value.get<double>());
    return true;
  }
  return false;
}

class Shape {
 public:
  Shape(Values& values, const At& at) : values_(values), at_(at) {}
  Captures captures;

  bool fits(const ExprPtr& shape, const ExprPtr& e) {
    if (!shape || !e) return !shape && !e;
    if (shape->kind == Expr::Kind::name && shape->text.size() == 2 && shape->text[0] == '_' &&
        shape->text[1] <= 'Z')
      return capture(shape->text, *e);
    if (shape->kind == Expr::Kind::lambda && e->kind == Expr::Kind::lambda) {
      if (shape->names.size() != e->names.size()) return false;
      argument_ = {shape->names[0], e->names[0]};
      for (std::size_t i = 1; i < e->args.size(); ++i)  // defaults
        if (!fits(shape->args[i], e->args[i])) return false;
      return fits(shape->args[0], e->args[0]);
    }
    if (shape->kind == Expr::Kind::name && shape->text == argument_.first)
      return e->kind == Expr::Kind::name && e->text == argument_.second;
    if (shape->kind != e->kind || shape->text != e->text || shape->value != e->value ||
        shape->names != e->names || shape->args.size() != e->args.size())
      return false;
    for (std::size_t i = 0; i < e->args.size(); ++i)
      if (!fits(shape->args[i], e->args[i])) return false;
    return true;
  }

 private:
  Values& values_;
  const At& at_;
  std::pair<std::string, std::string> argument_;

  bool capture(const std::string& name, const Expr& e) {
    Json value;
    if (e.kind == Expr::Kind::reference) {
      const auto json = values_.of_id(e.text, at_).json();
      if (!json) return false;
      value = *json;
    } else if (!literal(e, value)) {
      return false;
    }
    captures.emplace_back(name, value);
    return true;
  }
};

// The numbers that RemapLabelsToSequential gives: the background's is 0.
Json numbered(const Value& names) {
  Json numbers = Json::array();
  const bool background =
      std::any_of(names.entries.begin(), names.entries.end(),
                  [](const auto& entry) { return entry.first == "background"; });
  for (std::size_t i = 0; i < names.entries.size(); ++i) numbers.push_back(background ? i : i + 1);
  return numbers;
}

Json with_captures(const Json& params, const Captures& captures) {
  if (params.is_structured()) {
    Json out = params;
    for (auto& [key, value] : out.items()) value = with_captures(value, captures);
    return out;
  }
  for (const auto& [name, value] : captures)
    if (params.is_string() && params == name) return value;
  return params;
}

}  // namespace

bool Translator::is_random(const Item& item) const {
  const Spec* spec = catalogue_.find(type_of(item.target()));
  return spec && spec->is_random;
}

std::vector<ItemPtr> Translator::transforms_of(const Value& value) {
  std::vector<ItemPtr> out;
  if (value.is_list()) {
    for (const Value& one : value.items)
      for (auto& item : transforms_of(one)) out.push_back(std::move(item));
    return out;
  }
  if (!value.is(Value::Kind::object)) return out;
  if (class_name(value.item->target()) != "Compose") return {value.item};
  const Item& compose = *value.item;
  report.add(compose, "Compose", Fate::translated, "a chain of nodes");
  if (values.of(compose, "lazy").json() == Json(true)) {
    graph.run["lazy"] = true;
    report.add(*compose.find("lazy"), "Compose.lazy", Fate::translated,
               "run.lazy, which is of the whole graph");
  }
  const Value transforms = values.of(compose, "transforms");
  rest(compose, "a chain has no such parameter", true);
  return transforms_of(transforms);
}

std::string Translator::chain(const std::vector<ItemPtr>& transforms, std::string in,
                              const ItemPtr& cached_by) {
  ItemPtr cache = cached_by;
  const auto stand = [&] {
    if (!cache) return;
    const std::string name = class_name(cache->target());
    Json body = {{"type", "cache"}, {"in", in}};
    if (name == "PersistentDataset") {
      body["store"] = "disk";
      body["dir"] = values.path(values.of(*cache, "cache_dir").text());
    } else {
      if (values.given(*cache, "cache_rate"))
        body["rate"] = *values.of(*cache, "cache_rate").json();
      if (values.given(*cache, "cache_num")) body["num"] = *values.of(*cache, "cache_num").json();
    }
    in = add_node("cache", std::move(body), comment_of(*cache));
    cache = nullptr;
  };
  const auto saves = [](const ItemPtr& item) { return class_name(item->target()) == "SaveImage"; };
  for (auto it = transforms.begin(); it != transforms.end(); ++it) {
    const ItemPtr& item = *it;
    if (is_random(*item)) stand();
    try {
      const std::string last = transform(*item, in);
      // What is written is named after the file that was read, not after one written before, and
      // what comes next sees what was there before it was resampled for the file.
      const bool apart = saves(item) && (std::any_of(it + 1, transforms.end(), saves) ||
                                         values.is_true(*item, "resample"));
      if (!apart) in = last;
    } catch (const Refused& refused) {
      missing(*item, refused.what(), true);
    }
  }
  stand();
  return in;
}

std::string Translator::transform(const Item& item, const std::string& in) {
  const std::string target = item.target(), name = class_name(target);
  if (name == "LoadImage") return load(item, in);
  if (name == "SaveImage" || name == "SaveClassification") return save(item, in);
  if (target.starts_with("scripts.")) return script(item, in);
  if (name == "EnsureChannelFirst") file_axes_ = false;
  if (name == "Invert") return invert(item, in);
  if (name == "AddGuidanceFromPointsDeepEdit" || name == "ResizeGuidanceMultipleLabelDeepEdit")
    return clicks(item, in);
  if (name == "Lambda") return lambda(item, in);
  if (name == "VistaPreTransform" && !prompts_.is_null()) {
    subclasses(item);
    return in;
  }
  if ((name == "EnsureType" || name == "ToTensor") && values.of(item, "dtype").is_text())
    return emit(item, "cast_to_type", {{"in", in}}, true);
  if (name == "FlattenSubKeys" && values.of(item, "keys").text() == "pred" && !outputs_.empty() &&
      !values.given(item, "prefix")) {
    report.add(item, last_name(target), Fate::dropped, "the outputs are fields of their own");
    return in;
  }
  if (name == "EnsureChannelFirst" && values.given(item, "channel_dim"))
    channels_last(values.of(item, "keys").json().value_or(Json()),
                  values.of(item, "channel_dim").plain, in);
  if (const std::string why = dropped_because(target); !why.empty()) {
    report.add(item, last_name(target), Fate::dropped, why);
    return in;
  }
  const std::string type = type_of(target);
  const Spec* spec = catalogue_.find(type);
  if (!spec || spec->is_network) {
    missing(item, "left out", true);
    return in;
  }
  if (type == "one_of" || type == "some_of") return choice(item, type, in);
  if (name == "TorchVision" && values.of(item, "name").text() != "ColorJitter") {
    missing(item, "of torchvision's transforms there is ColorJitter", true);
    return in;
  }
  if (spec->arity == Arity::expand && !spec->count_param.empty())
    if (const auto n = values.of(item, spec->count_param).json(); n && n->is_number_integer())
      patches_ *= n->get<std::int64_t>();
  if (name == "SplitDim") return split(item, in);
  // Of clicks MONAI stacks the patches, of which one alone can be squeezed; here each is a sample.
  if (name == "SqueezeDim" && !values.given(item, "dim") && !graph.nodes.empty() &&
      graph.nodes.back().body["type"] == "add_click_signals") {
    report.add(item, last_name(target), Fate::dropped, "a patch is a sample of its own");
    return in;
  }
  Json body = {{"in", in}};
  if (name == "NormalizeLabelsInDataset" || name == "RemapLabelsToSequential")
    labels_ = numbered(values.of(item, "label_names"));
  // MONAI's take the names from the sample, where that transform has left them.
  if (const ParamSpec* labels = spec->find_param("labels");
      labels && labels->required && !labels_.empty() && !values.given(item, "labels"))
    body["labels"] = labels_;
  // Of a file's axes the last are the channels, which are the first here.
  if (const auto order = values.of(item, "indices").json();
      name == "Transpose" && file_axes_ && order && order->is_array()) {
    if (order->size() != 4) {
      missing(item,
              "its image's axes are the file's: 4 are known, of volumes with channels; with "
              "ensure_channel_first before it, it is of [C, X, Y, Z]",
              true);
      return in;
    }
    for (const Json& axis : *order)
      body["indices"].push_back(axis.is_number_integer() ? ((axis.get<int>() + 5) % 4) : 0);
    file_axes_ = false;
  }
  if (name == "SelectItems") {  // a field's geometry stays with it
    const Json given = values.of(item, "keys").json().value_or(Json::array());
    Json keys = Json::array();
    for (const auto& key : given.is_array() ? given : Json::array({given}))
      if (!key.is_string() || !key.get<std::string>().ends_with("_meta_dict")) keys.push_back(key);
    body["keys"] = keys;
  }
  if (const Value sizes = values.of(item, "size");
      name == "GridSplit" && sizes.is(Value::Kind::dict)) {  // 1 where the grid divides evenly
    body["size"] = nullptr;
    body["even_keys"] = Json::array();
    for (const auto& [key, value] : sizes.entries) {
      if (value.plain == 1)
        body["even_keys"].push_back(key);
      else if (body["size"].is_null())
        body["size"] = value.json().value_or(Json());
      else
        missing(item, "one size of the patches of all keys", true);
    }
  }
  // Of more sizes than a field has axes MONAI takes the first ones.
  const bool sizes_too_many =
      name.starts_with("RandSmooth") &&
      values.of(item, "spatial_size").json().value_or(Json::array()).size() >
          values.of(item, "rand_size").json().value_or(Json::array()).size();
  if (sizes_too_many) {
    body["spatial_size"] = nullptr;
    report.add(*item.find("spatial_size"), last_name(target) + ".spatial_size", Fate::replaced,
               "the field is as large as the image; MONAI takes the first of these numbers alone, "
               "so that its field has another shape");
  }
  // "" is no field.
  if (name == "SplitLabel" && values.given(item, "mask_value") &&
      !values.of(item, "mask_value").truth())
    body["mask_value"] = nullptr;
  // Nothing sticks out of the image, so how it would be filled says nothing.
  const bool grows = values.given(item, "margin") || values.given(item, "k_divisible");
  const bool unused = name == "CropForeground" && !grows;
  if (unused) body["mode"] = nullptr;
  if (name == "RandRotate90" && dims_ == 2 &&
      values.of(item, "spatial_axes").json() == Json{-2, -1})
    body["spatial_axes"] = {0, 1};
  const std::string last = emit(item, type, std::move(body), true);
  if (unused) graph.nodes.back().body.erase("mode");
  if (sizes_too_many) graph.nodes.back().body.erase("spatial_size");
  return last;
}

// What is split off are fields whose names the check knows only where they are copied by name.
std::string Translator::split(const Item& item, const std::string& in) {
  const auto keys = values.of(item, "keys").json(),
             ends = values.of(item, "output_postfixes").json();
  auto dim = values.of(item, "dim").json().value_or(Json());
  // Behind the reader an image's axes are the file's, whose channels may be the last one.
  const bool is_read = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Entry& e) {
    return e.name == in && e.body["type"] == "load_image";
  });
  if (keys && dim == -1 && is_read) {
    channels_last(*keys, dim, in);
    dim = 0;
  }
  if (!keys || !ends || !ends->is_array() || (!dim.is_null() && dim != 0) ||
      !values.is_true(item, "keepdim", true))
    return emit(item, "split_dim", {{"in", in}}, true);
  std::string last = in;
  for (std::size_t c = 0; c < ends->size(); ++c) {
    Json names = Json::array();
    for (const auto& key : keys->is_array() ? *keys : Json::array({*keys}))
      names.push_back(key.get<std::string>() + "_" + (*ends)[c].get<std::string>());
    last =
        add_node("copy", {{"type", "copy_items"}, {"in", last}, {"keys", *keys}, {"names", names}},
                 comment_of(item));
    last = add_node("channel",
                    {{"type", "select_channels"},
                     {"in", last},
                     {"keys", names},
                     {"channels", Json::array({c})}},
                    comment_of(item));
  }
  report.add(item, "SplitDimd", Fate::translated, "copy_items and select_channels for each part");
  return last;
}

std::string Translator::script(const Item& item, const std::string& in) {
  const std::string name = last_name(item.target());
  if (const ScriptRow* known = known_script(config_.folder(), name)) {
    const ScriptRow& row = *known;
    if (row.type.empty()) {
      report.add(item, name, Fate::dropped, std::string(row.params));
      return in;
    }
    Json body = Json::object();
    const Json params = Json::parse(row.params);
    for (const auto& [key, said] : params.items()) {
      if (said == "@@classes") {
        const Json channels = graph.models.empty() ? Json(2) : graph.models[0].body["out_channels"];
        body[key] = Json::array();
        for (std::int64_t c = 1; c < channels.get<std::int64_t>(); ++c) body[key].push_back(c);
        continue;
      }
      if (!said.is_string() || !said.get<std::string>().starts_with('@')) {
        body[key] = said;
        continue;
      }
      const std::string param = said.get<std::string>().substr(1);
      if (!values.given(item, param)) continue;
      body[key] = values.of(item, param).json().value_or(Json());
      if (body[key].is_string() && param.ends_with("_dir"))
        body[key] = values.path(body[key].get<std::string>());
    }
    Json whole = {{"type", row.type}, {"in", in}};
    whole.update(body);
    report.add(item, name, Fate::translated,
               std::string(row.type) + ", the script's text is known");
    return add_node(std::string(row.type), std::move(whole), comment_of(item));
  }
  missing(item, "a script of the bundle's own, which is not executed: write it with nodes", true);
  return in;
}

// EnsureChannelFirst's channel_dim is what the node that reads the file, before it, has to know. A
// node that reads other keys too leaves these to one of their own.
void Translator::channels_last(const Json& of, const Json& axis, std::string in) {
  const auto listed = [](const Json& keys) {
    return keys.is_array() ? keys.get<std::vector<Json>>() : std::vector<Json>{keys};
  };
  const auto keys = listed(of);
  while (true) {
    const auto node = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                   [&](const Entry& e) { return e.name == in; });
    if (node == graph.nodes.end()) return;
    Json& body = node->body;
    if (body["type"] == "npz_items" && in == source_) body["channel_dim"] = axis;
    in = body.value("in", "");
    if (body["type"] != "load_image" || !axis.is_number_integer()) continue;
    auto read = listed(body.value("keys", Json()));
    const auto others = std::stable_partition(read.begin(), read.end(), [&](const Json& key) {
      return std::find(keys.begin(), keys.end(), key) != keys.end();
    });
    if (others == read.begin()) continue;
    Entry apart{node_name("load"), body, node->comment};
    apart.body["keys"] = std::vector<Json>(others, read.end());
    body["channel_dim"] = axis;
    if (others == read.end()) continue;
    body["keys"] = std::vector<Json>(read.begin(), others);
    body["in"] = apart.name;
    graph.nodes.insert(node, std::move(apart));
  }
}

// LoadImage's reader where it is a component; null where it is a name, or there is none.
ItemPtr Translator::reader_of(const Item& load) {
  try {
    const Value reader = values.of(load, "reader");
    return reader.is(Value::Kind::object) ? reader.item : nullptr;
  } catch (const Refused&) {  // emit() says more
    return nullptr;
  }
}

std::string Translator::load(const Item& item, const std::string& in) {
  Json body = {{"in", in}, {"converter", nullptr}};
  file_axes_ = !values.is_true(item, "ensure_channel_first");
  bool canonical = values.is_true(item, "as_closest_canonical");
  if (const ItemPtr reader = reader_of(item)) {
    canonical = canonical || values.is_true(*reader, "as_closest_canonical");
    if (const Json axis = values.of(*reader, "channel_dim").plain; axis.is_number_integer())
      body["channel_dim"] = axis;
    else if (!axis.is_null() && axis != "no_channel")
      report.add(*reader->find("channel_dim"), last_name(reader->target()) + ".channel_dim",
                 Fate::missing, axis.dump() + " is no axis", true);
    report.add(*reader, last_name(reader->target()), Fate::translated, "load_image");
    rest(*reader, "load_image has no such parameter", true);
  }
  if (values.given(item, "converter")) {
    const Value given = values.of(item, "converter");
    Shape shape(values, item.at);
    const ExprPtr known = parse_expression("lambda x: x.convert(_A)", "", item.at);
    if (given.is(Value::Kind::lambda) && shape.fits(known, given.expr))
      body.update(with_captures({{"picture_mode", "_A"}}, shape.captures));
    if (const Json mode = body.value("picture_mode", Json()); mode != "RGB" && mode != "L")
      report.add(*item.find("converter"), "LoadImaged.converter", Fate::missing,
                 "known are $lambda x: x.convert('RGB') and 'L'", true);
  }
  const std::string last = emit(item, "load_image", std::move(body), true, "load");
  graph.nodes.back().body.erase("converter");
  if (!canonical) return last;
  report.add(item, "as_closest_canonical", Fate::replaced,
             "by an orientation node, which invert undoes too: results lie on the file's own grid");
  return add_node("canonical",
                  {{"type", "orientation"},
                   {"in", last},
                   {"keys", graph.nodes.back().body["keys"]},
                   {"axcodes", "RAS"}},
                  comment_of(item) + ": as_closest_canonical");
}

std::string Translator::save(const Item& item, const std::string& in) {
  Json body = {{"in", in}};
  if (values.given(item, "output_dir"))
    body["output_dir"] = values.path(values.of(item, "output_dir").text());
  if (const auto own = writers_.find(values.of(item, "output_ext").text()); own != writers_.end()) {
    const ScriptRow* row = known_script(config_.folder(), own->second);
    if (!row) {
      missing(item, own->second + " is a writer of the bundle's own, which is not executed", true);
      return in;
    }
    body.update(Json::parse(row->params));
    body["key"] = values.of(item, "keys").text();
    for (const char* none : {"keys", "output_ext"}) body[none] = nullptr;
    const std::string last = emit(item, std::string(row->type), std::move(body), true);
    for (const char* none : {"keys", "output_ext"}) graph.nodes.back().body.erase(none);
    return last;
  }
  const std::string type = type_of(item.target());
  if (type == "save_image") body["name_by"] = "file";
  if (values.given(item, "output_name_formatter")) {
    const Value how = values.of(item, "output_name_formatter");
    const ExprPtr known = parse_expression(
        "lambda x, s: dict(idx=s._data_index, subject=x['filename_or_obj'])", "", item.at);
    const bool is_known = how.is(Value::Kind::lambda) && text_of(*how.expr) == text_of(*known);
    report.add(*item.find("output_name_formatter"), "SaveImage.output_name_formatter",
               is_known ? Fate::replaced : Fate::missing,
               is_known
                   ? "files are named after what was read, without MONAI's running number"
                   : "code of its own: files are named after what was read, and output_postfix",
               !is_known);
    body["output_name_formatter"] = nullptr;
  }
  // MONAI takes "png" as well.
  if (const Value ext = values.of(item, "output_ext");
      type == "save_image" && ext.is_text() && !ext.text().empty()) {
    body["output_ext"] = (ext.text().front() == '.' ? "" : ".") + ext.text();
    if (body["output_ext"] == ".jpg" || body["output_ext"] == ".jpeg") {
      body["output_ext"] = ".png";
      report.add(*item.find("output_ext"), "SaveImage.output_ext", Fate::replaced,
                 "pictures are written as .png, without JPEG's losses");
    }
  }
  if (const Value root = values.of(item, "data_root_dir"); root.is_text() && !root.text().empty())
    body["data_root_dir"] = values.path(root.text());
  if (type == "save_image" && values.is_true(item, "resample")) body["in"] = back_to_file(item, in);
  const std::string last =
      emit(item, type, std::move(body), true, type == "save_image" ? "save" : "save_classes");
  graph.nodes.back().body.erase("output_name_formatter");
  return last;
}

// SaveImage's resample: an invert in front. It does nothing where one has done it before.
std::string Translator::back_to_file(const Item& save, const std::string& in) {
  const Json keys = values.given(save, "keys") ? values.of(save, "keys").json().value_or(Json())
                                               : Json(field_.empty() ? "image" : field_);
  Json body = {{"type", "invert"}, {"in", in}, {"keys", keys}};
  body["mode"] = values.given(save, "mode") ? values.of(save, "mode").plain : "nearest";
  if (body["mode"] != "nearest" && body["mode"] != "bilinear")
    report.add(*save.find("mode"), "SaveImage.mode", Fate::missing,
               "invert knows nearest and bilinear", true);
  report.add(*save.find("resample"), "SaveImage.resample", Fate::replaced,
             "by an invert in front, step by step with each one's own padding: where a crop cut "
             "it leaves 0");
  return add_node("invert", std::move(body), comment_of(save) + ": resample");
}

// DeepEdit's clicks, in voxels of the file: MONAI moves them with each change of the image; here
// they are taken once, where the image has its last grid. Samples without any have none.
std::string Translator::clicks(const Item& item, const std::string& in) {
  const std::string name = last_name(item.target());
  if (name.starts_with("Resize")) {
    report.add(item, name, Fate::translated, "add_guidance_from_points");
    return add_node("clicks",
                    {{"type", "add_guidance_from_points"},
                     {"in", in},
                     {"allow_none", true},
                     {"ref_image", values.of(item, "ref_image").plain},
                     {"guidance", values.of(item, "guidance").plain}},
                    comment_of(item));
  }
  if (const Value labels = values.of(item, "label_names"); labels.entries.size() != 2)
    missing(item, "clicks on one label and beside it are known", true);
  else
    report.add(item, name, Fate::translated, "add_guidance_from_points, after the image's changes");
  return in;
}

std::string Translator::invert(const Item& item, const std::string& in) {
  const auto undone = transforms_of(values.of(item, "transform"));
  if (undone != preprocessing_) {
    missing(item, "undoes other transforms than those of the data: invert undoes all of these",
            true);
    return in;
  }
  const Value nearest = values.of(item, "nearest_interp");
  Json mode = Json::array();
  for (const Value& one : nearest.is_list() ? nearest.items : std::vector<Value>{nearest})
    mode.push_back(!values.given(item, "nearest_interp") || one.truth() ? "nearest" : "bilinear");
  Json body = {{"in", in}, {"mode", mode.size() == 1 ? mode[0] : mode}};
  // MONAI undoes a resize in its own mode.
  for (const auto& one : undone)
    if (class_name(one->target()) == "Resize")
      body["resize_mode"] = values.given(*one, "mode") ? values.of(*one, "mode").plain : "area";
  return emit(item, "invert", std::move(body), true);
}

Json Translator::captures(const std::string& shape, const Item& item) {
  if (class_name(item.target()) != "Lambda") return nullptr;
  const Value func = values.of(item, "func");
  Shape found(values, item.at);
  if (!func.is(Value::Kind::lambda) || !found.fits(parse_expression(shape, "", item.at), func.expr))
    return nullptr;
  Json out = Json::object();
  for (const auto& [name, value] : found.captures) out[name] = value;
  return out;
}

std::string Translator::lambda(const Item& item, const std::string& in) {
  const Value func = values.of(item, "func");
  if (const ScriptRow* row = func.is(Value::Kind::opaque) && func.name.starts_with("scripts.")
                                 ? known_script(config_.folder(), last_name(func.name))
                                 : nullptr) {
    Json body = Json::parse(row->params);
    body["in"] = in;
    return emit(item, std::string(row->type), std::move(body), true);
  }
  if (!func.is(Value::Kind::lambda)) {
    missing(item, func.describe() + " is no lambda that is known", true);
    return in;
  }
  for (const LambdaRow& row : lambda_rows()) {
    Shape shape(values, item.at);
    if (!shape.fits(parse_expression(std::string(row.lambda), "", item.at), func.expr)) continue;
    if (!catalogue_.find(row.type)) continue;
    Json body = {{"in", in}, {"overwrite", nullptr}};
    body.update(with_captures(Json::parse(row.params), shape.captures));
    if (const Value to = values.of(item, "overwrite"); to.is_text()) {  // the result's own field
      const Json keys = values.of(item, "keys").json().value_or(Json());
      body["keys"] = to.text();
      body["in"] = add_node(
          "copy_items", {{"type", "copy_items"}, {"in", in}, {"keys", keys}, {"names", to.text()}},
          comment_of(item));
    }
    const std::string last = emit(item, std::string(row.type), std::move(body), true);
    Json& made = graph.nodes.back().body;
    made.erase("overwrite");
    if (row.then.empty()) return last;
    Json second = {{"type", row.then}, {"in", last}, {"keys", made["keys"]}};
    second.update(with_captures(Json::parse(row.then_params), shape.captures));
    return add_node(std::string(row.then), std::move(second), comment_of(item));
  }
  missing(item,
          "a lambda of its own, which is not executed: write it with nodes (`sluice inspect` lists "
          "them), as select_channels for x[1:] or as_discrete for x > 0",
          true);
  return in;
}

// Transforms as nodes of a node's own, one after the other.
Json Translator::inner_nodes(const std::vector<ItemPtr>& transforms) {
  Json row = Json::array();
  const auto known = graph.nodes.size();
  for (const auto& member : transforms) transform(*member, "");
  for (std::size_t i = known; i < graph.nodes.size(); ++i) {
    graph.nodes[i].body.erase("in");
    row.push_back(graph.nodes[i].body);
  }
  graph.nodes.resize(known);
  return row;
}

std::string Translator::choice(const Item& item, const std::string& type, const std::string& in) {
  Json inner = Json::array();
  const Value members = values.of(item, "transforms");
  for (const Value& one : members.items) {
    const Json row = inner_nodes(transforms_of(one));
    inner.push_back(row.size() == 1 ? row[0] : row);
  }
  return emit(item, type, {{"in", in}, {"transforms", inner}}, true);
}

// ---- sources
// --------------------------------------------------------------------------------------

std::string Translator::source(const Item& dataset, const Value& data, Json body,
                               const std::string& name, const std::vector<ItemPtr>& transforms,
                               const std::vector<std::string>& wanted) {
  Json loaded = Json::array();
  for (const auto& item : transforms)
    if (class_name(item->target()) == "LoadImage")
      if (const auto keys = values.of(*item, "keys").json())
        for (const auto& key : keys->is_array() ? *keys : Json::array({*keys}))
          loaded.push_back(key);
  const auto part = [&](const Records& r) {
    if (r.from != 0) body["from"] = r.from;
    if (r.to) body["to"] = *r.to;
    if (r.fold >= 0) body.update({{"fold", r.fold}, {"split", r.split}});
    if (r.parts() == 0) return;
    if (r.shares.empty())
      body["num_partitions"] = r.num_partitions;
    else
      body["shares"] = r.shares;
    body["share"] = r.share.size() == 1 ? Json(r.share[0]) : Json(r.share);
    if (r.shuffles) {
      body["shuffle_shares"] = true;
      body["share_seed"] = r.seed;
    }
  };
  const std::string comment = comment_of(dataset);
  if (data.is_list() && !data.items.empty() && data.items[0].name.starts_with("torch.rand")) {
    Json shape = Json::array();
    for (const Value& n : data.items[0].items) shape.push_back(n.json().value_or(Json()));
    Json whole = {{"type", "noise"}, {"num_samples", data.items.size()}, {"shape", shape}};
    if (data.items[0].name == "torch.randn") whole["distribution"] = "normal";
    input_ = "latent";
    whole.update(body);
    return add_node(name, std::move(whole), comment);
  }
  if (data.is(Value::Kind::paths) && data.items.empty()) {  // each file is a sample
    Json whole = {{"type", "path_lists"}, {"lists", {{"image", data.paths.json()}}}};
    if (data.records) part(*data.records);
    whole.update(body);
    return add_node(name, std::move(whole), comment);
  }
  if (data.is(Value::Kind::records) && data.records->rows) {
    const Item& rows = *data.records->rows;
    Json whole = {{"type", "npz_items"}, {"file", values.path(values.of(rows, "npzfile").text())}};
    for (const auto& [array, key] : values.of(rows, "keys").entries) {
      whole["arrays"].push_back(array);
      whole["keys"].push_back(key.plain);
    }
    rest(rows, "left out", true);
    report.add(rows, "NPZDictItemDataset", Fate::translated, "npz_items");
    part(*data.records);
    whole.update(body);
    return add_node(name, std::move(whole), comment);
  }
  if (data.is(Value::Kind::records) && !data.records->fields.empty()) {
    Json whole = {{"type", "path_lists"}};
    for (const auto& [key, paths] : data.records->fields) whole["lists"][key] = paths.json();
    part(*data.records);
    whole.update(body);
    const std::string last = add_node(name, std::move(whole), comment);
    if (data.records->points.empty()) return last;
    return add_node(
        "points", {{"type", "load_points"}, {"in", last}, {"keys", data.records->points}}, comment);
  }
  if (data.is(Value::Kind::records)) {
    Json whole = {{"type", "datalist"}, {"file", data.records->file}};
    if (!data.records->key.empty()) whole["list_key"] = data.records->key;
    if (!data.records->base.empty()) whole["root"] = data.records->base;
    // A plain JSON file's paths are relative to where MONAI runs: the bundle's folder.
    if (!data.records->is_decathlon) whole["root"] = values.path(".");
    whole["keys"] = loaded;
    Json numbers = Json::array();
    for (const auto& key : wanted)
      if (std::find(loaded.begin(), loaded.end(), Json(key)) == loaded.end())
        numbers.push_back(key);
    if (!numbers.empty()) whole["values"] = numbers;
    part(*data.records);
    whole.update(body);
    return add_node(name, std::move(whole), comment);
  }
  if (const auto items = data.json();
      items && items->is_array() && !items->empty() && (*items)[0].is_object()) {
    Json whole = {{"type", "file_list"}, {"root", values.path(".")}, {"items", *items}};
    if (!prompts_.is_null())
      for (Json& one : whole["items"]) one.erase("label_prompt");
    whole.update(body);
    return add_node(name, std::move(whole), comment);
  }
  missing(dataset,
          "its data is " + data.describe() +
              ": lists of files, a JSON file's list or a "
              "CSV file's column are known",
          true);
  return add_node(name, {{"type", "file_list"}, {"items", Json::array()}}, comment);
}

// A task of the Decathlon, by MONAI's split. Its labels' paths go where none are loaded.
std::string Translator::decathlon(const Item& set, Json body, const std::string& name,
                                  const std::vector<ItemPtr>& transforms) {
  const Value root = values.of(set, "root_dir"), task = values.of(set, "task");
  if (!root.is_text() || !task.is_text())
    missing(set, "its root_dir and task are " + root.describe() + " and " + task.describe(), true);
  Json whole = {{"type", "decathlon"},
                {"root", values.path((std::filesystem::path(root.text()) / task.text()).string())},
                {"val_frac", 0.2}};
  for (const auto& [key, here] :
       {std::pair{"section", "split"}, {"val_frac", "val_frac"}, {"seed", "seed"}})
    if (const auto value = values.of(set, key).json(); value && !value->is_null())
      whole[here] = *value;
  whole.update(body);
  const std::string last = add_node(name, std::move(whole), comment_of(set));
  bool labels = transforms.empty();
  for (const auto& item : transforms)
    if (class_name(item->target()) == "LoadImage") {
      const auto keys = values.of(*item, "keys").json();
      labels =
          labels ||
          (keys && (*keys == "label" || (keys->is_array() && std::find(keys->begin(), keys->end(),
                                                                       "label") != keys->end())));
    }
  if (labels) return last;
  return add_node("images", {{"type", "select_items"}, {"in", last}, {"keys", "image"}},
                  comment_of(set) + ": its labels are not loaded");
}

// WeightedRandomSampler. An epoch has as many steps as the sampler fills batches, of which each is
// taken `repeats` times: so the sampler is asked for fewer (`repeated`: samples times repeats of a
// batch).
std::string Translator::sampler(const Item& loader, std::int64_t repeated, const std::string& in) {
  const Value given = values.of(loader, "sampler");
  const bool weighted =
      given.is(Value::Kind::object) && last_name(given.item->target()) == "WeightedRandomSampler";
  if (values.given(loader, "sampler") && !weighted) {
    missing(*loader.find("sampler"), "of samplers there is WeightedRandomSampler", true);
    return in;
  }
  const Json repeats = values.of(loader, "repeats").json().value_or(Json());
  const std::int64_t times = repeats.is_number_integer() ? repeats.get<std::int64_t>() : 1;
  const Json asked = weighted ? values.of(*given.item, "num_samples").plain : Json();
  const bool replaces = weighted && values.is_true(*given.item, "replacement", true);
  const std::int64_t wanted = asked.is_number_integer() ? asked.get<std::int64_t>() : 0;
  if (times > 1 && !(replaces && wanted >= repeated && wanted % (repeated / times) == 0)) {
    report.add(*loader.find("repeats"), "ThreadDataLoader.repeats", Fate::missing,
               "epochs of whole batches are known, drawn with replacement", true);
    return in;
  }
  if (!weighted) return in;
  if (times > 1 && wanted % repeated != 0)
    report.add(*loader.find("repeats"), "ThreadDataLoader.repeats", Fate::replaced,
               "an epoch has " + std::to_string(wanted / repeated * times) + " steps, not " +
                   std::to_string(wanted / (repeated / times)) +
                   ": each of its batches is trained on " + std::to_string(times) + " times");
  const Item& item = *given.item;
  Json body = {{"in", in}};
  if (const Value weights = values.of(item, "weights"); weights.is(Value::Kind::opaque))
    body["weights"] = nullptr;  // equal ones: as if there were none
  if (times > 1) body["num_samples"] = wanted / repeated * (repeated / times);
  const std::string last = emit(item, "weighted_random_sampler", std::move(body), true, "sampler");
  if (graph.nodes.back().body["weights"].is_null()) graph.nodes.back().body.erase("weights");
  return last;
}

Translator::Loader Translator::loader(const Value& data_loader, bool training,
                                      const std::string& name,
                                      const std::vector<std::string>& wanted, const Json& more) {
  Loader out;
  patches_ = 1;
  if (!data_loader.is(Value::Kind::object)) {
    report.add(*config_.root(), "data loader", Fate::missing, data_loader.describe(), true);
    return out;
  }
  const Item& item = *data_loader.item;
  const std::string kind = last_name(item.target());
  if (kind != "DataLoader" && kind != "ThreadDataLoader") {
    missing(item, "of loaders there are DataLoader and ThreadDataLoader", true);
    return out;
  }
  const auto whole = [&](const char* key, std::int64_t otherwise) {
    const Value v = values.of(item, key);
    return v.plain.is_number_integer() ? v.plain.get<std::int64_t>() : otherwise;
  };
  out.batch_size = whole("batch_size", 1);
  out.drop_last = values.is_true(item, "drop_last");
  if (const ItemPtr collate = item.find("collate_fn");
      collate && collate->text().ends_with(".no_collation"))
    values.of(item, "collate_fn");  // samples of a detector, which is given batches here
  if (training) out.repeats = whole("repeats", 1);
  report.add(item, kind, Fate::translated, training ? "shuffle of the source, batch" : "");

  const bool shuffles = values.is_true(item, "shuffle") && training;
  const Value dataset = values.of(item, "dataset");
  if (training) values.of(item, "sampler");
  rest(item, "left out", training);
  if (!dataset.is(Value::Kind::object)) {
    missing(item, "its data set is " + dataset.describe(), true);
    return out;
  }
  const Item& set = *dataset.item;
  const std::string type = last_name(set.target());
  if (type == "IterableDataset") {
    out.last = side_by_side(set, more, name, training);
    out.transforms = preprocessing_;
    return out;
  }
  out.transforms = transforms_of(values.of(set, "transform"));
  const bool is_rows = type == "NPZDictItemDataset";
  const bool regions = type == "PatchWSIDataset" || type == "MaskedPatchWSIDataset";
  const bool decathlons = type == "DecathlonDataset";
  const bool caches = type == "CacheDataset" || type == "PersistentDataset" || decathlons;
  if (!caches && !regions && !is_rows && type != "Dataset") {
    missing(set,
            "of data sets there are Dataset, CacheDataset, PersistentDataset, DecathlonDataset, "
            "NPZDictItemDataset and IterableDataset of these",
            true);
    return out;
  }
  Json body = more;
  if (shuffles) body["shuffle"] = true;
  Value data;
  try {
    if (is_rows) {
      auto rows = std::make_shared<Records>();
      rows->rows = dataset.item;
      data.kind = Value::Kind::records;
      data.records = rows;
    } else if (!decathlons) {
      data = values.of(set, "data");
    }
  } catch (const Refused& refused) {
    report.add(*set.find("data"), type + ".data", Fate::missing, refused.what(), true);
  }
  if (regions) {
    batch_size_ = out.batch_size;
    const std::string region = slides(set, data, std::move(body), name, out.transforms);
    out.last = chain(out.transforms, region);
    preprocessing_ = out.transforms;
    return out;
  }
  if (!is_rows)  // source() says more of it
    report.add(set, type, Fate::translated, caches ? "a source and cache" : "a source");
  std::string last = decathlons ? decathlon(set, std::move(body), name, out.transforms)
                                : source(set, data, std::move(body), name, out.transforms, wanted);
  source_ = last;
  if (training && (values.given(item, "sampler") || out.repeats > 1))
    last = sampler(item, out.batch_size * out.repeats, last);
  preprocessing_ = out.transforms;
  const bool keeps_none = values.of(set, "cache_rate").json() == Json(0.0);
  const bool has_names = !data.is(Value::Kind::paths) || !data.items.empty();
  if (!has_names) field_ = "image";
  out.last = chain(out.transforms, last, caches && !keeps_none ? dataset.item : nullptr);
  if (!has_names) field_.clear();
  rest(set, "left out", false);
  // MONAI's one_hot cuts fractions off; here a label that is scaled has none left.
  for (const auto& transform : out.transforms) {
    const auto keys = values.of(*transform, "keys").json();
    if (!class_name(transform->target()).starts_with("ScaleIntensity") || !keys ||
        !keys->is_array() || std::find(keys->begin(), keys->end(), "label") == keys->end())
      continue;
    out.last = add_node(
        "whole",
        {{"type", "cast_to_type"}, {"in", out.last}, {"keys", "label"}, {"dtype", "int64"}},
        comment_of(*transform) + ": the label is scaled; one_hot cuts fractions off");
    break;
  }
  return out;
}

}  // namespace sluice::bundle
