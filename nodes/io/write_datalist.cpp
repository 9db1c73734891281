// write_datalist: the samples' paths as a decathlon dataset.json, which `decathlon` reads again.
#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/checkpoint.h"
#include "engine/state/sample.h"
#include "kernels/files/file_io.h"
#include "nodes/written_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct WriteDatalist final : Node {
  struct Params {
    std::string output;
    std::vector<std::string> keys{"image", "label"};
    std::string name;
    std::string description;
    Json labels = Json::object();
    Json modality = Json::object();
    std::int64_t validation = 0;
  } p;
  fs::path path;
  Json entries = Json::array();
  std::shared_ptr<const void> shared;

  static Spec spec() {
    return Spec("write_datalist",
                "Writes a dataset.json of the samples' files at every epoch's "
                "end.")
        .in("sample", "Fields whose paths are listed.")
        .param("output", &Params::output,
               "The dataset.json; a relative path stands under the run's folder where there is "
               "one. The files must lie in its folder or below.")
        .required()
        .param("keys", &Params::keys, "Fields to list.")
        .param("name", &Params::name, "The data set's name.")
        .param("description", &Params::description, "One sentence about it.")
        .param("labels", &Params::labels, "{\"0\": \"background\", ...}.")
        .param("modality", &Params::modality, "{\"0\": \"MRI\"}.")
        .param("validation", &Params::validation,
               "The last n samples go to \"validation\", the others to \"training\".")
        .at_least(0)
        .writes({"output"})
        .lane(LaneKind::io)
        .ordered()
        .takes("@keys", Form::record);
  }

  void open(const OpenContext& context) override {
    path = fs::absolute(context.out_dir / p.output).lexically_normal();
    shared = share_file(context, path);
  }

  void process(Firing& f) override {
    Json entry = Json::object();
    for (const auto& key : p.keys) entry[key] = relative(file_of(f.in(), key));
    entries.push_back(std::move(entry));
  }

  void flush(Flush&) override {
    const auto n = static_cast<std::int64_t>(entries.size());
    if (p.validation > n)
      throw DataError(path.string() + ": " + std::to_string(p.validation) +
                      " samples for validation of " + std::to_string(n));
    const auto cut = entries.begin() + (n - p.validation);
    Json document{{"name", p.name},
                  {"description", p.description},
                  {"tensorImageSize", "3D"},
                  {"modality", p.modality},
                  {"labels", p.labels},
                  {"numTraining", n - p.validation},
                  {"numTest", 0},
                  {"training", std::vector<Json>(entries.begin(), cut)}};
    // Without one, `decathlon` may split "training" by its val_frac.
    if (p.validation > 0) document["validation"] = std::vector<Json>(cut, entries.end());
    const std::string text = document.dump(1) + "\n";
    write_file(path, {{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
    entries = Json::array();
  }

  void save(State& state) const override { state.values["entries"] = entries; }
  void load(const State& state) override { entries = state.values.at("entries"); }

 private:
  std::string relative(const std::string& file) const {
    const fs::path below =
        fs::absolute(file).lexically_normal().lexically_relative(path.parent_path());
    if (below.empty() || *below.begin() == "..")
      throw DataError(file + " does not lie under " + path.parent_path().string());
    return "./" + below.string();
  }
};

const Register<WriteDatalist> registered;

}  // namespace
}  // namespace sluice
