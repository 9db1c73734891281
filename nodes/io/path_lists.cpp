// path_lists: records of files that belong together by their position in sorted lists.
#include "nodes/io/part_params.h"

namespace sluice {
namespace {

struct PathLists final : ListSource<PathLists> {
  struct Params : Part {
    Json lists;
    bool shuffle = false, by_shard = false;
    Params() {}  // of an aggregate with a base g++ 12 warns falsely
  } p;

  static Spec spec() {
    Spec s("path_lists",
           "Emits a record for each position in sorted lists of files, as Python's "
           "zip(sorted(glob(images)), sorted(glob(labels))) pairs them.");
    s.out("sample", "One field for each list, with its path only.")
        .param("lists", &Params::lists,
               "{\"image\": \"images/*.nii.gz\", \"label\": {\"glob\": \"images/*.nii.gz\", "
               "\"replace\": [[\"images\", \"labels\"]]}}: a pattern a field, or with \"prefix\" "
               "and \"replace\", or {\"csv\": file, \"column\": name}. The shortest list counts.")
        .required();
    return add_part_params<Params>(s).lane(LaneKind::io).source().gives("@lists{}", Form::record);
  }

  void open(const OpenContext& context) override {
    const DataList all = list_side_by_side(p.lists, context.node + ".lists");
    list = chosen(all, part_of(all.size(), p, context.node));
  }
};

const Register<PathLists> registered;

}  // namespace
}  // namespace sluice
