// decathlon: the records of a Medical Segmentation Decathlon folder, as its dataset.json lists
// them; MONAI's DecathlonDataset and load_decathlon_datalist.
#include "engine/base/error.h"
#include "nodes/io/io.h"

namespace sluice {
namespace {

struct Decathlon final : ListSource<Decathlon> {
  struct Params : RecordParams<Fold> {
    std::string root;
    double val_frac = 0;
    Params() { seed = 0; }  // as MONAI's
  } p;

  static Spec spec() {
    Spec s("decathlon", "Emits the records of a decathlon folder: paths, nothing loaded.");
    s.out("sample", "Fields \"image\" and, where the list has it, \"label\", with paths only.")
        .param("root", &Params::root, "Folder that holds dataset.json.")
        .required()
        .param("split", &Params::split, "Which list of dataset.json, or which part of a fold.")
        .choices({"training", "validation", "test"});
    add_order_params<Params>(s)
        .param("val_frac", &Params::val_frac,
               "Share of \"training\" held out for \"validation\" where dataset.json has no such "
               "list; the split is MONAI's for the same seed.")
        .range(0, 1);
    return add_fold_params<Params>(s)
        .param("limit", &Params::limit, "Only the first n records.")
        .at_least(1)
        .lane(LaneKind::io)
        .source()
        .gives("image", Form::record)
        .gives("label", Form::record)
        .unless("split", "test");
  }

  void open(const OpenContext&) override {
    if (p.fold >= 0 && p.split != "test") {
      if (p.val_frac > 0) throw Error(Exit::usage, "give either fold or val_frac");
      list = decathlon_list(p.root, "training", 0, 0);  // all of it, whatever else there is
      take_fold(list, p);
    } else {
      list = decathlon_list(p.root, p.split, p.val_frac, static_cast<std::uint32_t>(p.seed));
    }
    limit_list(list, p.limit);
  }
};

const Register<Decathlon> registered;

}  // namespace
}  // namespace sluice
