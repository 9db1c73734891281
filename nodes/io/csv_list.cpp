// csv_list: the records of a CSV file; MONAI's CSVDataset and CSVSaver's counterpart for reading.
#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>

#include "nodes/io/io.h"

namespace sluice {
namespace {

struct CsvListSource final : Node {
  struct Params {
    std::string file, root;
    std::vector<std::string> keys{"image"};
    std::vector<std::string> values;
    std::string split = "training";
    std::int64_t fold = -1, folds = 5, seed = 12345;
    bool shuffle = false;
    std::optional<std::int64_t> limit;
  } p;

  static Spec spec() {
    return Spec("csv_list", "Emits a record for each row of a CSV file: paths, and numbers.")
        .out("sample", "A field for each of the columns asked for: its path, or its number [].")
        .param("file", &Params::file, "CSV with a first line of column names.")
        .required()
        .param("root", &Params::root, "Folder of relative paths; empty: the CSV file's.")
        .param("keys", &Params::keys, "Columns with paths.")
        .param("values", &Params::values,
               "Columns with numbers: int64 where every row has a whole one, else float32.")
        .param("split", &Params::split, "Which part of a fold.")
        .choices({"training", "validation"})
        .param("fold", &Params::fold, "Which of the folds is the validation; -1: all rows.")
        .at_least(-1)
        .param("folds", &Params::folds,
               "Of scikit-learn's KFold(folds, shuffle=True, random_state=seed).")
        .at_least(2)
        .param("seed", &Params::seed, "Seed of the folds; not of the run.")
        .range(0, 4294967295.0)
        .param("shuffle", &Params::shuffle, "A new order in every epoch.")
        .param("limit", &Params::limit, "Only the first n records.")
        .at_least(1)
        .lane(LaneKind::io)
        .source()
        .gives("@keys", Form::record)
        .gives("@values", Form::any);
  }

  void open(const OpenContext&) override {
    const std::filesystem::path file = p.file;
    const CsvList all =
        list_of_csv(file, p.root.empty() ? file.parent_path() : std::filesystem::path(p.root),
                    p.keys, p.values);
    list_ = all.items;
    for (std::size_t i = 0; i < list_.size(); ++i) list_[i].row = i;
    take_fold(list_, {p.split, p.fold, p.folds, static_cast<std::uint32_t>(p.seed)});
    limit_list(list_, p.limit);
    std::vector<bool> whole(p.values.size(), true);
    for (const auto& row : all.values)
      for (std::size_t v = 0; v < row.size(); ++v)
        if (row[v] != std::floor(row[v]) || std::abs(row[v]) > 9e15) whole[v] = false;
    for (const DataItem& item : list_) {
      values_.emplace_back();
      for (std::size_t v = 0; v < p.values.size(); ++v)
        values_.back().push_back(
            at::scalar_tensor(all.values[item.row][v], whole[v] ? at::kLong : at::kFloat));
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
  std::vector<std::vector<at::Tensor>> values_;
};

const Register<CsvListSource> registered;

}  // namespace
}  // namespace sluice
