// nnunet: the records of an nnU-Net (version 2) raw data set and of its folds.
#include "engine/base/shell_word.h"
#include "kernels/lists/nnunet_list.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/file_ending.h"
#include "kernels/files/nifti_file.h"
#include "kernels/files/volume.h"
#include "nodes/io/io.h"

namespace sluice {
namespace {

struct Nnunet final : ListSource<Nnunet> {
  struct Params : RecordParams<> {
    std::string root;
    std::string split = "training";
    std::vector<std::string> keys{"image"};
    std::string label_key = "label";
    std::int64_t fold = 0, folds = 5;
    std::string previous, previous_key = "previous";
    std::optional<std::int64_t> spatial_dims;
  } p;

  static Spec spec() {
    Spec s("nnunet", "Emits the records of an nnU-Net data set: paths, nothing loaded.");
    s.out("sample", "A field for each channel's file and one for the label, with paths only.")
        .param("root", &Params::root,
               "Folder with dataset.json (channel_names or modality, file_ending), imagesTr, "
               "labelsTr, or a \"dataset\" in dataset.json that lists the files, with $VARIABLES "
               "of the environment; or the decathlon's, as it lies.")
        .required()
        .param("split", &Params::split, "test: imagesTs, without labels.")
        .choices({"training", "validation", "test"})
        .param(
            "keys", &Params::keys,
            "The fields of channels 0000, 0001, ..., of which concat_items makes one image; of one "
            "file of all channels (the decathlon's, a picture's three or four colours) one field.")
        .param("label_key", &Params::label_key, "The field of the label.")
        .param("fold", &Params::fold,
               "Which fold is the validation: of splits_final.json where it stands beside "
               "dataset.json, else of nnU-Net's own split. -1: nnU-Net's \"all\", which trains and "
               "validates on all cases.")
        .at_least(-1)
        .param("folds", &Params::folds, "How many there are without splits_final.json.")
        .at_least(2);
    return add_record_params<Params>(s)
        .param("previous", &Params::previous,
               "A cascade's stage before: a folder in which, at any depth, each case's predicted "
               "labels stand once (the validations of all folds' runs): CASE.nii.gz, of cases in "
               ".nii or .mha with that ending, or named as its label. Empty: none.")
        .param("previous_key", &Params::previous_key, "The field of these labels.")
        .param("spatial_dims", &Params::spatial_dims,
               "3: refuses a data set whose cases have one slice each, which no network of volumes "
               "can learn from. null: takes any.")
        .range(2, 3)
        .lane(LaneKind::io)
        .gives("@keys", Form::record)
        .gives("@label_key", Form::record)
        .unless("split", "test")
        .gives("@previous_key", Form::record)
        .when("previous");
  }

  void open(const OpenContext&) override {
    const NnunetFolder folder = read_nnunet_folder(p.root);
    list = nnunet_list(folder, {p.split, p.fold, p.folds}, p.keys, p.label_key);
    if (p.spatial_dims == 3 && p.split != "test")
      must_have_volumes(nnunet_list(folder, {"training", -1, p.folds}, p.keys, p.label_key));
    limit_list(list, p.limit);
    if (!p.previous.empty()) add_predictions(list, folder.ending, p.previous, p.previous_key);
  }

  // One volume among all folds is enough, as for nnU-Net, which plans by the median case.
  void must_have_volumes(const DataList& all) const {
    std::string extents;
    for (const DataItem& item : all) {
      const auto shape = extents_of(item.files.front().second);
      if (shape.size() == 3 && *std::min_element(shape.begin(), shape.end()) > 1) return;
      if (extents.empty())
        for (const std::int64_t n : shape)
          extents += (extents.empty() ? "" : " x ") + std::to_string(n);
    }
    if (all.empty()) return;
    throw DataError(all.front().files.front().second + " is " + extents +
                    ", and no case has more than one slice: a graph with 3 spatial dimensions "
                    "needs volumes; `sluice new segmentation " +
                    shell_word(p.root) + " --recipe nnunet` plans 2d for these");
  }

  static std::vector<std::int64_t> extents_of(const std::string& file) {
    if (is_nifti_name(file)) {  // without its voxels
      const NiftiHeader h = read_nifti_header(file);
      return {h.dim.begin(), h.dim.begin() + h.spatial_rank()};
    }
    return read_volume(file).data.sizes().slice(1).vec();
  }
};

const Register<Nnunet> registered;

}  // namespace
}  // namespace sluice
