// csv_list: the records of a CSV file; MONAI's CSVDataset and CSVSaver's counterpart for reading.
#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>

#include "nodes/io/io.h"

namespace sluice {
namespace {

struct CsvListSource final : Node {
  struct Params : Fold {
    std::string file, root;
    std::vector<std::string> keys{"image"};
    std::vector<std::string> values;
    bool shuffle = false;
    std::optional<std::int64_t> limit;
    Params() {}  // of an aggregate with a base g++ 12 warns falsely
  } p;

  static Spec spec() {
    Spec s("csv_list", "Emits a record for each row of a CSV file: paths, and numbers.");
    s.out("sample", "A field for each of the columns asked for: its path, or its number [].")
        .param("file", &Params::file, "CSV with a first line of column names.")
        .required()
        .param("root", &Params::root, "Folder of relative paths; empty: the CSV file's.")
        .param("keys", &Params::keys, "Columns with paths.")
        .param("values", &Params::values,
               "Columns with numbers: int64 where every row has a whole one, else float32.");
    return add_split_params<Params>(s)
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
    take_fold(list_, p);
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
