// Images that are several files: a header that names the files of its voxels (.mhd, .nhdr) or lies
// beside it (.hdr and .img), and a slide that has a folder (.mrxs).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sluice {

// The two names of an Analyze or NIfTI pair, whichever of them is given: "a.img.gz" and "a.hdr.gz"
// name the same pair, and so do "A.IMG" and "A.HDR". The same name twice for a single file.
struct PairNames {
  std::filesystem::path header, voxels;
};
PairNames pair_names(const std::filesystem::path& path);

// The files that MetaImage's "slice%03d.raw 1 7 1" names: a pattern, the first number, the last and
// the step, which may be left out. Empty for anything else, and for more than 65,536 files.
std::vector<std::string> numbered_files(const std::string& text);

// What an image is read from, the given path first. A header that cannot be read has no others:
// whoever needs the image says why.
std::vector<std::filesystem::path> image_files(const std::filesystem::path& path);

}  // namespace sluice
