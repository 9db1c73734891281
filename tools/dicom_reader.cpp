// sluice_dicom: reads one DICOM series, in a process of its own. GDCM parses what strangers wrote
// and is known for faults in it; here a file can at worst end this process, which has little
// memory, little time and nothing to write to.
//
//   sluice_dicom MEMORY_BYTES SECONDS FOLDER
//
// stdout: one line of JSON, {"error": why} or {"type", "dim", "affine"}, and after that line the
// voxels, X fastest. The affine is RAS. Nothing is guessed: what does not fit together is an error
// that names the file.
#include <gdcmReader.h>
#include <itkGDCMImageIO.h>
#include <itkMetaDataObject.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Vec3 = std::array<double, 3>;

[[noreturn]] void fail(const std::string& why) { throw std::runtime_error(why); }

void limit(rlim_t memory, rlim_t seconds) {
  const auto set = [](int what, rlim_t most) {
    const rlimit r{most, most};
    ::setrlimit(static_cast<__rlimit_resource>(what), &r);
  };
  set(RLIMIT_AS, memory);
  set(RLIMIT_CPU, seconds);
  set(RLIMIT_CORE, 0);
  set(RLIMIT_FSIZE, 0);
  set(RLIMIT_NOFILE, 32);
}

Vec3 minus(const Vec3& a, const Vec3& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }
double dot(const Vec3& a, const Vec3& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Vec3 cross(const Vec3& a, const Vec3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
double length(const Vec3& a) { return std::sqrt(dot(a, a)); }

struct Slice {
  std::string file, series;
  itk::GDCMImageIO::Pointer io;
  std::array<std::size_t, 3> dim{1, 1, 1};
  Vec3 origin{}, row{}, column{}, through{};  // LPS; axes with their spacings
  double along = 0;                           // place on the normal
};

// ---- one file -----------------------------------------------------------------------------------

std::string tag(const itk::GDCMImageIO& io, const char* key) {
  std::string value;
  itk::ExposeMetaData<std::string>(io.GetMetaDataDictionary(), key, value);
  while (!value.empty() && (value.back() == ' ' || value.back() == '\0')) value.pop_back();
  return value;
}

std::string bytes_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Whether the value of the pixel data, `length` bytes of it, is all in the file: GDCM reads what
// there is and says nothing. Its header ends with the length; an icon has one of its own, so every
// place is tried.
bool has_pixels(const std::string& bytes, std::uint32_t length, bool big) {
  const std::string tag =
      big ? std::string("\x7f\xe0\x00\x10", 4) : std::string("\xe0\x7f\x10\x00", 4);
  const auto number = [&](std::size_t at) {
    std::uint32_t n = 0;
    for (std::size_t i = 0; i < 4; ++i)
      n |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (big ? 24 - 8 * i : 8 * i);
    return n;
  };
  for (std::size_t at = bytes.find(tag); at != bytes.npos; at = bytes.find(tag, at + 1))
    for (const std::size_t front : {std::size_t{12}, std::size_t{8}})  // with and without a VR
      if (at + front + length <= bytes.size() && number(at + front - 4) == length) return true;
  return false;
}

void check_pixel_data(const std::string& file, const itk::GDCMImageIO& io) {
  gdcm::Reader reader;
  reader.SetFileName(file.c_str());
  if (!reader.Read()) fail(file + ": is no DICOM file, or a damaged one");
  const gdcm::DataSet& set = reader.GetFile().GetDataSet();
  const gdcm::Tag pixels(0x7fe0, 0x0010);
  if (!set.FindDataElement(pixels)) fail(file + ": has no pixel data");
  const auto syntax = reader.GetFile().GetHeader().GetDataSetTransferSyntax();
  const std::string bytes = bytes_of(file);
  if (syntax.IsEncapsulated()) {  // its fragments end with a delimiter
    if (bytes.rfind(std::string("\xfe\xff\xdd\xe0\0\0\0\0", 8)) == bytes.npos)
      fail(file + ": ends early, before its pixels' end");
    return;
  }
  const bool big = syntax == gdcm::TransferSyntax::ExplicitVRBigEndian;
  const std::uint64_t length = set.GetDataElement(pixels).GetVL();
  std::uint64_t expected = 1;  // GDCM compares it with the bits a pixel
  for (unsigned d = 0; d < io.GetNumberOfDimensions(); ++d) expected *= io.GetDimensions(d);
  if (length < expected || !has_pixels(bytes, static_cast<std::uint32_t>(length), big))
    fail(file + ": ends early (its pixels should take " + std::to_string(length) + " bytes)");
}

Slice read_header(const std::string& file) {
  Slice s;
  s.file = file;
  s.io = itk::GDCMImageIO::New();
  s.io->SetFileName(file);
  if (!s.io->CanReadFile(file.c_str())) fail(file + ": is no DICOM file");
  try {
    s.io->ReadImageInformation();
  } catch (const itk::ExceptionObject& e) {
    fail(file + ": " + e.GetDescription());
  }
  if (s.io->GetNumberOfComponents() != 1) fail(file + ": is a colour image");
  check_pixel_data(file, *s.io);
  const unsigned n = std::min(3u, s.io->GetNumberOfDimensions());
  for (unsigned d = 0; d < n; ++d) s.dim[d] = s.io->GetDimensions(d);
  Vec3* const axes[] = {&s.row, &s.column, &s.through};
  for (unsigned d = 0; d < 3; ++d) {
    s.origin[d] = s.io->GetOrigin(d);
    const auto direction = s.io->GetDirection(d);
    for (unsigned i = 0; i < 3; ++i) (*axes[d])[i] = direction[i] * s.io->GetSpacing(d);
  }
  s.series = tag(*s.io, "0020|000e");
  return s;
}

// ---- the series ---------------------------------------------------------------------------------

std::string millimetres(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g mm", v);
  return text;
}

void check_alike(const Slice& a, const Slice& b) {
  if (a.series != b.series)
    fail(b.file + ": belongs to another series than " + a.file + "; one folder holds one series");
  if (a.dim != b.dim)
    fail(b.file + ": is " + std::to_string(b.dim[0]) + " x " + std::to_string(b.dim[1]) + ", " +
         a.file + " is " + std::to_string(a.dim[0]) + " x " + std::to_string(a.dim[1]));
  if (b.dim[2] > 1) fail(b.file + ": holds several slices, and is not the only file");
  if (length(minus(a.row, b.row)) > 1e-3 * length(a.row) ||
      length(minus(a.column, b.column)) > 1e-3 * length(a.column))
    fail(b.file + ": has another orientation or pixel spacing than " + a.file);
}

// Sorted by place, evenly spaced, each place once.
void order(std::vector<Slice>& slices) {
  const Vec3 normal = cross(slices[0].row, slices[0].column);
  const double size = length(normal);
  if (!(size > 0) || !std::isfinite(size)) fail(slices[0].file + ": has no orientation");
  for (Slice& s : slices) {
    if (tag(*s.io, "0020|0032").empty())
      fail(s.file + ": does not say where it lies (ImagePositionPatient)");
    s.along = dot(s.origin, normal) / size;
  }
  std::sort(slices.begin(), slices.end(),
            [](const Slice& a, const Slice& b) { return a.along < b.along; });
  std::vector<double> gaps;
  for (std::size_t i = 1; i < slices.size(); ++i)
    gaps.push_back(slices[i].along - slices[i - 1].along);
  std::vector<double> sorted = gaps;
  std::sort(sorted.begin(), sorted.end());
  const double usual = sorted[(sorted.size() - 1) / 2], tolerance = std::max(0.01 * usual, 0.001);
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const std::string both = slices[i].file + " and " + slices[i + 1].file;
    if (gaps[i] < 1e-3) fail(both + " lie at the same place");
    if (gaps[i] > usual + tolerance)
      fail("slices are missing between " + both + ": they are " + millimetres(gaps[i]) +
           " apart, others " + millimetres(usual));
    if (gaps[i] < usual - tolerance)
      fail(both + " are " + millimetres(gaps[i]) + " apart, others " + millimetres(usual));
  }
}

// The true step from slice to slice: that of a tilted gantry is not along the normal.
Vec3 step_of(const std::vector<Slice>& slices) {
  if (slices.size() == 1) return slices[0].through;
  const double n = static_cast<double>(slices.size() - 1);
  Vec3 step = minus(slices.back().origin, slices.front().origin);
  for (double& v : step) v /= n;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    Vec3 expected = slices.front().origin;
    for (std::size_t d = 0; d < 3; ++d) expected[d] += static_cast<double>(i) * step[d];
    if (length(minus(slices[i].origin, expected)) > std::max(0.02 * length(step), 0.01))
      fail(slices[i].file + ": does not lie on a line with the other slices");
  }
  return step;
}

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

// ---- pixels -------------------------------------------------------------------------------------

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
  try {
    s.io->Read(bytes.data());
  } catch (const itk::ExceptionObject& e) {
    fail(s.file + ": " + e.GetDescription());
  }
  return bytes;
}

void write_all(const char* p, std::size_t n) {
  while (n > 0) {
    const ssize_t done = ::write(1, p, n);
    if (done <= 0) std::_Exit(1);
    p += done;
    n -= static_cast<std::size_t>(done);
  }
}

std::vector<Slice> slices_in(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.') && name != "DICOMDIR") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) fail(folder.string() + ": is an empty folder");
  std::vector<Slice> slices;
  for (const auto& file : files) slices.push_back(read_header(file));
  for (const Slice& s : slices) check_alike(slices[0], s);
  if (slices.size() > 1) order(slices);
  return slices;
}

void read_series(const fs::path& folder) {
  const std::vector<Slice> slices = slices_in(folder);
  const Vec3 step = step_of(slices);
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
  nlohmann::json affine = nlohmann::json::array();
  for (std::size_t i = 0; i < 3; ++i)
    for (const double v : {first.row[i], first.column[i], step[i], first.origin[i]})
      affine.push_back(i < 2 ? -v : v);
  const std::size_t depth = std::max(slices.size(), first.dim[2]);
  const std::string line =
      nlohmann::json{
          {"type", type}, {"dim", {first.dim[0], first.dim[1], depth}}, {"affine", affine}}
          .dump() +
      "\n";
  write_all(line.data(), line.size());
  write_all(voxels.data(), voxels.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  limit(std::stoull(argv[1]), std::stoull(argv[2]));
  std::string why;
  try {
    read_series(argv[3]);
    return 0;
  } catch (const std::bad_alloc&) {
    why = std::string(argv[3]) + ": a file asks for more memory than its size bears out";
  } catch (const std::exception& e) {
    why = e.what();
  }
  const std::string line = nlohmann::json{{"error", why}}.dump(
                               -1, ' ', false, nlohmann::json::error_handler_t::replace) +
                           "\n";
  write_all(line.data(), line.size());
  return 3;
}
