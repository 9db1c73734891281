#include "kernels/lists/nnunet_list.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>

#include "engine/base/error.h"
#include "engine/base/file_ending.h"
#include "kernels/lists/walk.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t suffix = 5;  // "_0000"

std::string channel_suffix(std::size_t channel) {
  char text[32];
  std::snprintf(text, sizeof text, "_%04zu", channel);
  return text;
}

// "liver_001" of "liver_001_0000.nii.gz"; "" of a file that is not named so.
std::string case_of(std::string name, const std::string& ending) {
  if (!name.ends_with(ending)) return "";
  name.resize(name.size() - ending.size());
  if (name.size() <= suffix || name[name.size() - suffix] != '_') return "";
  const std::string digits = name.substr(name.size() - suffix + 1);
  if (!std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return "";
  return name.substr(0, name.size() - suffix);
}

std::set<std::string> names_in(const fs::path& folder, const std::string& ending) {
  std::set<std::string> names;
  walk(folder, 0, [&](const fs::directory_entry& entry, int) {
    if (const std::string name = case_of(entry.path().filename().string(), ending); !name.empty())
      names.insert(name);
  });
  return names;
}

std::vector<std::string> cases_in(const fs::path& folder, const std::string& ending) {
  const auto names = names_in(folder, ending);
  if (names.empty()) throw DataError(folder.string() + ": no file is named CASE_0000" + ending);
  return {names.begin(), names.end()};
}

std::vector<std::string> cases_of(const NnunetFolder& folder, bool labelled) {
  if (!labelled || folder.dataset.is_null())
    return cases_in(folder.root / (labelled ? "imagesTr" : "imagesTs"), folder.ending);
  std::set<std::string> names;
  for (const auto& [name, files] : folder.dataset.items()) names.insert(name);
  return {names.begin(), names.end()};
}

void must_be_all(const NnunetFolder& folder, std::size_t cases) {
  if (folder.cases && *folder.cases != static_cast<std::int64_t>(cases))
    throw DataError((folder.root / "dataset.json").string() + ": numTraining is " +
                    std::to_string(*folder.cases) + ", and there are " + std::to_string(cases) +
                    " cases: add what is missing, or correct numTraining");
}

// Of its first case: there is a CASE_0000 and no CASE_0001, or one path is listed.
bool has_colours_together(const NnunetFolder& folder) {
  const std::size_t channels = folder.channels.size();
  if (channels < 3 || channels > 4 || !is_picture_name(folder.ending)) return false;
  if (!folder.dataset.is_null()) {
    const Json& first = folder.dataset.front();
    return first.is_object() && first.value("images", Json()).size() == 1;
  }
  for (const char* images : {"imagesTr", "imagesTs"}) {
    const fs::path in = folder.root / images;
    if (!fs::is_directory(in)) continue;
    const auto names = names_in(in, folder.ending);
    if (names.empty()) continue;
    return !fs::exists(in / (*names.begin() + channel_suffix(1) + folder.ending));
  }
  return false;
}

void must_exist(const fs::path& file, const std::string& why) {
  if (!fs::exists(file)) throw DataError(file.string() + ": no such file; " + why);
}

using Cases = std::set<std::string>;

Cases names_of(const Json& split, const char* key, const std::string& where) {
  if (!split.is_object() || !split.contains(key) || !split[key].is_array())
    throw DataError(where + ": a fold has no list \"" + key + "\"");
  Cases names;
  for (const Json& name : split[key]) {
    if (!name.is_string()) throw DataError(where + ": a case's name is no text");
    names.insert(name.get<std::string>());
  }
  return names;
}

// os.path.expandvars: $NAME and ${NAME} of the environment; names that it lacks stay.
std::string with_variables(const std::string& path) {
  const auto in_name = [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c));
  };
  std::string out;
  for (std::size_t at = 0; at < path.size();) {
    std::size_t from = at + 1, to = from, end = from;
    if (path[at] == '$' && from < path.size() && path[from] == '{') {
      end = to = path.find('}', ++from);
      end = to == std::string::npos ? to : to + 1;
    } else if (path[at] == '$') {
      while (to < path.size() && in_name(path[to])) ++to;
      end = to;
    }
    const bool named = path[at] == '$' && to != std::string::npos && to > from;
    const char* value = named ? std::getenv(path.substr(from, to - from).c_str()) : nullptr;
    if (value) {
      out += value;
      at = end;
    } else {
      out += path[at++];
    }
  }
  return out;
}

// What names a dataset.json's channels, as nnU-Net looks for it; "" where nothing does.
std::string channels_key(const Json& document) {
  for (const char* key : {"modality", "channel_names"})
    if (document.contains(key)) return key;
  return "";
}

// Of the decathlon's first image.
std::string decathlon_ending(const Json& training) {
  if (!training.is_array() || training.empty() || !training[0].is_object()) return ".nii.gz";
  const Json image = training[0].value("image", Json());
  return image.is_string() && image.get_ref<const std::string&>().ends_with(".nii") ? ".nii"
                                                                                    : ".nii.gz";
}

// The part of `all` that the file's fold lists; a name that is no case is refused.
Cases listed(const fs::path& file, const NnunetSplit& which, const Cases& all) {
  const Json document = read_json(file);
  const std::string where = file.string();
  if (!document.is_array() || which.fold >= static_cast<std::int64_t>(document.size()))
    throw DataError(where + ": has no fold " + std::to_string(which.fold));
  const Json& fold = document[static_cast<std::size_t>(which.fold)];
  const Cases names = names_of(fold, which.split == "training" ? "train" : "val", where);
  for (const auto& name : names)
    if (!all.count(name)) throw DataError(where + ": there is no case \"" + name + "\"");
  return names;
}

Cases drawn(const std::vector<std::string>& cases, const NnunetSplit& which) {
  const auto held = held_out(cases.size(), {which.split, which.fold, which.folds});
  Cases names;
  for (std::size_t i = 0; i < cases.size(); ++i)
    if (held[i] == (which.split == "validation")) names.insert(cases[i]);
  return names;
}

Cases chosen(const NnunetFolder& folder, const std::vector<std::string>& cases,
             const NnunetSplit& which) {
  const Cases all(cases.begin(), cases.end());
  if (which.split == "test" || which.fold < 0) return all;
  const fs::path file = folder.root / "splits_final.json";
  return fs::exists(file) ? listed(file, which, all) : drawn(cases, which);
}

// "./imagesTr/a.nii.gz" of the decathlon's lists, in the order of the names; a fold of them.
DataList decathlon_fold(const NnunetFolder& folder, const NnunetSplit& which,
                        const std::string& key, const std::string& label_key) {
  DataList list = decathlon_list(folder.root, which.split == "test" ? "test" : "training", 0, 0);
  std::sort(list.begin(), list.end(),
            [](const DataItem& a, const DataItem& b) { return a.name < b.name; });
  std::vector<std::string> names;
  for (DataItem& item : list) {
    names.push_back(item.name);
    for (auto& [field, file] : item.files) field = field == "image" ? key : label_key;
  }
  const Cases kept = chosen(folder, names, which);
  std::erase_if(list, [&](const DataItem& item) { return !kept.count(item.name); });
  return list;
}

}  // namespace

bool is_nnunet(const Json& document) {
  return document.is_object() && !channels_key(document).empty() &&
         document.contains("file_ending") && !document.contains("training");
}

std::string prediction_ending(const std::string& ending) {
  return ending == ".nii" || ending == ".mha" ? ending : ".nii.gz";
}

std::optional<std::int64_t> listed_folds(const fs::path& root) {
  const fs::path file = root / "splits_final.json";
  if (!fs::exists(file)) return std::nullopt;
  const Json document = read_json(file);
  if (!document.is_array() || document.empty())
    throw DataError(file.string() + ": lists no fold, {\"train\": [...], \"val\": [...]}");
  return std::ssize(document);
}

std::vector<fs::path> nnunet_files(const NnunetFolder& folder, const std::string& name,
                                   bool training) {
  std::vector<fs::path> files;
  if (!training || folder.dataset.is_null()) {
    const fs::path images = folder.root / (training ? "imagesTr" : "imagesTs");
    for (std::size_t c = 0; c < folder.images(); ++c)
      files.push_back(images / (name + channel_suffix(c) + folder.ending));
    if (training) files.push_back(folder.root / "labelsTr" / (name + folder.ending));
    return files;
  }
  try {
    const Json& given = folder.dataset.at(name);
    for (const Json& file : given.at("images"))
      files.push_back((folder.root / with_variables(file)).lexically_normal());
    files.push_back((folder.root / with_variables(given.at("label"))).lexically_normal());
  } catch (const Json::exception&) {
    files.clear();
  }
  if (files.size() != folder.images() + 1) files.clear();
  return files;
}

NnunetFolder read_nnunet_folder(const fs::path& root) {
  const fs::path path = root / "dataset.json";
  const Json document = read_json(path);
  const std::string where = path.string();
  NnunetFolder folder{root, {}, "", Json::object()};
  folder.decathlon = document.is_object() && document.contains("training");
  folder.whole = folder.decathlon;
  if (folder.decathlon) folder.ending = decathlon_ending(document["training"]);
  if (folder.decathlon) return folder;
  if (!is_nnunet(document))
    throw DataError(where +
                    ": has no \"channel_names\" and \"file_ending\", as nnU-Net's has, and no "
                    "\"training\", as the decathlon's");
  const std::string key = channels_key(document);
  const Json &channels = document[key], &ending = document["file_ending"];
  if (!channels.is_object() || channels.empty())
    throw DataError(where + ": " + key + " is no object with a member for each channel");
  for (std::size_t c = 0; c < channels.size(); ++c) {
    const auto found = channels.find(std::to_string(c));
    if (found == channels.end())
      throw DataError(where + ": " + key + " has no \"" + std::to_string(c) + "\"");
    folder.channels.push_back(found->is_string() ? found->get<std::string>() : found->dump());
  }
  if (!ending.is_string() || !ending.get_ref<const std::string&>().starts_with('.'))
    throw DataError(where + ": file_ending is not like \".nii.gz\"");
  folder.ending = ending.get<std::string>();
  if (const auto count = document.find("numTraining");
      count != document.end() && count->is_number_integer())
    folder.cases = count->get<std::int64_t>();
  if (document.contains("labels")) folder.labels = document["labels"];
  if (document.contains("dataset")) folder.dataset = document["dataset"];
  if (!folder.dataset.is_null() && (!folder.dataset.is_object() || folder.dataset.empty()))
    throw DataError(where + ": \"dataset\" is no object with a member for each case");
  folder.whole = has_colours_together(folder);
  return folder;
}

DataList nnunet_list(const NnunetFolder& folder, const NnunetSplit& which,
                     const std::vector<std::string>& keys, const std::string& label_key) {
  if (folder.whole && keys.size() != 1)
    throw DataError((folder.root / "dataset.json").string() + ": a " +
                    (folder.decathlon ? "decathlon's case" : "case") +
                    " has one file of all channels; keys names " + std::to_string(keys.size()));
  if (folder.decathlon) return decathlon_fold(folder, which, keys.front(), label_key);
  if (!folder.whole && keys.size() != folder.channels.size())
    throw DataError(folder.root.string() + ": has " + std::to_string(folder.channels.size()) +
                    " channels, one file each; keys names " + std::to_string(keys.size()));
  const bool labelled = which.split != "test";
  const auto cases = cases_of(folder, labelled);
  if (labelled) must_be_all(folder, cases.size());
  DataList list;
  for (const auto& name : chosen(folder, cases, which)) {
    DataItem item{name, {}};
    const auto files = nnunet_files(folder, name, labelled);
    if (files.empty())
      throw DataError((folder.root / "dataset.json").string() + ": dataset." + name + " is not " +
                      nnunet_entry);
    for (std::size_t c = 0; c < keys.size(); ++c) {
      must_exist(files[c], "channel_names has " + std::to_string(folder.channels.size()) +
                               " channels, each a file of its own");
      item.files.emplace_back(keys[c], files[c].string());
    }
    if (const fs::path second = folder.root / (labelled ? "imagesTr" : "imagesTs") /
                                (name + channel_suffix(1) + folder.ending);
        folder.whole && fs::exists(second))
      throw DataError(second.string() + ": the first case has all channels in one file");
    if (labelled) {
      must_exist(files.back(), "every image of training has one");
      item.files.emplace_back(label_key, files.back().string());
    }
    list.push_back(std::move(item));
  }
  if (list.empty())
    throw DataError(folder.root.string() + ": fold " + std::to_string(which.fold) +
                    " leaves no case for " + which.split);
  return list;
}

void add_predictions(DataList& list, const std::string& ending, const fs::path& predictions,
                     const std::string& key) {
  const std::string remedy = "every fold of the network before must have been validated";
  if (!fs::is_directory(predictions))
    throw DataError(predictions.string() + ": no such folder; " + remedy);
  std::map<std::string, std::vector<std::string>> files;  // by name
  std::error_code none;
  walk(predictions, std::numeric_limits<int>::max(), [&](const fs::directory_entry& entry, int) {
    if (entry.is_regular_file(none))
      files[entry.path().filename().string()].push_back(entry.path().string());
  });
  const std::set<std::string> endings{prediction_ending(ending), ending};
  for (DataItem& item : list) {
    std::vector<std::string> found;
    for (const std::string& each : endings)
      for (const std::string& file : files[item.name + each]) found.push_back(file);
    if (found.empty())
      throw DataError(predictions.string() + ": no " + item.name + prediction_ending(ending) +
                      " below it; " + remedy);
    std::sort(found.begin(), found.end());
    if (found.size() > 1)
      throw DataError(predictions.string() + ": case \"" + item.name +
                      "\" was predicted twice, in " + found[0] + " and " + found[1]);
    item.files.emplace_back(key, found[0]);
  }
}

}  // namespace sluice
