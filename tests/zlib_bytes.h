// What zlib packs, in memory: the streams within PNG and MetaImage files.
#pragma once

#include <libdeflate.h>

#include "tests/temporary_folder.h"

namespace sluice {

inline Bytes zlib_bytes(const Bytes& raw) {
  Bytes out(raw.size() + 100);
  auto* c = libdeflate_alloc_compressor(6);
  out.resize(libdeflate_zlib_compress(c, raw.data(), raw.size(), out.data(), out.size()));
  libdeflate_free_compressor(c);
  return out;
}

}  // namespace sluice
