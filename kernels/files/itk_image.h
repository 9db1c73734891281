// The version of ITK, which reads DICOM in tools/dicom.
#pragma once

#include <string>

namespace sluice {

std::string itk_version();  // "5.2.1"

}  // namespace sluice
