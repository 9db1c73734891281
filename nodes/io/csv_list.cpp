// csv_list: the records of a CSV file; MONAI's CSVDataset and CSVSaver's counterpart for reading.
#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "nodes/io/part_params.h"

namespace sluice {
namespace {

struct CsvListSource final : Node {
  struct Params : RecordParams<Fold> {
    std::string file, root, suffix, delimiter = ",";
    bool header = true;
    Json columns, groups, defaults, classes, fold_column;
    std::vector<std::string> keys{"image"};
    std::vector<std::string> values;
    Params() {}  // of an aggregate with a base g++ 12 warns falsely
  } p;

  static Spec spec() {
    Spec s("csv_list", "Emits a record for each row of a CSV file: paths, and numbers.");
    s.out("sample", "A field for each of the columns asked for: its path, or its number [].")
        .param("file", &Params::file, "The CSV file.")
        .required()
        .param("header", &Params::header,
               "The first line has the columns' names; else columns are called by numbers from 0.")
        .param("delimiter", &Params::delimiter,
               "What stands between two fields: \";\", \"\\t\"; one character.")
        .param("root", &Params::root, "Folder of relative paths; empty: the CSV file's.")
        .param("keys", &Params::keys, "Columns with paths.")
        .length(1)
        .param("values", &Params::values,
               "Columns with numbers: int64 where every row has a whole one, else float32.")
        .param("columns", &Params::columns,
               "{\"image\": 0}: the name or number of a key's or a value's column, where it is not "
               "called like that.")
        .param("groups", &Params::groups,
               "{\"location\": [2, 1], \"label\": [[3, 4], [5, 6]]}: fields of several columns' "
               "numbers, shaped as the lists are.")
        .param("defaults", &Params::defaults,
               "{\"age\": 0}: a value's or a group's number where a row's field is empty; others "
               "must have one.")
        .param("classes", &Params::classes,
               "{\"sex\": [\"F\", \"M\"]}: a value's or a group's texts; each becomes its place in "
               "the list, from 0.")
        .param("suffix", &Params::suffix, "Put behind each path: \".tif\".")
        .param("fold_column", &Params::fold_column,
               "The name or number of a column with each row's fold: those of the fold `fold` are "
               "the validation, the others for training, also where the field is empty. null: "
               "folds and seed make the folds.");
    return add_record_params<Params>(add_split_params<Params>(s))
        .lane(LaneKind::io)
        .gives("@keys", Form::record)
        .gives("@values", Form::any)
        .gives("@groups{}", Form::any);
  }

  void open(const OpenContext&) override {
    const std::filesystem::path file = p.file;
    for (const auto& [name, given] : {std::pair{"columns", &p.columns},
                                      {"groups", &p.groups},
                                      {"defaults", &p.defaults},
                                      {"classes", &p.classes}})
      if (!given->is_null() && !given->is_object())
        throw Error(Exit::usage,
                    std::string(name) + ": expected an object, found " + given->dump());
    if (p.delimiter.size() != 1 || std::string("\"\r\n").find(p.delimiter) != std::string::npos)
      throw Error(Exit::usage,
                  "delimiter: expected one character, neither a quote nor a line's "
                  "end, found " +
                      Json(p.delimiter).dump());
    const CsvList all =
        list_of_csv(file, p.root.empty() ? file.parent_path() : std::filesystem::path(p.root),
                    {.keys = p.keys,
                     .values = p.values,
                     .groups = p.groups,
                     .columns = p.columns,
                     .header = p.header,
                     .delimiter = p.delimiter[0],
                     .suffix = p.suffix,
                     .defaults = p.defaults,
                     .classes = p.classes,
                     .fold = p.fold_column});
    list_ = all.items;
    for (std::size_t i = 0; i < list_.size(); ++i) list_[i].row = i;
    if (p.fold_column.is_null())
      take_fold(list_, p);
    else
      list_ = chosen(list_, items_of_fold(all.folds, p, p.file));
    limit_list(list_, p.limit);
    for (const CsvList::Value& value : all.values) {
      const auto whole = [&](const std::vector<CsvNumber>& row) {
        return std::all_of(row.begin() + static_cast<std::ptrdiff_t>(value.first),
                           row.begin() + static_cast<std::ptrdiff_t>(value.first + value.count),
                           [](const CsvNumber& n) { return n.whole.has_value(); });
      };
      const auto type = std::ranges::all_of(all.numbers, whole) ? at::kLong : at::kFloat;
      values_.emplace_back(value.key, std::vector<at::Tensor>());
      for (const DataItem& item : list_) {
        at::Tensor numbers = at::empty({static_cast<std::int64_t>(value.count)}, type);
        for (std::size_t i = 0; i < value.count; ++i) {
          const CsvNumber& n = all.numbers[item.row][value.first + i];
          if (type == at::kLong)
            numbers.data_ptr<std::int64_t>()[i] = *n.whole;
          else
            numbers.data_ptr<float>()[i] = static_cast<float>(n.value);
        }
        values_.back().second.push_back(numbers.view(value.shape));
      }
    }
  }

  void process(Firing& f) override {
    emit_in_order(f, list_.size(), p.shuffle, [this](std::uint64_t i) { return item_record(i); });
  }

  SamplePtr item_record(std::uint64_t i) const override {
    Sample sample = record_of(list_.at(i));
    for (const auto& [key, of_items] : values_)
      sample.set(key, Field(of_items[i], std::make_shared<const Meta>()));
    return std::make_shared<const Sample>(std::move(sample));
  }

  std::optional<std::uint64_t> epoch_size() const override { return list_.size(); }

 private:
  DataList list_;
  std::vector<std::pair<std::string, std::vector<at::Tensor>>> values_;  // by key, then item
};

const Register<CsvListSource> registered;

}  // namespace
}  // namespace sluice
