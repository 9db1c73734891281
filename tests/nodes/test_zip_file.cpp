// Zip archives whose directory lies, field by field.
#include <doctest/doctest.h>

#include "engine/base/error.h"
#include "engine/state/zip_file.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

// Places in an archive of PKWARE's format: its end record, and from there its directory.
constexpr std::size_t end_bytes = 22, central_bytes = 46;

struct Archive {
  std::string bytes = zip_of({{"a", "hello"}, {"b", "x"}});
  std::size_t end() const { return bytes.size() - end_bytes; }
  std::size_t directory() const { return static_cast<unsigned char>(bytes[end() + 16]); }
};

std::string why_not(const std::string& bytes, const std::string& entry = "a") {
  try {
    ZipFile(bytes, "z").read(entry);
  } catch (const DataError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an archive holds what was put into it, with a comment behind it too") {
  const Archive archive;
  const std::string commented = archive.bytes + "made by hand";
  for (const std::string& bytes : {archive.bytes, commented}) {
    const ZipFile zip(bytes, "z");
    CHECK(zip.entries().size() == 2);
    CHECK(zip.has("b"));
    CHECK(zip.read("a") == "hello");
    CHECK(zip.unpacked("b") == "x");
  }
  CHECK(contains(why_not(archive.bytes, "c"), "z: has no \"c\""));
}

TEST_CASE("an archive that is cut anywhere is refused") {
  const Archive archive;
  for (std::size_t n = 0; n < archive.bytes.size(); ++n) {
    CAPTURE(n);
    CHECK(contains(why_not(archive.bytes.substr(0, n)), "z: is cut short, or no zip archive"));
  }
}

TEST_CASE("an archive whose fields do not fit each other is refused by the one that is wrong") {
  const auto with = [](std::size_t at, char byte) {
    std::string bytes = Archive().bytes;
    bytes[at] = byte;
    return bytes;
  };
  const Archive whole;
  const std::size_t central = whole.directory();
  CHECK(contains(why_not(with(central, 'Q')), "z: has a damaged directory"));
  CHECK(contains(why_not(with(central + 8, 1)),
                 "\"a\" is encrypted, or compressed in an unknown way"));
  CHECK(contains(why_not(with(central + 10, 9)),
                 "\"a\" is encrypted, or compressed in an unknown way"));
  CHECK(contains(why_not(with(central + 20, 4)),
                 "\"a\" is encrypted, or compressed in an unknown way"));
  CHECK(contains(why_not(with(central + central_bytes + 1 + central_bytes, 'a')),
                 "\"a\" is there twice"));
  CHECK(contains(why_not(with(0, 'Q')), "\"a\" is damaged"));
  CHECK(contains(why_not(with(whole.bytes.find("hello"), 'H')),
                 "\"a\" is damaged: its checksum is another"));
  std::string longer = whole.bytes;  // in both places, of which the directory's counts
  longer[central + 20] = longer[central + 24] = 127;
  longer[central + 21] = longer[central + 25] = 1;
  CHECK(contains(why_not(longer), "\"a\" is cut short"));
  // A directory that stands at a place of 64 bits, of which there is no record.
  std::string wide = whole.bytes;
  for (std::size_t i = 0; i < 4; ++i) wide[whole.end() + 16 + i] = '\xff';
  wide.insert(whole.end(), std::string("PK\6\7", 4) + std::string(16, '\0'));
  CHECK(contains(why_not(wide), "z: has no directory"));
}
