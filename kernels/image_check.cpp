#include "kernels/image_check.h"

#include <libdeflate.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "engine/error.h"
#include "kernels/file_io.h"
#include "kernels/gzip.h"

namespace sluice {
namespace {

using View = std::span<const std::uint8_t>;

[[noreturn]] void fail(const std::string& name, const std::string& why) {
  throw DataError(name + ": " + why);
}

// a * b, refused above the volume limit.
std::uint64_t product(std::uint64_t a, std::uint64_t b, const std::string& name) {
  if (a != 0 && b > max_volume_bytes / a)
    fail(name, "declares more than " + with_commas(max_volume_bytes) + " bytes of voxels");
  return a * b;
}

void check_length(std::uint64_t expected, std::uint64_t got, const std::string& name) {
  if (expected != got)
    fail(name, std::string(got < expected ? "ends early" : "is too long") + " (expected " +
                   with_commas(expected) + " bytes of voxels, got " + with_commas(got) + ")");
}

std::string trimmed(const std::string& s) {
  const auto first = s.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return s.substr(first, s.find_last_not_of(" \t\r") - first + 1);
}

// The lines of a text header; the data begin where it stops.
class Lines {
 public:
  Lines(View file, const std::string& name) : file_(file), name_(name) {}
  std::string next() {
    std::string line;
    for (;; ++at_) {
      if (at_ == file_.size()) fail(name_, "ends inside its header");
      if (line.size() > 4096) fail(name_, "has a header line of more than 4,096 characters");
      if (file_[at_] == '\n') break;
      line.push_back(static_cast<char>(file_[at_]));
    }
    ++at_;
    return line;
  }
  View rest() const { return file_.subspan(at_); }

 private:
  View file_;
  const std::string& name_;
  std::size_t at_ = 0;
};

// Numbers separated by blanks, all of the text; nothing where it is anything else.
template <class T>
std::optional<std::vector<T>> numbers(const std::string& text) {
  std::vector<T> out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    T value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
    out.push_back(value);
  }
  return out;
}

// The fields of a header by name.
class Fields {
 public:
  explicit Fields(const std::string& name) : name_(name) {}
  void add(const std::string& key, const std::string& value) {
    if (!map_.emplace(key, value).second) fail(name_, "has two fields \"" + key + "\"");
  }
  bool has(const std::string& key) const { return map_.count(key) != 0; }
  std::string text(const std::string& key, const std::string& fallback = "") const {
    const auto found = map_.find(key);
    return found == map_.end() ? fallback : found->second;
  }
  // Exactly `count` whole numbers, each at least 1.
  std::vector<std::uint64_t> sizes(const std::string& key, std::size_t count) const {
    const auto v = numbers<std::uint64_t>(text(key));
    if (!v || v->size() != count) wrong(key);
    for (auto n : *v)
      if (n < 1) wrong(key);
    return *v;
  }
  // Where the field is there, it has `count` numbers.
  void reals(const std::string& key, std::size_t count) const {
    if (!has(key)) return;
    const auto v = numbers<double>(text(key));
    if (!v || v->size() != count) wrong(key);
  }
  [[noreturn]] void wrong(const std::string& key) const {
    fail(name_, has(key) ? "field \"" + key + "\" cannot be " + text(key)
                         : "has no field \"" + key + "\"");
  }

 private:
  const std::string& name_;
  std::map<std::string, std::string> map_;
};

using Names = std::vector<std::string_view>;

bool holds(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Bytes of one number, by the name of its type.
struct Types {
  Names one, two, four, eight;
  std::uint64_t bytes(const Fields& fields, const std::string& key) const {
    const std::string type = fields.text(key);
    if (holds(one, type)) return 1;
    if (holds(two, type)) return 2;
    if (holds(four, type)) return 4;
    if (holds(eight, type)) return 8;
    fields.wrong(key);
  }
};

const Types nrrd_types{
    {"signed char", "int8", "int8_t", "uchar", "unsigned char", "uint8", "uint8_t"},
    {"short", "short int", "signed short", "int16", "int16_t", "ushort", "unsigned short", "uint16",
     "uint16_t"},
    {"int", "signed int", "int32", "int32_t", "uint", "unsigned int", "uint32", "uint32_t",
     "float"},
    {"longlong", "long long", "int64", "int64_t", "ulonglong", "unsigned long long", "uint64",
     "uint64_t", "double"}};

const Types meta_types{{"MET_CHAR", "MET_UCHAR"},
                       {"MET_SHORT", "MET_USHORT"},
                       {"MET_INT", "MET_UINT", "MET_FLOAT"},
                       {"MET_LONG_LONG", "MET_ULONG_LONG", "MET_DOUBLE"}};

// Fields that are not listed are refused: ITK might read into them what we did not check.
const Names nrrd_known{
    "type",   "dimension",       "sizes",        "encoding",         "endian",
    "space",  "space dimension", "space origin", "space directions", "space units",
    "kinds",  "spacings",        "content",      "centers",          "centerings",
    "labels", "units",           "thicknesses",  "measurement frame"};

const Names meta_known{"ObjectType",
                       "ObjectSubType",
                       "NDims",
                       "BinaryData",
                       "BinaryDataByteOrderMSB",
                       "ElementByteOrderMSB",
                       "CompressedData",
                       "CompressedDataSize",
                       "TransformMatrix",
                       "Offset",
                       "Origin",
                       "Position",
                       "CenterOfRotation",
                       "AnatomicalOrientation",
                       "ElementSpacing",
                       "ElementSize",
                       "DimSize",
                       "ElementType",
                       "ElementNumberOfChannels",
                       "ElementDataFile",
                       "Comment"};

Fields nrrd_fields(Lines& lines, const std::string& name) {
  if (lines.next().rfind("NRRD000", 0) != 0) fail(name, "is no NRRD file");
  Fields fields(name);
  for (std::string line = trimmed(lines.next()); !line.empty(); line = trimmed(lines.next())) {
    if (line[0] == '#') continue;
    const auto colon = line.find(':');
    if (colon == std::string::npos) fail(name, "has a header line without a colon");
    if (line.compare(colon, 2, ":=") == 0) continue;  // free key/value pairs
    const std::string key = line.substr(0, colon);
    if (key == "data file" || key == "datafile") fail(name, "keeps its voxels in another file");
    if (!holds(nrrd_known, key)) fail(name, "has a header field that is not read: \"" + key + "\"");
    fields.add(key, trimmed(line.substr(colon + 1)));
  }
  return fields;
}

Fields meta_fields(Lines& lines, const std::string& name) {
  Fields fields(name);
  while (!fields.has("ElementDataFile")) {  // the last one, by the format's rule
    const std::string line = lines.next();
    const auto equals = line.find('=');
    if (equals == std::string::npos) fail(name, "is no MetaImage: a header line has no \"=\"");
    const std::string key = trimmed(line.substr(0, equals));
    if (!holds(meta_known, key)) fail(name, "has a header field that is not read: \"" + key + "\"");
    fields.add(key, trimmed(line.substr(equals + 1)));
  }
  return fields;
}

std::uint32_t big_endian(const std::uint8_t* p) {
  return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 | p[3];
}

// Bytes of an image's filtered rows; an interlaced one (Adam7) is seven smaller images.
std::uint64_t png_bytes(const std::uint8_t* header, const std::string& name) {
  const std::uint64_t width = big_endian(header), height = big_endian(header + 4);
  const int depth = header[8], colour = header[9];
  const int samples = colour == 2 ? 3 : colour == 4 ? 2 : colour == 6 ? 4 : 1;
  if (width < 1 || height < 1 || depth < 1 || depth > 16 || header[12] > 1)
    fail(name, "has a PNG header that cannot be true");
  const auto rows = [&](std::uint64_t w, std::uint64_t h) {
    if (w == 0 || h == 0) return std::uint64_t{0};
    return product(h, 1 + (product(w, static_cast<std::uint64_t>(depth * samples), name) + 7) / 8,
                   name);
  };
  if (header[12] == 0) return rows(width, height);
  constexpr std::uint64_t adam7[7][4] = {{0, 8, 0, 8}, {4, 8, 0, 8}, {0, 4, 4, 8}, {2, 4, 0, 4},
                                         {0, 2, 2, 4}, {1, 2, 0, 2}, {0, 1, 1, 2}};
  std::uint64_t total = 0;
  for (const auto& [x0, dx, y0, dy] : adam7)
    total += rows(width > x0 ? (width - x0 + dx - 1) / dx : 0,
                  height > y0 ? (height - y0 + dy - 1) / dy : 0);
  return total;
}

}  // namespace

void check_png(View file, const std::string& name) {
  constexpr std::uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  if (file.size() < 8 || !std::equal(signature, signature + 8, file.begin()))
    fail(name, "is no PNG file");
  std::vector<std::uint8_t> data;
  std::uint64_t expected = 0;
  std::string type;
  for (std::size_t at = 8; type != "IEND";) {
    if (file.size() - at < 12) fail(name, "PNG ends early: no IEND");
    const std::uint64_t length = big_endian(&file[at]);
    if (length > file.size() - at - 12) fail(name, "PNG ends early inside a chunk");
    type.assign(file.begin() + long(at) + 4, file.begin() + long(at) + 8);
    const auto* body = file.data() + at + 8;
    if (libdeflate_crc32(0, body - 4, length + 4) != big_endian(body + length))
      fail(name, "bad PNG checksum in chunk " + type);
    if ((at == 8) != (type == "IHDR") || (type == "IHDR" && length != 13))
      fail(name, "PNG does not begin with one IHDR");
    if (type == "IHDR") expected = png_bytes(body, name);
    if (type == "IDAT") data.insert(data.end(), body, body + length);
    at += length + 12;
    if (type == "IEND" && at != file.size()) fail(name, "has bytes after the PNG's end");
  }
  inflate_zlib(data, expected, name);
}

std::uint64_t check_nrrd(View file, const std::string& name) {
  Lines lines(file, name);
  const Fields fields = nrrd_fields(lines, name);
  const auto dimension = fields.sizes("dimension", 1)[0];
  if (dimension > 4) fields.wrong("dimension");
  std::uint64_t bytes = nrrd_types.bytes(fields, "type");
  if (bytes > 1 && fields.text("endian") != "little" && fields.text("endian") != "big")
    fields.wrong("endian");
  for (auto n : fields.sizes("sizes", dimension)) bytes = product(bytes, n, name);
  const std::string encoding = fields.text("encoding");
  if (encoding == "raw")
    check_length(bytes, lines.rest().size(), name);
  else if (encoding == "gzip" || encoding == "gz")
    gunzip(lines.rest(), bytes, name);
  else
    fields.wrong("encoding");
  return bytes;
}

std::uint64_t check_meta_image(View file, const std::string& name) {
  Lines lines(file, name);
  const Fields fields = meta_fields(lines, name);
  const auto n = fields.sizes("NDims", 1)[0];
  if (n > 4) fields.wrong("NDims");
  if (fields.text("ObjectType", "Image") != "Image") fields.wrong("ObjectType");
  if (fields.text("BinaryData") != "True") fields.wrong("BinaryData");
  if (fields.text("ElementDataFile") != "LOCAL") fail(name, "keeps its voxels in another file");
  fields.reals("TransformMatrix", n * n);
  for (const char* key :
       {"Offset", "Origin", "Position", "CenterOfRotation", "ElementSpacing", "ElementSize"})
    fields.reals(key, n);
  std::uint64_t bytes = meta_types.bytes(fields, "ElementType");
  if (fields.has("ElementNumberOfChannels"))
    bytes = product(bytes, fields.sizes("ElementNumberOfChannels", 1)[0], name);
  for (auto d : fields.sizes("DimSize", n)) bytes = product(bytes, d, name);
  const std::string compressed = fields.text("CompressedData", "False");
  if (compressed != "True" && compressed != "False") fields.wrong("CompressedData");
  if (compressed == "False") {
    check_length(bytes, lines.rest().size(), name);
    return bytes;
  }
  if (fields.has("CompressedDataSize") &&
      fields.sizes("CompressedDataSize", 1)[0] != lines.rest().size())
    fail(name, "ends early or is too long: CompressedDataSize is " +
                   fields.text("CompressedDataSize") + ", there are " +
                   std::to_string(lines.rest().size()));
  inflate_zlib(lines.rest(), bytes, name);
  return bytes;
}

}  // namespace sluice
