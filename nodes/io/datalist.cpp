// datalist: the records of a list in a JSON file; MONAI's load_decathlon_datalist, and plain lists.
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"
#include "engine/state/list_field.h"
#include "nodes/io/part_params.h"

namespace sluice {
namespace {

struct Datalist final : Node {
  struct Params : Part {
    std::string file, list_key, root, split = "training";
    std::vector<std::string> keys{"image", "label"};
    std::vector<std::string> values;
    std::int64_t fold = -1;
    bool allow_missing_keys = false, shuffle = false, by_shard = false;
    Params() {}  // of an aggregate with a base g++ 12 warns falsely
  } p;

  static Spec spec() {
    Spec s("datalist",
           "Emits a record for each entry of a list in a JSON file: paths, and numbers.");
    s.out("sample",
          "A field for each of the entries asked for: its path, its number [], or its numbers "
          "[N] or [N, K], of which a batch fills shorter lists up with -1. Of several files the "
          "further ones are key#1, key#2, ..., which load_image joins.")
        .param("file", &Params::file, "The JSON file.")
        .required()
        .param("list_key", &Params::list_key,
               "The list in it: \"training\"; empty: the file is the list.")
        .param("root", &Params::root, "Folder of relative paths; empty: the JSON file's.")
        .param("keys", &Params::keys,
               "Entries with paths; a text in the list's place is \"image\".")
        .param("values", &Params::values,
               "Entries with numbers: int64 where every sample has whole ones, else float32; "
               "lists of lists, such as boxes, are float32.")
        .param("allow_missing_keys", &Params::allow_missing_keys,
               "Leave out what an entry lacks of keys and values instead of failing.")
        .param("fold", &Params::fold,
               "Entries whose own \"fold\" this is are the validation, the others for training "
               "(Auto3DSeg's datafold_read); -1: all are meant.")
        .at_least(-1)
        .param("split", &Params::split, "Which part of a fold.")
        .choices({"training", "validation"});
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
        p.keys, p.values, p.allow_missing_keys);
    std::vector<std::size_t> items = items_of_fold(all.folds, {p.split, p.fold}, p.file);
    items = chosen(items, part_of(items.size(), p, context.node));
    list_ = chosen(all.items, items);
    for (std::size_t v = 0; v < p.values.size(); ++v) fields_.push_back(fields(all, v, items));
  }

  void process(Firing& f) override {
    emit_in_order(f, list_.size(), p.shuffle, [this](std::uint64_t i) { return item_record(i); });
  }

  SamplePtr item_record(std::uint64_t i) const override {
    Sample sample = record_of(list_.at(i));
    for (std::size_t v = 0; v < p.values.size(); ++v)
      if (const auto& field = fields_[v][i]) sample.set(p.values[v], *field);
    return std::make_shared<const Sample>(std::move(sample));
  }

  std::optional<std::uint64_t> epoch_size() const override { return list_.size(); }

 private:
  // A value's field of each item; their form is one for the whole file.
  static std::vector<std::optional<Field>> fields(const JsonList& all, std::size_t v,
                                                  const std::vector<std::size_t>& items) {
    bool whole = true, differ = false;
    std::int64_t columns = 0;
    const JsonList::Numbers* first = nullptr;
    for (const auto& row : all.values) {
      if (!row[v]) continue;
      const auto& [shape, numbers] = *row[v];
      if (!first) first = &*row[v];
      for (const double n : numbers) whole &= n == std::floor(n) && std::abs(n) < 9e15;
      differ |= shape != first->shape;
      if (shape.size() == 2) columns = shape[1];
    }
    const auto type = whole && columns == 0 ? at::kLong : at::kFloat;
    std::vector<std::optional<Field>> out;
    for (const std::size_t i : items) {
      if (!all.values[i][v]) {
        out.emplace_back();
        continue;
      }
      auto [shape, numbers] = *all.values[i][v];
      if (columns > 0 && numbers.empty()) shape = {0, columns};
      const at::Tensor t =
          at::tensor(at::ArrayRef<double>(numbers), at::kDouble).view(shape).to(type);
      out.push_back(differ && !shape.empty() ? list_field(t)
                                             : Field(t, std::make_shared<const Meta>()));
    }
    return out;
  }

  DataList list_;
  std::vector<std::vector<std::optional<Field>>> fields_;  // by value, then item
};

const Register<Datalist> registered;

}  // namespace
}  // namespace sluice
