#include "tools/dicom/series.h"

#include <gdcmAttribute.h>
#include <gdcmReader.h>
#include <itkMetaDataObject.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>

namespace sluice {

void fail(const std::string& why) { throw std::runtime_error(why); }

namespace {

namespace fs = std::filesystem;

Vec3 minus(const Vec3& a, const Vec3& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }
double dot(const Vec3& a, const Vec3& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Vec3 cross(const Vec3& a, const Vec3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

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

void check_pixel_data(const std::string& file, const gdcm::Reader& reader,
                      const itk::GDCMImageIO& io) {
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
  // Of a deflated file that ends early GDCM reads nothing.
  const bool deflated = syntax == gdcm::TransferSyntax::DeflatedExplicitVRLittleEndian;
  if (length < expected ||
      (!deflated && !has_pixels(bytes, static_cast<std::uint32_t>(length), big)))
    fail(file + ": ends early (its pixels should take " + std::to_string(length) + " bytes)");
}

// ---- a file of several slices -------------------------------------------------------------------

// The i-th item of a sequence.
std::optional<gdcm::DataSet> item(const gdcm::DataSet& set, const gdcm::Tag& sequence,
                                  std::size_t i = 0) {
  if (!set.FindDataElement(sequence)) return {};
  const auto items = set.GetDataElement(sequence).GetValueAsSQ();
  if (!items || items->GetNumberOfItems() <= i) return {};
  return items->GetItem(i + 1).GetNestedDataSet();
}

template <std::uint16_t element>
double number_of(const std::optional<gdcm::DataSet>& set, double otherwise) {
  gdcm::Attribute<0x0028, element> number;
  if (!set || !set->FindDataElement(number.GetTag())) return otherwise;
  number.SetFromDataSet(*set);
  return number.GetValue();
}

// GDCM takes the frames for evenly spaced, at 1 mm where they are not, and the first one's rescale
// for all of them.
void check_frames(const Slice& s, const gdcm::DataSet& set) {
  const gdcm::Tag frames(0x5200, 0x9230), place(0x0020, 0x9113), rescale(0x0028, 0x9145);
  if (s.dim[2] < 2 || !set.FindDataElement(frames)) return;
  std::optional<std::pair<double, double>> first;
  for (std::size_t k = 0; k < s.dim[2]; ++k) {
    const std::string name = s.file + ": its frame " + std::to_string(k + 1);
    const auto frame = item(set, frames, k);
    const auto at = frame ? item(*frame, place) : std::nullopt;
    gdcm::Attribute<0x0020, 0x0032> position;
    if (!at || !at->FindDataElement(position.GetTag()))
      fail(name + " does not say where it lies (ImagePositionPatient)");
    position.SetFromDataSet(*at);
    Vec3 off{};
    for (unsigned d = 0; d < 3; ++d)
      off[d] = position.GetValue(d) - s.origin[d] - static_cast<double>(k) * s.through[d];
    if (length(off) > std::max(0.02 * length(s.through), 0.01))
      fail(name + " does not follow the one before it at the frames' distance");
    const auto values = item(*frame, rescale);
    const std::pair own(number_of<0x1053>(values, 1), number_of<0x1052>(values, 0));
    if (own != first.value_or(own)) fail(name + " has another rescale than the one before it");
    first = own;
  }
}

Slice read_header(const std::string& file) {
  reading(file);
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
  gdcm::Reader reader;
  reader.SetFileName(file.c_str());
  if (!reader.Read()) fail(file + ": is no DICOM file, or a damaged one");
  check_pixel_data(file, reader, *s.io);
  // GDCM makes MONOCHROME2 of it, and gives up where signed numbers do not fill their bytes.
  if (tag(*s.io, "0028|0004").starts_with("MONOCHROME1") && tag(*s.io, "0028|0103") == "1" &&
      tag(*s.io, "0028|0101") != tag(*s.io, "0028|0100"))
    fail(file + ": is MONOCHROME1 of signed numbers of " + tag(*s.io, "0028|0101") +
         " bits, which cannot be turned into MONOCHROME2");
  const unsigned n = std::min(3u, s.io->GetNumberOfDimensions());
  for (unsigned d = 0; d < n; ++d) s.dim[d] = s.io->GetDimensions(d);
  Vec3* const axes[] = {&s.row, &s.column, &s.through};
  for (unsigned d = 0; d < 3; ++d) {
    s.origin[d] = s.io->GetOrigin(d);
    const auto direction = s.io->GetDirection(d);
    for (unsigned i = 0; i < 3; ++i) (*axes[d])[i] = direction[i] * s.io->GetSpacing(d);
  }
  check_frames(s, reader.GetFile().GetDataSet());
  s.series = tag(*s.io, "0020|000e");
  s.number = tag(*s.io, "0020|0013");
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
    fail(b.name() + ": belongs to another series than " + a.name() +
         "; one folder holds one series");
  for (const Slice* s : {&a, &b})
    if (s->dim[2] > 1) fail(s->file + ": holds several slices, and is not the only file");
  if (a.dim != b.dim)
    fail(b.file + ": is " + std::to_string(b.dim[0]) + " x " + std::to_string(b.dim[1]) + ", " +
         a.file + " is " + std::to_string(a.dim[0]) + " x " + std::to_string(a.dim[1]));
  if (length(minus(a.row, b.row)) > 1e-3 * length(a.row) ||
      length(minus(a.column, b.column)) > 1e-3 * length(a.column))
    fail(b.name() + ": has another orientation or pixel spacing than " + a.name());
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
    const std::string both = slices[i].name() + " and " + slices[i + 1].name();
    if (gaps[i] < 1e-3) fail(both + " lie at the same place");
    if (gaps[i] > usual + tolerance)
      fail("slices are missing between " + both + ": they are " + millimetres(gaps[i]) +
           " apart, others " + millimetres(usual));
    if (gaps[i] < usual - tolerance)
      fail(both + " are " + millimetres(gaps[i]) + " apart, others " + millimetres(usual));
  }
}

}  // namespace

double length(const Vec3& v) { return std::sqrt(dot(v, v)); }

std::vector<Slice> slices_in(const fs::path& folder) {
  std::vector<std::string> files;
  if (!fs::is_directory(folder))
    files.push_back(folder.string());
  else
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with('.') && name != "DICOMDIR") files.push_back(entry.path().string());
    }
  std::sort(files.begin(), files.end());
  if (files.empty()) fail(folder.string() + ": is an empty folder");
  std::vector<Slice> slices;
  for (const auto& file : files) slices.push_back(read_header(file));
  for (std::size_t i = 1; i < slices.size(); ++i) check_alike(slices[0], slices[i]);
  if (slices.size() > 1) order(slices);
  return slices;
}

Vec3 step_of(const std::vector<Slice>& slices) {
  if (slices.size() == 1) return slices[0].through;
  const double n = static_cast<double>(slices.size() - 1);
  Vec3 step = minus(slices.back().origin, slices.front().origin);
  for (double& v : step) v /= n;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    Vec3 expected = slices.front().origin;
    for (std::size_t d = 0; d < 3; ++d) expected[d] += static_cast<double>(i) * step[d];
    if (length(minus(slices[i].origin, expected)) > std::max(0.02 * length(step), 0.01))
      fail(slices[i].name() + ": does not lie on a line with the other slices");
  }
  return step;
}

std::array<double, 12> affine_of(const std::vector<Slice>& slices) {
  const Slice& first = slices.front();
  const Vec3 step = step_of(slices);
  std::array<double, 12> affine{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double sign = i < 2 ? -1 : 1;
    affine[4 * i] = sign * first.row[i];
    affine[4 * i + 1] = sign * first.column[i];
    affine[4 * i + 2] = sign * step[i];
    affine[4 * i + 3] = sign * first.origin[i];
  }
  return affine;
}

}  // namespace sluice
