// The files of one DICOM series as slices in order, of one orientation and evenly spaced.
#pragma once

#include <itkGDCMImageIO.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

namespace sluice {

using Vec3 = std::array<double, 3>;

struct Slice {
  std::string file, series, number;  // number: InstanceNumber, for messages
  itk::GDCMImageIO::Pointer io;
  std::array<std::size_t, 3> dim{1, 1, 1};
  Vec3 origin{}, row{}, column{}, through{};  // LPS; axes with their spacings
  double along = 0;                           // place on the normal

  std::string name() const { return number.empty() ? file : file + " (slice " + number + ")"; }
};

// Throws std::runtime_error; its message names the file.
[[noreturn]] void fail(const std::string& why);

// Says which file is read next: the one that is named where the parser ends the process, as GDCM's
// assertions do for files that are cut.
void reading(const std::string& file);

// Of a folder's files, or of one file: in the order of their places along the normal. What does not
// fit together is an error.
std::vector<Slice> slices_in(const std::filesystem::path& folder);

// The true step from slice to slice: that of a tilted gantry is not along the normal.
Vec3 step_of(const std::vector<Slice>& slices);

// The upper three rows of the affine of the volume that the slices are, RAS.
std::array<double, 12> affine_of(const std::vector<Slice>& slices);

double length(const Vec3& v);

// All of it to stdout.
void write_all(const char* p, std::size_t n);

// To stdout: a line of JSON with type, dim and affine, then the voxels, X fastest.
void read_series(const std::filesystem::path& folder);

// A segmentation object of the series to stdout, of the labels that stdin has (segmentation.cpp).
void write_segmentation(const std::filesystem::path& folder);

}  // namespace sluice
