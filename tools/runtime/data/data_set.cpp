// The data set of a folder: dataset.json of the decathlon or of nnU-Net, a folder of images beside
// one of labels, or images alone.
#include "tools/runtime/data/data_set.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "engine/base/error.h"
#include "kernels/files/volume.h"
#include "kernels/lists/data_list.h"
#include "kernels/lists/nnunet_list.h"
#include "kernels/lists/walk.h"

namespace sluice {

namespace fs = std::filesystem;

const std::vector<DataKind>& data_kinds() {
  static const std::vector<DataKind> kinds{
      {"list", true, "entries of a list that name no file"},
      {"missing", true, "files that are named but are not there"},
      {"unreadable", true, "files that cannot be read, or not to their end"},
      {"manifest", true, "files that are not what was indexed"},
      {"no_label", true, "cases for training without a label"},
      {"no_image", true, "labels without an image"},
      {"shape", true, "files of a case with another number of voxels"},
      {"spacing", true, "files of a case with another spacing"},
      {"affine", true, "files of a case that lie elsewhere in space"},
      {"sheared", true, "axes that are not at right angles"},
      {"not_finite", true, "voxels that are NaN or infinite"},
      {"constant", true, "images in which every voxel is the same"},
      {"label_channels", true, "labels of several channels"},
      {"label_fraction", true, "labels with values that are no whole numbers"},
      {"label_value", true, "labels with values that are not declared"},
      {"label_negative", true, "labels with values below 0"},
      {"class_missing", true, "declared labels that no case for training has"},
      {"label_is_image", true, "labels with so many values that they are images"},
      {"listed_twice", true, "files that a list names more than once"},
      {"duplicate", true, "images that are the same, voxel by voxel"},
      {"leak", true, "images that are in training and in another list too"},
      {"label_empty", false, "labels without any foreground"},
      {"label_float", false, "labels that are stored as floating point numbers"},
      {"label_duplicate", false, "cases whose labels are the same and not empty"},
      {"no_geometry", false, "volumes that do not say where they lie (no sform, no qform)"},
      {"odd_spacing", false, "voxels of less than 0.01 or more than 50 mm"},
      {"flat", false, "volumes of one slice among thick ones"},
      {"mixed_dtype", false, "images of several datatypes"},
      {"mixed_channels", false, "images with different numbers of channels"},
      {"mixed_spacing", false, "images whose spacings differ by more than a factor of 3"},
      {"mixed_orientation", false, "images whose axes point elsewhere"},
      {"twins", false, "a name with and without .gz: some readers open the other file"},
      {"unreferenced", false, "images in the folder that no case has"},
      {"count", false, "dataset.json's count of cases is another"},
  };
  return kinds;
}

namespace {

using Json = nlohmann::ordered_json;

std::map<std::string, fs::path> volumes_in(const fs::path& folder) {
  std::map<std::string, fs::path> found;
  std::error_code problem;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem))
    if (is_volume_name(at->path()) && !at->path().filename().string().starts_with('.'))
      found.emplace(file_stem(at->path()), at->path());
  return found;
}

// ---- decathlon ----------------------------------------------------------------------------------

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 18 && std::all_of(text.begin(), text.end(), ::isdigit);
}

void read_entry(DataSet& set, const Json& entry, const std::string& split,
                const std::string& where) {
  const std::string list = (set.root / "dataset.json").string();
  DataCase one{where, split, {}};
  const auto add = [&](const std::string& key, const Json& path) {
    if (!path.is_string() || path.get_ref<const std::string&>().empty())
      return set.find("list", list, where + "." + key + " is no path");
    const fs::path relative = fs::path(path.get<std::string>()).lexically_normal();
    if (relative.is_absolute() || *relative.begin() == "..")
      return set.find("list", list,
                      where + "." + key + " does not lie in the folder: " + relative.string());
    one.files.emplace_back(key, (set.root / relative).string());
  };
  if (entry.is_object())
    for (const auto& [key, path] : entry.items()) add(key, path);
  else
    add("image", entry);
  if (one.files.empty()) return;
  one.name = file_stem(one.files.front().second);
  set.cases.push_back(std::move(one));
}

void read_split(DataSet& set, const Json& document, const std::string& split,
                const char* count_key) {
  const auto found = document.find(split);
  if (found == document.end()) return;
  const std::string list = (set.root / "dataset.json").string();
  if (!found->is_array()) return set.find("list", list, split + " is no list");
  for (std::size_t i = 0; i < found->size(); ++i)
    read_entry(set, (*found)[i], split, split + "[" + std::to_string(i) + "]");
  const auto count = document.find(count_key);
  if (count != document.end() && count->is_number_integer() &&
      count->get<std::int64_t>() != std::ssize(*found))
    set.find("count", list,
             std::string(count_key) + " is " + count->dump() + ", " + split + " has " +
                 std::to_string(found->size()) + " entries");
}

void read_decathlon(DataSet& set, const Json& document) {
  set.layout = "Medical Segmentation Decathlon";
  read_split(set, document, "training", "numTraining");
  read_split(set, document, "validation", "numValidation");
  read_split(set, document, "test", "numTest");
  const auto labels = document.find("labels");
  if (labels == document.end() || !labels->is_object()) return;
  for (const auto& [number, name] : labels->items())
    if (is_number(number))
      set.labels[std::stoll(number)] = name.is_string() ? name.get<std::string>() : name.dump();
}

// ---- nnU-Net ------------------------------------------------------------------------------------

void read_nnunet_labels(DataSet& set, const Json& labels) {
  for (const auto& [name, value] : labels.items())
    for (const Json& number : value.is_array() ? value : Json::array({value}))
      if (number.is_number_integer()) set.labels.emplace(number.get<std::int64_t>(), name);
}

// The names in imagesTr or imagesTs: what stands before "_0000".
std::set<std::string> case_names(const fs::path& folder, const std::string& ending, bool channels) {
  std::set<std::string> names;
  std::error_code problem;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem)) {
    std::string name = at->path().filename().string();
    if (name.starts_with('.') || !name.ends_with(ending)) continue;
    name.resize(name.size() - ending.size());
    if (channels && (name.size() < 6 || name[name.size() - 5] != '_' ||
                     !is_number(name.substr(name.size() - 4))))
      continue;
    names.insert(channels ? name.substr(0, name.size() - 5) : name);
  }
  return names;
}

void read_nnunet(DataSet& set, const NnunetFolder& folder) {
  set.layout = "nnU-Net, version 2";
  read_nnunet_labels(set, folder.labels);
  const auto add = [&](const std::string& name, const std::string& split) {
    const auto files = nnunet_files(folder, name, split == "training");
    if (files.empty())
      return set.find("list", (set.root / "dataset.json").string(),
                      "dataset." + name + " is not " + nnunet_entry);
    DataCase one{name, split, {}};
    for (std::size_t c = 0; c < files.size(); ++c) {
      const bool is_label = split == "training" && c + 1 == files.size();
      const std::string key = is_label ? "label" : c == 0 ? "image" : "image" + std::to_string(c);
      one.files.emplace_back(key, files[c].string());
    }
    set.cases.push_back(std::move(one));
  };
  std::set<std::string> names;
  if (folder.dataset.is_null()) {
    names = case_names(set.root / "imagesTr", folder.ending, true);
    names.merge(case_names(set.root / "labelsTr", folder.ending, false));
  }
  for (const auto& [name, files] : folder.dataset.items()) names.insert(name);
  for (const auto& name : names) add(name, "training");
  for (const auto& name : case_names(set.root / "imagesTs", folder.ending, true)) add(name, "test");
}

// ---- folders ------------------------------------------------------------------------------------

fs::path folder_of(const fs::path& root, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (!volumes_in(root / name).empty()) return root / name;
  return {};
}

void read_pairs(DataSet& set, const fs::path& images, const fs::path& labels) {
  set.layout = "a folder of images, one of labels";
  auto labelled = volumes_in(labels);
  for (const auto& [stem, image] : volumes_in(images)) {
    DataCase one{stem, "training", {{"image", image.string()}}};
    if (const auto label = labelled.find(stem); label != labelled.end()) {
      one.files.emplace_back("label", label->second.string());
      labelled.erase(label);
    }
    set.cases.push_back(std::move(one));
  }
  for (const auto& [stem, label] : labelled)
    set.find("no_image", label.string(), "has no image of its name in " + images.string());
}

void read_images(DataSet& set) {
  set.layout = "a folder of images";
  set.labelled = false;
  std::vector<fs::path> files;
  walk(set.root, std::numeric_limits<int>::max(), [&](const fs::directory_entry& entry, int) {
    if (is_volume_name(entry.path())) files.push_back(entry.path());
  });
  std::sort(files.begin(), files.end());
  for (const auto& file : files)
    set.cases.push_back({file_stem(file), "images", {{"image", file.string()}}});
}

fs::path real(const fs::path& file) {
  std::error_code unknown;
  return fs::weakly_canonical(file, unknown);
}

// Files that look like images and that no case has, by that name or by another one that a link
// gives them.
void find_unreferenced(DataSet& set) {
  std::set<std::string> known;
  for (const DataCase& one : set.cases)
    for (const auto& [key, file] : one.files)
      for (const fs::path& path : {fs::absolute(file).lexically_normal(), real(file)})
        known.insert(path.string());
  for (const Finding& f : set.findings) known.insert(fs::absolute(f.file).lexically_normal());
  std::vector<std::string> found;
  walk(set.root, std::numeric_limits<int>::max(), [&](const fs::directory_entry& entry, int) {
    const std::string path = fs::absolute(entry.path()).lexically_normal().string();
    std::error_code unknown;
    if (is_volume_name(entry.path()) && !entry.is_directory(unknown) && !known.count(path) &&
        !known.count(real(entry.path()).string()))
      found.push_back(entry.path().string());
  });
  std::sort(found.begin(), found.end());
  for (const auto& file : found) set.find("unreferenced", file, "belongs to no case");
}

}  // namespace

DataSet data_set_of_folder(const fs::path& folder) {
  DataSet set;
  set.root = folder;
  if (!fs::is_directory(folder)) throw DataError(folder.string() + ": is no folder");
  const fs::path list = folder / "dataset.json";
  const Json document = fs::exists(list) ? read_json(list) : Json();
  const fs::path images = folder_of(folder, {"imagesTr", "images", "image"});
  const fs::path labels = folder_of(folder, {"labelsTr", "labels", "label", "masks"});
  if (is_nnunet(document))
    read_nnunet(set, read_nnunet_folder(folder));
  else if (document.is_object() && document.contains("training"))
    read_decathlon(set, document);
  else if (!images.empty() && !labels.empty())
    read_pairs(set, images, labels);
  else
    read_images(set);
  if (!set.labels.empty()) set.labels_from = list.string();
  find_unreferenced(set);
  if (set.cases.empty() && set.findings.empty())
    throw DataError(folder.string() +
                    ": holds no image that is read; looked for dataset.json (decathlon, nnU-Net), "
                    "folders of images and labels, and files");
  return set;
}

}  // namespace sluice
