// Damaged files for test_damage.cpp and `damaged`: from a good file, a number and a kind of damage
// the same bad file every time.
//
// Invariant: a mutant differs from its base in at least one byte.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/files/volume.h"
#include "tests/temporary_folder.h"

namespace sluice {

namespace fs = std::filesystem;

struct Base {
  std::string format, extension;  // ".nrrd gzip", ".nrrd"
  Bytes bytes;
  std::size_t header = 0;  // bytes of plain header in front; 0: none is known
  bool checksum = false;   // what follows the header has one, over all of it
  bool nifti = false;
  Volume volume;
};

// Volumes (.nii, .nii.gz, .nrrd), or the other formats; made anew, always the same.
std::vector<Base> volume_bases();
std::vector<Base> other_bases();

enum class Damage {
  cut,      // the end is missing
  bits,     // 1 to 3 bits flipped
  bytes,    // 1 to 4 bytes replaced
  header,   // a field of the header has another value; packed again where it is compressed
  extreme,  // ... one that is far out
  swapped,  // two runs of bytes exchanged
  zeros,    // a run of bytes is 0
  longer,   // something follows
};
inline constexpr std::array damages{Damage::cut,    Damage::bits,    Damage::bytes,
                                    Damage::header, Damage::extreme, Damage::swapped,
                                    Damage::zeros,  Damage::longer};
const char* name_of(Damage damage);

Bytes damaged(const Base& base, Damage damage, std::uint64_t number);

// How reading a mutant ended.
enum class Fate { refused, same, geometry, other, crash };  // geometry: only the affine differs
inline constexpr std::array fates{Fate::refused, Fate::same, Fate::geometry, Fate::other,
                                  Fate::crash};
const char* name_of(Fate fate);

// Counts by format, damage and fate.
using Tally = std::map<std::array<std::string, 3>, std::uint64_t>;

struct Campaign {
  Tally tally;
  std::uint64_t files = 0,
                with_manifest = 0;   // ... accepted where a manifest of the bases is given
  std::vector<std::string> crashes;  // "format damage number"
};

// Reads `few` mutants, or at length `many`, in children of this process, so that one that dies is
// counted.
Campaign run_campaign(const std::string& name, const std::vector<Base>& bases, std::uint64_t few,
                      std::uint64_t many, std::uint64_t seed);

// `scratch` is where a format that ITK reads is put for it.
Volume read_any(const std::string& extension, const Bytes& bytes, const fs::path& scratch);
Fate read_mutant(const Base& base, const Bytes& bytes, const fs::path& scratch);

}  // namespace sluice
