// A picture as SVG without Graphviz: what to_dot() writes, laid out by layered.h, with the ids,
// classes, titles and links that Graphviz' own SVG has, so that pages need not know who drew it.
//
// Graphviz routes lines better and is taken where it is installed; it cannot be had by pip.
#pragma once

#include <string>

namespace sluice {

// Throws Error(usage) where `dot` is no text of ours.
std::string svg_of_dot(const std::string& dot);

}  // namespace sluice
