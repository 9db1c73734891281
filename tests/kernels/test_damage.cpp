// Damaged files by the thousand (by the million with SLUICE_LONG=1): none may crash a reader, no
// cut file may be accepted, no damaged one either where the format has a checksum, and none of any
// kind where a manifest is given.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "engine/base/error.h"
#include "tests/campaign.h"
#include "tests/kernels/damage.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

std::uint64_t count_of(const Campaign& c, const std::string& format, const std::string& damage,
                       Fate fate) {
  const auto found = c.tally.find({format, damage, name_of(fate)});
  return found == c.tally.end() ? 0 : found->second;
}

// "format  damage: refused n, same n, ..."
std::string table_of(const Campaign& c) {
  std::string text = std::to_string(c.files) + " damaged files\n", row;
  for (const auto& [key, n] : c.tally) {
    const std::string name = key[0] + " " + key[1];
    if (name != row) text.append("\n").append(row = name).append(":");
    text.append(" ").append(key[2]).append(" ").append(std::to_string(n));
  }
  return text + "\naccepted behind a manifest: " + std::to_string(c.with_manifest);
}

void check(const std::vector<Base>& bases, const Campaign& c) {
  INFO(table_of(c));
  if (campaign::at_length()) MESSAGE(table_of(c));
  std::string crashes;
  for (const auto& crash : c.crashes) crashes += crash + "\n";
  CHECK_MESSAGE(c.crashes.empty(), crashes);
  CHECK(c.with_manifest == 0);
  for (const Base& base : bases) {
    CAPTURE(base.format);
    for (const Fate v : {Fate::same, Fate::geometry, Fate::other})
      CHECK(count_of(c, base.format, "cut", v) == 0);
    if (!base.checksum) continue;
    for (const std::string damage : {"bits", "bytes", "swapped", "zeros", "longer"}) {
      CAPTURE(damage);
      CHECK(count_of(c, base.format, damage, Fate::other) == 0);
      CHECK(count_of(c, base.format, damage, Fate::geometry) == 0);
      // A TIFF says where its pixels are; what stands after them is nobody's.
      if (base.extension != ".tif" || damage != "longer")
        CHECK(count_of(c, base.format, damage, Fate::refused) > 0);
    }
  }
}

}  // namespace

TEST_CASE("No damaged .nii, .nii.gz or .nrrd crashes the readers, none with a checksum passes") {
  const auto bases = volume_bases();
  check(bases, run_campaign("damaged_volumes", bases, 6'000, 1'000'000, 6 + campaign::seed()));
}

TEST_CASE("No damaged MetaImage, picture or .npy crashes the readers, no cut one passes") {
  const auto bases = other_bases();
  check(bases, run_campaign("damaged_pictures", bases, 1'500, 20'000, 6 + campaign::seed()));
}

TEST_CASE("A TIFF whose directories go in a circle and a JPEG larger than it can be are refused") {
  const TemporaryFolder folder;
  const auto error_of = [&](const std::string& format, const auto& change) {
    for (const Base& base : other_bases()) {
      if (base.format != format) continue;
      Bytes b = base.bytes;
      change(b);
      try {
        read_any(base.extension, b, folder.path / ("m" + base.extension));
      } catch (const DataError& e) {
        return std::string(e.what());
      }
    }
    return std::string();
  };
  const std::string circle = error_of(".tif raw", [](Bytes& b) { b[118] = 8; });
  CHECK(circle.find("IFD looping to directory 0") != std::string::npos);
  const std::string huge = error_of(".jpg", [](Bytes& b) {
    const std::uint8_t frame[] = {0xff, 0xc0};  // its length, bits, height and width follow
    const auto at = std::search(b.begin(), b.end(), std::begin(frame), std::end(frame));
    REQUIRE(at != b.end());
    std::fill_n(at + 5, 4, 0x7f);
  });
  CHECK(huge.find("declares 1,065,304,321 pixels, more than") != std::string::npos);
}
