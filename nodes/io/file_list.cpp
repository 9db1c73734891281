// file_list: records from a list in the graph, or from the files of a folder.
#include "engine/base/error.h"
#include "nodes/io/io.h"

namespace sluice {
namespace {

struct FileList final : ListSource<FileList> {
  struct Params : RecordParams<> {
    Json items;
    std::string root;
    std::string pattern;
    std::string key = "image";
  } p;

  static Spec spec() {
    Spec s("file_list", "Emits a record for each entry of a list or each file of a folder.");
    s.out("sample", "One field for each key, with its path only.")
        .param("items", &Params::items,
               "[{\"image\": path, \"label\": path}, ...]; relative paths stand under root.")
        .param("root", &Params::root, "Folder of the files; empty: the working folder.")
        .param("pattern", &Params::pattern,
               "Glob for file names in root, such as \"*.nii.gz\"; sorted by name.")
        .param("key", &Params::key, "The field that files found by pattern become.");
    return add_record_params<Params>(s)
        .one_of("items", "pattern")
        .lane(LaneKind::io)
        .gives("@items{}", Form::record)
        .gives("@key", Form::record)
        .when("pattern");
  }

  void open(const OpenContext& context) override {
    if (p.items.is_null() == p.pattern.empty())
      throw Error(Exit::usage, context.node + ": give either items or pattern");
    list = p.pattern.empty() ? list_of_items(p.items, p.root, context.node + ".items")
                             : list_of_files(p.root.empty() ? "." : p.root, p.pattern, p.key);
    limit_list(list, p.limit);
  }
};

const Register<FileList> registered;

}  // namespace
}  // namespace sluice
