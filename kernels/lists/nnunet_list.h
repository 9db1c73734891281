// Lists of samples from an nnU-Net (version 2) raw data set: dataset.json with channel_names and
// file_ending, imagesTr/CASE_0000.nii.gz (one file a channel), labelsTr/CASE.nii.gz, imagesTs; or
// "dataset": {CASE: {"images": [path, ...], "label": path}} in place of imagesTr and labelsTr. A
// picture's three or four colours may be in one file, CASE_0000.png. A decathlon folder is one too,
// as it lies: its "training" and "test" lists, channels in one file.
//
// Invariant: as data_list.h's; cases are in the order of their names, and a fold is nnU-Net's own:
// splits_final.json where it stands beside dataset.json, else its five-fold split by seed 12345.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/lists/data_list.h"

namespace sluice {

struct NnunetFolder {
  std::filesystem::path root;
  std::vector<std::string> channels;  // "CT"; by number
  std::string ending;                 // ".nii.gz"; the decathlon's: of its first image
  nlohmann::ordered_json labels;      // {"background": 0, "liver": 1}
  bool decathlon = false;
  bool whole = false;  // a case's one file has all channels: the decathlon's, pictures' colours
  nlohmann::ordered_json dataset = nullptr;  // null: the files are in imagesTr and labelsTr
  std::optional<std::int64_t> cases;         // of training: numTraining, which only nnU-Net's has
  std::size_t images() const { return whole ? 1 : channels.size(); }  // files of a case
};

// Whether a dataset.json has nnU-Net's members (channel_names, or modality in its place), and no
// "training", which makes it the decathlon's.
bool is_nnunet(const nlohmann::ordered_json& document);
NnunetFolder read_nnunet_folder(const std::filesystem::path& root);

// A case's files: one for each channel, or of all, and for training the label's. Empty where the
// entry of "dataset" is not as nnunet_entry says.
std::vector<std::filesystem::path> nnunet_files(const NnunetFolder& folder, const std::string& name,
                                                bool training);
inline constexpr const char* nnunet_entry =
    "{\"images\": [a path for each channel], \"label\": path}";

// How predictions of cases of this ending are saved: .mha and .nii as they are, else .nii.gz.
std::string prediction_ending(const std::string& ending);

// How many folds splits_final.json beside dataset.json lists; nullopt: there is none.
std::optional<std::int64_t> listed_folds(const std::filesystem::path& root);

struct NnunetSplit {
  std::string split = "training";  // "training", "validation" or "test" (imagesTs, no labels)
  std::int64_t fold = 0;           // which of the folds is the validation; below 0: nnU-Net's
                                   // "all", which trains and validates on all cases
  std::int64_t folds = 5;
};

// `keys`: the field of each channel's file, or of the one that has all. DataError where the cases
// of training are not as many as numTraining says: without the one that is missing each fold would
// have others.
DataList nnunet_list(const NnunetFolder& folder, const NnunetSplit& which,
                     const std::vector<std::string>& keys, const std::string& label_key);

// Adds the field `key`: what another network predicted of each case of files with this ending, one
// file anywhere below `predictions` (the validations of its folds' runs), named CASE with the
// prediction_ending, or with the ending itself. DataError: none, or several.
void add_predictions(DataList& list, const std::string& ending,
                     const std::filesystem::path& predictions, const std::string& key);

}  // namespace sluice
