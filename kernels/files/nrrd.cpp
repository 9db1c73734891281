#include "kernels/files/nrrd.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "engine/base/error.h"
#include "engine/base/letter_case.h"
#include "engine/base/trimmed.h"
#include "kernels/files/text_header.h"

namespace sluice {
namespace {

const std::set<std::string_view> nrrd_keys{
    "type",        "dimension",    "sizes",        "encoding",
    "endian",      "space",        "space origin", "space directions",
    "space units", "kinds",        "spacings",     "space dimension",
    "content",     "centers",      "centerings",   "labels",
    "units",       "thicknesses",  "byte skip",    "measurement frame",
    "byteskip",    "line skip",    "lineskip",     "data file",
    "datafile",    "sample units", "sampleunits",  "old min",
    "oldmin",      "old max",      "oldmax",       "min",
    "max",         "number",       "axis mins",    "axismins",
    "axis maxs",   "axismaxs"};

struct TypeNames {
  StoredType type;
  std::set<std::string_view> names;
};
const TypeNames nrrd_types[] = {
    {StoredType::int8, {"signed char", "int8", "int8_t"}},
    {StoredType::uint8, {"uchar", "unsigned char", "uint8", "uint8_t"}},
    {StoredType::int16,
     {"short", "short int", "signed short", "signed short int", "int16", "int16_t"}},
    {StoredType::uint16, {"ushort", "unsigned short", "unsigned short int", "uint16", "uint16_t"}},
    {StoredType::int32, {"int", "signed int", "int32", "int32_t"}},
    {StoredType::uint32, {"uint", "unsigned int", "uint32", "uint32_t"}},
    {StoredType::int64,
     {"longlong", "long long", "long long int", "signed long long", "signed long long int", "int64",
      "int64_t"}},
    {StoredType::uint64,
     {"ulonglong", "unsigned long long", "unsigned long long int", "uint64", "uint64_t"}},
    {StoredType::float32, {"float"}},
    {StoredType::float64, {"double"}},
};

// The format's words are the same in capitals.
std::string lowered(const HeaderFields& fields, const std::string& key) {
  return lower_case(fields.text(key));
}

StoredType nrrd_type(const HeaderFields& fields) {
  const std::string name = lowered(fields, "type");
  for (const auto& row : nrrd_types)
    if (row.names.count(name)) return row.type;
  fields.wrong("type");
}

HeaderFields nrrd_fields(HeaderLines& lines, const std::string& name) {
  const auto first = lines.next();
  if (!first || first->size() != 8 || !first->starts_with("NRRD000") || (*first)[7] < '1' ||
      (*first)[7] > '5')
    refuse(name, "is no NRRD file");
  HeaderFields fields(name, nrrd_keys);
  for (auto line = lines.next(); line && !line->empty(); line = lines.next()) {
    if (line->front() == '#') continue;
    const auto colon = line->find(':');
    if (colon == std::string::npos) refuse(name, "has a header line without a colon");
    if (line->compare(colon, 2, ":=") == 0) continue;  // free key/value pairs
    fields.add(lower_case(line->substr(0, colon)), trimmed(line->substr(colon + 1)));
  }
  return fields;
}

// One axis as the header describes it.
struct Axis {
  std::int64_t size = 1;
  bool space = true;
  std::vector<double> direction;  // as long as the space has dimensions; may be empty
  double spacing = 1, first = 0;
};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// "(1,0,0)", or "(1, 0, 0)": its numbers; nullopt where it is anything else.
std::optional<std::vector<double>> vector_in(const std::string& text) {
  if (text.size() < 3 || text.front() != '(' || text.back() != ')') return std::nullopt;
  std::string inner = text.substr(1, text.size() - 2);
  std::replace(inner.begin(), inner.end(), ',', ' ');
  return reals_in(inner);
}

// "(1,0,0) none (0, 0, 2)": vectors and words.
std::vector<std::string> vectors_of(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t at = 0; (at = text.find_first_not_of(" \t", at)) != std::string::npos;) {
    const auto end = text[at] == '(' ? text.find(')', at) : text.find_first_of(" \t", at) - 1;
    all.push_back(text.substr(at, end == std::string::npos ? end : end - at + 1));
    at += all.back().size();
  }
  return all;
}

// Whether a direction of a space of four axes (of time, say) lies within the first three, or along
// the fourth. One that is neither is no direction of a volume.
bool in_three(const std::vector<double>& v) { return v[3] == 0; }
bool along_fourth(const std::vector<double>& v) {
  return v[0] == 0 && v[1] == 0 && v[2] == 0 && std::isfinite(v[3]);
}

void read_directions(const HeaderFields& fields, std::vector<Axis>& axes) {
  if (!fields.has("space directions")) return;
  const auto vectors = vectors_of(fields.text("space directions"));
  if (vectors.size() != axes.size()) fields.wrong("space directions");
  std::size_t dimension = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    axes[i].space = lower_case(vectors[i]) != "none";
    if (!axes[i].space) continue;
    auto v = vector_in(vectors[i]);
    if (!v || v->empty() || v->size() > 4 || (dimension && dimension != v->size()))
      fields.wrong("space directions");
    dimension = v->size();
    if (v->size() == 4 && !in_three(*v)) {
      if (!along_fourth(*v)) fields.wrong("space directions");
      axes[i].space = false;
      continue;
    }
    v->resize(std::min<std::size_t>(3, v->size()));
    axes[i].direction = *v;
  }
}

void read_spacings(const HeaderFields& fields, std::vector<Axis>& axes) {
  if (!fields.has("spacings")) return;
  const auto words = words_of(fields.text("spacings"));
  if (words.size() != axes.size()) fields.wrong("spacings");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto v = reals_in(words[i]);
    if (!v || !(v->front() > 0 || std::isnan(v->front())) || std::isinf(v->front()))
      fields.wrong("spacings");
    if (v->front() > 0) axes[i].spacing = v->front();
  }
}

// Where the axes begin, which is where the first voxels lie or, as ITK has it, half a voxel before
// them. Where spacings are missing, ITK passes over the size of a voxel that limits would give.
void read_limits(const HeaderFields& fields, std::vector<Axis>& axes, const std::string& name) {
  const std::string mins = fields.one_of({"axis mins", "axismins"}),
                    maxs = fields.one_of({"axis maxs", "axismaxs"}),
                    centers = fields.one_of({"centerings", "centers"});
  if ((mins + maxs).empty() || fields.has("space directions")) return;
  if (!fields.has("spacings"))
    refuse(name, "has \"" + (mins.empty() ? maxs : mins) +
                     "\" and neither \"spacings\" nor \"space directions\", which are read");
  const auto words = words_of(fields.text(mins)), kinds = words_of(fields.text(centers));
  if (mins.empty() || fields.has("space origin")) return;
  if (words.size() != axes.size()) fields.wrong(mins);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto v = reals_in(words[i]);
    if (!v) fields.wrong(mins);
    const bool node = i < kinds.size() && lower_case(kinds[i]) == "node";
    if (axes[i].space) axes[i].first = v->front() + (node ? 0 : axes[i].spacing / 2);
  }
  const auto known = [](const Axis& axis) { return std::isfinite(axis.first); };
  if (!std::ranges::all_of(axes, known))
    for (Axis& axis : axes) axis.first = 0;
}

// The kinds that the format knows, of axes that are no space.
const std::set<std::string_view> other_kinds{"time",
                                             "list",
                                             "point",
                                             "vector",
                                             "covariant-vector",
                                             "normal",
                                             "stub",
                                             "scalar",
                                             "2-vector",
                                             "3-color",
                                             "rgb-color",
                                             "hsv-color",
                                             "xyz-color",
                                             "4-color",
                                             "rgba-color",
                                             "3-vector",
                                             "3-gradient",
                                             "3-normal",
                                             "4-vector",
                                             "quaternion",
                                             "2d-symmetric-matrix",
                                             "2d-masked-symmetric-matrix",
                                             "2d-matrix",
                                             "2d-masked-matrix",
                                             "3d-symmetric-matrix",
                                             "3d-masked-symmetric-matrix",
                                             "3d-matrix",
                                             "3d-masked-matrix"};

// Which axes are channels, where the directions do not say.
void read_kinds(const HeaderFields& fields, std::vector<Axis>& axes, const std::string& name) {
  static const std::set<std::string_view> of_space{"domain", "space", "???", "none"};
  if (!fields.has("kinds")) return;
  const auto kinds = words_of(fields.text("kinds"));
  if (kinds.size() != axes.size()) fields.wrong("kinds");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::string kind = lower_case(kinds[i]);
    if (kind == "complex") refuse(name, "holds complex numbers; only real ones are read");
    if (of_space.count(kind)) continue;
    if (!other_kinds.count(kind)) fields.wrong("kinds");
    if (axes[i].direction.empty()) axes[i].space = false;
  }
}

void order_axes(const std::vector<Axis>& axes, RawVolume& raw, const std::string& name) {
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i].space)
      raw.dim.push_back(axes[i].size);
    else
      others.push_back(i);
  if (others.empty() && raw.dim.size() == 4) {  // as NIfTI's fourth
    others.push_back(3);
    raw.dim.pop_back();
  }
  if (raw.dim.empty() || raw.dim.size() > 3 || others.size() > 1)
    refuse(name, "has " + std::to_string(raw.dim.size()) + " axes of space and " +
                     std::to_string(others.size()) +
                     " others; read are 1 to 3, and one for the channels");
  if (others.empty()) return;
  raw.channels = axes[others[0]].size;
  raw.channel_axis = others[0];
}

// Signs that turn the file's space to RAS. A space that says nothing of the patient is taken for
// LPS; one that the format does not know is refused.
std::array<double, 3> signs_of(const HeaderFields& fields) {
  static const std::map<std::string_view, std::array<double, 3>> known_spaces{
      {"right-anterior-superior", {1, 1, 1}},
      {"ras", {1, 1, 1}},
      {"right-anterior-superior-time", {1, 1, 1}},
      {"rast", {1, 1, 1}},
      {"left-anterior-superior", {-1, 1, 1}},
      {"las", {-1, 1, 1}},
      {"left-anterior-superior-time", {-1, 1, 1}},
      {"last", {-1, 1, 1}},
      {"left-posterior-superior", {-1, -1, 1}},
      {"lps", {-1, -1, 1}},
      {"left-posterior-superior-time", {-1, -1, 1}},
      {"lpst", {-1, -1, 1}},
      {"scanner-xyz", {-1, -1, 1}},
      {"scanner-xyz-time", {-1, -1, 1}},
      {"3d-right-handed", {-1, -1, 1}},
      {"3d-left-handed", {-1, -1, 1}},
      {"3d-right-handed-time", {-1, -1, 1}},
      {"3d-left-handed-time", {-1, -1, 1}}};
  if (!fields.has("space")) return {-1, -1, 1};
  const auto found = known_spaces.find(lowered(fields, "space"));
  if (found == known_spaces.end()) fields.wrong("space");
  return found->second;
}

Matrix4 affine_of(const HeaderFields& fields, const std::vector<Axis>& axes) {
  const auto sign = signs_of(fields);
  Matrix4 m{-1, 0, 0, 0, 0, -1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  std::size_t column = 0;
  for (const Axis& axis : axes) {
    if (!axis.space || column == 3) continue;
    for (std::size_t row = 0; row < 3; ++row) {
      const double along = axis.direction.empty()        ? (row == column) * axis.spacing
                           : row < axis.direction.size() ? axis.direction[row]
                                                         : 0;
      m[4 * row + column] = sign[row] * along;
    }
    m[4 * column + 3] = sign[column] * axis.first;
    ++column;
  }
  if (!fields.has("space origin")) return m;
  const auto origin = vector_in(fields.text("space origin"));
  if (!origin || origin->empty() || origin->size() > 4) fields.wrong("space origin");
  for (std::size_t row = 0; row < std::min<std::size_t>(3, origin->size()); ++row)
    m[4 * row + 3] = sign[row] * (*origin)[row];
  return m;
}

std::vector<Axis> axes_of(const HeaderFields& fields, const std::string& name) {
  const auto dimension = fields.sizes("dimension", 1)[0];
  if (dimension > 4) fields.wrong("dimension");
  std::vector<Axis> axes(static_cast<std::size_t>(dimension));
  const auto sizes = fields.sizes("sizes", axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i].size = sizes[i];
  read_directions(fields, axes);
  read_spacings(fields, axes);
  read_kinds(fields, axes, name);
  read_limits(fields, axes, name);
  return axes;
}

// Whether the voxels are numbers as text.
bool is_numbers(const HeaderFields& fields) {
  const std::string encoding = lowered(fields, "encoding");
  return encoding == "ascii" || encoding == "text" || encoding == "txt";
}

bool is_big_endian(const HeaderFields& fields, StoredType type) {
  const std::string endian = lowered(fields, "endian");
  if (is_numbers(fields)) return false;
  if (size_of(type) == 1 && endian.empty()) return false;
  if (endian != "little" && endian != "big") fields.wrong("endian");
  return endian == "big";
}

VoxelSource source_of(const HeaderFields& fields, const std::string& name) {
  VoxelSource source;
  const std::string encoding = lowered(fields, "encoding");
  if (is_numbers(fields))
    source.packing = Packing::numbers;
  else if (encoding == "hex")
    source.packing = Packing::hex;
  else if (encoding == "gzip" || encoding == "gz")
    source.packing = Packing::gzip;
  else if (encoding != "raw")
    fields.wrong("encoding");
  const std::string lines = fields.one_of({"line skip", "lineskip"});
  if (!lines.empty()) source.lines = fields.whole(lines, 0);
  if (source.lines < 0) fields.wrong(lines);
  const std::string bytes = fields.one_of({"byte skip", "byteskip"});
  if (!bytes.empty()) source.skip = fields.whole(bytes, 0);
  if (source.skip < -1 || (source.skip != 0 && source.packing != Packing::raw)) fields.wrong(bytes);
  const std::string file = fields.one_of({"data file", "datafile"});
  if (!file.empty()) source.file = fields.text(file);
  if (source.file.starts_with("LIST") || source.file.find('%') != std::string::npos)
    refuse(name, "keeps its voxels in several files; one is read");
  return source;
}

}  // namespace

Volume read_nrrd(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read) {
  const std::string name = path.string();
  FileBytes file = read(path);
  HeaderLines lines(file.view(), name);
  const HeaderFields fields = nrrd_fields(lines, name);
  RawVolume raw;
  raw.type = nrrd_type(fields);
  raw.swapped = is_big_endian(fields, raw.type);
  const std::vector<Axis> axes = axes_of(fields, name);
  order_axes(axes, raw, name);
  raw.affine = affine_of(fields, axes);
  check_affine(raw.affine, raw.dim.size(), name);
  raw.placed = fields.has("space directions") || fields.has("space origin");
  VoxelSource source = source_of(fields, name);
  source.header_end = lines.position();
  return read_voxels(raw, source, std::move(file), path, dtype, read);
}

}  // namespace sluice
