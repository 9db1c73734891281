// What a source's samples are read from, told apart by a digest.
#pragma once

#include <string>
#include <vector>

#include "engine/run/node.h"

namespace sluice {

// SHA-256 of what the source's samples are, of 100,000 at most, evenly spread. "files": of their
// names and of the names, sizes and times of writing of their files; "values": of the numbers that
// a list has of them, such as labels and weights. null where the source has no list or its samples
// (the first 16) no files.
Json source_digests(const Node& source);
// In words, where digests by source are others than the `run` had; of those it had none of,
// nothing.
std::vector<std::string> source_changes(const Json& had, const Json& has, const std::string& run);
// SHA-256 of the names of the samples, in their order, of 1000 at most; "" where it has no list.
std::string names_digest(const Node& source);

}  // namespace sluice
