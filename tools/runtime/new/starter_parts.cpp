#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "tools/runtime/new/starter.h"

namespace sluice {

std::string json_text(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string list_of(const Shape3& n) { return fmt::format("[{}, {}, {}]", n[0], n[1], n[2]); }

std::string list_of(const std::vector<std::string>& texts) {
  std::string out;
  for (const auto& text : texts) out += (out.empty() ? "" : ", ") + json_text(text);
  return "[" + out + "]";
}

std::string text_of(const Json& value) {
  if (!value.is_structured()) return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  for (const auto& [key, member] : value.items())
    out += (out.empty() ? "" : ", ") + (value.is_object() ? json_text(key) + ": " : "") +
           text_of(member);
  return value.is_object() ? "{" + out + "}" : "[" + out + "]";
}

std::string members_of(const Json& object, const std::string& indent, std::size_t used) {
  std::string out;
  for (const auto& [key, value] : object.items()) {
    const std::string member = json_text(key) + ": " + text_of(value);
    const bool full = !out.empty() && used + member.size() > 92;
    out += out.empty() ? "" : full ? ",\n" + indent : ", ";
    used = (full ? indent.size() : used + 2) + member.size();
    out += member;
  }
  return out;
}

std::vector<std::string> names_of_classes(const std::map<std::int64_t, std::string>& labels,
                                          std::int64_t classes) {
  if (labels.empty()) return {};
  std::vector<std::string> names;
  for (std::int64_t c = 0; c < classes; ++c) {
    const auto label = labels.find(c);
    if (label == labels.end() && c > 0) return {};
    names.push_back(label == labels.end() ? "background" : printable(label->second));
    if (std::count(names.begin(), names.end(), names.back()) > 1) return {};
  }
  return names;
}

std::vector<std::string> image_keys(const Survey& s) {
  if (s.channel_files == 1) return {"image"};
  std::vector<std::string> keys;
  for (std::size_t c = 0; c < s.channel_files; ++c) keys.push_back("image" + std::to_string(c));
  return keys;
}

namespace {

// One line an item.
std::string items_of(const DataList& list) {
  std::string text = "[\n";
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::string item;
    for (const auto& [key, file] : list[i].files)
      item += (item.empty() ? "" : ", ") + json_text(key) + ": " + json_text(file);
    text += "      { " + item + " }" + (i + 1 < list.size() ? ",\n" : " ]");
  }
  return text;
}

}  // namespace

std::string source_node(const Survey& s, const std::string& split, bool shuffle,
                        const std::vector<std::string>& keys,
                        const std::vector<std::string>& more) {
  std::string text = "{ ";
  const auto add = [&](const std::string& member) {
    const bool begins = text == "{ ";
    const auto line = text.size() - (text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n'));
    const bool full = line + member.size() > 80;
    text += (begins ? "" : full ? ",\n                " : ", ") + member;
  };
  switch (s.layout) {
    case DataLayout::decathlon:
      add("\"type\": \"decathlon\"");
      add("\"root\": \"@root\"");
      add("\"split\": " + json_text(split));
      if (s.val_frac > 0) add(fmt::format("\"val_frac\": {:g}", s.val_frac));
      break;
    case DataLayout::nnunet:
      add("\"type\": \"nnunet\"");
      add("\"root\": \"@root\"");
      add("\"split\": " + json_text(split));
      if (split != "test") add("\"fold\": 0");
      if (s.folds != 5) add("\"folds\": " + std::to_string(s.folds));
      if (keys != std::vector<std::string>{"image"}) add("\"keys\": " + list_of(keys));
      break;
    case DataLayout::pairs:
      add("\"type\": \"file_list\"");
      break;
    case DataLayout::files:
      add("\"type\": \"file_list\", \"root\": \"@images\", \"pattern\": \"@pattern\"");
      if (keys.front() != "image") add("\"key\": " + json_text(keys.front()));
      break;
  }
  if (shuffle) add("\"shuffle\": true");
  for (const auto& member : more) add(member);
  if (s.layout == DataLayout::pairs)
    add("\"items\": " + items_of(split == "training" ? s.training : s.validation));
  return text + " }";
}

std::string strides_rule(const Recipe& r) {
  return fmt::format("{} levels: an axis is halved while 4 voxels remain, thick slices last.",
                     r.channels.size());
}

std::string network_text(const Survey& s, const Recipe& r, bool weights) {
  std::string channels, strides;
  for (const auto n : r.channels) channels += (channels.empty() ? "" : ", ") + std::to_string(n);
  for (const auto& n : r.strides)
    strides += (strides.empty() ? "" : ", ") +
               (n[0] == n[1] && n[1] == n[2] ? std::to_string(n[0]) : list_of(n));
  return fmt::format(
      "{{\n      \"type\": \"unet\", \"spatial_dims\": 3, \"in_channels\": {}, \"out_channels\": "
      "{},\n      \"channels\": [{}], \"strides\": [{}],\n      \"num_res_units\": 1, "
      "\"precision\": \"auto\"{}\n    }}",
      static_cast<std::int64_t>(s.channel_files) * s.geometries.front().channels, r.classes,
      channels, strides, weights ? ", \"weights\": \"@weights\"" : "");
}

}  // namespace sluice
