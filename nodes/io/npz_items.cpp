// npz_items: MONAI's NPZDictItemDataset. The rows of arrays of one .npz file, held in memory.
#include "engine/state/zip_file.h"
#include "kernels/files/file_io.h"
#include "kernels/files/npy.h"
#include "nodes/fields.h"
#include "nodes/io/part_params.h"

namespace sluice {
namespace {

struct NpzItems final : Node {
  struct Params : RecordParams<Part> {
    std::string file;
    std::vector<std::string> keys{"image", "label"};
    std::optional<std::vector<std::string>> arrays;
    std::vector<Json> channel_dim{Json()};
    Params() {}  // of an aggregate with a base g++ 12 warns falsely
  } p;

  static Spec spec() {
    Spec s("npz_items", "Emits the rows of arrays of an .npz file: item i has each array's.");
    s.out("sample")
        .param("file", &Params::file, "The file; it is held in memory as a whole.")
        .required()
        .param("keys", &Params::keys, "Fields for the rows, in the arrays' types.")
        .length(1)
        .param("arrays", &Params::arrays,
               "The arrays' names in the file, one a key, all of one first axis; null: as the "
               "keys.")
        .length_of("keys")
        .param("channel_dim", &Params::channel_dim,
               "Which axis of a row has the channels, and comes first then; \"no_channel\": none, "
               "and one is added; null: rows stay as they are; one, or one a key.")
        .per("keys");
    return add_part_params<Params>(s)
        .param("limit", &Params::limit, "Only the first n items.")
        .at_least(1)
        .source()
        .gives("@keys", Form::image);
  }

  void open(const OpenContext& context) override {
    const FileBytes bytes = read_file(p.file);
    const ZipFile zip({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, p.file);
    for (std::size_t i = 0; i < p.keys.size(); ++i) {
      const std::string name = (p.arrays ? (*p.arrays)[i] : p.keys[i]) + ".npy";
      if (!zip.has(name)) throw DataError(p.file + ": has no array \"" + name + "\"" + names(zip));
      const std::string array = zip.unpacked(name);
      at::Tensor t = parse_npy({reinterpret_cast<const std::uint8_t*>(array.data()), array.size()},
                               p.file + "/" + name);
      if (t.dim() == 0 || t.size(0) == 0)
        throw DataError(p.file + ": the array \"" + name + "\" has no rows");
      if (!arrays_.empty() && t.size(0) != arrays_[0].size(0))
        throw DataError(p.file + ": the array \"" + name + "\" has " + std::to_string(t.size(0)) +
                        " rows, the first " + std::to_string(arrays_[0].size(0)));
      arrays_.push_back(channels_first(std::move(t), per_key(p.channel_dim, i), name));
    }
    rows_ = part_of(static_cast<std::size_t>(arrays_[0].size(0)), p, context.node);
    if (p.limit) rows_.resize(std::min(rows_.size(), static_cast<std::size_t>(*p.limit)));
  }

  void process(Firing& f) override {
    emit_in_order(f, rows_.size(), p.shuffle, [this](std::uint64_t i) { return item_record(i); });
  }

  SamplePtr item_record(std::uint64_t item) const override {
    const std::size_t i = rows_.at(item);
    auto meta = std::make_shared<Meta>();
    meta->path = p.file;  // a cache asks it whether its entries are old
    Sample sample;
    sample.name = std::filesystem::path(p.file).stem().string() + "_" + std::to_string(i);
    for (std::size_t k = 0; k < p.keys.size(); ++k)
      sample.set(p.keys[k], Field(arrays_[k][static_cast<std::int64_t>(i)], meta));
    return std::make_shared<const Sample>(std::move(sample));
  }

  std::optional<std::uint64_t> epoch_size() const override { return rows_.size(); }

 private:
  // [N, ...] with the rows' channels first.
  at::Tensor channels_first(at::Tensor t, const Json& dim, const std::string& name) const {
    if (dim.is_null()) return t;
    if (dim == "no_channel") return t.unsqueeze(1);
    if (!dim.is_number_integer())
      throw Error(Exit::usage, "channel_dim is an axis, \"no_channel\" or null, not " + dim.dump());
    return sluice::channels_first(t, dim.get<std::int64_t>(), 1,
                                  p.file + ": a row of \"" + name + "\"");
  }

  static std::string names(const ZipFile& zip) {
    std::string all;
    for (const auto& [name, entry] : zip.entries())
      all += (all.empty() ? "; it has " : ", ") + name;
    return all;
  }

  std::vector<at::Tensor> arrays_;
  std::vector<std::size_t> rows_;  // that are emitted
};

const Register<NpzItems> registered;

}  // namespace
}  // namespace sluice
