#include "tools/nnunet/fingerprint.h"

#include <cmath>
#include <utility>

namespace sluice::nnunet {
namespace {

constexpr const char* intensity_key = "foreground_intensity_properties_per_channel";

constexpr std::pair<const char*, double Intensities::*> members[] = {
    {"max", &Intensities::max},
    {"mean", &Intensities::mean},
    {"median", &Intensities::median},
    {"min", &Intensities::min},
    {"percentile_00_5", &Intensities::percentile_00_5},
    {"percentile_99_5", &Intensities::percentile_99_5},
    {"std", &Intensities::std},
};

const Json& member(const DocumentPtr& document, const char* key) {
  const auto found = document->root.find(key);
  if (found == document->root.end())
    fail_at({document, ""}, std::string("has no \"") + key + "\", which nnU-Net's fingerprint has");
  return *found;
}

std::vector<std::array<double, 3>> triples(const DocumentPtr& document, const char* key,
                                           double least, const char* rule) {
  const Json& json = member(document, key);
  const Place place = Place{document, ""}.child(key);
  if (!json.is_array() || json.empty()) fail_at(place, std::string(key) + " is no list of cases");
  std::vector<std::array<double, 3>> all;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const Place at = place.child(i);
    if (!json[i].is_array() || json[i].size() != 3)
      fail_at(at, std::string(key) + " wants three numbers (z, y, x) a case");
    std::array<double, 3> triple{};
    for (std::size_t a = 0; a < 3; ++a) {
      const Json& value = json[i][a];
      if (!value.is_number() || !std::isfinite(value.get<double>()) ||
          value.get<double>() < least || value.get<double>() == 0)
        fail_at(at.child(a), rule);
      triple[a] = value.get<double>();
    }
    all.push_back(triple);
  }
  return all;
}

std::vector<Intensities> read_intensities(const DocumentPtr& document, const Dataset& dataset) {
  const Json& json = member(document, intensity_key);
  const Place place = Place{document, ""}.child(intensity_key);
  if (!json.is_object() || json.size() != dataset.channels.size())
    fail_at(place, "has intensities of " + std::to_string(json.size()) +
                       " channels; dataset.json names " + std::to_string(dataset.channels.size()));
  std::vector<Intensities> all;
  for (std::size_t c = 0; c < json.size(); ++c) {
    const auto channel = json.find(std::to_string(c));
    if (channel == json.end() || !channel->is_object())
      fail_at(place, "has no channel " + std::to_string(c));
    Intensities of;
    for (const auto& [name, value] : members) {
      const auto found = channel->find(name);
      if (found == channel->end() || !found->is_number())
        fail_at(place.child(std::to_string(c)), std::string("has no number \"") + name +
                                                    "\": no case has foreground, or the file is "
                                                    "not nnU-Net's");
      of.*value = found->get<double>();
    }
    all.push_back(of);
  }
  return all;
}

Json list_of(const std::vector<std::array<double, 3>>& triples, bool whole) {
  Json all = Json::array();
  for (const auto& t : triples) {
    Json one = Json::array();
    for (const double v : t) whole ? one.push_back(std::llround(v)) : one.push_back(v);
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

Fingerprint read_fingerprint(const std::filesystem::path& file, const Dataset& dataset) {
  const DocumentPtr document = read_json_file(file);
  Fingerprint f;
  f.spacings = triples(document, "spacings", 0, "a spacing has to be above 0 mm");
  f.shapes = triples(document, "shapes_after_crop", 1, "an extent has to be 1 voxel or more");
  if (f.shapes.size() != f.spacings.size())
    fail_at(Place{document, ""}.child("shapes_after_crop"),
            "has " + std::to_string(f.shapes.size()) + " shapes for " +
                std::to_string(f.spacings.size()) + " spacings");
  f.intensities = read_intensities(document, dataset);
  const Json& size = member(document, "median_relative_size_after_cropping");
  if (!size.is_number() || !(size.get<double>() > 0) || size.get<double>() > 1)
    fail_at(Place{document, ""}.child("median_relative_size_after_cropping"),
            "the share of voxels that the crop leaves lies above 0 and up to 1");
  f.relative_size = size.get<double>();
  return f;
}

Json intensities_json(const Fingerprint& fingerprint) {
  Json all = Json::object();
  for (std::size_t c = 0; c < fingerprint.intensities.size(); ++c)
    for (const auto& [name, value] : members)
      all[std::to_string(c)][name] = fingerprint.intensities[c].*value;
  return all;
}

Json fingerprint_json(const Fingerprint& fingerprint) {
  return {{intensity_key, intensities_json(fingerprint)},
          {"median_relative_size_after_cropping", fingerprint.relative_size},
          {"shapes_after_crop", list_of(fingerprint.shapes, true)},
          {"spacings", list_of(fingerprint.spacings, false)}};
}

}  // namespace sluice::nnunet
