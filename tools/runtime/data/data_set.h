// What belongs to a data set: its cases, which files each has and what for, which labels are
// declared; from a folder's layout, or from the sources of a graph.
//
// Invariant: nothing is opened but lists (dataset.json), and nothing about a list or a case ends
// the look: it becomes a Finding, and the rest is looked at all the same.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/session/options.h"

namespace sluice {

// Something that is wrong: of which kind (data_kinds()), with which file, and what.
struct Finding {
  std::string kind, file, text;
};

struct DataKind {
  const char* name;
  bool fault;  // else a warning: training works, but is it meant?
  const char* text;
};
const std::vector<DataKind>& data_kinds();  // in the order in which they are printed

struct DataCase {
  std::string name, split;                                 // "training"
  std::vector<std::pair<std::string, std::string>> files;  // key -> path
};

struct DataSet {
  std::string layout;          // as a reader knows it: "Medical Segmentation Decathlon"
  std::filesystem::path root;  // empty where a graph names files anywhere
  std::vector<DataCase> cases;
  std::set<std::string> label_keys{"label"};
  bool labelled = true;                        // every case of "training" has a label
  std::map<std::int64_t, std::string> labels;  // declared; empty: nothing is
  std::string labels_from;                     // the file or node that declares them
  std::vector<Finding> findings;

  void find(std::string kind, std::string file, std::string text) {
    findings.push_back({std::move(kind), std::move(file), std::move(text)});
  }
  bool is_label(const std::string& key) const { return label_keys.count(key) != 0; }
};

// DataError where the folder has no layout that is known.
DataSet data_set_of_folder(const std::filesystem::path& folder);
// Error (usage) where the graph is not right or has no source of files.
DataSet data_set_of_graph(const Options& options);

}  // namespace sluice
