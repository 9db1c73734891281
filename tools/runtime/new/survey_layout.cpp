// Which of the known layouts a folder has, and its list of cases.
#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/file_ending.h"
#include "kernels/lists/nnunet_list.h"
#include "tools/runtime/new/survey.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The NIfTI files of a folder by their stems.
std::map<std::string, fs::path> volumes_in(const fs::path& folder) {
  std::map<std::string, fs::path> found;
  std::error_code problem;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem))
    if (is_nifti_name(at->path()) && !at->path().filename().string().starts_with('.') &&
        at->is_regular_file(problem))
      found.emplace(file_stem(at->path()), at->path());
  return found;
}

// The first of these sub-folders that has volumes.
fs::path folder_of(const fs::path& root, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (!volumes_in(root / name).empty()) return root / name;
  return {};
}

void read_decathlon_texts(Survey& s, const Json& document) {
  s.name = document.value("name", Json("")).is_string() ? document.value("name", "") : "";
  if (const auto m = document.find("modality"); m != document.end() && m->is_object())
    for (const auto& [number, name] : m->items())
      s.channels.push_back(name.is_string() ? name.get<std::string>() : name.dump());
  const auto l = document.find("labels");
  if (l == document.end() || !l->is_object()) return;
  for (const auto& [number, name] : l->items())
    if (!number.empty() && std::all_of(number.begin(), number.end(), ::isdigit))
      s.labels[std::stoll(number)] = name.is_string() ? name.get<std::string>() : name.dump();
}

void find_decathlon(Survey& s, const Json& document, bool with_labels) {
  s.layout = DataLayout::decathlon;
  read_decathlon_texts(s, document);
  if (!with_labels) {
    const bool has_test =
        document.contains("test") && document["test"].is_array() && !document["test"].empty();
    if (has_test) s.split = "test";
    s.training = decathlon_list(s.root, s.split, 0, 0);
    return;
  }
  s.has_validation = document.contains("validation");
  const auto all = decathlon_list(s.root, "training", 0, 0).size();
  if (!s.has_validation) s.val_frac = all >= 5 ? 0.2 : 0.5;
  s.training = decathlon_list(s.root, "training", s.val_frac, 0);
  s.validation = decathlon_list(s.root, "validation", s.val_frac, 0);
}

// nnU-Net's labels are numbers, or lists of numbers for regions that overlap.
void read_nnunet_labels(Survey& s, const Json& labels) {
  for (const auto& [name, value] : labels.items()) {
    if (name == "ignore")
      s.odd.push_back("dataset.json has an \"ignore\" label, which would be a class like others");
    if (value.is_array())
      s.odd.push_back("\"" + name +
                      "\" is a region of several labels; the graph learns the labels "
                      "themselves");
    for (const auto& number : value.is_array() ? value : Json::array({value}))
      if (number.is_number_integer()) s.labels.emplace(number.get<std::int64_t>(), name);
  }
}

void find_nnunet(Survey& s, bool with_labels) {
  s.layout = DataLayout::nnunet;
  const NnunetFolder folder = read_nnunet_folder(s.root);
  if (folder.ending != ".nii.gz" && folder.ending != ".nii")
    throw DataError(s.root.string() + ": its files end with " + folder.ending +
                    "; starter graphs are written for NIfTI volumes");
  s.channels = folder.channels;
  s.channel_files = folder.channels.size();
  s.has_validation = true;
  read_nnunet_labels(s, folder.labels);
  std::vector<std::string> keys;
  for (std::size_t c = 0; c < s.channel_files; ++c) keys.push_back("image" + std::to_string(c));
  if (!with_labels) {
    s.split = "test";
    s.training = nnunet_list(folder, {"test", 0, 5}, keys, "label");
    return;
  }
  const std::int64_t cases = std::ssize(nnunet_list(folder, {"training", -1, 5}, keys, "label"));
  if (cases < 2) throw DataError(s.root.string() + ": one case is too few, one is for validation");
  s.folds = std::min<std::int64_t>(5, cases);
  s.training = nnunet_list(folder, {"training", 0, s.folds}, keys, "label");
  s.validation = nnunet_list(folder, {"validation", 0, s.folds}, keys, "label");
}

// Every image of one folder with the label of the same name in the other.
void find_pairs(Survey& s, const fs::path& images, const fs::path& labels) {
  s.layout = DataLayout::pairs;
  s.images = images;
  const auto labelled = volumes_in(labels);
  std::size_t missing = 0, n = 0;
  for (const auto& [stem, image] : volumes_in(images)) {
    const auto label = labelled.find(stem);
    if (label == labelled.end()) {
      if (++missing == 1) s.odd.push_back(image.string() + " has no label in " + labels.string());
      continue;
    }
    const DataItem item{stem, {{"image", image.string()}, {"label", label->second.string()}}};
    (n++ % 5 == 4 ? s.validation : s.training).push_back(item);
  }
  if (missing > 1)
    s.odd.back() += ", and " + std::to_string(missing - 1) + " more images have none";
  if (s.validation.empty() && s.training.size() > 1) {
    s.validation = {s.training.back()};
    s.training.pop_back();
  }
  if (s.training.empty() || s.validation.empty())
    throw DataError(images.string() + " and " + labels.string() +
                    " have fewer than two volumes with the same names");
}

void find_files(Survey& s, const fs::path& folder) {
  s.layout = DataLayout::files;
  s.images = folder;
  for (const auto& [stem, file] : volumes_in(folder))
    s.training.push_back({stem, {{"image", file.string()}}});
  for (const auto& item : s.training)
    if (item.name.ends_with("_0001")) {
      s.odd.push_back("files are named like nnU-Net's channels (" + item.name +
                      "); each is taken for an image of its own");
      break;
    }
}

[[noreturn]] void unknown(const fs::path& root, bool with_labels) {
  throw DataError(
      root.string() +
      ": no known layout. Looked for: dataset.json of the Medical Segmentation "
      "Decathlon or of nnU-Net; " +
      (with_labels ? "imagesTr and labelsTr; images and labels (or masks), with .nii or .nii.gz "
                     "files of the same names"
                   : "imagesTs; images; .nii or .nii.gz files in the folder itself"));
}

}  // namespace

void find_layout(Survey& s, bool with_labels) {
  if (!fs::is_directory(s.root)) throw DataError(s.root.string() + ": is no folder");
  if (fs::exists(s.root / "dataset.json")) {
    const Json document = read_json(s.root / "dataset.json");
    if (is_nnunet(document)) return find_nnunet(s, with_labels);
    if (document.is_object() && document.contains("training"))
      return find_decathlon(s, document, with_labels);
    s.odd.push_back("dataset.json is neither the decathlon's nor nnU-Net's and was not used");
  }
  if (with_labels) {
    const fs::path images = folder_of(s.root, {"imagesTr", "images", "image"});
    const fs::path labels = folder_of(s.root, {"labelsTr", "labels", "label", "masks"});
    if (images.empty() || labels.empty()) unknown(s.root, with_labels);
    return find_pairs(s, images, labels);
  }
  const fs::path images =
      volumes_in(s.root).empty() ? folder_of(s.root, {"imagesTs", "images", "imagesTr"}) : s.root;
  if (images.empty()) unknown(s.root, with_labels);
  find_files(s, images);
}

}  // namespace sluice
