#include "kernels/files/meta_image.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <charconv>

#include "engine/base/error.h"
#include "engine/base/image_files.h"
#include "engine/base/trimmed.h"
#include "kernels/files/gzip.h"
#include "kernels/files/raw_volume.h"
#include "kernels/files/text_header.h"

namespace sluice {
namespace {

const std::set<std::string_view> meta_keys{"ObjectType",
                                           "ObjectSubType",
                                           "NDims",
                                           "BinaryData",
                                           "BinaryDataByteOrderMSB",
                                           "ElementByteOrderMSB",
                                           "CompressedData",
                                           "CompressedDataSize",
                                           "TransformMatrix",
                                           "Rotation",
                                           "Orientation",
                                           "Offset",
                                           "Origin",
                                           "Position",
                                           "CenterOfRotation",
                                           "AnatomicalOrientation",
                                           "ElementSpacing",
                                           "ElementSize",
                                           "DimSize",
                                           "HeaderSize",
                                           "Modality",
                                           "ElementMin",
                                           "ElementMax",
                                           "ElementType",
                                           "ElementNumberOfChannels",
                                           "ElementDataFile",
                                           "ElementNBits",
                                           "ElementToIntensityFunctionSlope",
                                           "ElementToIntensityFunctionOffset",
                                           "ImagePosition",
                                           "SequenceID",
                                           "ID",
                                           "ParentID",
                                           "AcquisitionDate",
                                           "Color",
                                           "DistanceUnits",
                                           "Comment",
                                           "Name"};

struct TypeName {
  StoredType type;
  const char* name;
};
constexpr TypeName meta_types[] = {
    {StoredType::int8, "MET_CHAR"},       {StoredType::uint8, "MET_UCHAR"},
    {StoredType::int16, "MET_SHORT"},     {StoredType::uint16, "MET_USHORT"},
    {StoredType::int32, "MET_INT"},       {StoredType::uint32, "MET_UINT"},
    {StoredType::int64, "MET_LONG_LONG"}, {StoredType::uint64, "MET_ULONG_LONG"},
    {StoredType::float32, "MET_FLOAT"},   {StoredType::float64, "MET_DOUBLE"},
    {StoredType::int32, "MET_LONG"},      {StoredType::uint32, "MET_ULONG"},  // of any machine
};

StoredType meta_type(const HeaderFields& fields) {
  const std::string name = fields.text("ElementType");
  for (const auto& row : meta_types)
    if (name == row.name) return row.type;
  fields.wrong("ElementType");
}

// ElementDataFile is the last one, by the format's rule. ITK adds fields of its users, such as a
// NIfTI file's "qform_code", to a header that has all of its own. Where one of these is not there,
// an unknown name may be it, misspelt.
HeaderFields meta_fields(HeaderLines& lines, const std::string& name) {
  HeaderFields fields(name, meta_keys);
  std::map<std::string, std::string> others;
  while (!fields.has("ElementDataFile")) {
    const auto line = lines.next();
    if (!line) refuse(name, "ends inside its header");
    const auto equals = line->find('=');
    if (equals == std::string::npos) refuse(name, "is no MetaImage: a header line has no \"=\"");
    const std::string key = trimmed(line->substr(0, equals)), value = line->substr(equals + 1);
    if (meta_keys.count(key))
      fields.add(key, trimmed(value));
    else
      others.emplace(key, trimmed(value));
  }
  const auto itks = {"BinaryDataByteOrderMSB", "CompressedData", "TransformMatrix", "Offset",
                     "ElementSpacing",         "DimSize"};
  const bool all = std::ranges::all_of(itks, [&](const char* key) { return fields.has(key); });
  for (const auto& [key, value] : others)
    if (!all) fields.add(key, value);
  return fields;
}

bool flag(const HeaderFields& fields, const std::string& key) {
  const char first = fields.text(key, "False")[0];  // all that ITK looks at
  const bool yes = first == 'T' || first == 't' || first == '1';
  if (!yes && first != 'F' && first != 'f' && first != '0') fields.wrong(key);
  return yes;
}

// Row i of TransformMatrix is the direction of axis i.
Matrix4 affine_of(const HeaderFields& fields, std::size_t n) {
  const auto matrix =
      fields.reals(fields.one_of({"TransformMatrix", "Rotation", "Orientation"}), n * n);
  const auto origin = fields.reals(fields.one_of({"Offset", "Origin", "Position"}), n);
  auto spacing = fields.positive("ElementSpacing", n);
  const auto size = fields.positive("ElementSize", n);
  if (spacing.empty()) spacing = size;
  fields.reals("CenterOfRotation", n);
  Matrix4 m{-1, 0, 0, 0, 0, -1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  for (std::size_t axis = 0; axis < std::min<std::size_t>(3, n); ++axis)
    for (std::size_t row = 0; row < std::min<std::size_t>(3, n); ++row) {
      const double along = matrix.empty() ? axis == row : matrix[axis * n + row];
      m[4 * row + axis] = (row < 2 ? -1 : 1) * along * (spacing.empty() ? 1 : spacing[axis]);
    }
  for (std::size_t row = 0; row < std::min<std::size_t>(3, origin.size()); ++row)
    m[4 * row + 3] = (row < 2 ? -1 : 1) * origin[row];
  return m;
}

RawVolume raw_volume(const HeaderFields& fields, const std::string& name) {
  if (fields.text("ObjectType", "Image") != "Image") fields.wrong("ObjectType");
  if (!flag(fields, "BinaryData")) refuse(name, "keeps its voxels as text; only binary is read");
  const auto n = static_cast<std::size_t>(fields.sizes("NDims", 1)[0]);
  if (n > 4) fields.wrong("NDims");
  RawVolume raw;
  raw.type = meta_type(fields);
  raw.dim = fields.sizes("DimSize", n);
  if (fields.has("ElementNumberOfChannels"))
    raw.channels = fields.sizes("ElementNumberOfChannels", 1)[0];
  if (n == 4 && raw.dim[3] > 1) {
    if (raw.channels > 1) refuse(name, "has four axes and channels; one of them is read");
    raw.channels = raw.dim[3];
    raw.channel_axis = 3;
  }
  raw.dim.resize(std::min<std::size_t>(3, n));
  const std::string order = fields.one_of({"BinaryDataByteOrderMSB", "ElementByteOrderMSB"});
  raw.swapped = !order.empty() && flag(fields, order);
  raw.affine = affine_of(fields, n);
  check_affine(raw.affine, raw.dim.size(), name);
  raw.placed = !fields.one_of({"TransformMatrix", "Rotation", "Orientation"}).empty() ||
               !fields.one_of({"Offset", "Origin", "Position"}).empty();
  return raw;
}

// " 1 0.5": the shortest numbers that read as the same.
std::string row_of(std::initializer_list<double> numbers) {
  std::string text;
  for (const double n : numbers) {
    char digits[40];
    text += ' ';
    text.append(digits, std::to_chars(digits, digits + sizeof digits, n == 0 ? 0 : n).ptr);
  }
  return text + "\n";
}

std::string geometry_text(const Matrix4& m) {
  const auto spacing = spacing_of(m);
  const auto along = [&](std::size_t axis, std::size_t row) {
    return (row < 2 ? -1 : 1) * m[4 * row + axis] / spacing[axis];
  };
  return "TransformMatrix =" +
         row_of({along(0, 0), along(0, 1), along(0, 2), along(1, 0), along(1, 1), along(1, 2),
                 along(2, 0), along(2, 1), along(2, 2)}) +
         "Offset =" + row_of({-m[3], -m[7], m[11]}) + "CenterOfRotation = 0 0 0\nElementSpacing =" +
         row_of({spacing[0], spacing[1], spacing[2]});
}

// The files of a list or a pattern, of which each has one step along the last axis; none where one
// file has all voxels.
std::vector<std::string> several_files(const HeaderFields& fields, HeaderLines& lines,
                                       const std::string& name) {
  const std::string file = fields.text("ElementDataFile");
  const bool list = file == "LIST" || file.starts_with("LIST ");
  if (!list && file.find('%') == std::string::npos) return {};
  const auto axes = static_cast<std::size_t>(fields.whole("NDims", 0));
  const auto count = static_cast<std::size_t>(fields.sizes("DimSize", axes).back());
  if (list && file != "LIST" && file != "LIST " + std::to_string(axes - 1) + "D")
    fields.wrong("ElementDataFile");
  std::vector<std::string> files;
  if (!list) files = numbered_files(file);
  if (list)
    for (auto line = lines.next(); line && !line->empty(); line = lines.next())
      files.push_back(*line);
  if (files.size() != count)
    refuse(name, "names " + std::to_string(files.size()) + " files of voxels by \"" + file +
                     "\", the last axis has " + std::to_string(count));
  if (flag(fields, "CompressedData"))
    refuse(name, "keeps its voxels in several files that are compressed; plain ones are read");
  return files;
}

VoxelSource source_of(const HeaderFields& fields, HeaderLines& lines, std::size_t file_size,
                      const std::string& name) {
  VoxelSource source;
  source.files = several_files(fields, lines, name);
  const std::size_t header_end = source.header_end = lines.position();
  if (flag(fields, "CompressedData")) source.packing = Packing::zlib;
  const std::string file = fields.text("ElementDataFile");
  if (file != "LOCAL" && file != "Local" && file != "local") source.file = file;
  source.skip = fields.whole("HeaderSize", 0);
  if (source.skip < -1 || (source.skip != 0 && source.file.empty())) fields.wrong("HeaderSize");
  const auto packed = static_cast<std::int64_t>(file_size - header_end);
  if (source.packing == Packing::zlib && source.file.empty() && fields.has("CompressedDataSize") &&
      fields.whole("CompressedDataSize", 0) != packed)
    refuse(name, "ends early or is too long: CompressedDataSize is " +
                     fields.text("CompressedDataSize") + ", there are " + std::to_string(packed));
  return source;
}

}  // namespace

Volume read_meta_image(const std::filesystem::path& path, at::ScalarType dtype,
                       const ReadBytes& read) {
  const std::string name = path.string();
  FileBytes file = read(path);
  HeaderLines lines(file.view(), name);
  const HeaderFields fields = meta_fields(lines, name);
  const RawVolume raw = raw_volume(fields, name);
  const VoxelSource source = source_of(fields, lines, file.size(), name);
  return read_voxels(raw, source, std::move(file), path, dtype, read);
}

void write_meta_image(const std::filesystem::path& path, const at::Tensor& data,
                      const Matrix4& affine, const std::string& dtype, int level) {
  const std::string name = path.string();
  const at::Tensor all = data.dim() == 3 ? data.unsqueeze(0) : data;
  if (all.dim() != 4 || all.numel() == 0)
    refuse(name, "a volume has 3 axes, or 4 with channels, not " + c10::str(data.sizes()));
  check_affine(affine, 3, name);
  const StoredType type = stored_type(dtype);
  const at::Tensor voxels = stored_as(all.permute({3, 2, 1, 0}), type, name);
  std::span<const std::uint8_t> bytes{static_cast<const std::uint8_t*>(voxels.const_data_ptr()),
                                      voxels.nbytes()};
  FileBytes packed;
  if (level > 0) {
    packed = deflate_zlib(bytes, level);
    bytes = packed.view();
  }
  const auto* row = std::ranges::find(meta_types, type, &TypeName::type);
  std::string head =
      "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\n";
  head += level > 0 ? "CompressedData = True\nCompressedDataSize = " + std::to_string(bytes.size())
                    : "CompressedData = False";
  head += "\n" + geometry_text(affine);
  if (all.size(0) > 1) head += "ElementNumberOfChannels = " + std::to_string(all.size(0)) + "\n";
  head += "DimSize =";
  for (const auto n : all.sizes().slice(1)) head += " " + std::to_string(n);
  head += std::string("\nElementType = ") + row->name + "\nElementDataFile = LOCAL\n";
  write_file(path, {{reinterpret_cast<const std::uint8_t*>(head.data()), head.size()}, bytes});
}

}  // namespace sluice
