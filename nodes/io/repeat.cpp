// repeat: the same files many times, each time as an item of its own. Random transforms after it
// turn one scan into a data set; benchmarks read one file as often as they like.
#include <cstdio>

#include "nodes/io/io.h"

namespace sluice {
namespace {

struct Repeat final : Node {
  struct Params {
    Json files;
    std::int64_t times = 1;
    std::string name = "sample";
  } p;
  DataItem item;

  static Spec spec() {
    return Spec("repeat", "Emits the same files several times: name_000, name_001, ...")
        .out("sample", "One field for each key, with its path only.")
        .param("files", &Params::files, "{\"image\": path, \"label\": path}.")
        .required()
        .param("times", &Params::times, "Samples in an epoch.")
        .at_least(1)
        .param("name", &Params::name, "What the samples are called, before the number.")
        .lane(LaneKind::io)
        .source()
        .gives("@files{}", Form::record);
  }

  void open(const OpenContext& context) override {
    item = list_of_items(Json::array({p.files}), "", context.node + ".files").front();
  }

  void process(Firing& f) override {
    const auto i = f.stamp().index;
    if (i >= static_cast<std::uint64_t>(p.times)) return f.end_epoch();
    f.emit_ptr(item_record(i), 0, i);
  }

  SamplePtr item_record(std::uint64_t i) const override {
    char number[24];
    std::snprintf(number, sizeof number, "_%03llu", static_cast<unsigned long long>(i));
    Sample sample = record_of(item);
    sample.name = p.name + number;
    return std::make_shared<const Sample>(std::move(sample));
  }

  std::optional<std::uint64_t> epoch_size() const override {
    return static_cast<std::uint64_t>(p.times);
  }
};

const Register<Repeat> registered;

}  // namespace
}  // namespace sluice
