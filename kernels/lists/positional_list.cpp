#include "kernels/lists/positional_list.h"

#include <glob.h>

#include <algorithm>
#include <numeric>

#include "engine/base/error.h"
#include "kernels/lists/numpy_random.h"

namespace sluice {
namespace {

using Names = std::vector<std::string>;

Names sorted_glob(const std::string& pattern) {
  if (pattern.find("**") != std::string::npos)
    throw DataError(pattern + ": ** is not read; name the folders' depth with one * each");
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  Names names(found.gl_pathv, found.gl_pathv + (result == 0 ? found.gl_pathc : 0));
  ::globfree(&found);
  if (names.empty()) throw DataError(pattern + ": no file matches");
  std::sort(names.begin(), names.end());
  return names;
}

Names column(const std::string& file, const std::string& name) {
  const CsvList rows = list_of_csv(file, "", {.keys = {name}});
  Names names;
  for (const auto& item : rows.items) names.push_back(item.files.front().second);
  return names;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  if (from.empty()) return;
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

std::string under(const std::filesystem::path& root, const std::string& path) {
  const std::filesystem::path p = path;
  return (p.is_absolute() || root.empty() ? p : root / p).lexically_normal().string();
}

std::vector<double> numbers(const nlohmann::ordered_json& value, const std::string& where) {
  std::vector<double> out;
  for (const auto& number : value.is_array() ? value : nlohmann::ordered_json::array({value})) {
    if (!number.is_number()) throw DataError(where + " is no number");
    out.push_back(number.get<double>());
  }
  return out;
}

}  // namespace

Names names_of(const nlohmann::ordered_json& list, const std::string& where) {
  if (list.is_string()) return sorted_glob(list.get<std::string>());
  if (!list.is_object() || list.contains("glob") == list.contains("csv"))
    throw Error(Exit::usage, where + ": is a pattern, or has either \"glob\" or \"csv\"");
  Names names = list.contains("glob")
                    ? sorted_glob(list["glob"].get<std::string>())
                    : column(list["csv"].get<std::string>(), list.value("column", ""));
  for (auto& name : names) {
    for (const auto& pair : list.value("replace", nlohmann::ordered_json::array()))
      replace_all(name, pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
    name = list.value("prefix", "") + name;
  }
  return names;
}

DataList list_side_by_side(const nlohmann::ordered_json& lists, const std::string& where) {
  if (!lists.is_object() || lists.empty())
    throw Error(Exit::usage, where + ": is a dictionary of lists by field");
  DataList out;
  bool first = true;
  for (const auto& [key, list] : lists.items()) {
    const Names names = names_of(list, where + "." + key);
    if (first)
      for (const auto& name : names) out.push_back({file_stem(name), {}});
    first = false;
    out.resize(std::min(out.size(), names.size()));
    for (std::size_t i = 0; i < out.size(); ++i) out[i].files.emplace_back(key, names[i]);
  }
  return out;
}

JsonList list_of_json(const std::filesystem::path& file, const std::string& key,
                      const std::filesystem::path& root, const std::vector<std::string>& keys,
                      const std::vector<std::string>& values) {
  const auto whole = read_json(file);
  if (!key.empty() && (!whole.is_object() || !whole.contains(key)))
    throw DataError(file.string() + ": has no list \"" + key + "\"");
  const auto& list = key.empty() ? whole : whole.at(key);
  if (!list.is_array() || list.empty()) throw DataError(file.string() + ": has no list of samples");
  JsonList out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = file.string() + ": sample " + std::to_string(i);
    const auto entry = list[i].is_string() ? nlohmann::ordered_json{{"image", list[i]}} : list[i];
    if (!entry.is_object()) throw DataError(where + " is neither a path nor a dictionary");
    DataItem item;
    item.row = i;
    for (const auto& field : keys) {
      if (!entry.contains(field)) throw DataError(where + " has no \"" + field + "\"");
      const auto& files = entry.at(field);
      std::size_t n = 0;
      for (const auto& path : files.is_array() ? files : nlohmann::ordered_json::array({files})) {
        if (!path.is_string()) throw DataError(where + ": \"" + field + "\" is no path");
        item.files.emplace_back(n == 0 ? field : field + "#" + std::to_string(n),
                                under(root, path.get<std::string>()));
        ++n;
      }
    }
    if (item.files.empty()) throw DataError(where + " has no file");
    item.name = file_stem(item.files.front().second);
    out.values.emplace_back();
    for (const auto& field : values) {
      if (!entry.contains(field)) throw DataError(where + " has no \"" + field + "\"");
      out.values.back().push_back(numbers(entry.at(field), where + ": \"" + field + "\""));
    }
    out.items.push_back(std::move(item));
  }
  return out;
}

std::vector<std::size_t> part_of(std::size_t n, const Part& part, const std::string& where) {
  const auto all = static_cast<std::int64_t>(n);
  const auto place = [&](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + all : i, 0, all);
  };
  const auto begin = place(part.from), end = std::max(begin, place(part.to.value_or(all)));
  std::vector<std::size_t> items(static_cast<std::size_t>(end - begin));
  std::iota(items.begin(), items.end(), static_cast<std::size_t>(begin));
  if (!part.shares.empty()) {
    if (part.share >= std::ssize(part.shares))
      throw Error(Exit::usage, where + ": share is not below the number of shares");
    if (part.shuffle_shares)
      NumpyRandom(static_cast<std::uint32_t>(part.share_seed)).shuffle(items);
    const double sum = std::accumulate(part.shares.begin(), part.shares.end(), 0.0);
    const auto count = static_cast<double>(items.size());
    std::size_t from = 0, to = 0;
    for (std::int64_t s = 0; s <= part.share; ++s) {
      from = to;
      const double wanted = part.shares[static_cast<std::size_t>(s)] / sum * count + 0.5;
      to = std::min(from + static_cast<std::size_t>(wanted), items.size());
    }
    items = std::vector<std::size_t>(items.begin() + static_cast<std::ptrdiff_t>(from),
                                     items.begin() + static_cast<std::ptrdiff_t>(to));
  }
  if (items.empty())
    throw DataError(where + ": nothing is left of its " + std::to_string(n) + " samples");
  return items;
}

}  // namespace sluice
