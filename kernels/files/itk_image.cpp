#include "kernels/files/itk_image.h"

#include <ATen/Functions.h>
#include <itkBMPImageIO.h>
#include <itkPNGImageIO.h>
#include <itkTIFFImageIO.h>
#include <itkVersion.h>

#include <cstring>

#include "engine/base/error.h"
#include "kernels/files/file_io.h"
#include "kernels/files/image_check.h"

namespace sluice {
namespace {

struct Component {
  at::ScalarType type;
  const char* name;
};

Component component_of(const itk::ImageIOBase& io, const std::string& name) {
  switch (io.GetComponentType()) {
    case itk::IOComponentEnum::UCHAR:
      return {at::kByte, "uint8"};
    case itk::IOComponentEnum::CHAR:
      return {at::kChar, "int8"};
    case itk::IOComponentEnum::USHORT:
      return {at::kUInt16, "uint16"};
    case itk::IOComponentEnum::SHORT:
      return {at::kShort, "int16"};
    case itk::IOComponentEnum::UINT:
      return {at::kUInt32, "uint32"};
    case itk::IOComponentEnum::INT:
      return {at::kInt, "int32"};
    case itk::IOComponentEnum::ULONG:
    case itk::IOComponentEnum::ULONGLONG:
      return {at::kUInt64, "uint64"};
    case itk::IOComponentEnum::LONG:
    case itk::IOComponentEnum::LONGLONG:
      return {at::kLong, "int64"};
    case itk::IOComponentEnum::FLOAT:
      return {at::kFloat, "float32"};
    case itk::IOComponentEnum::DOUBLE:
      return {at::kDouble, "float64"};
    default:
      throw DataError(name + ": its voxels are not scalar numbers");
  }
}

// [.., Y, X, C] as ITK leaves it to [C, X, Y, ..]: all axes reversed.
at::Tensor to_tensor(FileBytes& voxels, const itk::ImageIOBase& io, at::ScalarType dtype,
                     const std::string& name) {
  std::vector<std::int64_t> shape, order;
  for (unsigned d = io.GetNumberOfDimensions(); d-- > 0;)
    shape.push_back(static_cast<std::int64_t>(io.GetDimensions(d)));
  shape.push_back(io.GetNumberOfComponents());
  for (std::int64_t d = std::ssize(shape); d-- > 0;) order.push_back(d);
  const at::Tensor stored = at::from_blob(voxels.data(), shape, component_of(io, name).type);
  return exactly(stored.permute(order), dtype, name);
}

Volume read_by(itk::ImageIOBase& io, const std::string& name, at::ScalarType dtype) {
  io.SetFileName(name);
  io.ReadImageInformation();
  const unsigned n = io.GetNumberOfDimensions();
  if (n > 3) throw DataError(name + ": has " + std::to_string(n) + " axes, at most 3 are read");
  itk::ImageIORegion region(n);
  for (unsigned d = 0; d < n; ++d) region.SetSize(d, io.GetDimensions(d));
  io.SetIORegion(region);
  FileBytes voxels(static_cast<std::uint64_t>(io.GetImageSizeInBytes()));
  std::memset(voxels.data(), 0, voxels.size());
  io.Read(voxels.data());

  Volume v;
  v.data = to_tensor(voxels, io, dtype, name);
  v.has_affine = false;
  const Component component = component_of(io, name);
  v.disk_dtype = component.name;
  v.may_be_non_finite = at::isFloatingType(component.type);
  return v;
}

template <class Io>
Volume read_with(const std::string& name, at::ScalarType dtype) {
  try {
    return read_by(*Io::New(), name, dtype);
  } catch (const itk::MemoryAllocationError&) {
    throw std::bad_alloc();
  } catch (const itk::ExceptionObject& e) {
    read_file_front(name, 1);  // throws where ITK could not open it because the machine cannot
    throw DataError(name + ": " + e.GetDescription());
  }
}

}  // namespace

Volume read_png(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read) {
  check_png(read(path).view(), path.string());
  return read_with<itk::PNGImageIO>(path.string(), dtype);
}

Volume read_bmp(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read) {
  check_bmp(read(path).view(), path.string());
  return read_with<itk::BMPImageIO>(path.string(), dtype);
}

Volume read_tiff(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read) {
  check_tiff(read(path).view(), path.string());
  return read_with<itk::TIFFImageIO>(path.string(), dtype);
}

std::string itk_version() { return itk::Version::GetITKVersion(); }

}  // namespace sluice
