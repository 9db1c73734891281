// gzip streams, whole: libdeflate for the data (several times zlib's speed), zlib for a first look
// and for saying what is wrong with a damaged one.
//
// Invariant: gunzip() returns exactly the bytes that were compressed or throws DataError; every
// member's CRC-32 and length are checked and nothing but zeros, which tapes and blocks are filled
// up with, may follow the last member. It never allocates more than the caller expects, so a gzip
// bomb is refused by its size.
#pragma once

#include <span>
#include <string>

#include "kernels/files/file_io.h"

namespace sluice {

bool is_gzip(std::span<const std::uint8_t> bytes);

// Decompresses the first out.size() bytes, or fewer where the stream holds fewer. The number that
// came out; nothing is checked yet.
std::size_t gunzip_front(std::span<const std::uint8_t> compressed, std::span<std::uint8_t> out);

// Decompresses all members into exactly `expected` bytes. `name` is the file's, for messages.
FileBytes gunzip(std::span<const std::uint8_t> compressed, std::uint64_t expected,
                 const std::string& name);

// Decompresses a single member, which itself says how long it is; refused above `limit` bytes.
FileBytes gunzip_single(std::span<const std::uint8_t> compressed, std::uint64_t limit,
                        const std::string& name);

// The same as gunzip() for one zlib stream (RFC 1950; its Adler-32 is checked).
FileBytes inflate_zlib(std::span<const std::uint8_t> compressed, std::uint64_t expected,
                       const std::string& name);

// DataError unless a whole zlib stream stands at the front, whose Adler-32 holds and which decodes
// to `most` bytes at most.
void check_zlib(std::span<const std::uint8_t> compressed, std::uint64_t most,
                const std::string& name);

// One gzip member, or one zlib stream; level 0 (stored) to 12 (smallest), 1 is fastest.
FileBytes gzip(std::span<const std::uint8_t> bytes, int level);
FileBytes deflate_zlib(std::span<const std::uint8_t> bytes, int level);

}  // namespace sluice
