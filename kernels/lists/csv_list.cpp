// Lists of samples from CSV files and from patterns of names (data_list.h).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <regex>

#include "engine/base/error.h"
#include "kernels/files/file_io.h"
#include "kernels/lists/data_list.h"
#include "kernels/lists/walk.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

using Row = std::vector<std::string>;

// The rows of a file; a field in quotes may hold delimiters, line breaks and doubled quotes.
class CsvText {
 public:
  CsvText(const FileBytes& file, std::string name, char delimiter)
      : text_(reinterpret_cast<const char*>(file.data()), file.size()),
        name_(std::move(name)),
        delimiter_(delimiter) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);  // a byte order mark
  }
  bool next(Row& row) {
    row.clear();
    if (at_ == text_.size()) return false;
    place_ = line_;
    do row.push_back(field());
    while (take(delimiter_));
    const bool returned = take('\r'), fed = take('\n');  // either alone ends a line
    line_ += returned && !fed;
    if (!returned && !fed && at_ != text_.size()) fail("something stands behind a closing quote");
    return true;
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw DataError(name_ + ":" + std::to_string(place_) + ": " + why);
  }

 private:
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    line_ += c == '\n';
    ++at_;
    return true;
  }
  std::string field() {
    std::string value;
    if (!take('"')) {
      while (at_ < text_.size() && text_[at_] != delimiter_ && text_[at_] != '\n' &&
             text_[at_] != '\r')
        value.push_back(text_[at_++]);
      return value;
    }
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        if (at_ == text_.size() || text_[at_] != '"') return value;
      }
      line_ += text_[at_] == '\n';
      value.push_back(text_[at_]);
    }
    fail("a quote is not closed");
  }

  std::string_view text_;
  const std::string name_;
  const char delimiter_;
  std::size_t at_ = 0, line_ = 1, place_ = 1;
};

// Where columns stand, by their names or numbers.
class Columns {
 public:
  Columns(const Row& first, const CsvColumns& asked, const CsvText& text)
      : first_(first), asked_(asked), text_(text) {}

  std::size_t of(const std::string& key) const {
    const auto named = asked_.columns.find(key);
    return at(named != asked_.columns.end() ? *named : nlohmann::ordered_json(key));
  }
  std::size_t at(const nlohmann::ordered_json& column) const {
    if (column.is_number_integer() && column >= 0) {
      const auto number = column.get<std::size_t>();
      if (number >= first_.size())
        text_.fail("there is no column " + std::to_string(number) + "; there are " +
                   std::to_string(first_.size()));
      return number;
    }
    if (!column.is_string() || !asked_.header)
      text_.fail("expected a column's number from 0" +
                 std::string(asked_.header ? " or its name" : ", there are no names") + ", found " +
                 column.dump());
    const auto& name = column.get_ref<const std::string&>();
    const auto found = std::find(first_.begin(), first_.end(), name);
    std::string known;
    for (const auto& other : first_) known += (known.empty() ? "" : ", ") + other;
    if (found == first_.end())
      text_.fail("there is no column \"" + name + "\"; there are " + known);
    if (std::find(found + 1, first_.end(), name) != first_.end())
      text_.fail("two columns are called \"" + name + "\"; say which by its number");
    return static_cast<std::size_t>(found - first_.begin());
  }
  // The columns of nested lists, one after the other, and the lists' lengths.
  void add(const nlohmann::ordered_json& group, const std::string& key, std::size_t depth,
           std::vector<std::int64_t>& shape, std::vector<std::size_t>& all) const {
    if (!group.is_array()) {
      if (depth != shape.size()) text_.fail("groups." + key + ": its lists have no one shape");
      return all.push_back(at(group));
    }
    const auto length = static_cast<std::int64_t>(group.size());
    if (depth == shape.size() && all.empty()) shape.push_back(length);
    if (length == 0 || depth >= shape.size() || shape[depth] != length)
      text_.fail("groups." + key + ": its lists have no one shape");
    for (const auto& part : group) add(part, key, depth + 1, shape, all);
  }

 private:
  const Row& first_;
  const CsvColumns& asked_;
  const CsvText& text_;
};

struct NumberColumn {
  std::size_t at;
  std::optional<CsvNumber> otherwise;  // of an empty field
  std::vector<std::string> classes;    // its texts; none: it has numbers
};

// A double that is whole and exact as one.
CsvNumber number_of(double value) {
  CsvNumber n{value, std::nullopt};
  if (value == std::floor(value) && std::abs(value) <= 9007199254740992.0)
    n.whole = static_cast<std::int64_t>(value);
  return n;
}

template <class T>
bool reads_as(std::string_view digits, T& value) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} && end == digits.data() + digits.size();
}

// As pandas reads it, so blanks may stand around it.
CsvNumber number_in(const std::string& field, const NumberColumn& column, const CsvText& text) {
  std::string_view digits = field;
  digits.remove_prefix(std::min(digits.find_first_not_of(" \t"), digits.size()));
  digits.remove_suffix(digits.size() - (digits.find_last_not_of(" \t") + 1));
  if (digits.empty() && column.otherwise) return *column.otherwise;
  if (!column.classes.empty()) {
    const auto found = std::find(column.classes.begin(), column.classes.end(), digits);
    if (found != column.classes.end())
      return number_of(static_cast<double>(found - column.classes.begin()));
    std::string known;
    for (const auto& name : column.classes) known += (known.empty() ? "" : ", ") + name;
    text.fail("\"" + field + "\" is none of the classes " + known);
  }
  if (digits.starts_with('+')) digits.remove_prefix(1);
  double value = 0;
  if (std::int64_t whole = 0; reads_as(digits, whole)) return {static_cast<double>(whole), whole};
  if (!reads_as(digits, value) || !std::isfinite(value))
    text.fail(
        "\"" + field + "\" is no number; " +
        (digits.empty() ? "\"defaults\" gives empty fields one" : "\"classes\" numbers texts"));
  return number_of(value);
}

// A row whose field is empty is in no fold.
std::optional<std::int64_t> fold_in(const std::string& field, const CsvText& text) {
  if (field.find_first_not_of(" \t") == std::string::npos) return std::nullopt;
  const double fold = number_in(field, {}, text).value;
  if (fold < 0 || fold != std::floor(fold) || fold > 1e9)
    text.fail("\"" + field + "\" is no fold's number");
  return static_cast<std::int64_t>(fold);
}

// Each member of what was given is one of the fields that it may speak of.
void must_be_fields(const nlohmann::ordered_json& given, const std::string& name,
                    const std::vector<std::string>& fields, const CsvText& text) {
  for (const auto& [key, value] : given.items())
    if (std::find(fields.begin(), fields.end(), key) == fields.end())
      text.fail(name + "." + key + ": there is no such field");
}

}  // namespace

CsvList list_of_csv(const fs::path& file, const fs::path& root, const CsvColumns& asked) {
  const FileBytes bytes = read_file(file, 256u << 20);
  CsvText text(bytes, file.string(), asked.delimiter);
  Row first, row;
  text.next(first);
  const Columns columns(first, asked, text);
  std::vector<std::string> fields = asked.values;
  fields.insert(fields.end(), asked.keys.begin(), asked.keys.end());
  must_be_fields(asked.columns, "columns", fields, text);
  fields = asked.values;
  for (const auto& [key, group] : asked.groups.items()) fields.push_back(key);
  must_be_fields(asked.defaults, "defaults", fields, text);
  const auto otherwise = [&](const std::string& key) -> std::optional<CsvNumber> {
    const auto found = asked.defaults.find(key);
    if (found == asked.defaults.end()) return std::nullopt;
    if (!found->is_number()) text.fail("defaults." + key + " is no number");
    const double value = found->get<double>();
    if (!found->is_number_integer() || value >= 0x1p63) return number_of(value);
    return CsvNumber{value, found->get<std::int64_t>()};
  };
  must_be_fields(asked.classes, "classes", fields, text);
  const auto classes = [&](const std::string& key) -> std::vector<std::string> {
    const auto found = asked.classes.find(key);
    if (found == asked.classes.end()) return {};
    const bool texts = found->is_array() && !found->empty() &&
                       std::all_of(found->begin(), found->end(),
                                   [](const auto& name) { return name.is_string(); });
    if (!texts) text.fail("classes." + key + " is no list of texts");
    return found->get<std::vector<std::string>>();
  };
  std::optional<std::size_t> fold;
  if (!asked.fold.is_null()) fold = columns.at(asked.fold);
  std::vector<std::size_t> paths;
  std::vector<NumberColumn> numbers;
  for (const auto& key : asked.keys) paths.push_back(columns.of(key));
  CsvList list;
  for (const auto& key : asked.values) {
    list.values.push_back({key, {}, numbers.size(), 1});
    numbers.push_back({columns.of(key), otherwise(key), classes(key)});
  }
  for (const auto& [key, group] : asked.groups.items()) {
    CsvList::Value value{key, {}, numbers.size(), 0};
    std::vector<std::size_t> all;
    columns.add(group, key, 0, value.shape, all);
    value.count = all.size();
    for (const std::size_t column : all) numbers.push_back({column, otherwise(key), classes(key)});
    list.values.push_back(std::move(value));
  }
  for (bool more = asked.header ? text.next(row) : (row = first, true); more;
       more = text.next(row)) {
    if (row.size() == 1 && row[0].empty()) continue;
    if (row.size() != first.size())
      text.fail("has " + std::to_string(row.size()) + " fields, the first line has " +
                std::to_string(first.size()));
    DataItem item;
    for (std::size_t k = 0; k < asked.keys.size(); ++k) {
      if (row[paths[k]].empty()) text.fail("the field \"" + asked.keys[k] + "\" is empty");
      item.files.emplace_back(asked.keys[k], (root / (row[paths[k]] + asked.suffix)).string());
    }
    item.name = file_stem(item.files.front().second);
    list.items.push_back(std::move(item));
    list.numbers.emplace_back();
    for (const NumberColumn& column : numbers)
      list.numbers.back().push_back(number_in(row[column.at], column, text));
    if (fold) list.folds.push_back(fold_in(row[*fold], text));
  }
  if (list.items.empty())
    throw DataError(file.string() + ": has no rows" +
                    (asked.header ? " behind its first line" : ""));
  return list;
}

// ---- patterns -----------------------------------------------------------------------------------

namespace {

// A last ".nii*" is either ending of NIfTI, and no part of what tells cases apart.
std::regex regex_of(const std::string& pattern) {
  constexpr std::string_view nifti = ".nii*";
  const bool either = pattern.ends_with(nifti);
  std::string text;
  for (const char c : pattern.substr(0, pattern.size() - (either ? nifti.size() : 0))) {
    if (c == '*')
      text += "([^/]*)";
    else if (c == '?')
      text += "([^/])";
    else
      text +=
          std::isalnum(static_cast<unsigned char>(c)) ? std::string(1, c) : std::string("\\") + c;
  }
  return std::regex(text + (either ? "\\.nii(?:\\.gz)?" : ""));
}

// Paths below a folder that fit, by what the stars stand for.
std::map<std::string, std::string> matches(const fs::path& root, const std::string& given) {
  const bool folders = given.ends_with('/');
  const std::string pattern = folders ? given.substr(0, given.size() - 1) : given;
  const std::regex regex = regex_of(pattern);
  const auto depth = std::count(pattern.begin(), pattern.end(), '/');
  std::map<std::string, std::string> found;
  std::error_code none;
  walk(root, static_cast<int>(depth), [&](const fs::directory_entry& entry, int at_depth) {
    const std::string path = entry.path().lexically_relative(root).string();
    std::smatch groups;
    if (at_depth != depth || entry.is_directory(none) != folders ||
        !std::regex_match(path, groups, regex))
      return;
    std::string stars;
    for (std::size_t g = 1; g < groups.size(); ++g)
      stars.append(g > 1 ? "_" : "").append(groups[g].str());
    if (!found.emplace(stars, entry.path().string()).second)
      throw DataError(root.string() + ": two files fit \"" + given + "\" with \"" + stars + "\"");
  });
  if (found.empty()) throw DataError(root.string() + ": no file matches \"" + given + "\"");
  return found;
}

}  // namespace

DataList list_of_patterns(const fs::path& root, const nlohmann::ordered_json& patterns) {
  if (!patterns.is_object() || patterns.empty())
    throw DataError("patterns: expected {key: pattern}, found " + patterns.dump().substr(0, 60));
  DataList list;
  bool first = true;
  for (const auto& [key, pattern] : patterns.items()) {
    if (!pattern.is_string() ||
        pattern.get_ref<const std::string&>().find('*') == std::string::npos)
      throw DataError("patterns." + key + ": expected a pattern with a *, found " + pattern.dump());
    const auto found = matches(root, pattern.get<std::string>());
    if (std::exchange(first, false))
      for (const auto& [stars, path] : found) list.push_back({stars, {}});
    for (DataItem& item : list) {
      const auto match = found.find(item.name);
      if (match == found.end())
        throw DataError(root.string() + ": nothing matches " + pattern.dump() + " for \"" +
                        item.name + "\", as " + item.files.front().second + " does its pattern");
      item.files.emplace_back(key, match->second);
    }
    if (found.size() > list.size())
      for (const auto& [stars, path] : found)
        if (std::none_of(list.begin(), list.end(), [&](auto& item) { return item.name == stars; }))
          throw DataError(path + ": nothing matches the other patterns for \"" + stars + "\"");
  }
  return list;
}

}  // namespace sluice
