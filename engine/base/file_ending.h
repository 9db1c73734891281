// How a file's name ends. Readers take endings in capitals too, and so does all that looks for
// files.
#pragma once

#include <filesystem>
#include <string_view>

#include "engine/base/letter_case.h"

namespace sluice {

// Whether "C.NII.GZ" ends with ".nii.gz"; `ending` in small letters.
inline bool has_ending(const std::filesystem::path& file, std::string_view ending) {
  return lower_case(file.filename().string()).ends_with(ending);
}

inline bool is_nifti_name(const std::filesystem::path& file) {
  return has_ending(file, ".nii") || has_ending(file, ".nii.gz");
}

// What keeps no voxel size.
inline bool is_picture_name(const std::filesystem::path& file) {
  for (const char* ending : {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff"})
    if (has_ending(file, ending)) return true;
  return false;
}

}  // namespace sluice
