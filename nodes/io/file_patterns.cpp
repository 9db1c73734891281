// file_patterns: records of files that belong together by their names.
#include "nodes/io/io.h"

namespace sluice {
namespace {

struct FilePatterns final : ListSource<FilePatterns> {
  struct Params : RecordParams<Fold> {
    std::string root;
    Json patterns;
  } p;

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
    return add_record_params<Params>(add_split_params<Params>(s))
        .lane(LaneKind::io)
        .gives("@patterns{}", Form::record);
  }

  void open(const OpenContext&) override {
    list = list_of_patterns(p.root, p.patterns);
    take_fold(list, p);
    limit_list(list, p.limit);
  }
};

const Register<FilePatterns> registered;

}  // namespace
}  // namespace sluice
