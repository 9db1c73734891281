#include "kernels/files/itk_image.h"

#include <itkVersion.h>

namespace sluice {

std::string itk_version() { return itk::Version::GetITKVersion(); }

}  // namespace sluice
