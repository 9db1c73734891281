#include "kernels/files/points.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/file_ending.h"
#include "engine/base/json.h"
#include "kernels/files/npy.h"

namespace sluice {
namespace {

constexpr std::string_view separators = ",; \t\r";

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const auto begin = line.find_first_not_of(separators);
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const auto end = std::min(line.find_first_of(separators), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

// NaN and infinity are numbers here.
std::optional<double> number(std::string_view word) {
  if (word.starts_with('+')) word.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

bool is_header(const std::vector<std::string_view>& words) {
  return std::none_of(words.begin(), words.end(), [](auto word) { return number(word); });
}

// JSON: [[1, 2], [3, 4]].
at::Tensor listed_points(std::string_view text, const std::string& path) {
  const Json rows = Json::parse(text, nullptr, false);
  std::vector<double> values;
  const std::size_t columns = rows.is_array() && !rows.empty() ? rows[0].size() : 0;
  const auto wrong = [&]() {
    throw DataError(path + ": points are a JSON list of lists of so many numbers each");
  };
  if (columns == 0) wrong();
  for (const Json& row : rows) {
    if (!row.is_array() || row.size() != columns) wrong();
    for (const Json& value : row) {
      if (!value.is_number()) wrong();
      values.push_back(value.get<double>());
    }
  }
  return at::tensor(values, at::kDouble).view({-1, static_cast<std::int64_t>(columns)});
}

}  // namespace

at::Tensor read_points(const std::filesystem::path& path, const ReadBytes& read) {
  const FileBytes bytes = read(path);
  if (has_ending(path, ".npy")) {
    const at::Tensor points = parse_npy(bytes.view(), path.string()).to(at::kDouble);
    if (points.dim() != 2 || points.numel() == 0 || !points.isfinite().all().item<bool>())
      throw DataError(path.string() + ": points are [rows, columns] of finite numbers, not " +
                      c10::str(points.sizes()));
    return points;
  }
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";  // of spreadsheets
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  if (text.starts_with('[')) return listed_points(text, path.string());
  std::vector<double> values;
  std::size_t columns = 0;
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty() || (line == 1 && is_header(words))) continue;
    const std::string where = path.string() + ":" + std::to_string(line) + ": ";
    if (columns == 0) columns = words.size();
    if (words.size() != columns)
      throw DataError(where + std::to_string(words.size()) + " numbers; the rows before have " +
                      std::to_string(columns));
    for (const auto word : words) {
      const auto value = number(word);
      if (!value || !std::isfinite(*value))
        throw DataError(where + "\"" + std::string(word) + "\" is no finite number");
      values.push_back(*value);
    }
  }
  if (values.empty()) throw DataError(path.string() + ": no row of numbers");
  return at::tensor(values, at::kDouble).view({-1, static_cast<std::int64_t>(columns)});
}

}  // namespace sluice
