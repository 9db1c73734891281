#include "tools/web/volumes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>

#include "engine/base/durable_file.h"
#include "engine/base/file_ending.h"
#include "engine/base/letter_case.h"
#include "tools/runs/files.h"
#include "tools/web/jobs.h"
#include "tools/web/places.h"

namespace sluice::web {

namespace fs = std::filesystem;

class Array {
 public:
  explicit Array(const fs::path& file);
  ~Array() {
    if (data_ != MAP_FAILED) ::munmap(data_, bytes_);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  std::array<std::int64_t, 3> extents{1, 1, 1};  // of the first channel
  std::array<double, 3> spacing{1, 1, 1};
  double at(std::int64_t x, std::int64_t y, std::int64_t z) const {
    const std::int64_t i = (x * extents[1] + y) * extents[2] + z;
    return get_(begin_ + static_cast<std::size_t>(i) * size_);
  }

 private:
  void* data_ = MAP_FAILED;
  std::size_t bytes_ = 0, size_ = 4;
  const char* begin_ = nullptr;
  double (*get_)(const char*) = nullptr;
};

namespace {

constexpr std::size_t most_arrays = 12, most_entries = 20'000;

template <class T>
double get(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

struct Type {
  const char* name;
  std::size_t size;
  double (*get)(const char*);
};
constexpr Type types[] = {
    {"f4", 4, get<float>},        {"f8", 8, get<double>},        {"u1", 1, get<std::uint8_t>},
    {"i1", 1, get<std::int8_t>},  {"u2", 2, get<std::uint16_t>}, {"i2", 2, get<std::int16_t>},
    {"i4", 4, get<std::int32_t>}, {"i8", 8, get<std::int64_t>},  {"b1", 1, get<std::uint8_t>}};

std::string stem_of(const fs::path& file) {
  const std::string name = file.filename();
  return name.substr(0, lower_case(name).rfind(".nii"));
}

template <class Each>
void walk(const fs::path& folder, int depth, const Each& each) {
  std::error_code none;
  std::size_t seen = 0;
  fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, none);
  for (const fs::recursive_directory_iterator end; it != end && !none; it.increment(none)) {
    if (++seen > most_entries) return;
    if (it.depth() >= depth || it->path().filename().string().starts_with('.'))
      it.disable_recursion_pending();
    if (!it->is_symlink(none) && it->is_regular_file(none) && is_nifti_name(it->path()))
      each(it->path());
  }
}

// The folders that the run's graph names.
std::set<fs::path> folders_of(const fs::path& run) {
  const std::string begun_in = runs::text(runs::read_json(run / "environment.json"), "folder");
  std::set<fs::path> found;
  const auto look = [&](const auto& self, const Json& j) -> void {
    std::error_code none;
    if (j.is_string() && !j.get_ref<const std::string&>().empty()) {
      const fs::path path = fs::path(begun_in) / j.get<std::string>();
      if (path.is_absolute() && path.has_relative_path() && fs::is_directory(path, none)) {
        found.insert(path);
        // A prediction's graph names the images alone: imagesTr has its labels in labelsTr.
        const std::string name = path.filename();
        const fs::path labels =
            path.parent_path() / ("labels" + name.substr(name.size() > 6 ? 6 : 0));
        if (name.starts_with("images") && fs::is_directory(labels, none)) found.insert(labels);
      }
    }
    if (j.is_structured())
      for (const auto& one : j) self(self, one);
  };
  const Json graph = runs::read_json(run / "graph.json");
  if (graph.is_object() && graph.contains("nodes")) look(look, graph["nodes"]);
  return found;
}

// The image or the label whose name the prediction's begins with, the longest such; "" for none.
fs::path source_of(const fs::path& run, const std::string& name, bool label) {
  const std::string stem = stem_of(name);
  fs::path best;
  for (const auto& folder : folders_of(run))
    walk(folder, 2, [&](const fs::path& file) {
      const std::string here = stem_of(file);
      const bool fits = stem == here || stem.starts_with(here + "_");
      const std::string where = file.parent_path().filename().string();
      const bool is_label = where.find("label") != where.npos || where.find("seg") != where.npos;
      if (fits && is_label == label && (best.empty() || here.size() > stem_of(best).size()))
        best = file;
    });
  return best;
}

}  // namespace

Array::Array(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat s {};
  if (fd < 0 || ::fstat(fd, &s) != 0) throw Refusal{500, "the volume was not converted"};
  bytes_ = static_cast<std::size_t>(s.st_size);
  data_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  const Refusal bad{500, "the converted volume is no array"};
  if (data_ == MAP_FAILED || bytes_ < 12) throw bad;
  const char* all = static_cast<const char*>(data_);
  const bool long_header = all[6] > 1;
  std::uint32_t length = 0;
  std::memcpy(&length, all + 8, long_header ? 4 : 2);
  const std::size_t front = (long_header ? 12 : 10) + length;
  if (front > bytes_) throw bad;
  const std::string header(all, front);
  for (const Type& type : types)
    if (header.find(std::string(type.name) + "'") != header.npos) {
      size_ = type.size;
      get_ = type.get;
    }
  std::vector<std::int64_t> shape;
  auto open = header.find('(');
  for (const char* at = header.c_str() + (open == header.npos ? front : open + 1);
       *at && *at != ')';) {
    char* end = nullptr;
    const long long n = std::strtoll(at, &end, 10);
    if (end == at) {
      ++at;
      continue;
    }
    shape.push_back(n);
    at = end;
  }
  if (!get_ || header.find("'fortran_order': True") != header.npos || shape.size() < 3) throw bad;
  std::size_t values = 1;
  for (std::size_t i = 1; i < std::min<std::size_t>(shape.size(), 4); ++i) {
    if (shape[i] <= 0) throw bad;
    extents[i - 1] = shape[i];
    values *= static_cast<std::size_t>(shape[i]);
  }
  if (front + values * size_ > bytes_) throw bad;
  begin_ = all + front;
  const Json affine = runs::read_json(file.string() + ".json").value("affine", Json());
  for (std::size_t axis = 0; affine.is_array() && axis < 3; ++axis) {
    double sum = 0;
    for (std::size_t row = 0; row < 3; ++row) sum += std::pow(affine[row][axis].get<double>(), 2);
    if (sum > 0) spacing[axis] = std::sqrt(sum);
  }
}

Volumes::Volumes() {
  std::string name = (fs::temp_directory_path() / "sluice-open-XXXXXX").string();
  if (!::mkdtemp(name.data())) fail_io("make a folder", name, errno);
  scratch_ = name;
}

Volumes::~Volumes() {
  std::error_code ignored;
  fs::remove_all(scratch_, ignored);
}

fs::path Volumes::scratch_file(const std::string& extension) {
  const std::lock_guard lock(mutex_);
  return scratch_ / (std::to_string(next_++) + extension);
}

Json Volumes::list(const fs::path& run) {
  std::vector<std::string> names;
  walk(run, 3,
       [&](const fs::path& file) { names.push_back(file.lexically_relative(run).string()); });
  std::sort(names.begin(), names.end());
  if (names.size() > 500) names.resize(500);
  Json all = Json::array();
  for (const auto& name : names) all.push_back({{"name", name}});
  return all;
}

// A name is one of list()'s, so it leads nowhere else.
fs::path Volumes::file(const fs::path& run, const std::string& name, const std::string& which) {
  const Json all = list(run);
  if (std::none_of(all.begin(), all.end(), [&](const Json& j) { return j["name"] == name; }))
    throw Refusal{404, "the run has no such volume"};
  if (which == "pred") return run / name;
  const fs::path found = source_of(run, name, which == "label");
  if (found.empty()) throw Refusal{404, "no " + which + " was found that belongs to it"};
  return found;
}

std::shared_ptr<const Array> Volumes::array(const fs::path& file) {
  const std::lock_guard lock(mutex_);
  std::error_code none;
  const std::string key =
      file.string() + "@" +
      std::to_string(fs::last_write_time(file, none).time_since_epoch().count());
  if (const auto it = arrays_.find(key); it != arrays_.end()) return it->second;
  const fs::path to = scratch_ / (std::to_string(next_++) + ".npy");
  std::string said;
  if (run_and_wait({"apply", "orientation", "--in", "image=" + file.string(), "--param",
                    "axcodes=RAS", "--out", "image=" + to.string()},
                   said) != 0)
    throw Refusal{422, said.empty() ? "the volume cannot be read" : said};
  const auto array = std::make_shared<const Array>(to);
  fs::remove(to, none);  // it stays mapped
  fs::remove(to.string() + ".json", none);
  arrays_[key] = array;
  order_.push_back(key);
  if (order_.size() > most_arrays) {
    arrays_.erase(order_.front());
    order_.erase(order_.begin());
  }
  return array;
}

Json Volumes::open(const fs::path& run, const std::string& name, const std::string& which) {
  const auto a = array(file(run, name, which));
  std::vector<double> drawn;
  std::set<int> labels;
  bool whole = true;
  const auto [nx, ny, nz] = a->extents;
  const std::int64_t every =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(std::cbrt(nx * ny * nz / 200'000.0)));
  for (std::int64_t x = 0; x < nx; ++x)
    for (std::int64_t y = 0; y < ny; ++y)
      for (std::int64_t z = 0; z < nz; ++z) {
        const double v = a->at(x, y, z);
        if (x % every == 0 && y % every == 0 && z % every == 0 && std::isfinite(v))
          drawn.push_back(v);
        whole = whole && v == std::floor(v) && v >= 0 && v < 256;
        if (whole && labels.size() < 64) labels.insert(static_cast<int>(v));
      }
  std::sort(drawn.begin(), drawn.end());
  const auto quantile = [&](double q) {
    return drawn.empty()
               ? 0.0
               : drawn[static_cast<std::size_t>(q * static_cast<double>(drawn.size() - 1))];
  };
  return {{"shape", a->extents},
          {"spacing", a->spacing},
          {"low", quantile(0.005)},
          {"high", quantile(0.995)},
          {"least", quantile(0)},
          {"most", quantile(1)},
          {"labels", whole ? Json(labels) : Json::array()}};
}

std::string Volumes::slice(const fs::path& run, const std::string& name, const std::string& which,
                           int plane, std::int64_t at, double low, double high) {
  const auto a = array(file(run, name, which));
  if (plane < 0 || plane > 2 || at < 0 || at >= a->extents[static_cast<std::size_t>(plane)])
    throw Refusal{404, "no such slice"};
  const bool labels = which != "image";
  const std::size_t across = plane == 0 ? 1 : 0, up = plane == 2 ? 1 : 2;
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(a->extents[across] * a->extents[up]));
  // Up is superior, or anterior: the last row first.
  std::array<std::int64_t, 3> i{};
  i[static_cast<std::size_t>(plane)] = at;
  for (i[up] = a->extents[up] - 1; i[up] >= 0; --i[up])
    for (i[across] = 0; i[across] < a->extents[across]; ++i[across]) {
      const double v = a->at(i[0], i[1], i[2]);
      const double shown = labels ? v : 255 * (v - low) / std::max(high - low, 1e-12);
      bytes += static_cast<char>(
          static_cast<unsigned char>(std::isfinite(shown) ? std::clamp(shown, 0.0, 255.0) : 0));
    }
  return bytes;
}

}  // namespace sluice::web
