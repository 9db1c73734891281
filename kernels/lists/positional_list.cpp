#include "kernels/lists/positional_list.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/warnings.h"
#include "kernels/lists/numpy_random.h"

namespace sluice {
namespace {

using Names = std::vector<std::string>;
using Items = std::vector<std::size_t>;
using Json = nlohmann::ordered_json;

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

JsonList::Numbers numbers(const Json& value, const std::string& where) {
  JsonList::Numbers out;
  const auto add = [&](const Json& number) {
    if (!number.is_number()) throw DataError(where + " is no number");
    out.all.push_back(number.get<double>());
  };
  if (!value.is_array()) {
    add(value);
    return out;
  }
  out.shape = {std::ssize(value)};
  const bool rows = !value.empty() && value[0].is_array();
  if (rows) out.shape.push_back(std::ssize(value[0]));
  for (const Json& row : value) {
    if (rows && (!row.is_array() || row.size() != value[0].size()))
      throw DataError(where + " has rows of different lengths");
    for (const Json& number : rows ? row : Json::array({row})) add(number);
  }
  return out;
}

std::vector<Items> partitions(Items items, const Part& part) {
  if (part.shuffle_shares) NumpyRandom(static_cast<std::uint32_t>(part.share_seed)).shuffle(items);
  std::vector<Items> parts(static_cast<std::size_t>(part.num_partitions.value_or(0)));
  if (!parts.empty()) {
    for (std::size_t i = 0; i < items.size(); ++i) parts[i % parts.size()].push_back(items[i]);
    return parts;
  }
  const double sum = std::accumulate(part.shares.begin(), part.shares.end(), 0.0);
  auto from = items.begin();
  for (const double share : part.shares) {
    const double wanted = share / sum * static_cast<double>(items.size()) + 0.5;
    const auto to = from + std::min(static_cast<std::ptrdiff_t>(wanted), items.end() - from);
    parts.emplace_back(from, to);
    from = to;
  }
  return parts;
}

}  // namespace

Names names_of(const Json& list, const std::string& where) {
  if (list.is_string()) return sorted_glob(list.get<std::string>());
  if (!list.is_object() || list.contains("glob") == list.contains("csv"))
    throw Error(Exit::usage, where + ": is a pattern, or has either \"glob\" or \"csv\"");
  std::vector<std::array<std::string, 2>> replaced;
  for (const auto& [name, given] : list.items()) {
    if (name == "replace") try {
        replaced = given.get<decltype(replaced)>();
      } catch (const Json::exception&) {
        throw Error(Exit::usage, where + ".replace: expected [[old, new], ...], found " +
                                     given.dump().substr(0, 60));
      }
    else if (name != "glob" && name != "csv" && name != "prefix" &&
             (name != "column" || list.contains("glob")))
      throw Error(Exit::usage, where + ": \"" + name + "\" is not known here");
    else if (!given.is_string())
      throw Error(Exit::usage,
                  where + "." + name + ": expected a text, found " + given.dump().substr(0, 60));
  }
  if (list.contains("csv") && !list.contains("column"))
    throw Error(Exit::usage, where + ": \"csv\" needs a \"column\"");
  Names names = list.contains("glob")
                    ? sorted_glob(list["glob"].get<std::string>())
                    : column(list["csv"].get<std::string>(), list["column"].get<std::string>());
  for (auto& name : names) {
    for (const auto& [from, to] : replaced) replace_all(name, from, to);
    name = list.value("prefix", "") + name;
  }
  return names;
}

DataList list_side_by_side(const Json& lists, const std::string& where) {
  if (!lists.is_object() || lists.empty())
    throw Error(Exit::usage, where + ": is a dictionary of lists by field");
  DataList out;
  bool first = true, of_one_length = true;
  std::string lengths;
  for (const auto& [key, list] : lists.items()) {
    const Names names = names_of(list, where + "." + key);
    lengths += (first ? "" : ", ") + std::to_string(names.size()) + " of \"" + key + "\"";
    if (first)
      for (const auto& name : names) out.push_back({file_stem(name), {}});
    of_one_length &= first || names.size() == out.size();
    first = false;
    out.resize(std::min(out.size(), names.size()));
    for (std::size_t i = 0; i < out.size(); ++i) out[i].files.emplace_back(key, names[i]);
  }
  if (!of_one_length)
    warn(where + ": there are " + lengths + ": the first " + std::to_string(out.size()) +
         " of each are taken");
  return out;
}

JsonList list_of_json(const std::filesystem::path& file, const std::string& key,
                      const std::filesystem::path& root, const std::vector<std::string>& keys,
                      const std::vector<std::string>& values, bool allow_missing) {
  const Json whole = read_json(file, 256u << 20);
  if (!key.empty() && (!whole.is_object() || !whole.contains(key)))
    throw DataError(file.string() + ": has no list \"" + key + "\"");
  const auto& list = key.empty() ? whole : whole.at(key);
  if (!list.is_array() || list.empty()) throw DataError(file.string() + ": has no list of samples");
  JsonList out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = file.string() + ": sample " + std::to_string(i);
    const Json entry = list[i].is_string() ? Json{{"image", list[i]}} : list[i];
    if (!entry.is_object()) throw DataError(where + " is neither a path nor a dictionary");
    DataItem item;
    item.row = i;
    const auto missing = [&](const std::string& field) {
      if (entry.contains(field)) return false;
      if (!allow_missing)
        throw DataError(where + " has no \"" + field + "\"; allow_missing_keys leaves it out");
      return true;
    };
    for (const auto& field : keys) {
      if (missing(field)) continue;
      add_files(item, field, entry.at(field), root, where);
    }
    if (item.files.empty()) throw DataError(where + " has no file");
    for (auto& [_, path] : item.files)
      path = std::filesystem::path(path).lexically_normal().string();
    item.name = file_stem(item.files.front().second);
    const Json fold = entry.value("fold", Json());
    out.folds.emplace_back();
    if (fold.is_number_integer()) out.folds.back() = fold.get<std::int64_t>();
    out.values.emplace_back();
    for (const auto& field : values) {
      out.values.back().emplace_back();
      if (missing(field)) continue;
      out.values.back().back() = numbers(entry.at(field), where + ": \"" + field + "\"");
    }
    out.items.push_back(std::move(item));
  }
  return out;
}

Items part_of(std::size_t n, const Part& part, const std::string& where) {
  const auto all = static_cast<std::int64_t>(n);
  const auto place = [&](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + all : i, 0, all);
  };
  const auto begin = place(part.from), end = std::max(begin, place(part.to.value_or(all)));
  Items items(static_cast<std::size_t>(end - begin));
  std::iota(items.begin(), items.end(), static_cast<std::size_t>(begin));
  if (!part.shares.empty() || part.num_partitions) {
    const std::vector<Items> parts = partitions(std::exchange(items, {}), part);
    for (const std::int64_t share : part.share) {
      if (share >= std::ssize(parts))
        throw Error(Exit::usage, where + ": share " + std::to_string(share) +
                                     " is not below the number of shares, " +
                                     std::to_string(parts.size()));
      const Items& chosen = parts[static_cast<std::size_t>(share)];
      items.insert(items.end(), chosen.begin(), chosen.end());
    }
  } else if (part.shuffle_shares || part.share != std::vector<std::int64_t>{0}) {
    throw Error(Exit::usage,
                where + ": share and shuffle_shares are of shares or num_partitions: give these");
  }
  if (items.empty())
    throw DataError(where + ": nothing is left of its " + std::to_string(n) + " samples");
  return items;
}

}  // namespace sluice
