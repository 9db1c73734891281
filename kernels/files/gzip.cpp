#include "kernels/files/gzip.h"

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "engine/base/error.h"

namespace sluice {
namespace {

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
};
struct FreeCompressor {
  void operator()(libdeflate_compressor* c) const { libdeflate_free_compressor(c); }
};

auto make_decompressor() {
  std::unique_ptr<libdeflate_decompressor, FreeDecompressor> d(libdeflate_alloc_decompressor());
  if (!d) throw std::bad_alloc();
  return d;
}

std::span<const std::uint8_t> after_zeros(std::span<const std::uint8_t> bytes) {
  const auto begin = std::ranges::find_if(bytes, [](std::uint8_t b) { return b != 0; });
  return bytes.subspan(static_cast<std::size_t>(begin - bytes.begin()));
}

// zlib's streaming view of a gzip stream; one member after the other.
class Inflater {
 public:
  explicit Inflater(std::span<const std::uint8_t> in) : in_(in) {
    if (inflateInit2(&z_, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&z_); }
  Inflater(const Inflater&) = delete;

  // Fills as much of `out` as one call does; `status` tells how it ended.
  std::size_t read(std::span<std::uint8_t> out, int& status) {
    z_.next_in = const_cast<Bytef*>(in_.data());
    z_.avail_in = static_cast<uInt>(std::min<std::size_t>(in_.size(), 1u << 30));
    z_.next_out = out.data();
    z_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), 1u << 30));
    const uInt asked = z_.avail_out;
    status = ::inflate(&z_, Z_NO_FLUSH);
    in_ = in_.subspan(static_cast<std::size_t>(z_.next_in - in_.data()));
    return asked - z_.avail_out;
  }
  // Whether another member follows; zeros before it, or before the end, are passed over.
  bool next_member() {
    in_ = after_zeros(in_);
    return is_gzip(in_) && inflateReset(&z_) == Z_OK;
  }
  std::size_t left() const { return in_.size(); }
  std::string message() const { return z_.msg ? z_.msg : ""; }

 private:
  std::span<const std::uint8_t> in_;
  z_stream z_{};
};

std::string bytes_of(std::uint64_t expected, std::uint64_t got) {
  return " (expected " + with_commas(expected) + " bytes, got " + with_commas(got) + ")";
}

// Decodes once more, slowly, to say in words what libdeflate answers with a number.
std::string diagnose(std::span<const std::uint8_t> compressed, std::uint64_t expected) {
  Inflater inflater(compressed);
  std::vector<std::uint8_t> scratch(1u << 16);
  std::uint64_t got = 0;
  for (;;) {
    int status = Z_OK;
    const std::size_t n = inflater.read(scratch, status);
    got += n;
    if (got > expected)
      return "gzip stream holds more than the " + with_commas(expected) +
             " bytes that its header announces";
    if (status == Z_STREAM_END) {
      if (inflater.next_member()) continue;
      if (inflater.left() == 0) return "gzip stream is too short" + bytes_of(expected, got);
      return with_commas(inflater.left()) + " bytes of garbage after the gzip stream";
    }
    if (status == Z_DATA_ERROR) {
      if (inflater.message() == "incorrect data check") return "bad gzip checksum";
      if (inflater.message() == "incorrect length check") return "bad gzip length";
      return "damaged gzip stream after " + with_commas(got) + " bytes: " + inflater.message();
    }
    if (status != Z_OK || (n == 0 && inflater.left() == 0))
      return "gzip stream ends early" +
             (got < expected ? bytes_of(expected, got)
                             : ": its trailer, with checksum and length, is missing or cut");
  }
}

}  // namespace

bool is_gzip(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

std::size_t gunzip_front(std::span<const std::uint8_t> compressed, std::span<std::uint8_t> out) {
  Inflater inflater(compressed);
  std::size_t done = 0;
  while (done < out.size()) {
    int status = Z_OK;
    const std::size_t n = inflater.read(out.subspan(done), status);
    done += n;
    if (status == Z_STREAM_END ? !inflater.next_member() : (status != Z_OK || n == 0)) break;
  }
  return done;
}

FileBytes gunzip(std::span<const std::uint8_t> compressed, std::uint64_t expected,
                 const std::string& name) {
  const auto fail = [&] { throw DataError(name + ": " + diagnose(compressed, expected)); };
  // Deflate never does better than 1032 to 1: a larger promise is broken before memory is taken.
  if (expected / 1032 > compressed.size()) fail();
  FileBytes out(expected);
  const auto decompressor = make_decompressor();
  std::size_t written = 0;
  auto rest = compressed;
  do {
    std::size_t n_in = 0, n_out = 0;
    const auto result =
        libdeflate_gzip_decompress_ex(decompressor.get(), rest.data(), rest.size(),
                                      out.data() + written, expected - written, &n_in, &n_out);
    if (result != LIBDEFLATE_SUCCESS) fail();
    rest = after_zeros(rest.subspan(n_in));
    written += n_out;
  } while (!rest.empty());
  if (written != expected) fail();
  return out;
}

FileBytes gunzip_single(std::span<const std::uint8_t> compressed, std::uint64_t limit,
                        const std::string& name) {
  if (compressed.size() < 18) throw DataError(name + ": gzip stream ends early");
  const std::uint8_t* last = compressed.data() + compressed.size() - 4;
  const std::uint64_t length = std::uint64_t{last[0]} | std::uint64_t{last[1]} << 8 |
                               std::uint64_t{last[2]} << 16 | std::uint64_t{last[3]} << 24;
  return gunzip(compressed, std::min(length, limit), name);
}

FileBytes inflate_zlib(std::span<const std::uint8_t> compressed, std::uint64_t expected,
                       const std::string& name) {
  const auto fail = [&] {
    throw DataError(name + ": damaged or truncated zlib stream (expected " + with_commas(expected) +
                    " bytes)");
  };
  if (expected / 1032 > compressed.size()) fail();
  FileBytes out(expected);
  std::size_t read = 0, written = 0;
  const auto result =
      libdeflate_zlib_decompress_ex(make_decompressor().get(), compressed.data(), compressed.size(),
                                    out.data(), expected, &read, &written);
  if (result != LIBDEFLATE_SUCCESS || read != compressed.size() || written != expected) fail();
  return out;
}

void check_zlib(std::span<const std::uint8_t> compressed, std::uint64_t most,
                const std::string& name) {
  z_stream z{};
  if (inflateInit(&z) != Z_OK) throw std::bad_alloc();
  std::vector<std::uint8_t> scratch(1u << 16);
  z.next_in = const_cast<Bytef*>(compressed.data());
  z.avail_in = static_cast<uInt>(std::min<std::size_t>(compressed.size(), 1u << 31));
  int status = Z_OK;
  while (status == Z_OK && z.total_out <= most) {
    z.next_out = scratch.data();
    z.avail_out = static_cast<uInt>(scratch.size());
    status = ::inflate(&z, Z_NO_FLUSH);
  }
  inflateEnd(&z);
  if (status != Z_STREAM_END) throw DataError(name + ": damaged or truncated zlib stream");
}

namespace {

template <class Bound, class Compress>
FileBytes compressed(std::span<const std::uint8_t> bytes, int level, Bound bound,
                     Compress compress) {
  const std::unique_ptr<libdeflate_compressor, FreeCompressor> compressor(
      libdeflate_alloc_compressor(level));
  if (!compressor) throw std::bad_alloc();
  FileBytes out(bound(compressor.get(), bytes.size()));
  const std::size_t n =
      compress(compressor.get(), bytes.data(), bytes.size(), out.data(), out.size());
  if (n == 0) throw std::logic_error("gzip: the bound was too small");
  out.shorten(n);
  return out;
}

}  // namespace

FileBytes gzip(std::span<const std::uint8_t> bytes, int level) {
  return compressed(bytes, level, libdeflate_gzip_compress_bound, libdeflate_gzip_compress);
}

FileBytes deflate_zlib(std::span<const std::uint8_t> bytes, int level) {
  return compressed(bytes, level, libdeflate_zlib_compress_bound, libdeflate_zlib_compress);
}

}  // namespace sluice
