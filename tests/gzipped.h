// Bytes in gzip's format.
#pragma once

#include "kernels/files/gzip.h"
#include "tests/temporary_folder.h"

namespace sluice {

inline Bytes gzipped(const Bytes& raw, int level = 6) {
  const FileBytes b = gzip(raw, level);
  return Bytes(b.data(), b.data() + b.size());
}

}  // namespace sluice
