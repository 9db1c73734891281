// Names that people try for a type: MONAI's and PyTorch's classes, parts of names, typing errors.
#pragma once

#include <string>
#include <vector>

namespace sluice {

// The type that does what a class of MONAI's or PyTorch's does: "rand_flip" for "RandFlipd" or
// "monai.transforms.RandFlipd"; "" where none of `known` does. nodes/MONAI.md lists them all.
std::string type_for_class(const std::string& name, const std::vector<std::string>& known);

// Those that hold the word: "rand_flip" for "flip".
std::vector<std::string> types_with(const std::string& word, const std::vector<std::string>& known);

// What might have been meant by a type that there is not; "" where nothing is near.
std::string suggest_type(const std::string& type, const std::vector<std::string>& known);

}  // namespace sluice
