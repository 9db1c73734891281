#include "tools/runtime/data/data_check.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>

#include "engine/base/file_ending.h"
#include "kernels/image/affine.h"
#include "kernels/lists/data_list.h"
#include "tools/runtime/data/data_facts.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr double tolerance = 1e-3;  // as load_image's

using Facts = std::map<std::string, FileFacts>;  // by path

std::string shape_text(const FileFacts& f) {
  std::string text;
  for (const auto n : f.shape) text += (text.empty() ? "" : " x ") + std::to_string(n);
  return text;
}

std::string spacing_text(const std::array<double, 3>& v) {
  return fmt::format("{:.4g} x {:.4g} x {:.4g} mm", v[0], v[1], v[2]);
}

Facts read_all(const DataSet& set, const Manifest* manifest) {
  Facts facts;
  std::map<std::string, bool> is_label;
  for (const DataCase& one : set.cases)
    for (const auto& [key, file] : one.files) {
      facts.try_emplace(file);
      is_label[file] = set.is_label(key);
    }
  std::vector<Facts::value_type*> all;
  for (auto& entry : facts) all.push_back(&entry);
  tbb::parallel_for(std::size_t{0}, all.size(), [&](std::size_t i) {
    all[i]->second = facts_of(all[i]->first, is_label.at(all[i]->first), manifest);
  });
  return facts;
}

// ---- one file -----------------------------------------------------------------------------------

// The two axes that are least at right angles, and by how many degrees they miss it.
std::string shear_of(const Matrix4& m, const std::array<double, 3>& spacing) {
  for (std::size_t j = 0; j < 3; ++j)
    for (std::size_t k = 0; k < j; ++k) {
      const double cosine =
          (m[j] * m[k] + m[4 + j] * m[4 + k] + m[8 + j] * m[8 + k]) / (spacing[j] * spacing[k]);
      if (std::abs(cosine) > tolerance)
        return fmt::format("axes {} and {} meet at {:.2f} degrees", k, j,
                           std::acos(std::clamp(cosine, -1.0, 1.0)) * 180 / M_PI);
    }
  return "";
}

void check_geometry(DataSet& set, const std::string& file, const FileFacts& f) {
  if (!f.has_affine) return;
  if (const std::string shear = shear_of(f.affine, f.spacing); !shear.empty())
    set.find("sheared", file, shear);
  if (!f.placed) set.find("no_geometry", file, "its place and axes are a guess");
  for (std::size_t d = 0; d < f.shape.size() && d < 3; ++d)
    if (f.spacing[d] < 0.01 || f.spacing[d] > 50) {
      set.find("odd_spacing", file, "voxels of " + spacing_text(f.spacing));
      break;
    }
}

void check_label(DataSet& set, const std::string& file, const FileFacts& f) {
  const auto say = [&](const char* kind, double value, const Seen& seen, const char* end) {
    set.find(kind, file,
             fmt::format("{} voxels are {:g}, the first at {}{}",
                         with_commas(static_cast<std::uint64_t>(seen.voxels)), value,
                         f.place(seen.first), end));
  };
  if (f.channels != 1) set.find("label_channels", file, std::to_string(f.channels) + " channels");
  if (f.values.size() > FileFacts::most_values)
    return set.find("label_is_image", file,
                    "more than " + std::to_string(FileFacts::most_values) + " different values");
  const Seen* fraction = nullptr;
  for (const auto& [value, seen] : f.values) {
    const bool whole = value == std::floor(value);
    if (!whole && !std::exchange(fraction, &seen)) say("label_fraction", value, seen, "");
    if (whole && value < 0) say("label_negative", value, seen, "");
    if (whole && value >= 0 && !set.labels.empty() &&
        !set.labels.count(static_cast<std::int64_t>(value)))
      say("label_value", value, seen, "");
  }
  if (f.values.size() == 1 && f.values.begin()->first == 0)
    set.find("label_empty", file, "every voxel is 0");
  if (f.dtype.starts_with("float")) set.find("label_float", file, "stored as " + f.dtype);
}

void check_file(DataSet& set, const std::string& file, const FileFacts& f, bool is_label) {
  if (!f.there) return set.find("missing", file, "no such file");
  if (!f.not_as_indexed.empty()) set.find("manifest", file, f.not_as_indexed);
  if (!f.readable) return set.find("unreadable", file, f.why);
  check_geometry(set, file, f);
  if (f.not_finite.voxels > 0)
    set.find("not_finite", file,
             fmt::format("{} voxels are NaN or infinite, the first at {}",
                         with_commas(static_cast<std::uint64_t>(f.not_finite.voxels)),
                         f.place(f.not_finite.first)));
  if (is_label)
    check_label(set, file, f);
  else if (f.least == f.most)
    set.find("constant", file, fmt::format("every voxel is {:g}", f.most));
}

// ---- one case -----------------------------------------------------------------------------------

void compare(DataSet& set, const std::string& a_file, const FileFacts& a, const std::string& file,
             const FileFacts& b) {
  if (a.shape != b.shape)
    return set.find("shape", file, shape_text(b) + ", " + a_file + " is " + shape_text(a));
  if (!a.has_affine || !b.has_affine) return;
  for (std::size_t d = 0; d < 3; ++d)
    if (std::abs(a.spacing[d] - b.spacing[d]) > tolerance)
      return set.find("spacing", file,
                      spacing_text(b.spacing) + ", " + a_file + " has " + spacing_text(a.spacing));
  for (std::size_t i = 0; i < 12; ++i)
    if (std::abs(a.affine[i] - b.affine[i]) > tolerance)
      return set.find("affine", file,
                      fmt::format("affine[{}][{}] is {:g}, in {} it is {:g}", i / 4, i % 4,
                                  b.affine[i], a_file, a.affine[i]));
}

void check_case(DataSet& set, const DataCase& one, const Facts& facts) {
  const std::string* first = nullptr;
  bool has_label = false, has_image = false;
  for (const auto& [key, file] : one.files) {
    (set.is_label(key) ? has_label : has_image) = true;
    const FileFacts& f = facts.at(file);
    if (!f.readable) continue;
    if (!first)
      first = &file;
    else
      compare(set, *first, facts.at(*first), file, f);
  }
  if (set.labelled && one.split == "training" && !has_label)
    set.find("no_label", one.files.front().second, "its case has no label");
  if (!has_image) set.find("no_image", one.files.front().second, "its case has no image");
}

// ---- the whole set ------------------------------------------------------------------------------

struct Use {
  const DataCase* one;
  std::string file;
};

std::string where(const Use& use) { return use.file + " (" + use.one->split + ")"; }

// Files of a list are named once; what is named in two lists is a leak, which is found below.
void check_names(DataSet& set) {
  std::map<std::pair<std::string, std::string>, int> named;
  for (const DataCase& one : set.cases)
    for (const auto& [key, file] : one.files)
      if (++named[{one.split, fs::absolute(file).lexically_normal().string()}] == 2)
        set.find("listed_twice", file, "named again in " + one.split);
}

bool leaks(const std::string& a, const std::string& b) {
  const auto held_out = [](const std::string& s) { return s == "validation" || s == "test"; };
  return a != b && (a == "training" || b == "training" || (held_out(a) && held_out(b)));
}

void check_copies(DataSet& set, const Facts& facts) {
  std::map<std::pair<bool, CacheKey>, std::vector<Use>> same;
  for (const DataCase& one : set.cases)
    for (const auto& [key, file] : one.files) {
      const FileFacts& f = facts.at(file);
      const bool label = set.is_label(key);
      if (!f.readable || f.least == f.most) continue;
      same[{label, f.voxels}].push_back({&one, file});
    }
  for (const auto& [key, uses] : same) {
    if (uses.size() < 2) continue;
    const Use& first = uses.front();
    for (std::size_t i = 1; i < uses.size(); ++i) {
      const Use& other = uses[i];
      if (!key.first && leaks(first.one->split, other.one->split))
        set.find("leak", other.file, "in " + other.one->split + ", the same as " + where(first));
      else if (first.file != other.file && first.one->split == other.one->split)
        set.find(key.first ? "label_duplicate" : "duplicate", other.file,
                 "the same as " + first.file);
    }
  }
}

void check_classes(DataSet& set, const Facts& facts) {
  if (set.labels.empty()) return;
  std::set<std::int64_t> seen;
  bool any = false;
  for (const DataCase& one : set.cases)
    for (const auto& [key, file] : one.files) {
      if (one.split != "training" || !set.is_label(key) || !facts.at(file).readable) continue;
      any = true;
      for (const auto& [value, voxels] : facts.at(file).values)
        if (value == std::floor(value)) seen.insert(static_cast<std::int64_t>(value));
    }
  if (!any) return;
  for (const auto& [label, name] : set.labels)
    if (!seen.count(label))
      set.find("class_missing", set.labels_from,
               "label " + std::to_string(label) + (name.empty() ? "" : " (" + name + ")") +
                   " is in no label for training");
}

// One finding for a property in which images differ: the most common value, and who has others.
template <class Get>
void check_mixed(DataSet& set, const Facts& facts, const char* kind, Get get) {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> by_key;
  for (const DataCase& one : set.cases)
    for (const auto& [key, file] : one.files)
      if (!set.is_label(key) && facts.at(file).readable)
        by_key[key][get(facts.at(file))].push_back(file);
  for (const auto& [key, values] : by_key) {
    if (values.size() < 2) continue;
    const auto common = std::max_element(values.begin(), values.end(), [](auto& a, auto& b) {
      return a.second.size() < b.second.size();
    });
    for (const auto& [value, files] : values)
      if (value != common->first)
        set.find(kind, files.front(),
                 fmt::format("{}, {}{} files have {}", value,
                             files.size() > 1 ? fmt::format("as {} more; ", files.size() - 1) : "",
                             common->second.size(), common->first));
  }
}

void check_spacings(DataSet& set, const Facts& facts) {
  const std::string *finest = nullptr, *coarsest = nullptr;
  const auto size = [&](const std::string& file) {
    const auto& s = facts.at(file).spacing;
    return s[0] * s[1] * s[2];
  };
  for (const DataCase& one : set.cases)
    for (const auto& [key, file] : one.files) {
      if (set.is_label(key) || !facts.at(file).readable || !facts.at(file).has_affine) continue;
      if (!finest || size(file) < size(*finest)) finest = &file;
      if (!coarsest || size(file) > size(*coarsest)) coarsest = &file;
    }
  if (!finest) return;
  const auto &a = facts.at(*finest).spacing, &b = facts.at(*coarsest).spacing;
  for (std::size_t d = 0; d < 3; ++d)
    if (std::max(a[d], b[d]) > 3 * std::min(a[d], b[d]))
      return set.find("mixed_spacing", *coarsest,
                      spacing_text(b) + ", " + *finest + " has " + spacing_text(a));
}

void check_flat(DataSet& set, const Facts& facts) {
  const auto is_flat = [](const FileFacts& f) { return f.shape.size() < 3 || f.shape[2] == 1; };
  const bool thick = std::any_of(facts.begin(), facts.end(), [&](const auto& entry) {
    return entry.second.readable && !is_flat(entry.second);
  });
  for (const auto& [file, f] : facts)
    if (thick && f.readable && is_flat(f)) set.find("flat", file, shape_text(f) + " voxels");
}

// The volumes of a folder by their names without .nii and .gz, in small letters or in capitals.
std::multimap<std::string, fs::path> niftis_in(const fs::path& folder) {
  std::multimap<std::string, fs::path> found;
  std::error_code problem;
  for (fs::directory_iterator at(folder.empty() ? "." : folder, problem), end;
       !problem && at != end; at.increment(problem))
    if (is_nifti_name(at->path())) found.emplace(file_stem(at->path()), at->path().filename());
  return found;
}

void check_twins(DataSet& set, const Facts& facts) {
  std::map<fs::path, std::multimap<std::string, fs::path>> folders;
  for (const auto& [name, f] : facts) {
    const fs::path file = name, folder = file.parent_path();
    if (!is_nifti_name(file)) continue;
    const auto listed = folders.find(folder);
    const auto& there =
        listed != folders.end() ? listed->second : (folders[folder] = niftis_in(folder));
    const auto [first, last] = there.equal_range(file_stem(file));
    for (auto other = first; other != last; ++other)
      if (other->second != file.filename())
        set.find("twins", name, "there is " + (folder / other->second).string() + " too");
  }
}

void check_mixtures(DataSet& set, const Facts& facts) {
  check_mixed(set, facts, "mixed_dtype", [](const FileFacts& f) { return f.dtype; });
  check_mixed(set, facts, "mixed_channels",
              [](const FileFacts& f) { return std::to_string(f.channels) + " channels"; });
  check_mixed(set, facts, "mixed_orientation", [](const FileFacts& f) {
    return f.has_affine ? axcodes(orientation_of(f.affine)) : std::string("no axes");
  });
  check_spacings(set, facts);
  check_flat(set, facts);
}

DataCheck ordered(DataSet& set, const Facts& facts) {
  DataCheck check;
  for (const DataKind& kind : data_kinds())
    for (Finding& f : set.findings)
      if (f.kind == kind.name) {
        ++(kind.fault ? check.faults : check.warnings);
        check.findings.push_back(std::move(f));
      }
  check.files = facts.size();
  std::error_code problem;
  for (const auto& [file, f] : facts)
    if (const auto n = fs::file_size(file, problem); !problem) check.bytes += n;
  return check;
}

}  // namespace

DataCheck check_data(DataSet set, const Manifest* manifest) {
  const Facts facts = read_all(set, manifest);
  std::map<std::string, bool> is_label;
  for (const DataCase& one : set.cases)
    for (const auto& [key, file] : one.files) is_label[file] = set.is_label(key);
  for (const auto& [file, f] : facts) check_file(set, file, f, is_label.at(file));
  for (const DataCase& one : set.cases) check_case(set, one, facts);
  check_names(set);
  check_copies(set, facts);
  check_classes(set, facts);
  check_mixtures(set, facts);
  check_twins(set, facts);
  return ordered(set, facts);
}

}  // namespace sluice
