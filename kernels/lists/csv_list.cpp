// Lists of samples from CSV files and from patterns of names (data_list.h).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <regex>

#include "engine/base/error.h"
#include "kernels/files/file_io.h"
#include "kernels/lists/data_list.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

using Row = std::vector<std::string>;

// The rows of a file; a field in quotes may hold commas, line breaks and doubled quotes.
class CsvText {
 public:
  CsvText(const Buffer& file, std::string name)
      : text_(reinterpret_cast<const char*>(file.data()), file.size()), name_(std::move(name)) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);  // a byte order mark
  }
  bool next(Row& row) {
    row.clear();
    if (at_ == text_.size()) return false;
    place_ = line_;
    do row.push_back(field());
    while (take(','));
    take('\r');
    if (!take('\n') && at_ != text_.size()) fail("something stands behind a closing quote");
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
      while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r')
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
  std::size_t at_ = 0, line_ = 1, place_ = 1;
};

// Where each column stands.
std::vector<std::size_t> columns_of(const Row& header, const std::vector<std::string>& names,
                                    const CsvText& text) {
  std::vector<std::size_t> columns;
  for (const auto& name : names) {
    const auto found = std::find(header.begin(), header.end(), name);
    std::string known;
    for (const auto& column : header) known += (known.empty() ? "" : ", ") + column;
    if (found == header.end()) text.fail("there is no column \"" + name + "\"; there are " + known);
    columns.push_back(static_cast<std::size_t>(found - header.begin()));
  }
  return columns;
}

double number_in(const std::string& field, const CsvText& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc{} || end != field.data() + field.size() || !std::isfinite(value))
    text.fail("\"" + field + "\" is no number");
  return value;
}

}  // namespace

CsvList list_of_csv(const fs::path& file, const fs::path& root,
                    const std::vector<std::string>& keys, const std::vector<std::string>& values) {
  const Buffer bytes = read_file(file, 256u << 20);
  CsvText text(bytes, file.string());
  Row header, row;
  text.next(header);
  const auto paths = columns_of(header, keys, text), numbers = columns_of(header, values, text);
  CsvList list;
  while (text.next(row)) {
    if (row.size() == 1 && row[0].empty()) continue;
    if (row.size() != header.size())
      text.fail("has " + std::to_string(row.size()) + " fields, the first line has " +
                std::to_string(header.size()));
    DataItem item;
    for (std::size_t k = 0; k < keys.size(); ++k) {
      if (row[paths[k]].empty()) text.fail("the field \"" + keys[k] + "\" is empty");
      item.files.emplace_back(keys[k], (root / row[paths[k]]).string());
    }
    item.name = file_stem(item.files.front().second);
    list.items.push_back(std::move(item));
    list.values.emplace_back();
    for (const auto column : numbers) list.values.back().push_back(number_in(row[column], text));
  }
  if (list.items.empty()) throw DataError(file.string() + ": has no rows behind its first line");
  return list;
}

// ---- patterns -----------------------------------------------------------------------------------

namespace {

std::regex regex_of(const std::string& pattern) {
  std::string text;
  for (const char c : pattern) {
    if (c == '*')
      text += "([^/]*)";
    else if (c == '?')
      text += "([^/])";
    else
      text +=
          std::isalnum(static_cast<unsigned char>(c)) ? std::string(1, c) : std::string("\\") + c;
  }
  return std::regex(text);
}

// Paths below a folder that fit, by what the stars stand for.
std::map<std::string, std::string> matches(const fs::path& root, const std::string& given) {
  const bool folders = given.ends_with('/');
  const std::string pattern = folders ? given.substr(0, given.size() - 1) : given;
  const std::regex regex = regex_of(pattern);
  const auto depth = std::count(pattern.begin(), pattern.end(), '/');
  std::map<std::string, std::string> found;
  std::error_code problem;
  for (fs::recursive_directory_iterator at(root, problem), end; !problem && at != end;
       at.increment(problem)) {
    if (at->path().filename().string().starts_with('.') || at.depth() >= depth)
      at.disable_recursion_pending();
    const std::string path = at->path().lexically_relative(root).string();
    std::smatch groups;
    if (at.depth() != depth || at->is_directory(problem) != folders ||
        !std::regex_match(path, groups, regex))
      continue;
    std::string stars;
    for (std::size_t g = 1; g < groups.size(); ++g)
      stars.append(g > 1 ? "_" : "").append(groups[g].str());
    if (!found.emplace(stars, at->path().string()).second)
      throw DataError(root.string() + ": two files fit \"" + given + "\" with \"" + stars + "\"");
  }
  if (problem) fail_to_list(root, problem);
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
