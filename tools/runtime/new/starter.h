// Starter graphs as text with comments: what `sluice new` writes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/run/registry.h"
#include "tools/runtime/new/recipe.h"

namespace sluice {

std::string segmentation_graph(const Survey& survey, const Recipe& recipe);

// A network and what was done to its images, as a run's graph.json has them.
struct Trained {
  std::string folder;            // the run's
  std::string name;              // the network's in "models"
  Json network;                  // the entry of "models" without "weights"
  std::vector<Json> transforms;  // nodes between load_image and the network, for the image alone
  std::string image = "image";   // the field that the network takes
  std::vector<std::string> keys{"image"};  // what load_image reads
  Json loading = Json::object();           // and how, where that is not the default
  std::int64_t channels = 0;               // of these together; 0: not known
  Json window;                             // the sliding_window's parameters, with roi_size
  // The loss node whose sigmoid makes the outputs regions that may overlap; "": one class a voxel.
  std::string regions_by;
};
// `net`: which network; "": the first that a sliding window shows whole volumes, else the first
// that a model node reads. DataError where the folder holds no run that a prediction can be made
// of.
Trained read_trained(const std::filesystem::path& folder, const Catalogue& catalogue,
                     const std::string& net = "");

// `trained` is null where there are no weights yet.
std::string prediction_graph(const Survey& survey, const Recipe& recipe, const Trained* trained);

// For images of any folder, `vars.images`: of a package (tools/runtime/package.h).
std::string package_graph(const Trained& trained, const std::string& name);

// starter_parts.cpp: what both graphs are put together from.
std::string json_text(const std::string& text);  // as JSON
std::string list_of(const Shape3& numbers);      // "[64, 64, 64]"
std::string list_of(const std::vector<std::string>& texts);
std::string text_of(const Json& value);  // on one line, with blanks behind , and :
// The members of an object without its braces, in lines of at most 100 columns; `used` columns of
// the first line are taken.
std::string members_of(const Json& object, const std::string& indent, std::size_t used);
std::vector<std::string> image_keys(const Survey& survey);
// What metrics call the classes, background first; empty where the labels' names do not say it of
// each, or two have one name.
std::vector<std::string> names_of_classes(const std::map<std::int64_t, std::string>& labels,
                                          std::int64_t classes);
// The source node's text after its name: "{ ... }".
std::string source_node(const Survey& survey, const std::string& split, bool shuffle,
                        const std::vector<std::string>& keys,
                        const std::vector<std::string>& more = {});
std::string network_text(const Survey& survey, const Recipe& recipe, bool weights);
std::string strides_rule(const Recipe& recipe);

}  // namespace sluice
