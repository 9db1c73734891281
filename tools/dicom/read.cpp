#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/dicom/series.h"

namespace sluice {
namespace {

std::string type_of(const itk::GDCMImageIO& io) {
  using Type = itk::IOComponentEnum;
  switch (io.GetComponentType()) {
    case Type::UCHAR:
      return "uint8";
    case Type::CHAR:
      return "int8";
    case Type::USHORT:
      return "uint16";
    case Type::SHORT:
      return "int16";
    case Type::UINT:
      return "uint32";
    case Type::INT:
      return "int32";
    case Type::FLOAT:
      return "float32";
    case Type::DOUBLE:
      return "float64";
    default:
      fail(std::string(io.GetFileName()) + ": its pixels are no plain numbers");
  }
}

template <class T>
void widen(const std::vector<char>& from, std::vector<char>& to) {
  const auto* in = reinterpret_cast<const T*>(from.data());
  to.resize(from.size() / sizeof(T) * sizeof(double));
  auto* out = reinterpret_cast<double*>(to.data());
  for (std::size_t i = 0; i < from.size() / sizeof(T); ++i) out[i] = static_cast<double>(in[i]);
}

// Slices of several types (a rescale of their own each) all become float64.
std::vector<char> as_double(const std::vector<char>& from, const std::string& type) {
  std::vector<char> to;
  if (type == "uint8") widen<std::uint8_t>(from, to);
  if (type == "int8") widen<std::int8_t>(from, to);
  if (type == "uint16") widen<std::uint16_t>(from, to);
  if (type == "int16") widen<std::int16_t>(from, to);
  if (type == "uint32") widen<std::uint32_t>(from, to);
  if (type == "int32") widen<std::int32_t>(from, to);
  if (type == "float32") widen<float>(from, to);
  return type == "float64" ? from : to;
}

std::vector<char> read_pixels(const Slice& s) {
  std::vector<char> bytes(static_cast<std::size_t>(s.io->GetImageSizeInBytes()));
  const unsigned n = s.io->GetNumberOfDimensions();
  itk::ImageIORegion region(n);
  for (unsigned d = 0; d < n; ++d) region.SetSize(d, s.io->GetDimensions(d));
  s.io->SetIORegion(region);
  reading(s.file);
  try {
    s.io->Read(bytes.data());
  } catch (const itk::ExceptionObject& e) {
    fail(s.file + ": " + e.GetDescription());
  }
  return bytes;
}

}  // namespace

void write_all(const char* p, std::size_t n) {
  while (n > 0) {
    const ssize_t done = ::write(1, p, n);
    if (done <= 0) std::_Exit(1);
    p += done;
    n -= static_cast<std::size_t>(done);
  }
}

void read_series(const std::filesystem::path& folder) {
  const std::vector<Slice> slices = slices_in(folder);
  const auto affine = affine_of(slices);
  std::string type = type_of(*slices[0].io);
  for (const Slice& s : slices)
    if (type_of(*s.io) != type) type = "float64";
  // All of it is read before anything is said: an error comes alone.
  std::vector<char> voxels;
  for (const Slice& s : slices) {
    std::vector<char> bytes = read_pixels(s);
    if (type != type_of(*s.io)) bytes = as_double(bytes, type_of(*s.io));
    voxels.insert(voxels.end(), bytes.begin(), bytes.end());
  }
  const Slice& first = slices.front();
  const std::size_t depth = std::max(slices.size(), first.dim[2]);
  const std::string line =
      nlohmann::json{
          {"type", type}, {"dim", {first.dim[0], first.dim[1], depth}}, {"affine", affine}}
          .dump() +
      "\n";
  write_all(line.data(), line.size());
  write_all(voxels.data(), voxels.size());
}

}  // namespace sluice
