#include "engine/state/zip_file.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/message.h"

namespace sluice {

// Of PKWARE's APPNOTE: signatures, and what stands for "see the 64-bit field".
namespace zip {
constexpr std::uint32_t local = 0x04034b50, central = 0x02014b50, end = 0x06054b50,
                        end64 = 0x06064b50, locator64 = 0x07064b50;
constexpr std::uint64_t large16 = 0xffff, large32 = 0xffffffff;
constexpr std::uint64_t local_bytes = 30, central_bytes = 46, end_bytes = 22, locator_bytes = 20;
}  // namespace zip

bool is_zip(std::string_view bytes) {
  return bytes.starts_with("PK\x03\x04") || bytes.starts_with("PK\x05\x06");  // without entries
}

std::string zip_of(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string out, directory;
  const auto put = [](std::string& to, std::initializer_list<std::pair<std::uint64_t, int>> all) {
    for (const auto& [number, width] : all)
      for (int i = 0; i < width; ++i) to += static_cast<char>(number >> 8 * i);
  };
  constexpr std::uint64_t first_day = 0x21;  // of 1980
  for (const auto& [name, content] : entries) {
    const std::uint64_t begin = out.size(), bytes = content.size();
    const std::uint64_t crc = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), bytes);
    put(out, {{zip::local, 4}, {20, 2}, {0, 2}, {0, 2}, {0, 2}, {first_day, 2}, {crc, 4}});
    put(out, {{bytes, 4}, {bytes, 4}, {name.size(), 2}, {0, 2}});
    out += name;
    out += content;
    put(directory, {{zip::central, 4}, {20, 2}, {20, 2}, {0, 2}, {0, 2}, {0, 2}, {first_day, 2}});
    put(directory, {{crc, 4}, {bytes, 4}, {bytes, 4}, {name.size(), 2}, {0, 2}, {0, 2}, {0, 2}});
    put(directory, {{0, 2}, {0, 4}, {begin, 4}});
    directory += name;
    if (out.size() >= zip::large32)
      throw Error(Exit::usage, "an archive of 4 GiB or more is not written");
  }
  const std::uint64_t at = out.size(), count = entries.size();
  out += directory;
  put(out, {{zip::end, 4}, {0, 2}, {0, 2}, {count, 2}, {count, 2}, {directory.size(), 4}});
  put(out, {{at, 4}, {0, 2}});
  return out;
}

ZipFile::ZipFile(std::string_view bytes, std::string what) : bytes_(bytes), what_(std::move(what)) {
  const Directory d = directory();
  std::uint64_t at = d.begin;
  for (std::uint64_t i = 0; i < d.entries; ++i) at = add_entry(at);
}

void ZipFile::fail(const std::string& why) const { throw DataError(what_ + ": " + why); }

std::uint64_t ZipFile::number(std::uint64_t at, int width) const {
  if (at > bytes_.size() || bytes_.size() - at < static_cast<std::uint64_t>(width))
    fail("is cut short, or no zip archive");
  std::uint64_t n = 0;
  for (int i = width; i-- > 0;) n = n << 8 | static_cast<unsigned char>(bytes_[at + i]);
  return n;
}

ZipFile::Directory ZipFile::directory() const {
  if (bytes_.size() < zip::end_bytes) fail("is cut short, or no zip archive");
  std::uint64_t at = bytes_.size() - zip::end_bytes;
  const std::uint64_t first = at > zip::large16 ? at - zip::large16 : 0;  // a comment may follow
  while (number(at, 4) != zip::end) {
    if (at == first) fail("is cut short, or no zip archive");
    --at;
  }
  Directory d{number(at + 16, 4), number(at + 10, 2)};
  if (d.begin != zip::large32 && d.entries != zip::large16) return d;
  if (at < zip::locator_bytes || number(at - zip::locator_bytes, 4) != zip::locator64) return d;
  const std::uint64_t wide = number(at - zip::locator_bytes + 8, 8);
  if (number(wide, 4) != zip::end64) fail("has no directory");
  return {number(wide + 48, 8), number(wide + 32, 8)};
}

// Returns where the next one is.
std::uint64_t ZipFile::add_entry(std::uint64_t at) {
  if (number(at, 4) != zip::central) fail("has a damaged directory");
  const std::uint64_t name_bytes = number(at + 28, 2), extra_bytes = number(at + 30, 2),
                      comment_bytes = number(at + 32, 2);
  std::uint64_t stored = number(at + 20, 4);
  constexpr std::uint64_t plain = 0, deflated = 8;
  const std::uint64_t method = number(at + 10, 2);
  Entry e{number(at + 42, 4), number(at + 24, 4), 0, static_cast<std::uint32_t>(number(at + 16, 4)),
          method == deflated};
  const std::uint64_t name_at = at + zip::central_bytes,
                      extra_end = name_at + name_bytes + extra_bytes;
  number(extra_end + comment_bytes, 0);
  const std::string name(bytes_.substr(name_at, name_bytes));
  // The 64-bit fields stand in this order, those that are needed.
  for (std::uint64_t x = name_at + name_bytes; x + 4 <= extra_end; x += 4 + number(x + 2, 2)) {
    if (number(x, 2) != 1) continue;
    std::uint64_t field = x + 4;
    for (std::uint64_t* n : {&e.bytes, &stored, &e.begin})
      if (*n == zip::large32) *n = number(std::exchange(field, field + 8), 8);
  }
  e.stored = stored;
  if ((number(at + 8, 2) & 1) != 0 || (method != plain && method != deflated) ||
      (method == plain && stored != e.bytes))
    fail("\"" + printable(name) + "\" is encrypted, or compressed in an unknown way");
  if (!entries_.emplace(name, e).second) fail("\"" + printable(name) + "\" is there twice");
  return extra_end + comment_bytes;
}

const ZipFile::Entry& ZipFile::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail("has no \"" + printable(name) + "\"");
  return found->second;
}

std::string_view ZipFile::stored(const Entry& e, const std::string& name) const {
  if (number(e.begin, 4) != zip::local) fail("\"" + printable(name) + "\" is damaged");
  const std::uint64_t at =
      e.begin + zip::local_bytes + number(e.begin + 26, 2) + number(e.begin + 28, 2);
  if (at > bytes_.size() || bytes_.size() - at < e.stored)
    fail("\"" + printable(name) + "\" is cut short");
  return bytes_.substr(at, e.stored);
}

void ZipFile::check(const Entry& e, std::string_view content, const std::string& name) const {
  const auto* data = reinterpret_cast<const Bytef*>(content.data());
  if (crc32_z(0, data, content.size()) != e.crc)
    fail("\"" + printable(name) + "\" is damaged: its checksum is another");
}

std::string_view ZipFile::read(const std::string& name) const {
  const Entry& e = entry(name);
  if (e.compressed)
    fail("\"" + printable(name) + "\" is compressed or encrypted, which torch.save() does not do");
  const std::string_view content = stored(e, name);
  check(e, content, name);
  return content;
}

std::string ZipFile::unpacked(const std::string& name) const {
  const Entry& e = entry(name);
  if (!e.compressed) return std::string(read(name));
  const std::string_view packed = stored(e, name);
  constexpr std::uint64_t most = 1032;  // what deflate makes of a byte
  if (e.bytes / most > packed.size()) fail("\"" + printable(name) + "\" is damaged: its size");
  std::string out(e.bytes, '\0');
  z_stream z{};
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK) fail("no memory to unpack \"" + printable(name) + "\"");
  std::size_t in = 0, made = 0;
  int state = Z_OK;
  while (state == Z_OK) {  // zlib counts in 32 bits
    constexpr std::size_t step = 1u << 30;
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + in));
    z.avail_in = static_cast<uInt>(std::min(packed.size() - in, step));
    z.next_out = reinterpret_cast<Bytef*>(out.data() + made);
    z.avail_out = static_cast<uInt>(std::min(out.size() - made, step));
    const uInt had_in = z.avail_in, had_out = z.avail_out;
    state = inflate(&z, Z_NO_FLUSH);
    in += had_in - z.avail_in;
    made += had_out - z.avail_out;
  }
  inflateEnd(&z);
  if (state != Z_STREAM_END || made != out.size())
    fail("\"" + printable(name) + "\" is damaged: it does not unpack");
  check(e, out, name);
  return out;
}

}  // namespace sluice
