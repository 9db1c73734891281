#include "kernels/files/volume.h"

#include <ATen/Functions.h>

#include "engine/base/error.h"
#include "engine/base/file_ending.h"
#include "kernels/files/bmp.h"
#include "kernels/files/dicom.h"
#include "kernels/files/file_io.h"
#include "kernels/files/jpeg.h"
#include "kernels/files/meta_image.h"
#include "kernels/files/nifti.h"
#include "kernels/files/npy.h"
#include "kernels/files/nrrd.h"
#include "kernels/files/png_image.h"
#include "kernels/files/tiff_image.h"

namespace sluice {

namespace {

using Reader = Volume (*)(const std::filesystem::path&, at::ScalarType, const ReadBytes&);

struct Extension {
  const char* text;
  Reader read;
};

// An array of one to three axes, [1, ...]; a file does not say which of them are channels.
Volume read_array(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read) {
  const FileBytes bytes = read(path);
  const at::Tensor array =
      parse_npy({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, path.string());
  Volume v;
  v.data = exactly(array, dtype, path.string()).unsqueeze(0);
  v.has_affine = false;
  v.disk_dtype = c10::getDtypeNames(array.scalar_type()).first;
  v.may_be_non_finite = array.is_floating_point();
  return v;
}

const Extension extensions[] = {
    {".nii", read_nifti},      {".nii.gz", read_nifti},   {".nrrd", read_nrrd},
    {".nhdr", read_nrrd},      {".mhd", read_meta_image}, {".hdr", read_nifti},
    {".img", read_nifti},      {".hdr.gz", read_nifti},   {".img.gz", read_nifti},
    {".mha", read_meta_image}, {".png", read_png},        {".jpg", read_jpeg},
    {".jpeg", read_jpeg},      {".bmp", read_bmp},        {".tif", read_tiff},
    {".tiff", read_tiff},      {".npy", read_array},
};

const Extension* extension_of(const std::filesystem::path& path) {
  for (const Extension& e : extensions)
    if (has_ending(path, e.text)) return &e;
  return nullptr;
}

}  // namespace

at::Tensor exactly(const at::Tensor& stored, at::ScalarType dtype, const std::string& name) {
  at::Tensor out = stored.to(dtype, false, true, at::MemoryFormat::Contiguous);
  if (at::isIntegralType(dtype, false) && !out.to(at::kDouble).equal(stored.to(at::kDouble)))
    throw DataError(name + ": holds values that are no " + c10::getDtypeNames(dtype).first);
  return out;
}

bool is_volume_name(const std::filesystem::path& path) { return extension_of(path) != nullptr; }

Volume read_volume(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read) {
  std::error_code problem;
  if (std::filesystem::is_directory(path, problem)) return read_dicom_series(path, dtype, read);
  if (const Extension* e = extension_of(path)) return e->read(path, dtype, read);
  if (has_ending(path, ".dcm") || is_dicom_file(path)) return read_dicom_series(path, dtype, read);
  read_file_front(path, 1);  // says why where there is none to be read
  throw DataError(path.string() +
                  ": unknown extension; .nii, .nii.gz, .nrrd, .mha, .png, .jpg, .bmp, .tif and "
                  ".npy are read, DICOM files, and folders with a DICOM series");
}

}  // namespace sluice
