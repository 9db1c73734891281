// file_patterns: records of files that belong together by their names.
#include "nodes/io/io.h"

namespace sluice {
namespace {

struct FilePatterns final : Node {
  struct Params {
    std::string root;
    Json patterns;
    std::string split = "training";
    std::int64_t fold = -1, folds = 5, seed = 12345;
    bool shuffle = false;
    std::optional<std::int64_t> limit;
  } p;
  DataList list;

  static Spec spec() {
    return Spec("file_patterns",
                "Emits a record for each set of files whose names fit one pattern a field.")
        .out("sample", "One field for each pattern, with its path only.")
        .param("root", &Params::root, "Folder that the patterns are relative to.")
        .required()
        .param("patterns", &Params::patterns,
               "{\"image\": \"*/t1.nii.gz\", \"label\": \"*/seg.nii.gz\"}: files whose stars stand "
               "for the same text belong together, and the text is their name. One that ends with "
               "/ means folders, of DICOM series.")
        .required()
        .param("split", &Params::split, "Which part of a fold.")
        .choices({"training", "validation"})
        .param("fold", &Params::fold, "Which of the folds is the validation; -1: all.")
        .at_least(-1)
        .param("folds", &Params::folds,
               "Of scikit-learn's KFold(folds, shuffle=True, random_state=seed).")
        .at_least(2)
        .param("seed", &Params::seed, "Seed of the folds; not of the run.")
        .range(0, 4294967295.0)
        .param("shuffle", &Params::shuffle, "A new order in every epoch.")
        .param("limit", &Params::limit, "Only the first n records.")
        .at_least(1)
        .lane(LaneKind::io)
        .source()
        .gives("@patterns{}", Form::record);
  }

  void open(const OpenContext&) override {
    list = list_of_patterns(p.root, p.patterns);
    take_fold(list, {p.split, p.fold, p.folds, static_cast<std::uint32_t>(p.seed)});
    limit_list(list, p.limit);
  }

  void process(Firing& f) override { emit_listed(f, list, p.shuffle); }

  SamplePtr item_record(std::uint64_t item) const override { return record_at(list, item); }
  std::optional<std::uint64_t> epoch_size() const override { return list.size(); }
};

const Register<FilePatterns> registered;

}  // namespace
}  // namespace sluice
