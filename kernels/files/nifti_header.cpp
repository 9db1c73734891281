#include "kernels/files/nifti_header.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "engine/base/error.h"
#include "kernels/files/file_io.h"

namespace sluice {
namespace {

// What a datatype is called that no scalar is. nibabel makes records or complex numbers of these,
// which no network takes.
const char* odd_datatype(std::int64_t code) {
  switch (code) {
    case 1:
      return "1 bit a voxel";
    case 32:
      return "complex64";
    case 128:
      return "RGB, three bytes a voxel";
    case 1536:
      return "float128";
    case 1792:
      return "complex128";
    case 2048:
      return "complex256";
    case 2304:
      return "RGBA, four bytes a voxel";
    default:
      return "none that NIfTI knows";
  }
}

// Where each field stands in the two versions.
struct Layout {
  std::size_t dim, datatype, bitpix, pixdim, offset, slope, inter, qform, sform, quatern, srow;
};
constexpr Layout layout1{40, 70, 72, 76, 108, 112, 116, 252, 254, 256, 280};
constexpr Layout layout2{16, 12, 14, 104, 168, 176, 184, 344, 348, 352, 400};
constexpr std::int16_t scanner = 1;  // the code of a form in the scanner's coordinates

// Reads fields as the version and byte order have them.
class Fields {
 public:
  Fields(std::span<const std::uint8_t> bytes, const std::string& name)
      : bytes_(bytes), name_(name) {
    if (bytes.size() < nifti1_size)
      fail("is no NIfTI file: " + with_commas(bytes.size()) + " bytes are less than a header");
    std::int32_t size = get<std::int32_t>(0);
    if (size != int{nifti1_size} && size != int{nifti2_size}) {
      swapped_ = true;
      size = get<std::int32_t>(0);
    }
    if (size != int{nifti1_size} && size != int{nifti2_size}) fail("is no NIfTI file");
    version2 = size == int{nifti2_size};
    at = version2 ? layout2 : layout1;
    check_magic();
  }

  template <class T>
  T get(std::size_t offset) const {
    std::array<std::uint8_t, sizeof(T)> raw;
    std::memcpy(raw.data(), bytes_.data() + offset, sizeof(T));
    if (swapped_) std::reverse(raw.begin(), raw.end());
    return std::bit_cast<T>(raw);
  }
  // A field that is float in version 1 and double in version 2, and one that is short and int.
  double real(std::size_t base, std::size_t i = 0) const {
    return version2 ? get<double>(base + 8 * i) : get<float>(base + 4 * i);
  }
  std::int64_t code(std::size_t offset) const {
    return version2 ? get<std::int32_t>(offset) : get<std::int16_t>(offset);
  }
  std::int64_t dim(std::size_t i) const {
    return version2 ? get<std::int64_t>(at.dim + 8 * i) : get<std::int16_t>(at.dim + 2 * i);
  }
  bool swapped() const { return swapped_; }
  const std::string& name() const { return name_; }
  [[noreturn]] void fail(const std::string& why) const { throw DataError(name_ + ": " + why); }

  bool version2 = false, pair = false;
  Layout at = layout1;

 private:
  void check_magic() {
    if (version2 && bytes_.size() < nifti2_size) fail("ends inside its NIfTI-2 header");
    const auto* magic = bytes_.data() + (version2 ? 4 : 344);
    const auto is = [&](const char* one, const char* two) {
      return std::memcmp(magic, version2 ? two : one, version2 ? 8 : 4) == 0;
    };
    pair = is("ni1", "ni2\0\r\n\032\n");
    if (!pair && !is("n+1", "n+2\0\r\n\032\n")) fail("is no NIfTI file: bad magic");
  }

  std::span<const std::uint8_t> bytes_;
  const std::string& name_;
  bool swapped_ = false;
};

std::vector<std::int64_t> parse_dim(const Fields& f) {
  const std::int64_t rank = f.dim(0);
  if (rank < 1 || rank > 7) f.fail("dim[0] is " + std::to_string(rank) + ", not 1 to 7");
  std::vector<std::int64_t> dim;
  for (std::int64_t i = 1; i <= rank; ++i) {
    dim.push_back(f.dim(static_cast<std::size_t>(i)));
    if (dim.back() < 1) f.fail("dim[" + std::to_string(i) + "] is " + std::to_string(dim.back()));
  }
  while (dim.size() > 3 && dim.back() == 1) dim.pop_back();
  return dim;
}

// Both on disk and as float32, a volume stays under the limit.
void check_size(const Fields& f, const NiftiHeader& h) {
  const std::uint64_t limit = max_volume_bytes / std::max<std::size_t>(4, size_of(h.type));
  std::uint64_t voxels = 1;
  for (auto n : h.dim) {
    if (static_cast<std::uint64_t>(n) > limit / voxels)
      f.fail("declares more than " + with_commas(max_volume_bytes) + " bytes of voxels");
    voxels *= static_cast<std::uint64_t>(n);
  }
}

std::uint64_t parse_offset(const Fields& f) {
  const double offset = f.version2 ? static_cast<double>(f.get<std::int64_t>(f.at.offset))
                                   : f.get<float>(f.at.offset);
  const double least = f.pair ? 0 : f.version2 ? nifti2_size + 4 : nifti1_size + 4;
  if (!(offset >= least && offset <= double{1u << 30} && offset == std::floor(offset)))
    f.fail("vox_offset is " + std::to_string(offset) + ", not a whole number of at least " +
           std::to_string(static_cast<int>(least)));
  return static_cast<std::uint64_t>(offset);
}

// nibabel's rules: a slope of 0 or NaN means none.
void parse_scaling(const Fields& f, NiftiHeader& h) {
  const double slope = f.real(f.at.slope), inter = f.real(f.at.inter);
  if (slope == 0 || !std::isfinite(slope)) return;
  if (!std::isfinite(inter)) f.fail("scl_slope is valid but scl_inter is not finite");
  h.slope = slope;
  h.inter = inter;
}

// Voxel sizes with nibabel's repairs: 0 is read as 1, a negative one as its magnitude.
std::array<double, 3> parse_zooms(const Fields& f) {
  std::array<double, 3> zooms;
  for (std::size_t i = 0; i < 3; ++i) {
    zooms[i] = std::abs(f.real(f.at.pixdim, i + 1));
    if (zooms[i] == 0) zooms[i] = 1;
  }
  return zooms;
}

Matrix4 sform(const Fields& f) {
  Matrix4 m{};
  for (std::size_t i = 0; i < 12; ++i) m[i] = f.real(f.at.srow, i);
  m[15] = 1;
  return m;
}

// Rotation from the unit quaternion (a, b, c, d), of which the file keeps b, c, d (NIfTI-1
// standard, "method 2"); pixdim[0] says whether the third axis is mirrored.
Matrix4 qform(const Fields& f, const std::array<double, 3>& zooms) {
  const double b = f.real(f.at.quatern, 0), c = f.real(f.at.quatern, 1);
  const double d = f.real(f.at.quatern, 2);
  const double rest = 1 - (b * b + c * c + d * d);
  const double tolerance = 3 * (f.version2 ? double{std::numeric_limits<double>::epsilon()}
                                           : double{std::numeric_limits<float>::epsilon()});
  if (!(rest >= -tolerance)) f.fail("the qform's quaternion is longer than 1");
  const double a = rest <= tolerance ? 0 : std::sqrt(rest);
  const double s = 2 / (a * a + b * b + c * c + d * d);
  const double rotation[3][3] = {
      {1 - s * (c * c + d * d), s * (b * c - a * d), s * (b * d + a * c)},
      {s * (b * c + a * d), 1 - s * (b * b + d * d), s * (c * d - a * b)},
      {s * (b * d - a * c), s * (c * d + a * b), 1 - s * (b * b + c * c)}};
  const double mirror = f.real(f.at.pixdim, 0) == -1 ? -1 : 1;
  Matrix4 m{};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j)
      m[4 * i + j] = rotation[i][j] * zooms[j] * (j == 2 ? mirror : 1);
    m[4 * i + 3] = f.real(f.at.quatern, 3 + i);  // qoffset follows the quaternion
  }
  m[15] = 1;
  return m;
}

// Where neither form is set, nibabel mirrors x and puts the origin at the volume's centre.
Matrix4 base_affine(const NiftiHeader& h, std::array<double, 3> zooms) {
  zooms[0] = -zooms[0];
  Matrix4 m{};
  for (int i = 0; i < 3; ++i) {
    const double zoom = i < std::ssize(h.dim) ? zooms[i] : (i == 0 ? -1 : 1);
    m[5 * i] = zoom;
    m[4 * i + 3] = -0.5 * static_cast<double>(h.axis(i) - 1) * zoom;
  }
  m[15] = 1;
  return m;
}

// Whether an affine's voxels have the sizes that pixdim says, as numpy.allclose compares them.
bool has_sizes(const Matrix4& m, const std::array<double, 3>& zooms, std::size_t axes) {
  for (std::size_t j = 0; j < axes; ++j) {
    double square = 0;
    for (std::size_t i = 0; i < axes; ++i) square += m[4 * i + j] * m[4 * i + j];
    const double size = std::sqrt(square);
    if (!(std::abs(zooms[j] - size) <= 1e-8 + 1e-5 * size)) return false;
  }
  return true;
}

// The sform where it is set; but where pixdim, which the qform has its voxel sizes from, says
// others, the qform (MONAI's correct_nifti_header_if_necessary: of two and three axes).
Matrix4 parse_affine(const Fields& f, NiftiHeader& h) {
  const auto set = [&](std::size_t at) { return f.code(at) >= 1 && f.code(at) <= 5; };
  h.placed = set(f.at.sform) || set(f.at.qform);
  const auto zooms = parse_zooms(f);
  const auto axes = static_cast<std::size_t>(f.dim(0));
  const bool gives_way =
      set(f.at.sform) && set(f.at.qform) && axes <= 3 && !has_sizes(sform(f), zooms, axes);
  const Matrix4 m = set(f.at.sform) && !gives_way ? sform(f)
                    : set(f.at.qform)             ? qform(f, zooms)
                                                  : base_affine(h, zooms);
  check_affine(m, h.dim.size(), f.name());
  return m;
}

// ---- writing ------------------------------------------------------------------------------------

template <class T>
void put(std::vector<std::uint8_t>& out, std::size_t offset, std::type_identity_t<T> value) {
  std::memcpy(out.data() + offset, &value, sizeof(T));
}

// The quaternion (b, c, d) of a rotation, with a >= 0: each component's magnitude from the
// diagonal, its sign from the off-diagonal; the largest one is taken first for accuracy.
std::array<double, 3> quaternion(const double (&r)[3][3]) {
  double q[4] = {1 + r[0][0] + r[1][1] + r[2][2], 1 + r[0][0] - r[1][1] - r[2][2],
                 1 - r[0][0] + r[1][1] - r[2][2], 1 - r[0][0] - r[1][1] + r[2][2]};
  const auto big = std::max_element(q, q + 4) - q;
  const double x = r[2][1] - r[1][2], y = r[0][2] - r[2][0], z = r[1][0] - r[0][1];
  const double xy = r[0][1] + r[1][0], xz = r[0][2] + r[2][0], yz = r[1][2] + r[2][1];
  const double rows[4][4] = {
      {q[0], x, y, z}, {x, q[1], xy, xz}, {y, xy, q[2], yz}, {z, xz, yz, q[3]}};
  const double scale = 0.5 / std::sqrt(q[big]) * (rows[big][0] < 0 ? -1 : 1);
  return {rows[big][1] * scale, rows[big][2] * scale, rows[big][3] * scale};
}

// The qform where the affine has one, that is where its columns are orthogonal. Returns qfac.
float put_qform(std::vector<std::uint8_t>& out, const Matrix4& m,
                const std::array<double, 3>& zooms) {
  double r[3][3];
  const double mirror = determinant3(m) < 0 ? -1 : 1;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) r[i][j] = m[4 * i + j] / zooms[j] * (j == 2 ? mirror : 1);
  for (int j = 0; j < 3; ++j)
    for (int k = 0; k < j; ++k)
      if (!(std::abs(r[0][j] * r[0][k] + r[1][j] * r[1][k] + r[2][j] * r[2][k]) < 1e-5)) return 1;
  put<std::int16_t>(out, layout1.qform, scanner);
  const auto q = quaternion(r);
  for (std::size_t i = 0; i < 3; ++i) {
    put<float>(out, layout1.quatern + 4 * i, static_cast<float>(q[i]));
    put<float>(out, layout1.quatern + 12 + 4 * i, static_cast<float>(m[4 * i + 3]));
  }
  return static_cast<float>(mirror);
}

}  // namespace

NiftiHeader parse_nifti_header(std::span<const std::uint8_t> front, const std::string& name) {
  const Fields f(front, name);
  NiftiHeader h;
  h.pair = f.pair;
  h.swapped = f.swapped();
  h.dim = parse_dim(f);
  const auto code = f.get<std::int16_t>(f.at.datatype), bits = f.get<std::int16_t>(f.at.bitpix);
  const StoredType* type = find_stored_type(code);
  if (!type)
    f.fail("datatype " + std::to_string(code) + " is not a scalar number but " +
           odd_datatype(code));
  h.type = *type;
  if (bits != 0 && bits != static_cast<int>(8 * size_of(h.type)))
    f.fail("bitpix is " + std::to_string(bits) + " but the datatype is " + name_of(h.type));
  check_size(f, h);
  h.offset = parse_offset(f);
  parse_scaling(f, h);
  h.affine = parse_affine(f, h);
  return h;
}

std::vector<std::uint8_t> make_nifti1_header(const NiftiHeader& h) {
  std::vector<std::uint8_t> out(nifti1_size + 4, 0);
  put<std::int32_t>(out, 0, nifti1_size);
  put<std::uint8_t>(out, 38, 'r');  // "regular", which readers of ANALYZE ask for
  put<std::int16_t>(out, layout1.dim, static_cast<std::int16_t>(h.dim.size()));
  for (int i = 0; i < 7; ++i)
    put<std::int16_t>(out, layout1.dim + 2 + 2 * i, static_cast<std::int16_t>(h.axis(i)));
  put<std::int16_t>(out, 68, h.intent);
  put<std::int16_t>(out, layout1.datatype, static_cast<std::int16_t>(h.type));
  put<std::int16_t>(out, layout1.bitpix, static_cast<std::int16_t>(8 * size_of(h.type)));
  put<float>(out, layout1.offset, nifti1_size + 4);
  put<float>(out, layout1.slope, 1);
  put<std::uint8_t>(out, 123, 2);  // xyzt_units: millimetres
  put<std::int16_t>(out, layout1.sform, scanner);
  for (std::size_t i = 0; i < 12; ++i)
    put<float>(out, layout1.srow + 4 * i, static_cast<float>(h.affine[i]));
  const auto zooms = spacing_of(h.affine);
  put<float>(out, layout1.pixdim, put_qform(out, h.affine, zooms));
  for (std::size_t i = 0; i < 7; ++i)
    put<float>(out, layout1.pixdim + 4 + 4 * i, i < 3 ? static_cast<float>(zooms[i]) : 1);
  std::memcpy(out.data() + 344, "n+1", 4);
  return out;
}

}  // namespace sluice
