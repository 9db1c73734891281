// What a source's samples are read from, told apart by a digest.
#pragma once

#include <string>

#include "engine/run/node.h"

namespace sluice {

// SHA-256 of the names of the source's samples and of the names, sizes and times of writing of
// their files, of 1000 samples at most, evenly spread. "" where the source has no list or its
// samples no files.
std::string source_digest(const Node& source);
// ... of the names of the samples alone, in their order; "" where it has no list.
std::string names_digest(const Node& source);

}  // namespace sluice
