// file_patterns: records of files that belong together by their names.
#include "nodes/io/io.h"

namespace sluice {
namespace {

struct FilePatterns final : Node {
  struct Params : Fold {
    std::string root;
    Json patterns;
    bool shuffle = false, by_shard = false;
    std::optional<std::int64_t> limit;
  } p;
  DataList list;

  static Spec spec() {
    Spec s("file_patterns",
           "Emits a record for each set of files whose names fit one pattern a field.");
    s.out("sample", "One field for each pattern, with its path only.")
        .param("root", &Params::root, "Folder that the patterns are relative to.")
        .required()
        .param("patterns", &Params::patterns,
               "{\"image\": \"*/t1.nii.gz\", \"label\": \"*/seg.nii.gz\"}: files whose stars stand "
               "for the same text belong together, and the text is their name. One that ends with "
               "/ means folders, of DICOM series.")
        .required();
    return add_split_params<Params>(s)
        .param("shuffle", &Params::shuffle, "A new order in every epoch.")
        .param("by_shard", &Params::by_shard, by_shard_doc)
        .param("limit", &Params::limit, "Only the first n records.")
        .at_least(1)
        .lane(LaneKind::io)
        .source()
        .gives("@patterns{}", Form::record);
  }

  void open(const OpenContext&) override {
    list = list_of_patterns(p.root, p.patterns);
    take_fold(list, p);
    limit_list(list, p.limit);
  }

  void process(Firing& f) override { emit_listed(f, list, p.shuffle); }

  SamplePtr item_record(std::uint64_t item) const override { return record_at(list, item); }
  std::optional<std::uint64_t> epoch_size() const override { return list.size(); }
};

const Register<FilePatterns> registered;

}  // namespace
}  // namespace sluice
