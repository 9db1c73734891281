#include "tools/nnunet/dataset.h"

#include <algorithm>
#include <set>

#include "engine/base/diagnostic.h"
#include "engine/base/error.h"
#include "engine/base/file_ending.h"

namespace sluice::nnunet {
namespace {

namespace fs = std::filesystem;

const Json& member(const DocumentPtr& document, const char* key) {
  const auto found = document->root.find(key);
  if (found == document->root.end())
    fail_at({document, ""}, std::string("has no \"") + key + "\", which nnU-Net's has");
  return *found;
}

std::string digits_of(const std::string& text) {
  std::string digits;
  for (const char c : text)
    if (c >= '0' && c <= '9') digits += c;
  return digits;
}

// "Task04_Hippocampus" is called "Dataset004_Hippocampus" where nnU-Net has converted it.
std::string name_of(fs::path folder, bool decathlon) {
  folder = fs::absolute(folder).lexically_normal();
  const std::string name =
      folder.has_filename() ? folder.filename().string() : folder.parent_path().filename().string();
  const auto line = name.find('_');
  if (!decathlon || !name.starts_with("Task") || line == std::string::npos) return name;
  const std::string digits = digits_of(name.substr(4, line - 4));
  return "Dataset" + std::string(3 - std::min<std::size_t>(3, digits.size()), '0') + digits +
         name.substr(line);
}

std::vector<std::string> read_channels(const DocumentPtr& document, const char* key) {
  const Json& json = member(document, key);
  const Place place = Place{document, ""}.child(key);
  if (!json.is_object() || json.empty())
    fail_at(place, std::string(key) + " is no object with a member for each channel");
  std::vector<std::string> channels;
  for (std::size_t c = 0; c < json.size(); ++c) {
    const auto found = json.find(std::to_string(c));
    if (found == json.end() || !found->is_string())
      fail_at(place, std::string(key) + " has no name for channel " + std::to_string(c));
    channels.push_back(found->get<std::string>());
  }
  return channels;
}

std::vector<std::int64_t> integers(const Json& json, const Place& place, const std::string& what) {
  std::vector<std::int64_t> all;
  for (const Json& value : json.is_array() ? json : Json::array({json})) {
    if (!value.is_number_integer()) fail_at(place, what + " is no whole number");
    all.push_back(value.get<std::int64_t>());
  }
  if (all.empty()) fail_at(place, what + " is empty");
  return all;
}

void read_labels(Dataset& d, const DocumentPtr& document) {
  const Json& json = member(document, "labels");
  const Place labels = Place{document, ""}.child("labels");
  if (!json.is_object() || json.empty())
    fail_at(labels, "labels is no object like {\"background\": 0, \"liver\": 1}");
  for (const auto& [name, value] : json.items()) {
    const Label label{name, integers(value, labels.child(name), "label \"" + name + "\"")};
    if (name == "ignore") {
      if (label.values.size() > 1)
        fail_at(labels.child(name), "ignore is one label, and no region of several");
      d.ignore = label.values.front();
    }
    d.regions = d.regions || label.values.size() > 1;
    d.labels.push_back(label);
  }
}

// The decathlon's {"0": "background", "1": "Anterior"}.
void read_decathlon_labels(Dataset& d, const DocumentPtr& document) {
  const Json& json = member(document, "labels");
  const Place labels = Place{document, ""}.child("labels");
  if (!json.is_object() || json.empty()) fail_at(labels, "labels is no object");
  for (const auto& [number, name] : json.items()) {
    if (number.empty() || digits_of(number) != number || number.size() > 9)
      fail_at(labels.child(number).key(), "label \"" + number + "\" is no whole number");
    if (!name.is_string()) fail_at(labels.child(number), "a label's name is no text");
    d.labels.push_back({number == "0" ? "background" : name.get<std::string>(),
                        {static_cast<std::int64_t>(std::stoll(number))}});
  }
}

void check_labels(const Dataset& d, const Place& place) {
  std::set<std::int64_t> values;
  const Label* background = nullptr;
  for (const Label& label : d.labels) {
    values.insert(label.values.begin(), label.values.end());
    if (label.name == "background") background = &label;
  }
  if (!background) fail_at(place, "labels has no \"background\"; it is 0");
  if (background->values != std::vector<std::int64_t>{0})
    fail_at(place.child("background"), "background has to be 0");
  if (*values.begin() < 0) fail_at(place, "a label is negative");
  for (const std::int64_t value : values)
    if (value != *values.begin() && !values.count(value - 1))
      fail_at(place, "labels have to follow each other: there is " + std::to_string(value) +
                         " and no " + std::to_string(value - 1));
  const auto classes = d.classes();
  if (classes.empty()) fail_at(place, "there is no label but background");
  if (d.ignore && *d.ignore <= classes.back())
    fail_at(place.child("ignore"), "ignore has to be the highest label, and no other's: it is " +
                                       std::to_string(*d.ignore) + ", and there is " +
                                       std::to_string(classes.back()));
}

void read_region_order(Dataset& d, const DocumentPtr& document) {
  const Place place = Place{document, ""}.child("regions_class_order");
  const auto found = document->root.find("regions_class_order");
  if (found == document->root.end())
    fail_at({document, ""},
            "a label is a region of several, and there is no "
            "\"regions_class_order\" that says in which order they are painted");
  d.region_order = integers(*found, place, "regions_class_order");
  if (std::ssize(d.region_order) != d.outputs())
    fail_at(place, "regions_class_order has " + std::to_string(d.region_order.size()) +
                       " numbers for " + std::to_string(d.outputs()) + " regions");
  const auto known = d.classes();
  for (const std::int64_t label : d.region_order)
    if (std::find(known.begin(), known.end(), label) == known.end())
      fail_at(place,
              "regions_class_order has " + std::to_string(label) + ", which no region contains");
}

std::int64_t count_of(const DocumentPtr& document, const char* key) {
  const Json& json = member(document, key);
  if (!json.is_number_integer() || json.get<std::int64_t>() < 1)
    fail_at(Place{document, ""}.child(key), std::string(key) + " is no number above 0");
  return json.get<std::int64_t>();
}

std::string ending_of(const std::string& file) {
  for (const char* ending : {".nii.gz", ".nii"})
    if (file.ends_with(ending)) return ending;
  return fs::path(file).extension().string();
}

std::string decathlon_ending(const DocumentPtr& document) {
  const Json& first = document->root["training"].at(0);
  const auto image = first.is_object() ? first.find("image") : first.end();
  if (image == first.end() || !image->is_string())
    fail_at(Place{document, ""}.child("training").child(std::size_t{0}),
            "a training case has no \"image\"");
  return ending_of(image->get<std::string>());
}

// The first of nnU-Net's readers that knows the ending. Of a .tif this is the pictures' one; a plan
// whose cases turn out to be volumes has Tiff3DIO.
std::string reader_of(const std::string& ending) {
  const std::string small = lower_case(ending);
  if (small == ".png" || small == ".bmp" || small == ".tif") return "NaturalImage2DIO";
  if (small == ".tiff") return "Tiff3DIO";
  return small == ".nii" ? "NibabelIO" : "SimpleITKIO";
}

void read_reader(Dataset& d, const DocumentPtr& document) {
  static const std::vector<std::string> known{
      "NaturalImage2DIO", "SimpleITKIO", "SimpleITKIOWithReorient",
      "Tiff3DIO",         "NibabelIO",   "NibabelIOWithReorient"};
  constexpr const char* key = "overwrite_image_reader_writer";
  d.reader = reader_of(d.ending);
  const auto found = document->root.find(key);
  if (found == document->root.end() || *found == "None") return;
  const Place place = Place{document, ""}.child(key);
  if (!found->is_string() || std::find(known.begin(), known.end(), *found) == known.end()) {
    std::string names;
    for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
    fail_at(place, std::string(key) + " is none of nnU-Net's readers, " + names);
  }
  d.reader = found->get<std::string>();
  d.reader_named = true;
  if (d.reader.starts_with("Nibabel") && !is_nifti_name(d.ending))
    fail_at(place, d.reader + " reads .nii and .nii.gz, and no " + d.ending);
}

}  // namespace

void fail_at(const Place& place, const std::string& message) {
  throw DataError(place.str() + ": " + message);
}

DocumentPtr read_json_file(const fs::path& file) {
  Diagnostics diagnostics;
  const DocumentPtr document = read_document(file.string(), diagnostics);
  if (!diagnostics.ok()) {
    const Diagnostic& first = diagnostics.all().front();
    throw DataError((first.place.document ? first.place.str() : file.string()) + ": " +
                    first.message);
  }
  if (!document->root.is_object()) throw DataError(file.string() + ": is not a JSON object");
  return document;
}

std::int64_t Dataset::outputs() const {
  if (!regions) return std::ssize(classes()) + 1;
  return std::count_if(labels.begin(), labels.end(), [](const Label& label) {
    return label.name != "ignore" && label.name != "background";
  });
}

std::vector<std::int64_t> Dataset::classes() const {
  std::set<std::int64_t> values;
  for (const Label& label : labels)
    if (label.name != "ignore") values.insert(label.values.begin(), label.values.end());
  values.erase(0);
  return {values.begin(), values.end()};
}

Dataset read_dataset(const fs::path& folder) {
  const fs::path file = folder / "dataset.json";
  if (!fs::exists(file))
    throw DataError(file.string() +
                    ": no such file; nnU-Net's recipe reads a data set that has one");
  const DocumentPtr document = read_json_file(file);
  Dataset d;
  d.root = folder;
  d.decathlon = document->root.contains("training") && !document->root.contains("file_ending");
  d.name = name_of(folder, d.decathlon);
  if (d.decathlon) {
    const Json& training = document->root["training"];
    if (!training.is_array() || training.empty())
      fail_at(Place{document, ""}.child("training"), "training is no list of cases");
    d.channels = read_channels(document, "modality");
    read_decathlon_labels(d, document);
    d.training = std::ssize(training);
    d.ending = decathlon_ending(document);
  } else {
    d.channels =
        read_channels(document, document->root.contains("modality") ? "modality" : "channel_names");
    read_labels(d, document);
    d.training = count_of(document, "numTraining");
    const Json& ending = member(document, "file_ending");
    if (!ending.is_string() || !ending.get_ref<const std::string&>().starts_with('.'))
      fail_at(Place{document, ""}.child("file_ending"), "file_ending is not like \".nii.gz\"");
    d.ending = ending.get<std::string>();
  }
  check_labels(d, Place{document, ""}.child("labels"));
  if (d.regions) read_region_order(d, document);
  read_reader(d, document);
  return d;
}

}  // namespace sluice::nnunet
