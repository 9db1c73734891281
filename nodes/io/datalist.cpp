// datalist: the records of a list in a JSON file; MONAI's load_decathlon_datalist, and plain lists.
#include <ATen/ops/tensor.h>

#include "nodes/io/part_params.h"

namespace sluice {
namespace {

struct Datalist final : Node {
  struct Params : Part {
    std::string file, list_key, root;
    std::vector<std::string> keys{"image", "label"};
    std::vector<std::string> values;
    bool shuffle = false, by_shard = false;
    Params() {}  // of an aggregate with a base g++ 12 warns falsely
  } p;

  static Spec spec() {
    Spec s("datalist",
           "Emits a record for each entry of a list in a JSON file: paths, and numbers.");
    s.out("sample",
          "A field for each of the entries asked for: its path, or its number [] or numbers [N]. "
          "Of several files the further ones are key#1, key#2, ..., which load_image joins.")
        .param("file", &Params::file, "The JSON file.")
        .required()
        .param("list_key", &Params::list_key,
               "The list in it: \"training\"; empty: the file is the list.")
        .param("root", &Params::root, "Folder of relative paths; empty: the JSON file's.")
        .param("keys", &Params::keys,
               "Entries with paths; a text in the list's place is \"image\".")
        .param("values", &Params::values,
               "Entries with numbers: int64 where every sample has whole ones, else float32.");
    return add_part_params<Params>(s)
        .lane(LaneKind::io)
        .source()
        .gives("@keys", Form::record)
        .gives("@values", Form::any);
  }

  void open(const OpenContext& context) override {
    const std::filesystem::path file = p.file;
    const JsonList all = list_of_json(
        file, p.list_key, p.root.empty() ? file.parent_path() : std::filesystem::path(p.root),
        p.keys, p.values);
    const auto items = part_of(all.items.size(), p, context.node);
    list_ = chosen(all.items, items);
    for (std::size_t v = 0; v < p.values.size(); ++v) {
      bool whole = true;
      for (const auto& row : all.values)
        for (const double number : row[v])
          whole = whole && number == std::floor(number) && std::abs(number) < 9e15;
      types_.push_back(whole ? at::kLong : at::kFloat);
    }
    for (const auto& row : chosen(all.values, items)) {
      values_.emplace_back();
      for (std::size_t v = 0; v < p.values.size(); ++v) {
        at::Tensor t = at::tensor(row[v]).to(types_[v]);
        values_.back().push_back(row[v].size() == 1 ? t.squeeze(0) : t);
      }
    }
  }

  void process(Firing& f) override {
    emit_in_order(f, list_.size(), p.shuffle, [this](std::uint64_t i) { return item_record(i); });
  }

  SamplePtr item_record(std::uint64_t i) const override {
    Sample sample = record_of(list_.at(i));
    for (std::size_t v = 0; v < p.values.size(); ++v)
      sample.set(p.values[v], Field(values_[i][v], std::make_shared<const Meta>()));
    return std::make_shared<const Sample>(std::move(sample));
  }

  std::optional<std::uint64_t> epoch_size() const override { return list_.size(); }

 private:
  DataList list_;
  std::vector<at::ScalarType> types_;
  std::vector<std::vector<at::Tensor>> values_;
};

const Register<Datalist> registered;

}  // namespace
}  // namespace sluice
