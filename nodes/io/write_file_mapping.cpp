// write_file_mapping: MONAI's WriteFileMappingd.
#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/checkpoint.h"
#include "engine/state/sample.h"
#include "kernels/files/file_io.h"
#include "nodes/fields.h"
#include "nodes/written_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct WriteFileMapping final : Node {
  struct Params {
    std::vector<std::string> keys{"pred"}, source_keys{"image"};
    std::string mapping_file_path = "mapping.json";
  } p;
  fs::path path;
  Json entries = Json::array();
  std::shared_ptr<const void> shared;

  static Spec spec() {
    return Spec("write_file_mapping",
                "Writes which file was made of which, as JSON, at every epoch's end.")
        .in("sample", "Behind save_image, which leaves the new file's path in its fields.")
        .out("sample", "The same.")
        .param("keys", &Params::keys, "Fields that were saved.")
        .param("source_keys", &Params::source_keys,
               "Fields whose files they were made of; one, or one a key.")
        .per("keys")
        .param("mapping_file_path", &Params::mapping_file_path,
               "A list [{\"input\": ..., \"output\": ...}]; what the file has already stays. A "
               "relative path stands under the run's folder where there is one.")
        .writes({"mapping_file_path"})
        .lane(LaneKind::io)
        .ordered()
        .takes("@keys", Form::any, 0)
        .takes("@source_keys", Form::record);
  }

  void open(const OpenContext& context) override {
    path = fs::absolute(context.out_dir / p.mapping_file_path).lexically_normal();
    shared = share_file(context, path);
  }

  void process(Firing& f) override {
    for (std::size_t i = 0; i < p.keys.size(); ++i) {
      const std::string& source = per_key(p.source_keys, i);
      const std::string &from = file_of(f.in(), source), &to = file_of(f.in(), p.keys[i]);
      if (from == to)
        throw DataError("fields \"" + source + "\" and \"" + p.keys[i] + "\" are one file, " + to +
                        ": put save_image in front");
      entries.push_back({{"input", from}, {"output", to}});
    }
    f.emit_ptr(f.ptr());
  }

  void flush(Flush&) override {
    Json all = Json::array();
    if (fs::exists(path)) {
      const FileBytes bytes = read_file(path);
      const auto* text = reinterpret_cast<const char*>(bytes.data());
      all = Json::parse(text, text + bytes.size(), nullptr, /*allow_exceptions=*/false);
      if (!all.is_array()) throw DataError(path.string() + ": is no list of files");
    }
    for (Json& entry : entries)
      if (std::find(all.begin(), all.end(), entry) == all.end()) all.push_back(std::move(entry));
    const std::string text = all.dump(4) + "\n";
    write_file(path, {{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
    entries = Json::array();
  }

  void save(State& state) const override { state.values["entries"] = entries; }
  void load(const State& state) override { entries = state.values.at("entries"); }
};

const Register<WriteFileMapping> registered;

}  // namespace
}  // namespace sluice
